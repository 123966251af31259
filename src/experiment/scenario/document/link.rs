//! `[[link]]`: the nodes it joins and what each direction does to packets.

use std::time::Duration;

use serde::de;
use serde::{Deserialize, Deserializer};

use super::value::{Text, TextOrList, some_duration};
use super::{Document, Reader};
use crate::experiment::scenario::position::{Step, range_of, value_at};
use crate::experiment::scenario::{LinkSpec, ScenarioError};
use crate::path::Direction;
use crate::path::acks::AckHold;
use crate::path::change::Change;
use crate::path::loss::{FILE_PREFIX, LossModel, LossText};
use crate::path::named::shown;
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::reorder::Reorder;
use crate::units::{self, BitsPerSec, QueueSize, Share};

/// A node's name becomes part of an interface name, which has at most 15 characters.
const NODE_NAME_LENGTH: usize = 8;

/// Where files come from.
pub(super) const BESIDE: &str = "a scenario's files are in its own folder, or below it";

/// `[[link]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkText {
    pub(super) ends: [String; 2],
    rate: Option<RateValue>,
    #[serde(default, with = "units::duration_text")]
    delay: Duration,
    #[serde(default, with = "units::duration_text")]
    jitter: Duration,
    queue: Option<QueueSize>,
    mark: Option<QueueSize>,
    queue_low: Option<QueueSize>,
    loss: Option<LossValue>,
    reorder: Option<Reorder>,
    duplicate: Option<Share>,
    acks: Option<AckHold>,
    ack_loss: Option<Share>,
    #[serde(default)]
    change: Vec<ChangeText>,
    #[serde(default)]
    reverse: ReverseText,
}

/// One of `change`, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText {
    #[serde(with = "units::duration_text")]
    at: Duration,
    rate: Option<BitsPerSec>,
    #[serde(default, deserialize_with = "some_duration")]
    delay: Option<Duration>,
    loss: Option<LossValue>,
    up: Option<bool>,
    #[serde(default)]
    reverse: ReverseChangeText,
}

/// What `reverse` of a change says of the way back.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReverseChangeText {
    rate: Option<BitsPerSec>,
    #[serde(deserialize_with = "some_duration")]
    delay: Option<Duration>,
    loss: Option<LossValue>,
    up: Option<bool>,
}

/// What `reverse` says of the way back.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReverseText {
    rate: Option<RateValue>,
    #[serde(deserialize_with = "some_duration")]
    delay: Option<Duration>,
    #[serde(deserialize_with = "some_duration")]
    jitter: Option<Duration>,
    queue: Option<QueueSize>,
    mark: Option<QueueSize>,
    loss: Option<LossValue>,
    reorder: Option<Reorder>,
    duplicate: Option<Share>,
    acks: Option<AckHold>,
    ack_loss: Option<Share>,
}

/// A rate, and the trace it is the mean of.
type Rate = (Option<BitsPerSec>, Option<RateTrace>);

/// A loss model as text, as a number, or as a list of packet numbers.
#[derive(Debug, Clone)]
struct LossValue(LossText);

impl<'de> Deserialize<'de> for LossValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = TextOrList::deserialize(deserializer)?;
        let text = written.list.map_or(written.text, |list| format!("positions:{}", list.join(",")));
        text.parse().map(LossValue).map_err(de::Error::custom)
    }
}

/// A rate as text: a number with its unit, or a trace.
#[derive(Debug, Clone)]
struct RateValue(RateText);

impl<'de> Deserialize<'de> for RateValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer)?.0.parse().map(RateValue).map_err(de::Error::custom)
    }
}

