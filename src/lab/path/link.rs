//! A link and its two directions, with checks of their ranges.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::change::DirectionChange;
use super::discipline::{self, Discipline, LinkFacts};
use super::hold::{Hold, PacketHold};
use super::jitter::Jitter;
use super::loss::LossModel;
use super::policer::Policer;
use super::range::{MTU_RANGE, QUEUE_MAX, wrong_delay, wrong_rate};
use super::rate_trace::RateTrace;
use super::remark::{EcnRemark, Remark};
use super::reorder::Reorder;
use shared::failure::Failure;
use shared::units::{BitsPerSec, ParseError, QueueSize, Share, duration_text};

/// One direction of a link. A packet passes the host's delay, loss, policer, queue, serialisation, delay and hold, in
/// this order. The default forwards every packet at once.
///
/// Rates count whole IP packets: a packet of an MTU of 1500 has 1500 bytes, without an Ethernet header.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Longest random delay of a packet in the node that sends it, uniform from 0. Packets stay in order.
    #[serde(default, with = "duration_text", skip_serializing_if = "Duration::is_zero")]
    pub host_delay: Duration,
    /// Serialisation rate. `None` is unlimited.
    pub rate: Option<BitsPerSec>,
    #[serde(with = "duration_text")]
    pub delay: Duration,
    /// Random addition to the delay. It does not reorder packets.
    pub jitter: Jitter,
    /// Drop-tail queue in front of the serialiser, without the packet that is being serialised.
    pub queue: QueueSize,
    /// Queue length from which ECN-capable packets are marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<QueueSize>,
    /// Queue length, in packets, from which packets of low priority (DSCP CS1, RFC 3662) are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_low: Option<u32>,
    /// Takes the place of the drop-tail queue, whose size is then its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// Applies to packets that enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<Remark>,
    /// Drops packets above a rate, after the losses and before the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// Losses before the queue.
    pub loss: LossModel,
    /// Replaces the rate once the link is started. `rate` is then its mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<RateTrace>,
    /// In order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<DirectionChange>,
    /// After the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Probability that a copy of a packet enters the queue right behind it.
    #[serde(default, skip_serializing_if = "is_no_share")]
    pub duplicate: Share,
    /// Batches of all packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<PacketHold>,
    /// Batches of pure ACKs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks: Option<Hold>,
    /// Loss probability of pure ACKs, after the loss model and before the queue.
    #[serde(default, skip_serializing_if = "is_no_share")]
    pub ack_loss: Share,
    /// Seed of this direction's random numbers. With the same seed the same packets are lost.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkConfig {
    /// From the first end to the second, and from the second to the first.
    pub directions: [Direction; 2],
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// Capacity of a drop-tail queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    Packets(u32),
    /// Bytes of whole IP packets.
    Bytes(u64),
}

impl QueueLimit {
    /// With packets of full size: what so many packets hold.
    pub fn bytes(self, mtu: u32) -> u64 {
        match self {
            QueueLimit::Packets(packets) => u64::from(packets) * u64::from(mtu),
            QueueLimit::Bytes(bytes) => bytes,
        }
    }

    /// Whole packets of full size, at least one.
    pub fn full_pkts(self, mtu: u32) -> u32 {
        match self {
            QueueLimit::Packets(packets) => packets,
            QueueLimit::Bytes(bytes) => (bytes / u64::from(mtu)).clamp(1, u32::MAX.into()) as u32,
        }
    }
}

/// A queue discipline, and its options as the kernel reads them.
type WithOptions<'a> = (&'a Discipline, Vec<u8>);

impl LinkConfig {
    /// # Errors
    /// The first field that is out of range, as a usage failure.
    pub fn check(&self) -> Result<()> {
        let [low, high] = MTU_RANGE;
        if !(low..=high).contains(&self.mtu) {
            return Err(Failure::usage(format!("mtu = {} is outside {low}..{high} (bytes)", self.mtu)).into());
        }
        let Some((direction, field, wrong)) = self.out_of_range() else { return Ok(()) };
        let place = ["first to second end", "second to first end"][direction];
        Err(Failure::usage(format!("{place}: {field} = {wrong}")).into())
    }

    /// Whether it does nothing to packets. A queue without a rate never fills.
    pub(crate) fn is_open(&self) -> bool {
        self.directions.iter().all(|one| *one == Direction { queue: one.queue, seed: one.seed, ..Direction::default() })
    }

