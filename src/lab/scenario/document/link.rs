//! `[[link]]`: the nodes that it joins, and the properties of each direction.

use std::str::FromStr;
use std::time::Duration;

use super::files::Files;
use super::variables::UsedNames;
use super::{CellReader, CellVariables, FileReader};
use crate::path::change::DirectionChange;
use crate::path::discipline::Discipline;
use crate::path::hold::{Hold, PacketHold};
use crate::path::jitter::Jitter;
use crate::path::loss::{LossModel, LossText};
use crate::path::policer::Policer;
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::remark::Remark;
use crate::path::reorder::Reorder;
use crate::path::route::LinkSpec;
use crate::path::{Direction, LinkConfig};
use crate::scenario::reference::{CHANGE_REVERSE, ChangeFields, LinkFields, ONE_WAY};
use host::read_with;
use host::toml_reader::{Document, Found, Mistake, Read, Result, Table, Value, each};
use shared::model::run::At;
use shared::units::{BitsPerSec, ParseError, QueueSize};

/// Longest name of a node, characters: it becomes part of an interface name, which has at most 15.
const NODE_NAME_LENGTH: usize = 8;

/// Fields with the value `none`, so that a sweep can have cells without them.
const WITHOUT: [&str; 8] = ["mark", "queue_low", "discipline", "policer", "remark", "reorder", "hold", "acks"];
const NONE: &str = "none";

/// A line of the files that a link names.
const TRACE_LINE: &str = "one time in milliseconds, at which 1500 bytes leave";
const LOSS_LINE: &str = "one packet number, from 1 and in order";

/// Two names of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes(pub [String; 2]);

/// A queue size in packets.
pub struct PacketCount(pub u32);

pub(super) struct WrittenLink<'t> {
    pub(super) ends: [String; 2],
    /// The fields of each direction.
    sides: [Table<'t>; 2],
    reverse: Table<'t>,
}

impl<'t> WrittenLink<'t> {
    /// On the way back, a field of the link applies unless `reverse` has it, or it is for one way.
    pub(super) fn new(ends: [String; 2], there: Table<'t>) -> Result<Self> {
        let reverse = there.table("reverse")?;
        let back = reverse.over(&there.clone().without(&ONE_WAY));
        Ok(WrittenLink { ends, sides: [there, back], reverse })
    }

    fn listed(table: Table<'t>) -> Result<Self> {
        table.or_checked(table.clone().known().and_then(Self::between))
    }

    fn between(table: Table<'t>) -> Result<Self> {
        let Nodes(ends) = table.needed("ends")?;
        let refuse = |what: String| Err(table.need("ends")?.refuse(what).into());
        let is_plain = |node: &String| node.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if ends.iter().any(|node| !is_plain(node) || node.is_empty() || node.len() > NODE_NAME_LENGTH) {
            return refuse(format!("expected names of 1 to {NODE_NAME_LENGTH} letters, digits or -"));
        }
        if ends[0] == ends[1] {
            return refuse("expected two different nodes".to_owned());
        }
        WrittenLink::new(ends, table)
    }

    /// The link, with its texts read in another way.
    fn with<'s>(self, variables: &'s CellVariables<'s>) -> WrittenLink<'s>
    where
        't: 's,
    {
        let WrittenLink { ends, sides, reverse } = self;
        WrittenLink { ends, sides: sides.map(|side| side.with(variables)), reverse: reverse.with(variables) }
    }

