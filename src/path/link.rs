//! One direction of a link, and the link of two, each field with its range.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::acks::AckHold;
use super::change::Change;
use super::loss::LossModel;
use super::range::{DELAY_MAX, MTU_RANGE, QUEUE_MAX, RATE_RANGE};
use super::rate_trace::RateTrace;
use super::reorder::Reorder;
use crate::failure::Failure;
use crate::units::{BitsPerSec, ParseError, QueueSize, Share, duration_text, format_duration};

/// One direction of a link: what a packet meets, in this order: loss, queue, serialisation, delay, what holds ACKs.
///
/// Rates count the whole IP packet (a 1500-byte MTU packet is 1500 bytes; there is no Ethernet header on the link).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Serialisation rate; none is unlimited.
    pub rate: Option<BitsPerSec>,
    /// One-way propagation delay.
    #[serde(with = "duration_text")]
    pub delay: Duration,
    /// Uniform random addition to the delay, 0 to this; packets are not reordered by it.
    #[serde(with = "duration_text")]
    pub jitter: Duration,
    /// Drop-tail queue in front of the serialiser; the packet being serialised is not in it.
    pub queue: QueueSize,
    /// What has to wait in the queue for a packet that enters it to be marked, if its ends understand marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<QueueSize>,
    /// Packets in the queue from which on one of low priority (DSCP CS1, RFC 3662) finds it full; none treats all alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_low: Option<u32>,
    /// Which packets are lost, decided before the queue.
    pub loss: LossModel,
    /// Delivery opportunities that take the place of the rate once the link is started; `rate` is then their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<RateTrace>,
    /// What changes while the link runs, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Packets that are held back after the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Share of packets of which a copy enters the queue right behind, each by itself.
    #[serde(default = "no_share", skip_serializing_if = "is_no_share")]
    pub duplicate: Share,
    /// Pure acknowledgements that are held and leave together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks: Option<AckHold>,
    /// Share of pure acknowledgements that is lost, each by itself, after the loss model and before the queue.
    #[serde(default = "no_share", skip_serializing_if = "is_no_share")]
    pub ack_loss: Share,
    /// Seed of this direction's random numbers: the same seed drops the same packets, counted from the first.
    pub seed: u64,
}

/// A link between two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkConfig {
    /// From the first end to the second, and from the second to the first.
    pub directions: [Direction; 2],
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// Queue of a direction that names none: the transmit queue length of a Linux device.
const DEFAULT_QUEUE: QueueSize = QueueSize::Packets(1000);

/// A field of a link that is outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    /// 0 or 1, as in [`LinkConfig::directions`].
    pub direction: usize,
    /// Its name: `rate`.
    pub field: &'static str,
    /// Its value and what is allowed.
    pub wrong: ParseError,
}

/// How much a drop-tail queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueLimit {
    Packets(u32),
    /// Bytes of whole IP packets.
    Bytes(u64),
}

impl LinkConfig {
    /// Checks every field against its range.
    ///
    /// Errors: a usage failure that names the direction, the field, its value and the allowed range.
    pub fn check(&self) -> Result<()> {
        let [low, high] = MTU_RANGE;
        if !(low..=high).contains(&self.mtu) {
            return Err(Failure::usage(format!("mtu = {} is outside {low}..{high} (bytes)", self.mtu)).into());
        }
        let Some(out) = self.out_of_range() else { return Ok(()) };
        let place = ["first to second end", "second to first end"][out.direction];
        Err(Failure::usage(format!("{place}: {} = {}", out.field, out.wrong)).into())
    }

    /// Whether it does nothing to packets: a queue without a rate behind it never fills.
    pub(crate) fn is_open(&self) -> bool {
        self.directions.iter().all(|one| *one == Direction { queue: one.queue, seed: one.seed, ..Direction::default() })
    }

    /// The first field of a direction that is outside its range; none when all are within.
    pub(crate) fn out_of_range(&self) -> Option<OutOfRange> {
        let of = |direction: usize| {
            let out = self.directions[direction].out_of_range().or_else(|| self.queue_out_of_range(direction));
            let (field, wrong) = out.or_else(|| self.mark_out_of_range(direction))?;
            Some(OutOfRange { direction, field, wrong })
        };
        of(0).or_else(|| of(1))
    }

    fn queue_out_of_range(&self, direction: usize) -> Option<(&'static str, ParseError)> {
        let (packets, bytes) = QUEUE_MAX;
        let queue = self.directions[direction].queue;
        match self.queue_limit(direction) {
            Ok(QueueLimit::Packets(n)) if n <= packets => None,
            Ok(QueueLimit::Bytes(n)) if n <= bytes => None,
            Ok(_) => {
                Some(("queue", ParseError::because(queue, format!("expected at most {packets} pkts or {bytes} B"))))
            }
            Err(wrong) => Some(("queue", wrong)),
        }
    }

