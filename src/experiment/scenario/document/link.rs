//! `[[link]]`: the nodes it joins and what each direction does to packets.

use std::time::Duration;

use serde::de;
use serde::{Deserialize, Deserializer};

use super::value::{TextOrList, some_duration};
use super::{Document, Reader};
use crate::experiment::net::Direction;
use crate::experiment::net::loss::{FILE_PREFIX, LossModel, LossText};
use crate::experiment::net::named::shown;
use crate::experiment::scenario::position::{Step, value_at};
use crate::experiment::scenario::{LinkSpec, ScenarioError};
use crate::units::{self, BitsPerSec, QueueSize};

/// A node's name becomes part of an interface name, which has at most 15 characters.
const NODE_NAME_LENGTH: usize = 8;

/// `[[link]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkText {
    pub(super) ends: [String; 2],
    rate: Option<BitsPerSec>,
    #[serde(default, with = "units::duration_text")]
    delay: Duration,
    #[serde(default, with = "units::duration_text")]
    jitter: Duration,
    queue: Option<QueueSize>,
    loss: Option<LossValue>,
    #[serde(default)]
    reverse: ReverseText,
}

/// What `reverse` says of the way back.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReverseText {
    rate: Option<BitsPerSec>,
    #[serde(deserialize_with = "some_duration")]
    delay: Option<Duration>,
    #[serde(deserialize_with = "some_duration")]
    jitter: Option<Duration>,
    queue: Option<QueueSize>,
    loss: Option<LossValue>,
}

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
            return Err(self.refuse(&path, "expected two different nodes"));
        }
        let open = Direction::default();
        let queue = link.queue.unwrap_or(open.queue);
        let [there, back] = [(0, &link.loss), (1, &link.reverse.loss)]
            .map(|(side, written)| written.as_ref().map_or(Ok(open.loss.clone()), |loss| self.loss(index, side, loss)));
        let forward =
            Direction { rate: link.rate, delay: link.delay, jitter: link.jitter, queue, loss: there?, ..open.clone() };
        let backward = Direction {
            rate: link.reverse.rate.or(link.rate),
            delay: link.reverse.delay.unwrap_or(link.delay),
            jitter: link.reverse.jitter.unwrap_or(link.jitter),
            queue: link.reverse.queue.unwrap_or(queue),
            loss: back?,
            ..open
        };
        let link = LinkSpec { ends: link.ends.clone(), directions: [forward, backward] };
        self.check_link(document, index, &link)?;
        Ok(link)
    }

    fn check_link(&self, document: &Document, index: usize, link: &LinkSpec) -> Result<(), ScenarioError> {
        let same = |other: &LinkText| other.ends.iter().all(|end| link.ends.contains(end));
        if document.link[..index].iter().any(same) {
            let path = [Step::Key("link"), Step::Item(index), Step::Key("ends")];
            return Err(self.refuse(&path, "another link joins these two nodes"));
        }
        if let Some(out) = link.config(document.mtu).out_of_range() {
            return Err(self.refuse(&self.link_field(index, out.direction, out.field), out.what));
        }
        let is_cut = |loss: &LossModel| loss.long_run().0 >= 1.0 && !matches!(loss, LossModel::Positions(_));
        let lost = link.directions.iter().position(|direction| is_cut(&direction.loss));
        lost.map_or(Ok(()), |direction| {
            let what =
                format!("\"{}\": expected less than 100%: nothing would arrive", link.directions[direction].loss);
            Err(self.refuse(&self.link_field(index, direction, "loss"), what))
        })
    }

    fn loss(&self, index: usize, side: usize, written: &LossValue) -> Result<LossModel, ScenarioError> {
        match &written.0 {
            LossText::Model(model) => Ok(model.clone()),
            LossText::File(name) => self.files.losses(name).map(LossModel::Positions).map_err(|why| {
                self.refuse(&self.link_field(index, side, "loss"), format!("\"{FILE_PREFIX}{}\": {why}", shown(name)))
            }),
        }
    }

    /// Where a direction's value is written: in `reverse` when that has it, else beside it.
    fn link_field(&self, index: usize, direction: usize, field: &'static str) -> Vec<Step<'static>> {
        let link = [Step::Key("link"), Step::Item(index)];
        let reverse = [&link[..], &[Step::Key("reverse"), Step::Key(field)]].concat();
        let is_reverse = direction == 1 && value_at(self.table.get_ref(), &reverse).is_some();
        if is_reverse { reverse } else { [&link[..], &[Step::Key(field)]].concat() }
    }
}
