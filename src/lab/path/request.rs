//! Encodes the request that configures one direction of a link. Pure.
//!
//! The C of `bpf/link` reads it, in the emulator and in the guest of virtual time. So both lose the same packets with the
//! same seed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use rand_pcg::Pcg64;
use serde::Deserialize;
use strum::VariantArray;
use zerocopy::IntoBytes as _;

use super::change::DirectionChange;
use super::discipline::FIRST_CLASS;
use super::draws::RandomStream;
use super::hold::{HoldKind, PacketHold};
use super::jitter::Jitter;
use super::loss::LossModel;
use super::{Direction, LinkConfig, QueueLimit, times};
use crate::c_types::{
    Counters, Generator, HeldPackets, Limit, LimitUnit, LinkRequest, Loss, LossKind, QueueSample, Stream, TimedValue,
};
use shared::c_text;
use shared::model::queue::QueueState;
use shared::model::run::LinkCounters;
use shared::units::{Share, nanos};

pub(crate) const STREAMS: usize = Stream::TCCC_STREAMS.0 as usize;
/// A packet is lost, held back or copied if 53 random bits are below the share times this.
const WHOLE_SHARE: f64 = (1u64 << 53) as f64;

/// One direction of a link, as its C is to have it.
#[derive(Debug, Clone, Copy)]
pub struct DirectionRequest<'a> {
    /// In a guest: the name of the device that sends into it.
    pub device: Option<&'a str>,
    pub config: &'a LinkConfig,
    /// Index of the direction in `config`.
    pub direction: usize,
    /// Longest random delay inside the host before the link. Packets stay in order.
    pub host_delay: Duration,
    /// Time between samples of the queue, if the direction has one.
    pub sample: Duration,
}

impl DirectionRequest<'_> {
    /// # Errors
    /// Those of [`LinkConfig::check`]; the device's name is too long.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.config.check()?;
        let direction = &self.config.directions[self.direction];
        let (mut losses, mut positions) = (Vec::new(), PositionLists::default());
        let mut add_loss = |model| {
            losses.push(loss(model, &mut positions));
            losses.len() as u64 - 1
        };
        add_loss(&direction.loss);
        let mut classes = u64::from(FIRST_CLASS) + 1..; // the first is that of the link's own discipline
        let steps = [
            steps(direction, |change| Some(change.rate?.0)),
            steps(direction, |change| change.delay.map(nanos)),
            steps(direction, |change| change.up.map(u64::from)),
            steps(direction, |change| change.loss.as_ref().map(&mut add_loss)),
            steps(direction, |change| change.jitter.map(jitter)),
            steps(direction, |change| Some(room(self.config.limit_of(self.direction, change.queue?).ok()?))),
            steps(direction, |change| change.discipline.as_ref().and_then(|_| classes.next())),
        ];
        let opportunities = direction.trace.as_ref().map_or(&[][..], |trace| &trace.times_ms);
        let request = LinkRequest {
            step_counts: steps.each_ref().map(|steps| steps.len() as u64),
            loss_count: losses.len() as u64,
            position_count: positions.all.len() as u64,
            opportunity_count: opportunities.len() as u64,
            round_ms: direction.trace.as_ref().map_or(0, |trace| trace.length_ms.into()),
            ..self.head(direction)?
        };
        let steps = steps.each_ref().map(|steps| steps.as_bytes()).concat();
        let (losses, positions, opportunities) =
            (losses.as_bytes(), positions.all.as_bytes(), opportunities.as_bytes());
        Ok([request.as_bytes(), &steps, losses, positions, opportunities].concat())
    }

    /// The request without its arrays.
    fn head(&self, direction: &Direction) -> Result<LinkRequest> {
        let device = c_text::padded(self.device.unwrap_or_default());
        if let Some(name) = self.device.filter(|name| !(1..device.len()).contains(&name.len())) {
            bail!("a device's name has 1 to {} characters, unlike \"{name}\"", device.len() - 1);
        }
        let limits = self.config.queue_limits()?;
        let reorder = direction.reorder.filter(|reorder| !reorder.by.is_zero());
        Ok(LinkRequest {
            device,
            rate_bps: direction.rate.map_or(0, |rate| rate.0),
            delay_ns: nanos(direction.delay),
            jitter: jitter(direction.jitter),
            held_back_ns: reorder.map_or(0, |reorder| nanos(reorder.by)),
            held_back: reorder.map_or(0, |reorder| threshold(reorder.share)),
            duplicate: threshold(direction.duplicate),
            ack_loss: threshold(direction.ack_loss),
            hold: hold(direction),
            host_delay_ns: nanos(self.host_delay),
            sample_ns: if direction.has_queue() { nanos(self.sample) } else { 0 },
            service_cleared: direction.remark.map_or(0, |remark| remark.cleared().into()),
            ect_replaced: direction.remark.map_or(0, |remark| remark.ect_replaced().into()),
            policer_bps: direction.policer.map_or(0, |policer| policer.rate.0),
            policer_burst_ns: direction.policer.map_or(0, |policer| nanos(policer.burst_time())),
            queue: limit(limits[self.direction]),
            queue_low: direction.queue_low.map_or(Limit::default(), |most| limit(QueueLimit::Packets(most))),
            mark: self.config.mark_limit(self.direction).map_or(Limit::default(), limit),
            generators: generators(direction.seed),
            ..LinkRequest::default()
        })
    }
}

/// The smallest number of 53 bits that is not below the share: x / 2^53 < share if and only if x < ceil(share * 2^53).
///
/// The product is exact, because it only changes the exponent of the share.
fn threshold(share: Share) -> u64 {
    (share.0 * WHOLE_SHARE).ceil() as u64
}