    /// The first field that is out of range: its direction (0 or 1), its name, and why it is wrong.
    pub(crate) fn out_of_range(&self) -> Option<(usize, &'static str, ParseError)> {
        (0..2).find_map(|direction| {
            let out = self.directions[direction].out_of_range();
            let (field, wrong) = out.or_else(|| self.queue_out_of_range(direction))?;
            Some((direction, field, wrong))
        })
    }

    fn queue_out_of_range(&self, direction: usize) -> Option<(&'static str, ParseError)> {
        let Direction { mark, queue, .. } = &self.directions[direction];
        let limit = match self.size_of(direction, *queue) {
            Ok(limit) => limit,
            Err(wrong) => return Some(("queue", wrong)),
        };
        if let Some(policer) = self.directions[direction].policer.filter(|one| one.burst.0 < self.mtu.into()) {
            let why = format!("drops every full packet: expected a burst of at least the MTU, {}B", self.mtu);
            return Some(("policer", ParseError::because(policer, why)));
        }
        if let Some(wrong) = self.wrong_changed_queue(direction) {
            return Some(("change", wrong));
        }
        if let Some(wrong) = self.wrong_options(direction) {
            return Some(wrong);
        }
        let mark = (*mark)?;
        match self.limit_of(direction, mark) {
            Err(wrong) => Some(("mark", wrong)),
            Ok(mark_limit) if mark_limit.bytes(self.mtu) < limit.bytes(self.mtu) => None,
            Ok(_) => {
                let why = format!("never reached: expected less than the queue, \"{queue}\"");
                Some(("mark", ParseError::because(mark, why)))
            }
        }
    }

    /// # Errors
    /// A queue in BDP without a rate, or one that needs too much memory.
    fn size_of(&self, direction: usize, queue: QueueSize) -> Result<QueueLimit, ParseError> {
        let limit = self.limit_of(direction, queue)?;
        let (packets, bytes) = QUEUE_MAX;
        let fits = match limit {
            QueueLimit::Packets(most) => most <= packets,
            QueueLimit::Bytes(most) => most <= bytes,
        };
        let why = || ParseError::because(queue, format!("expected at most {packets} pkts or {bytes} B"));
        fits.then_some(limit).ok_or_else(why)
    }

    /// Why the queue cannot have the size of a change.
    fn wrong_changed_queue(&self, direction: usize) -> Option<ParseError> {
        let mark = self.mark_limit(direction).map(|mark| mark.bytes(self.mtu));
        let changes = (1..).zip(&self.directions[direction].changes);
        changes.filter_map(|(number, change)| Some((number, change.queue?))).find_map(|(number, queue)| {
            let why = match self.size_of(direction, queue) {
                Err(wrong) => wrong.expected.into_owned(),
                Ok(limit) if mark.is_some_and(|mark| mark >= limit.bytes(self.mtu)) => {
                    "expected a longer queue than `mark`".to_owned()
                }
                Ok(_) => return None,
            };
            Some(ParseError::because(queue, format!("change {number}: {why}")))
        })
    }

    /// Why the kernel would refuse a queue discipline: the field, and the reason.
    fn wrong_options(&self, direction: usize) -> Option<(&'static str, ParseError)> {
        let Err((change, wrong)) = self.options(direction) else { return None };
        Some(match change {
            None => ("discipline", wrong),
            Some(change) => {
                let why = format!("change {}: {}", change + 1, wrong.expected);
                ("change", ParseError::because(wrong.given, why))
            }
        })
    }

