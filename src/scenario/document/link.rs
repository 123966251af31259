//! `[[link]]`: the nodes it joins and what each direction does to packets.

use std::time::Duration;

use super::files::Files;
use super::table::{Reader, Result, Table, syntax};
use super::value::{Read, Value};
use crate::model::run::At;
use crate::path::change::Change;
use crate::path::loss::{LossModel, LossText};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::route::LinkSpec;
use crate::path::{Direction, LinkConfig};
use crate::scenario::reference::{CHANGE_REVERSE, ONE_WAY};
use crate::units::{BitsPerSec, ParseError, QueueSize};
use crate::written::Mistake;

/// A node's name becomes part of an interface name, which has at most 15 characters.
const NODE_NAME_LENGTH: usize = 8;

/// Where files come from.
pub(super) const BESIDE: &str = "a scenario's files are in its own folder, or below it";

/// A link as it is written.
pub(super) struct Link<'t> {
    pub(super) ends: [String; 2],
    pub(super) there: Table<'t>,
    /// What it says of the way back.
    reverse: Table<'t>,
}

impl<'t> Link<'t> {
    pub(super) fn new(ends: [String; 2], there: Table<'t>) -> Result<Self> {
        let reverse = there.table("reverse")?;
        Ok(Link { ends, there, reverse })
    }

    fn listed(table: Table<'t>) -> Result<Self> {
        let value = table.need("ends")?;
        let ends = <[String; 2]>::read(&value)?;
        for node in &ends {
            let plain = node.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !plain || node.is_empty() || node.len() > NODE_NAME_LENGTH {
                let what = format!("expected names of 1 to {NODE_NAME_LENGTH} letters, digits or -");
                return Err(value.refuse(what));
            }
        }
        if ends[0] == ends[1] {
            return Err(value.refuse("expected two different nodes"));
        }
        Link::new(ends, table)
    }

    /// The value of a field in a direction, 0 or 1.
    pub(super) fn value(&self, side: usize, field: &str) -> Option<Value<'t>> {
        self.side(side, field).get(field)
    }

    /// What says of a direction what a field is.
    fn side(&self, side: usize, field: &str) -> Table<'t> {
        match side {
            0 => self.there.clone(),
            _ if ONE_WAY.contains(&field) => self.reverse.clone(),
            _ => self.reverse.over(&self.there),
        }
    }

    fn read<T: Read>(&self, side: usize, field: &str) -> Result<Option<T>> {
        self.side(side, field).read(field)
    }

    fn direction(&self, side: usize) -> Result<Direction> {
        let open = Direction::default();
        let rate = self.value(side, "rate").map(|value| rate(&value)).transpose()?;
        let (rate, trace) = rate.map_or((None, None), |(rate, trace)| (Some(rate), trace));
        let queue_low = self.value(side, "queue_low").map(|value| places(&value)).transpose()?;
        Ok(Direction {
            rate,
            trace,
            delay: self.read(side, "delay")?.unwrap_or(open.delay),
            jitter: self.read(side, "jitter")?.unwrap_or(open.jitter),
            queue: self.read(side, "queue")?.unwrap_or(open.queue),
            queue_low,
            mark: self.read(side, "mark")?,
            loss: self.value(side, "loss").map_or(Ok(open.loss), |value| loss(&value))?,
            reorder: self.read(side, "reorder")?,
            duplicate: self.read(side, "duplicate")?.unwrap_or(open.duplicate),
            acks: self.read(side, "acks")?,
            ack_loss: self.read(side, "ack_loss")?.unwrap_or(open.ack_loss),
            changes: Vec::new(),
            seed: open.seed,
        })
    }

    fn directions(&self, run: Duration) -> Result<[Direction; 2]> {
        let mut directions = [self.direction(0)?, self.direction(1)?];
        for (side, direction) in directions.iter_mut().enumerate() {
            self.add_changes(run, side, direction)?;
        }
        Ok(directions)
    }

    fn spec(&self, run: Duration, mtu: u32) -> Result<LinkSpec> {
        let spec = LinkSpec { ends: self.ends.clone(), directions: self.directions(run)? };
        if let Some(out) = spec.config(mtu).out_of_range() {
            return Err(self.refuse(out.direction, out.field, out.wrong));
        }
        let is_cut = |loss: &LossModel| loss.long_run().0 >= 1.0 && !matches!(loss, LossModel::Positions(_));
        match spec.directions.iter().position(|direction| is_cut(&direction.loss)) {
            Some(side) => {
                let wrong = ParseError::because("", "expected less than 100%: nothing would arrive");
                Err(self.refuse(side, "loss", wrong))
            }
            None => Ok(spec),
        }
    }

    fn refuse(&self, side: usize, field: &str, wrong: ParseError) -> Box<Mistake> {
        match self.value(side, field) {
            Some(value) => value.wrong(wrong),
            None => self.there.missing(field, wrong.to_string()),
        }
    }

    /// Adds the changes of one direction.
    fn add_changes(&self, run: Duration, side: usize, direction: &mut Direction) -> Result<()> {
        let mut written = Vec::new();
        for there in self.there.tables("change")? {
            let change = LinkChange { back: there.table("reverse")?, there };
            let spec = change.read(side, &self.reverse, run)?;
            if !spec.is_empty() {
                direction.changes.push(spec);
                written.push(change);
            }
        }
        let Some((index, field, wrong)) = direction.wrong_change() else { return Ok(()) };
        let change = &written[index];
        let table = if side == 0 { change.there.clone() } else { change.back.over(&change.there) };
        Err(table.need(field)?.wrong(wrong))
    }
}