impl Reader<'_> {
    /// One link, with what it leaves out filled in and its values checked.
    pub(super) fn link(&self, document: &Document, index: usize, link: &LinkText) -> Result<LinkSpec, ScenarioError> {
        let path = [Step::Key("link"), Step::Item(index), Step::Key("ends")];
        for node in &link.ends {
            let plain = node.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !plain || node.is_empty() || node.len() > NODE_NAME_LENGTH {
                let what = format!("\"{node}\": expected a name of 1 to {NODE_NAME_LENGTH} letters, digits or -");
                return Err(self.refuse(&path, what));
            }
        }
        if link.ends[0] == link.ends[1] {
            return Err(self.refuse(&path, format!("\"{0}\" and \"{0}\": expected two different nodes", link.ends[0])));
        }
        let open = Direction::default();
        let queue = link.queue.unwrap_or(open.queue);
        let [loss, loss_back] = [(0, &link.loss), (1, &link.reverse.loss)].map(|(side, written)| {
            let field = self.link_field(index, side, "loss");
            written.as_ref().map_or(Ok(open.loss.clone()), |loss| self.loss(&field, loss))
        });
        let (rate, trace) = self.rate(&self.link_field(index, 0, "rate"), link.rate.as_ref())?;
        let back = link.reverse.rate.as_ref().or(link.rate.as_ref());
        let (rate_back, trace_back) = self.rate(&self.link_field(index, 1, "rate"), back)?;
        let queue_low = self.low_places(index, link)?;
        let forward = Direction {
            rate,
            trace,
            delay: link.delay,
            jitter: link.jitter,
            queue,
            queue_low,
            mark: link.mark,
            loss: loss?,
            reorder: link.reorder,
            duplicate: link.duplicate.unwrap_or(open.duplicate),
            acks: link.acks,
            ack_loss: link.ack_loss.unwrap_or(open.ack_loss),
            ..open.clone()
        };
        let backward = Direction {
            rate: rate_back,
            trace: trace_back,
            delay: link.reverse.delay.unwrap_or(link.delay),
            jitter: link.reverse.jitter.unwrap_or(link.jitter),
            queue: link.reverse.queue.unwrap_or(queue),
            mark: link.reverse.mark.or(link.mark),
            loss: loss_back?,
            reorder: link.reverse.reorder,
            duplicate: link.reverse.duplicate.unwrap_or(open.duplicate),
            acks: link.reverse.acks.or(link.acks),
            ack_loss: link.reverse.ack_loss.or(link.ack_loss).unwrap_or(open.ack_loss),
            ..open
        };
        let mut spec = LinkSpec { ends: link.ends.clone(), directions: [forward, backward] };
        for (side, direction) in spec.directions.iter_mut().enumerate() {
            self.add_changes((index, link), document.duration, side, direction)?;
        }
        self.check_link(document, index, &spec)?;
        Ok(spec)
    }

    /// The places for packets of low priority; they hold one way, like the loss.
    fn low_places(&self, index: usize, link: &LinkText) -> Result<Option<u32>, ScenarioError> {
        match link.queue_low {
            None => Ok(None),
            Some(QueueSize::Packets(places)) => Ok(Some(places)),
            Some(other) => {
                let field = self.link_field(index, 0, "queue_low");
                Err(self.refuse(&field, format!("\"{other}\": expected a number with pkts")))
            }
        }
    }

    fn check_link(&self, document: &Document, index: usize, link: &LinkSpec) -> Result<(), ScenarioError> {
        let same = |other: &LinkText| other.ends.iter().all(|end| link.ends.contains(end));
        if let Some(other) = document.link[..index].iter().position(same) {
            let path = |index| [Step::Key("link"), Step::Item(index), Step::Key("ends")];
            let line = self.line_at(range_of(self.table.get_ref(), &path(other)).start);
            let [one, two] = &link.ends;
            let what = format!("\"{one}\" and \"{two}\": another link joins these two nodes, line {line}");
            return Err(self.refuse(&path(index), what));
        }
        if let Some(out) = link.config(document.mtu).out_of_range() {
            return Err(self.refuse_read(&self.link_field(index, out.direction, out.field), &out.what));
        }
        let is_cut = |loss: &LossModel| loss.long_run().0 >= 1.0 && !matches!(loss, LossModel::Positions(_));
        let lost = link.directions.iter().position(|direction| is_cut(&direction.loss));
        lost.map_or(Ok(()), |direction| {
            let what =
                format!("\"{}\": expected less than 100%: nothing would arrive", link.directions[direction].loss);
            Err(self.refuse(&self.link_field(index, direction, "loss"), what))
        })
    }

    fn loss(&self, path: &[Step<'_>], written: &LossValue) -> Result<LossModel, ScenarioError> {
        match &written.0 {
            LossText::Model(model) => Ok(model.clone()),
            LossText::File(name) => {
                self.files.losses(name).map(LossModel::Positions).map_err(|why| {
                    self.refuse(path, format!("\"{FILE_PREFIX}{}\": {why}", shown(name))).or_hint(BESIDE)
                })
            }
        }
    }

    /// A rate, and the trace it is the mean of.
    fn rate(&self, path: &[Step<'_>], written: Option<&RateValue>) -> Result<Rate, ScenarioError> {
        let Some(RateValue(written)) = written else { return Ok((None, None)) };
        let (rate, trace) = self.files.rate(written).map_err(|why| match written {
            RateText::File(_) => self.refuse_value(path, why).or_hint(BESIDE),
            _ => self.refuse_value(path, why),
        })?;
        Ok((Some(rate), trace))
    }

    /// The changes of one direction: on the way back, those that the link or the change does not set for it apart.
    fn add_changes(
        &self,
        (index, link): (usize, &LinkText),
        run: Duration,
        side: usize,
        direction: &mut Direction,
    ) -> Result<(), ScenarioError> {
        let at = |item: usize, field: &'static str| {
            let change = [Step::Key("link"), Step::Item(index), Step::Key("change"), Step::Item(item)];
            let reverse = [&change[..], &[Step::Key("reverse"), Step::Key(field)]].concat();
            let is_reverse = side == 1 && value_at(self.table.get_ref(), &reverse).is_some();
            if is_reverse { reverse } else { [&change[..], &[Step::Key(field)]].concat() }
        };
        let mut places = Vec::new();
        for (item, written) in link.change.iter().enumerate() {
            if written.at >= run {
                return Err(
                    self.refuse_value(&at(item, "at"), format!("expected less than the {}s of a run", run.as_secs()))
                );
            }
            let change = self.change(&at(item, "loss"), side, link, written)?;
            if change.is_empty() && self.change(&at(item, "loss"), 1 - side, link, written)?.is_empty() {
                return Err(self.refuse(&at(item, "at"), "expected rate, delay, loss or up beside it"));
            }
            if !change.is_empty() {
                direction.changes.push(change);
                places.push(item);
            }
        }
        let Some((wrong, field, what)) = direction.wrong_change() else { return Ok(()) };
        Err(self.refuse_read(&at(places[wrong], field), &what))
    }

    fn change(
        &self,
        loss_path: &[Step<'_>],
        side: usize,
        link: &LinkText,
        written: &ChangeText,
    ) -> Result<Change, ScenarioError> {
        let (back, is_back) = (&written.reverse, side == 1);
        let (rate, delay, loss, up) = match is_back {
            false => (written.rate, written.delay, &written.loss, written.up),
            true => (
                back.rate.or(written.rate.filter(|_| link.reverse.rate.is_none())),
                back.delay.or(written.delay.filter(|_| link.reverse.delay.is_none())),
                &back.loss,
                back.up.or(written.up),
            ),
        };
        let loss = loss.as_ref().map(|loss| self.loss(loss_path, loss)).transpose()?;
        Ok(Change { at: written.at, rate, delay, loss, up })
    }

    /// Where a direction's value is written: in `reverse` when that has it, else beside it.
    fn link_field(&self, index: usize, direction: usize, field: &'static str) -> Vec<Step<'static>> {
        let link = [Step::Key("link"), Step::Item(index)];
        let reverse = [&link[..], &[Step::Key("reverse"), Step::Key(field)]].concat();
        let is_reverse = direction == 1 && value_at(self.table.get_ref(), &reverse).is_some();
        if is_reverse { reverse } else { [&link[..], &[Step::Key(field)]].concat() }
    }
}
