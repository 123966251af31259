//! `[[link]]`: the nodes that it joins, and the properties of each direction.

use std::str::FromStr;
use std::time::Duration;

use super::files::Files;
use super::sweep::UsedNames;
use super::table::{CellReader, Result, ScenarioTable, syntax};
use super::value::{Read, ScenarioValue};
use crate::path::change::DirectionChange;
use crate::path::loss::{LossModel, LossText};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::route::LinkSpec;
use crate::path::{Direction, LinkConfig};
use crate::scenario::reference::{CHANGE_REVERSE, ONE_WAY};
use host::written::{Mistake, line_starts};
use shared::model::run::At;
use shared::units::{BitsPerSec, ParseError, QueueSize};

/// Longest name of a node, characters: it becomes part of an interface name, which has at most 15.
const NODE_NAME_LENGTH: usize = 8;

/// A line of the files that a link names.
const TRACE_LINE: &str = "one time in milliseconds, at which 1500 bytes leave";
const LOSS_LINE: &str = "one packet number, from 1 and in order";

pub(super) struct WrittenLink<'t> {
    pub(super) ends: [String; 2],
    pub(super) there: ScenarioTable<'t>,
    reverse: ScenarioTable<'t>,
}

impl<'t> WrittenLink<'t> {
    pub(super) fn new(ends: [String; 2], there: ScenarioTable<'t>) -> Result<Self> {
        let reverse = there.table("reverse")?;
        Ok(WrittenLink { ends, there, reverse })
    }

    fn listed(table: ScenarioTable<'t>) -> Result<Self> {
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
        WrittenLink::new(ends, table)
    }

    /// The link, with the variables that its fields use counted apart.
    fn counted_in<'s>(self, used: &'s UsedNames) -> WrittenLink<'s>
    where
        't: 's,
    {
        let apart = |mut table: ScenarioTable<'s>| {
            table.reader.used = used;
            table
        };
        WrittenLink { ends: self.ends, there: apart(self.there), reverse: apart(self.reverse) }
    }

    /// The value of a field in a direction, 0 or 1.
    pub(super) fn value(&self, side: usize, field: &str) -> Option<ScenarioValue<'t>> {
        self.side(side, field).get(field)
    }

    /// The tables that may set a field of a direction.
    fn side(&self, side: usize, field: &str) -> ScenarioTable<'t> {
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
        let rate: Option<(BitsPerSec, Option<RateTrace>)> = self.read(side, "rate")?;
        let (rate, trace) = rate.map_or((None, None), |(rate, trace)| (Some(rate), trace));
        let queue_low = self.value(side, "queue_low").map(|value| places(&value)).transpose()?;
        Ok(Direction {
            host_delay: Duration::ZERO,
            rate,
            trace,
            delay: self.read(side, "delay")?.unwrap_or(open.delay),
            jitter: self.read(side, "jitter")?.unwrap_or(open.jitter),
            queue: self.read(side, "queue")?.unwrap_or(open.queue),
            queue_low,
            mark: self.read(side, "mark")?,
            loss: self.read(side, "loss")?.unwrap_or(open.loss),
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
        let loses_all = |loss: &LossModel| loss.long_run().0 >= 1.0 && !matches!(loss, LossModel::Positions(_));
        let wrong = spec.config(mtu).out_of_range().or_else(|| {
            let side = spec.directions.iter().position(|direction| loses_all(&direction.loss))?;
            Some((side, "loss", ParseError::because("", "expected less than 100%: nothing would arrive")))
        });
        wrong.map_or(Ok(spec), |(side, field, wrong)| Err(self.refuse(side, field, wrong)))
    }

    fn refuse(&self, side: usize, field: &str, wrong: ParseError) -> Box<Mistake> {
        match self.value(side, field) {
            Some(value) => value.wrong(wrong),
            None => self.there.missing(field, wrong.to_string()),
        }
    }

    fn add_changes(&self, run: Duration, side: usize, direction: &mut Direction) -> Result<()> {
        let mut written = Vec::new();
        for there in self.there.tables("change")? {
            let change = WrittenChange { back: there.table("reverse")?, there };
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

struct WrittenChange<'t> {
    there: ScenarioTable<'t>,
    back: ScenarioTable<'t>,
}

impl WrittenChange<'_> {
    /// On the way back, a field of the change applies unless `reverse` of the link or of the change has it.
    fn read(&self, side: usize, reverse: &ScenarioTable<'_>, run: Duration) -> Result<DirectionChange> {
        let value = self.there.need("at")?;
        let at = Duration::read(&value)?;
        if at >= run {
            return Err(value.refuse(format!("expected less than {}s, the length of a run", run.as_secs())));
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
        Ok(DirectionChange {
            at,
            rate: of("rate").read("rate")?,
            delay: of("delay").read("delay")?,
            loss: of("loss").read("loss")?,
            up: of("up").read("up")?,
        })
    }
}

/// A queue size in packets.
fn places(value: &ScenarioValue<'_>) -> Result<u32> {
    match QueueSize::read(value)? {
        QueueSize::Packets(places) => Ok(places),
        _ => Err(value.refuse("expected a number with pkts")),
    }
}

/// A list holds the numbers of the lost packets.
impl Read for LossModel {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let text = if value.written.get_ref().is_array() {
            let positions = value.list(|item| Ok(item.text()?.unwrap_or_default()))?;
            format!("positions:{}", positions.join(",")).parse().map_err(|error| value.wrong(error))?
        } else {
            value.parsed(LossText::from_str)?
        };
        match text {
            LossText::Model(model) => Ok(model),
            LossText::File(name) => {
                let losses = value.reader.files.losses(&name).map(LossModel::Positions);
                losses.map_err(|refused| refused.numbers(value, LOSS_LINE))
            }
        }
    }
}

/// A rate, with its trace if it is the mean of one.
impl Read for (BitsPerSec, Option<RateTrace>) {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let text = value.parsed(RateText::from_str)?;
        value.reader.files.rate(&text).map_err(|refused| match text {
            RateText::File(_) => refused.numbers(value, TRACE_LINE),
            _ => value.refuse(refused.why),
        })
    }
}