    /// The value of a field in a direction, 0 or 1.
    pub(super) fn value(&self, side: usize, field: &str) -> Option<Value<'t>> {
        self.sides[side].get(field)
    }

    /// The table that the file has for the link.
    pub(super) fn table(&self) -> &Table<'t> {
        &self.sides[0]
    }

    fn direction(&self, files: &Files, side: usize) -> Result<Direction> {
        let table = &self.sides[side];
        let is_none =
            |name: &&str| table.get(name).and_then(|value| value.text().ok()?).is_some_and(|text| text == NONE);
        let none: Vec<&str> = WITHOUT.into_iter().filter(is_none).collect();
        let fields = LinkFields::of_table(&table.clone().without(&none))?;
        let (rate, trace) = match fields.rate {
            Some(text) => rate(files, &table.need("rate")?, &text).map(|(rate, trace)| (Some(rate), trace))?,
            None => (None, None),
        };
        let loss = fields.loss.map(|text| loss(files, &table.need("loss")?, text)).transpose()?;
        Ok(Direction {
            rate,
            trace,
            delay: fields.delay,
            jitter: fields.jitter,
            queue: fields.queue,
            queue_low: fields.queue_low.map(|PacketCount(packets)| packets),
            mark: fields.mark,
            discipline: fields.discipline,
            policer: fields.policer,
            remark: fields.remark,
            loss: loss.unwrap_or_default(),
            reorder: fields.reorder,
            duplicate: fields.duplicate,
            hold: fields.hold,
            acks: fields.acks,
            ack_loss: fields.ack_loss,
            ..Direction::default()
        })
    }

    fn directions(&self, files: &Files, run: Duration) -> Result<[Direction; 2]> {
        let read = |side| -> Result<Direction> {
            let mut direction = self.direction(files, side)?;
            self.add_changes(files, run, side, &mut direction)?;
            Ok(direction)
        };
        let mut found = Found::default();
        match [0, 1].map(|side| found.keep(read(side))) {
            [Some(there), Some(back)] => Ok([there, back]),
            _ => Err(found),
        }
    }

    fn spec(&self, files: &Files, run: Duration, mtu: Option<u32>) -> Result<LinkSpec> {
        let spec = LinkSpec { ends: self.ends.clone(), directions: self.directions(files, run)? };
        let mtu = mtu.ok_or_else(Found::default)?;
        let loses_all = |loss: &LossModel| loss.long_run().0 >= 1.0 && !matches!(loss, LossModel::Positions(_));
        let wrong = spec.config(mtu).out_of_range().or_else(|| {
            let side = spec.directions.iter().position(|direction| loses_all(&direction.loss))?;
            Some((side, "loss", ParseError::because("", "expected less than 100%: nothing would arrive")))
        });
        wrong.map_or(Ok(spec), |(side, field, wrong)| Err(self.refuse(side, field, wrong).into()))
    }

    fn refuse(&self, side: usize, field: &str, wrong: ParseError) -> Box<Mistake> {
        match self.value(side, field) {
            Some(value) => value.wrong(wrong),
            None => self.table().missing(field, wrong.to_string()),
        }
    }

    fn add_changes(&self, files: &Files, run: Duration, side: usize, direction: &mut Direction) -> Result<()> {
        let written = each(self.table().tables("change")?, |there| {
            let there = there.or_checked(there.clone().known())?;
            let back = there.table("reverse")?;
            check_change(&there, &back, run)?;
            Ok(if side == 0 { there } else { back.over(&there.without(&self.fixed_on_the_way_back())) })
        })?;
        let specs = each(&written, |table| {
            let ChangeFields { at, rate, delay, jitter, queue, discipline, loss: text, up, .. } =
                ChangeFields::of_table(table)?;
            let loss = text.map(|text| loss(files, &table.need("loss")?, text)).transpose()?;
            let names = ["rate", "delay", "jitter", "queue", "discipline", "loss"];
            let own = names.into_iter().filter(|name| self.sides[side].has(name));
            if let Some(name) = own.filter(|_| at.is_zero()).find(|name| table.has(name)) {
                let never =
                    format!("at 0s it replaces the link's own {name}, which never applies: expected a later time");
                return Err(table.need(name)?.refuse(never).into());
            }
            Ok((table, DirectionChange { at, rate, delay, jitter, queue, discipline, loss, up }))
        })?;
        let specs = specs.into_iter().filter(|(_, spec)| !spec.is_empty());
        let (written, changes): (Vec<&Table<'_>>, Vec<DirectionChange>) = specs.unzip();
        direction.changes = changes;
        let Some((index, field, wrong)) = direction.wrong_change() else { return Ok(()) };
        Err(written[index].need(field)?.wrong(wrong).into())
    }

    /// Fields of a change that do not apply on the way back, unless the change's own `reverse` has them.
    fn fixed_on_the_way_back(&self) -> Vec<&'static str> {
        let names = CHANGE_REVERSE.fields().map(|(field, _)| field.name);
        names.filter(|name| ONE_WAY.contains(name) || self.reverse.has(name)).collect()
    }
}

/// Checks that a change is within the run and changes something.
fn check_change(there: &Table<'_>, back: &Table<'_>, run: Duration) -> Result<()> {
    let at: Duration = there.needed("at")?;
    if at >= run {
        let expected = format!("expected less than {}s, the length of a run", run.as_secs());
        return Err(there.need("at")?.refuse(expected).into());
    }
    let names: Vec<&str> = CHANGE_REVERSE.fields().map(|(field, _)| field.name).collect();
    if !names.iter().any(|name| there.has(name) || back.has(name)) {
        let (others, last) = names.split_at(names.len() - 1);
        let expected = format!("expected {} or {} beside it", others.join(", "), last[0]);
        return Err(there.need("at")?.refuse_field(expected).into());
    }
    Ok(())
}