    /// The queue disciplines that a direction has in turn, each with its options as the kernel reads them.
    ///
    /// Empty: it has a drop-tail queue.
    ///
    /// Errors: there is no rate; the parameters do not fit together. With the index of the change, if one has it.
    pub(crate) fn options(&self, direction: usize) -> Result<Vec<WithOptions<'_>>, (Option<usize>, ParseError)> {
        let Direction { discipline, rate, queue, changes, .. } = &self.directions[direction];
        let (mut rate, mut queue, mut all) = (*rate, *queue, Vec::new());
        let first = discipline.as_ref().map(|discipline| self.options_of(direction, discipline, rate, queue));
        all.extend(first.transpose().map_err(|wrong| (None, wrong))?);
        for (index, change) in changes.iter().enumerate() {
            (rate, queue) = (change.rate.or(rate), change.queue.unwrap_or(queue));
            let next = change.discipline.as_ref().map(|discipline| self.options_of(direction, discipline, rate, queue));
            all.extend(next.transpose().map_err(|wrong| (Some(index), wrong))?);
        }
        Ok(all)
    }

    fn options_of<'a>(
        &self,
        direction: usize,
        discipline: &'a Discipline,
        rate: Option<BitsPerSec>,
        queue: QueueSize,
    ) -> Result<WithOptions<'a>, ParseError> {
        let wrong = |why| ParseError::because(discipline, why);
        let rate = rate.ok_or_else(|| wrong("needs a rate: without one no packet waits".to_owned()))?;
        let link = LinkFacts { rate, limit: self.limit_of(direction, queue)?, mtu: self.mtu };
        Ok((discipline, discipline::attributes(discipline, &link).map_err(wrong)?))
    }

    /// Queue length from which a direction marks packets.
    pub(crate) fn mark_limit(&self, direction: usize) -> Option<QueueLimit> {
        self.limit_of(direction, self.directions[direction].mark?).ok()
    }

    /// # Errors
    /// A queue in BDP without a rate.
    pub fn queue_limits(&self) -> Result<[QueueLimit; 2]> {
        let limit = |number| self.queue_limit(number).map_err(|wrong| Failure::usage(format!("queue = {wrong}")));
        Ok([limit(0)?, limit(1)?])
    }

    /// The sizes that a direction's queue has in turn.
    ///
    /// # Errors
    /// A queue in BDP without a rate.
    pub(crate) fn queue_limits_over_time(&self, direction: usize) -> Result<Vec<QueueLimit>> {
        let Direction { queue, changes, .. } = &self.directions[direction];
        let sizes = [*queue].into_iter().chain(changes.iter().filter_map(|change| change.queue));
        let limit = |size| self.limit_of(direction, size).map_err(|wrong| Failure::usage(format!("queue = {wrong}")));
        Ok(sizes.map(limit).collect::<Result<_, _>>()?)
    }

    fn queue_limit(&self, direction: usize) -> Result<QueueLimit, ParseError> {
        self.limit_of(direction, self.directions[direction].queue)
    }

    /// A BDP is the rate times both one-way delays, and at least one packet.
    pub(crate) fn limit_of(&self, direction: usize, queue: QueueSize) -> Result<QueueLimit, ParseError> {
        let rate = self.directions[direction].rate;
        Ok(match queue {
            QueueSize::Packets(packets) => QueueLimit::Packets(packets),
            QueueSize::Bytes(bytes) => QueueLimit::Bytes(bytes),
            QueueSize::Bdp(times) => {
                let rate =
                    rate.ok_or_else(|| ParseError::because(queue, "needs a rate: without one there is no BDP"))?;
                let round_trip: Duration = self.directions.iter().map(|direction| direction.delay).sum();
                let bytes = times * rate.0 as f64 / 8.0 * round_trip.as_secs_f64();
                QueueLimit::Bytes((bytes.round() as u64).max(self.mtu.into()))
            }
        })
    }
}

fn is_no_share(share: &Share) -> bool {
    *share == Share::default()
}