/// Reads the one `[[link]]` of a text, which needs no `ends`. Ranges that depend on other fields are not checked.
///
/// Errors: the first mistake.
pub fn read_link(text: &str, mtu: u32) -> Result<LinkConfig> {
    let (files, nowhere, lines) = (Files::anywhere(), At::new(), line_starts(text));
    let used = UsedNames::default();
    let whole = syntax("", text).map_err(|mut all| Box::new(all.mistakes.swap_remove(0)))?;
    let reader = CellReader { file: "", text, lines: &lines, whole: &whole, files: &files, at: &nowhere, used: &used };
    let table = reader.document().tables("link")?.swap_remove(0);
    Ok(LinkConfig { directions: WrittenLink::new(Default::default(), table)?.directions(Duration::MAX)?, mtu })
}

impl<'t> CellReader<'t> {
    /// The `[[link]]` tables, then the links of topologies.
    pub(super) fn written_links(&self) -> Result<Vec<WrittenLink<'t>>> {
        let listed = self.document().tables("link")?.into_iter().map(WrittenLink::listed);
        let mut links = listed.collect::<Result<Vec<_>, _>>()?;
        links.extend(self.topology_links()?);
        Ok(links)
    }

    /// The links, and the variables that the fields of each use.
    pub(super) fn links(&self, run: Duration, mtu: u32) -> Result<(Vec<LinkSpec>, Vec<UsedNames>)> {
        let written = self.written_links()?;
        if written.is_empty() {
            return Err(self.document().missing("link", "expected a [[link]], a [dumbbell] or a [parking_lot]"));
        }
        for (index, link) in written.iter().enumerate() {
            let same = |other: &&WrittenLink<'_>| other.ends.iter().all(|end| link.ends.contains(end));
            if let Some(other) = written[..index].iter().find(same) {
                let line = other.value(0, "ends").map_or(String::new(), |ends| format!(", line {}", ends.line()));
                let what = format!("another link joins these two nodes{line}");
                return Err(link.refuse(0, "ends", ParseError::because(link.ends.join("-"), what)));
            }
        }
        let read = |link: WrittenLink<'_>| {
            let used = UsedNames::default();
            Ok((link.counted_in(&used).spec(run, mtu)?, used))
        };
        written.into_iter().map(read).collect()
    }
}