/// One of `change`, as it is written.
struct LinkChange<'t> {
    there: Table<'t>,
    back: Table<'t>,
}

impl LinkChange<'_> {
    /// The change of a direction: on the way back, what the link and the change do not set for it apart.
    fn read(&self, side: usize, reverse: &Table<'_>, run: Duration) -> Result<Change> {
        let value = self.there.need("at")?;
        let at = Duration::read(&value)?;
        if at >= run {
            return Err(value.refuse(format!("expected less than the {}s of a run", run.as_secs())));
        }
        let fields = CHANGE_REVERSE.fields();
        if !fields.iter().any(|(field, _)| self.there.has(field.name) || self.back.has(field.name)) {
            let names: Vec<&str> = fields.iter().map(|(field, _)| field.name).collect();
            let (others, last) = names.split_at(names.len() - 1);
            return Err(value.refuse_field(format!("expected {} or {} beside it", others.join(", "), last[0])));
        }
        let both = self.back.over(&self.there);
        let of = |field: &str| match side {
            0 => &self.there,
            _ if ONE_WAY.contains(&field) || reverse.has(field) => &self.back,
            _ => &both,
        };
        Ok(Change {
            at,
            rate: of("rate").read("rate")?,
            delay: of("delay").read("delay")?,
            loss: of("loss").get("loss").map(|value| loss(&value)).transpose()?,
            up: of("up").read("up")?,
        })
    }
}

/// The places for packets of low priority.
fn places(value: &Value<'_>) -> Result<u32> {
    match QueueSize::read(value)? {
        QueueSize::Packets(places) => Ok(places),
        _ => Err(value.refuse("expected a number with pkts")),
    }
}

fn loss(value: &Value<'_>) -> Result<LossModel> {
    match LossText::read(value)? {
        LossText::Model(model) => Ok(model),
        LossText::File(name) => {
            let losses = value.reader.files.losses(&name).map(LossModel::Positions);
            losses.map_err(|why| value.refuse(why).or_hint(BESIDE))
        }
    }
}

/// A rate, and the trace it is the mean of.
fn rate(value: &Value<'_>) -> Result<(BitsPerSec, Option<RateTrace>)> {
    let text = RateText::read(value)?;
    value.reader.files.rate(&text).map_err(|why| match text {
        RateText::File(_) => value.refuse(why).or_hint(BESIDE),
        _ => value.refuse(why),
    })
}

/// Reads the one `[[link]]` of a text, which needs no `ends`. Ranges other than those of its changes are not checked.
///
/// Errors: the first mistake.
pub fn read_link(text: &str, mtu: u32) -> Result<LinkConfig> {
    let (files, nowhere) = (Files::anywhere(), At::new());
    let whole = syntax("", text)?;
    let reader = Reader { file: "", text, whole: &whole, files: &files, at: &nowhere };
    let table = reader.document().tables("link")?.swap_remove(0);
    Ok(LinkConfig { directions: Link::new(Default::default(), table)?.directions(Duration::MAX)?, mtu })
}

impl<'t> Reader<'t> {
    /// Every link as it is written: those that are listed, then those that shapes stand for.
    pub(super) fn written_links(&self) -> Result<Vec<Link<'t>>> {
        let listed = self.document().tables("link")?.into_iter().map(Link::listed);
        let mut links = listed.collect::<Result<Vec<_>, _>>()?;
        links.extend(self.drawn_links()?);
        Ok(links)
    }

    /// Every link, with what it leaves out filled in and its values checked.
    pub(super) fn links(&self, run: Duration, mtu: u32) -> Result<Vec<LinkSpec>> {
        let written = self.written_links()?;
        if written.is_empty() {
            return Err(self.document().missing("link", "expected a [[link]], a [dumbbell] or a [parking_lot]"));
        }
        for (index, link) in written.iter().enumerate() {
            let same = |other: &&Link<'_>| other.ends.iter().all(|end| link.ends.contains(end));
            if let Some(other) = written[..index].iter().find(same) {
                let line = other.value(0, "ends").map_or(String::new(), |ends| format!(", line {}", ends.line()));
                let what = format!("another link joins these two nodes{line}");
                return Err(link.refuse(0, "ends", ParseError::because(link.ends.join("-"), what)));
            }
        }
        written.iter().map(|link| link.spec(run, mtu)).collect()
    }
}