impl Direction {
    /// The first property that it has besides rate, delay, queue and independent losses.
    pub(crate) fn beyond_plain(&self) -> Option<&'static str> {
        let Direction {
            host_delay: _, // see `Cell::host_delays`; the results name the drivers without it
            rate: _,
            delay: _,
            jitter,
            queue: _,
            queue_low,
            mark,
            discipline,
            remark,
            policer,
            loss,
            trace,
            changes,
            reorder,
            duplicate,
            hold,
            acks,
            ack_loss,
            seed: _,
        } = self;
        let asked = [
            (queue_low.is_some(), "drops by priority"),
            (!jitter.is_none(), "jitter"),
            (mark.is_some(), "marks"),
            (discipline.is_some(), "a queue discipline"),
            (policer.is_some(), "a policer"),
            (remark.is_some(), "a changed IP header"),
            (loss.independent().is_none(), "loss but an independent one"),
            (trace.is_some(), "rate traces"),
            (!changes.is_empty(), "changes by time"),
            (reorder.is_some(), "reordering"),
            (!is_no_share(duplicate), "duplication"),
            (hold.is_some(), "packets held in batches"),
            (acks.is_some(), "held acknowledgements"),
            (!is_no_share(ack_loss), "losses of acknowledgements alone"),
        ];
        asked.into_iter().find_map(|(is_asked, name)| is_asked.then_some(name))
    }

    /// [`Direction::host_delay`] in microseconds.
    pub(crate) fn host_delay_us(&self) -> f64 {
        self.host_delay.as_secs_f64() * 1e6
    }

    /// Longest time by which randomness may add to the delay of a packet that is not held.
    pub(crate) fn spread(&self) -> Duration {
        self.host_delay + self.longest_jitter()
    }

    /// The same before any change.
    pub(crate) fn spread_at_start(&self) -> Duration {
        self.host_delay + self.jitter.longest()
    }

    /// The mean of it.
    pub(crate) fn mean_spread_at_start(&self) -> Duration {
        self.host_delay / 2 + self.jitter.mean()
    }

    /// Longest time that a packet may be held after the delay.
    pub(crate) fn held_up(&self) -> Duration {
        let reorder = self.reorder.map_or(Duration::ZERO, |reorder| reorder.by);
        reorder.max(self.acks.map_or(Duration::ZERO, |acks| acks.time)).max(self.batched_up())
    }

    /// Longest time that any packet may be held in a batch.
    pub(crate) fn batched_up(&self) -> Duration {
        self.hold.map_or(Duration::ZERO, |PacketHold(hold)| hold.time)
    }

    /// Longest time by which packets wait for each other, and then arrive in a burst.
    pub(crate) fn bunched_up(&self) -> Duration {
        let late = if matches!(self.jitter, Jitter::Wifi(_)) { self.jitter.longest() } else { Duration::ZERO };
        self.batched_up() + late
    }

    fn out_of_range(&self) -> Option<(&'static str, ParseError)> {
        let unread = || {
            let trace = self.trace.as_ref().filter(|trace| trace.times_ms.is_empty())?;
            Some(ParseError::because(trace, "its times were not read"))
        };
        let checks = [
            ("rate", wrong_rate(self.rate).or_else(unread)),
            ("delay", wrong_delay(self.delay)),
            ("jitter", self.jitter.out_of_range()),
            ("loss", self.loss.out_of_range()),
        ];
        if let Some((field, Some(wrong))) = checks.into_iter().find(|(_, wrong)| wrong.is_some()) {
            return Some((field, wrong));
        }
        if let Some(low) = self.queue_low.filter(|low| !matches!(self.queue, QueueSize::Packets(all) if *low < all)) {
            let why = format!("expected less than the queue, \"{}\", and both in pkts", self.queue);
            return Some(("queue_low", ParseError::because(QueueSize::Packets(low), why)));
        }
        if let Some(remark) = self.remark.filter(|it| it.ecn == Some(EcnRemark::Bleached) && self.mark.is_some()) {
            let why = "beside mark, which then marks no packet";
            return Some(("remark", ParseError::because(remark, why)));
        }
        if let Some(discipline) = &self.discipline {
            let others = [("mark", self.mark.is_some()), ("queue_low", self.queue_low.is_some())];
            if let Some((other, _)) = others.into_iter().find(|(_, is_there)| *is_there) {
                let why = format!("beside {other}, which only a drop-tail queue has");
                return Some(("discipline", ParseError::because(discipline, why)));
            }
        }
        if let (Some(hold), Some(acks)) = (self.hold, self.acks) {
            let why = format!("beside acks = \"{acks}\": it holds ACKs too, so a direction has only one of them");
            return Some(("hold", ParseError::because(hold, why)));
        }
        if let (Some(hold), Some(reorder)) = (self.hold, self.reorder) {
            let why = format!("beside reorder = \"{reorder}\": a direction has only one of them");
            return Some(("hold", ParseError::because(hold, why)));
        }
        if let (Some(acks), Some(reorder)) = (self.acks, self.reorder) {
            let why = format!("beside reorder = \"{reorder}\": a direction has only one of them");
            return Some(("acks", ParseError::because(acks, why)));
        }
        let (index, field, wrong) = self.wrong_change()?;
        Some(("change", ParseError::because(format!("{}, {field} = {}", index + 1, wrong.given), wrong.expected)))
    }
}