    fn mark_out_of_range(&self, direction: usize) -> Option<(&'static str, ParseError)> {
        let Direction { mark, queue, .. } = &self.directions[direction];
        let mark = (*mark)?;
        let mtu = u64::from(self.mtu);
        let bytes = |limit| match limit {
            QueueLimit::Packets(packets) => u64::from(packets) * mtu,
            QueueLimit::Bytes(bytes) => bytes,
        };
        match (self.limit_of(direction, mark), self.queue_limit(direction)) {
            (Err(wrong), _) => Some(("mark", wrong)),
            (Ok(mark_at), Ok(most)) if bytes(mark_at) >= bytes(most) => {
                let why = format!("never reached: expected less than the queue, \"{queue}\"");
                Some(("mark", ParseError::because(mark, why)))
            }
            _ => None,
        }
    }

    /// What has to wait in the queue of a direction for a packet to be marked; none where nothing marks.
    pub(crate) fn mark_limit(&self, direction: usize) -> Option<QueueLimit> {
        self.limit_of(direction, self.directions[direction].mark?).ok()
    }

    /// How much the queues of the two directions hold.
    ///
    /// Errors: a queue in BDP without a rate.
    pub(crate) fn queue_limits(&self) -> Result<[QueueLimit; 2]> {
        let limit = |number| self.queue_limit(number).map_err(|wrong| Failure::usage(format!("queue = {wrong}")));
        Ok([limit(0)?, limit(1)?])
    }

    /// How much the queue of a direction (0 or 1) holds; a BDP is rate times both one-way delays, at least one packet.
    fn queue_limit(&self, direction: usize) -> std::result::Result<QueueLimit, ParseError> {
        self.limit_of(direction, self.directions[direction].queue)
    }

    fn limit_of(&self, direction: usize, queue: QueueSize) -> std::result::Result<QueueLimit, ParseError> {
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

fn no_share() -> Share {
    Share(0.0)
}

fn is_no_share(share: &Share) -> bool {
    *share == no_share()
}

/// A direction that lets everything through at once.
impl Default for Direction {
    fn default() -> Self {
        Direction {
            rate: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: DEFAULT_QUEUE,
            mark: None,
            queue_low: None,
            loss: LossModel::default(),
            trace: None,
            changes: Vec::new(),
            reorder: None,
            duplicate: no_share(),
            acks: None,
            ack_loss: no_share(),
            seed: 0,
        }
    }
}

impl Direction {
    /// The first thing beyond rate, delay, queue and independent losses that it asks for.
    pub(crate) fn beyond_plain(&self) -> Option<&'static str> {
        let Direction {
            rate: _,
            delay: _,
            jitter,
            queue: _,
            queue_low,
            mark,
            loss,
            trace,
            changes,
            reorder,
            duplicate,
            acks,
            ack_loss,
            seed: _,
        } = self;
        let asked = [
            (queue_low.is_some(), "drops by priority"),
            (!jitter.is_zero(), "jitter"),
            (mark.is_some(), "marks"),
            (loss.independent().is_none(), "loss but an independent one"),
            (trace.is_some(), "rate traces"),
            (!changes.is_empty(), "changes by time"),
            (reorder.is_some(), "reordering"),
            (!is_no_share(duplicate), "duplication"),
            (acks.is_some(), "held acknowledgements"),
            (!is_no_share(ack_loss), "losses of acknowledgements alone"),
        ];
        asked.into_iter().find_map(|(is_asked, name)| is_asked.then_some(name))
    }

    /// Longest that a packet may be held at the end, after the delay.
    pub(crate) fn held_up(&self) -> Duration {
        let reorder = self.reorder.map_or(Duration::ZERO, |reorder| reorder.by);
        reorder.max(self.acks.map_or(Duration::ZERO, |acks| acks.time))
    }

    fn out_of_range(&self) -> Option<(&'static str, ParseError)> {
        let [slowest, fastest] = RATE_RANGE;
        if let Some(rate) = self.rate.filter(|rate| !(slowest..=fastest).contains(rate)) {
            return Some(("rate", ParseError::because(rate, format!("outside {slowest}..{fastest}"))));
        }
        for (name, time) in [("delay", self.delay), ("jitter", self.jitter)] {
            if time > DELAY_MAX {
                let why = format!("outside 0us..{}", format_duration(DELAY_MAX));
                return Some((name, ParseError::because(format_duration(time), why)));
            }
        }
        if let Some(trace) = self.trace.as_ref().filter(|trace| trace.times_ms.is_empty()) {
            return Some(("rate", ParseError::because(trace, "its times were not read")));
        }
        if let Some(wrong) = self.loss.out_of_range() {
            return Some(("loss", wrong));
        }
        if let Some(low) = self.queue_low.filter(|low| !matches!(self.queue, QueueSize::Packets(all) if *low < all)) {
            let why = format!("expected less than the queue, \"{}\", and both in pkts", self.queue);
            return Some(("queue_low", ParseError::because(QueueSize::Packets(low), why)));
        }
        if let (Some(acks), Some(reorder)) = (self.acks, self.reorder) {
            let why = format!("beside reorder = \"{reorder}\": expected one of them in a direction");
            return Some(("acks", ParseError::because(acks, why)));
        }
        let (index, field, wrong) = self.wrong_change()?;
        Some(("change", ParseError::because(format!("{}, {field} = {}", index + 1, wrong.given), wrong.expected)))
    }
}