impl Read for PacketCount {
    fn read(value: &Value<'_>) -> Result<Self> {
        match QueueSize::read(value)? {
            QueueSize::Packets(packets) => Ok(PacketCount(packets)),
            _ => Err(value.refuse("expected a number with pkts").into()),
        }
    }
}

impl Read for Nodes {
    fn read(value: &Value<'_>) -> Result<Self> {
        let nodes = value.list(String::read)?;
        nodes.try_into().map(Nodes).map_err(|_| value.refuse("expected two nodes, such as [\"a\", \"b\"]").into())
    }
}

read_with!(|value: &Value<'_>| value.parsed(FromStr::from_str) => RateText, Jitter, Reorder, Hold, PacketHold, Discipline, Policer, Remark);

/// A list holds the numbers of the lost packets.
impl Read for LossText {
    fn read(value: &Value<'_>) -> Result<Self> {
        if !value.written.get_ref().is_array() {
            return value.parsed(LossText::from_str);
        }
        let positions = value.list(|item| Ok(item.text()?.unwrap_or_default()))?;
        format!("positions:{}", positions.join(",")).parse().map_err(|error| value.wrong(error).into())
    }
}

/// The loss model of a text, which may name a file of packet numbers.
fn loss(files: &Files, value: &Value<'_>, text: LossText) -> Result<LossModel> {
    match text {
        LossText::Model(model) => Ok(model),
        LossText::File(name) => {
            let losses = files.losses(&name).map(LossModel::Positions);
            losses.map_err(|refused| refused.numbers(value, LOSS_LINE).into())
        }
    }
}

/// A rate, with its trace if it is the mean of one.
fn rate(files: &Files, value: &Value<'_>, text: &RateText) -> Result<(BitsPerSec, Option<RateTrace>)> {
    files.rate(text).map_err(|refused| match text {
        RateText::File(_) => refused.numbers(value, TRACE_LINE).into(),
        _ => value.refuse(refused.why).into(),
    })
}

/// Reads the one `[[link]]` of a text, which needs no `ends`. Ranges that depend on other fields are not checked.
///
/// # Errors
/// The first mistake.
pub fn read_link(text: &str, mtu: u32) -> Result<LinkConfig, Box<Mistake>> {
    let files = Files::anywhere();
    let read = |document: Document<'_>| {
        let file = FileReader { source: document.source(), files: &files, used: &UsedNames::default() };
        file.at(Some(&At::new()), |reader| {
            let table = reader.document().tables("link")?.swap_remove(0);
            WrittenLink::new(Default::default(), table)?.directions(&files, Duration::MAX)
        })
    };
    let directions = Document::parse("", text).and_then(read);
    let first = |found: Found| Box::new(found.into_vec().swap_remove(0));
    Ok(LinkConfig { directions: directions.map_err(first)?, mtu })
}

impl<'t> CellReader<'t> {
    /// The `[[link]]` tables, then the links of topologies.
    pub(super) fn written_links(&self) -> Result<Vec<WrittenLink<'t>>> {
        let mut found = Found::default();
        let listed = self.document().tables("link").and_then(|tables| each(tables, WrittenLink::listed));
        match (found.keep(listed), found.keep(self.topology_links())) {
            (Some(listed), Some(drawn)) => Ok(listed.into_iter().chain(drawn).collect()),
            _ => Err(found),
        }
    }

    /// The links, and the variables that the fields of each use.
    pub(super) fn links(&self, run: Duration, mtu: Option<u32>) -> Result<(Vec<LinkSpec>, Vec<UsedNames>)> {
        let written = self.written_links()?;
        if written.is_empty() && self.document().misspells(&["link", "dumbbell", "parking_lot"]) {
            return Err(Found::default());
        }
        if written.is_empty() {
            let expected = "expected a [[link]], a [dumbbell] or a [parking_lot]";
            return Err(self.document().missing("link", expected).into());
        }
        for (index, link) in written.iter().enumerate() {
            let same = |other: &&WrittenLink<'_>| other.ends.iter().all(|end| link.ends.contains(end));
            if let Some(other) = written[..index].iter().find(same) {
                let line = other.value(0, "ends").map_or(String::new(), |ends| format!(", line {}", ends.line()));
                let what = format!("another link joins these two nodes{line}");
                return Err(link.refuse(0, "ends", ParseError::because(link.ends.join("-"), what)).into());
            }
        }
        let read = |link: WrittenLink<'_>| {
            let used = UsedNames::default();
            let variables = CellVariables { used: &used, ..*self.variables };
            let spec = link.with(&variables).spec(self.files, run, mtu)?;
            Ok((spec, used))
        };
        Ok(each(written, read)?.into_iter().unzip())
    }
}