fn limit(limit: QueueLimit) -> Limit {
    match limit {
        QueueLimit::Packets(most) => Limit { unit: LimitUnit::TCCC_LIMIT_PKTS.0.into(), most: most.into() },
        QueueLimit::Bytes(most) => Limit { unit: LimitUnit::TCCC_LIMIT_BYTES.0.into(), most },
    }
}

/// A jitter as bpf/link/jitter.h reads it.
fn jitter(jitter: Jitter) -> u64 {
    jitter.wifi_retries().map_or(2 * nanos(jitter.longest()), |share| 2 * threshold(share) + 1)
}

/// The value of a step that changes the limit of a queue.
fn room(limit: QueueLimit) -> u64 {
    match limit {
        QueueLimit::Packets(most) => 2 * u64::from(most),
        QueueLimit::Bytes(most) => 2 * most + 1,
    }
}

fn hold(direction: &Direction) -> HeldPackets {
    let every = direction.hold.map(|PacketHold(hold)| (hold, 1));
    let Some((hold, every)) = every.or(direction.acks.map(|acks| (acks, 0))) else { return HeldPackets::default() };
    let newest = u64::from(hold.kind == HoldKind::Thinned);
    HeldPackets { time_ns: nanos(hold.time), pkts: hold.pkts.into(), share: threshold(hold.share), newest, every }
}

fn steps<'a>(direction: &'a Direction, mut value: impl FnMut(&'a DirectionChange) -> Option<u64>) -> Vec<TimedValue> {
    let step = |change: &'a DirectionChange| Some(TimedValue { at_ns: nanos(change.at), value: value(change)? });
    direction.changes.iter().filter_map(step).collect()
}

/// The positions of all loss models of a request. A file that several models share is in it once.
#[derive(Default)]
struct PositionLists<'a> {
    all: Vec<u64>,
    /// Each list with the index of its first position in `all`.
    lists: Vec<(&'a Arc<[u64]>, u64)>,
}

impl<'a> PositionLists<'a> {
    /// The index of the first position of a list, which is added unless it is there.
    fn first_of(&mut self, list: &'a Arc<[u64]>) -> u64 {
        if let Some((_, first)) = self.lists.iter().find(|(known, _)| Arc::ptr_eq(known, list)) {
            return *first;
        }
        let first = self.all.len() as u64;
        self.all.extend_from_slice(list);
        self.lists.push((list, first));
        first
    }
}

/// Encodes a loss model.
fn loss<'a>(model: &'a LossModel, positions: &mut PositionLists<'a>) -> Loss {
    match (model, model.gilbert()) {
        (LossModel::Positions(trace), _) => {
            let first_position = positions.first_of(&trace.positions);
            Loss { first_position, positions: trace.positions.len() as u64, ..Loss::of(LossKind::TCCC_LOSS_POSITIONS) }
        }
        (_, Some(model)) => Loss {
            good_loss: threshold(model.good_loss),
            bad_loss: threshold(model.bad_loss),
            to_bad: threshold(model.to_bad),
            to_good: threshold(model.to_good),
            ..Loss::of(LossKind::TCCC_LOSS_STATES)
        },
        _ => {
            let good_loss = model.independent().map_or(0, threshold);
            Loss { good_loss, ..Loss::of(LossKind::TCCC_LOSS_INDEPENDENT) }
        }
    }
}

/// The state of a generator, as rand_pcg serialises it.
#[derive(Deserialize)]
struct Parts {
    state: u128,
    increment: u128,
}

/// The first state of every stream of a seed, in the order of `enum tccc_stream`.
pub(crate) fn generators(seed: u64) -> [Generator; STREAMS] {
    std::array::from_fn(|stream| generator_of(&RandomStream::VARIANTS[stream].generator(seed)))
}

fn generator_of(generator: &Pcg64) -> Generator {
    let parts = serde_json::to_string(generator).and_then(|text| serde_json::from_str(&text));
    let Parts { state, increment } = parts.expect("rand_pcg serialises a generator as its state and increment");
    let halves = |number: u128| (number as u64, (number >> 64) as u64);
    let ((state_low, state_high), (increment_low, increment_high)) = (halves(state), halves(increment));
    Generator { state_low, state_high, increment_low, increment_high }
}

impl Loss {
    /// A model of a kind, without losses.
    fn of(kind: LossKind) -> Self {
        Loss { kind: kind.0.into(), ..Loss::default() }
    }
}

impl From<QueueSample> for QueueState {
    fn from(sample: QueueSample) -> QueueState {
        let QueueSample { at_ns: time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts } = sample;
        QueueState { time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts }
    }
}

impl Counters {
    /// The counters as they are recorded, with the positions of the first lost packets and the waits in the queue.
    pub fn with(self, lost_positions: Vec<u64>, waits: &[u64]) -> LinkCounters {
        LinkCounters {
            received_pkts: self.received_pkts,
            sent_pkts: self.sent_pkts,
            sent_bytes: self.sent_bytes,
            lost_pkts: self.lost_pkts,
            lost_positions,
            loss_runs: Some(self.loss_runs),
            down_pkts: self.down_pkts,
            policed_pkts: self.policed_pkts,
            overflow_pkts: self.overflow_pkts,
            marked_pkts: self.marked_pkts,
            duplicated_pkts: self.duplicated_pkts,
            acks_lost_pkts: self.acks_lost_pkts,
            acks_held_pkts: self.acks_held_pkts,
            held_pkts: self.held_pkts,
            acks_thinned_pkts: self.acks_thinned_pkts,
            reordered_pkts: Some(self.reordered_pkts),
            failed_pkts: self.failed_pkts,
            max_queue_pkts: Some(self.max_queue_pkts),
            wait_us: times::delays(waits),
            lateness_us: None,
            moments: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod tests;
