//! Links of a guest: encodes the request that configures one direction, and decodes its counters and samples. Pure.
//!
//! Requests and counters go through `/proc/tccc/links`, samples of the queues through `/proc/tccc/queues`.
//! `bpf/guest/layout.h` has the same structs in C. The random number generators are those of the emulator, so that both
//! lose the same packets with the same seed.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand_pcg::Pcg64;
use serde::Deserialize;
use strum::VariantArray;

use super::bytes::{GuestBytes, nanos};
use crate::path::acks::{self, AckKind};
use crate::path::change::DirectionChange;
use crate::path::draws::RandomStream;
use crate::path::loss::LossModel;
use crate::path::{Direction, LinkConfig, QueueLimit};
use shared::failure::Failure;
use shared::model::queue::QueueSample;
use shared::model::run::LinkCounters;
use shared::units::Share;

mod layout;

use layout::{AckHold, Counters, Generator, LIMIT_BYTES, LIMIT_PKTS, Limit, LinkRequest, Loss, STREAMS, TimedValue};
pub use layout::{DEVICE_NAME, REQUEST_BYTES_MAX};

/// A packet is lost, held back or copied if 53 random bits are below the share times this.
const WHOLE_SHARE: f64 = (1u64 << 53) as f64;

/// One direction of a link, with the device that sends into it.
#[derive(Debug, Clone, Copy)]
pub struct Outlet<'a> {
    /// Its name in the namespace of the request.
    pub device: &'a str,
    pub config: &'a LinkConfig,
    /// Index of the direction in `config`.
    pub direction: usize,
    /// Longest random delay inside the host before the link. Packets stay in order.
    pub host_delay: Duration,
    /// Time between samples of the queue, if the direction has one.
    pub sample: Duration,
}

/// Errors: a field is out of range, or has more numbers than fit into a request to the guest.
pub fn check(config: &LinkConfig) -> Result<()> {
    config.check()?;
    match too_many_numbers(config) {
        Some((_, field, why)) => Err(Failure { what: format!("{field}: {}", why.what), ..why }.into()),
        None => Ok(()),
    }
}

/// The first field with more numbers than fit into a request to the guest: its direction, its name, and the reason.
pub fn too_many_numbers(config: &LinkConfig) -> Option<(usize, &'static str, Failure)> {
    config.directions.iter().enumerate().find_map(|(number, direction)| {
        let models = direction.changes.iter().filter_map(|change| change.loss.as_ref());
        let positions = || std::iter::once(&direction.loss).chain(models).map(|model| position_count(model) as u64);
        let opportunities = direction.trace.as_ref().map_or(0, |trace| trace.times_ms.len() as u64);
        let arrays = [("loss", positions().sum::<u64>() * 8), ("rate", opportunities * 4)];
        // Each may take half of a request. The rest of the request is small.
        let (field, bytes) = arrays.into_iter().find(|(_, bytes)| *bytes > REQUEST_BYTES_MAX / 2)?;
        let what = format!("its numbers take {bytes} bytes, a guest of virtual time allows {}", REQUEST_BYTES_MAX / 2);
        Some((number, field, Failure::usage(what).hint("use a shorter trace, or `--engine kernel`")))
    })
}

impl Outlet<'_> {
    /// Errors: those of [`check`]; the device's name is too long.
    pub fn request(&self) -> Result<Vec<u8>> {
        check(self.config)?;
        let direction = &self.config.directions[self.direction];
        let (mut losses, mut positions) = (Vec::new(), Vec::new());
        let mut add_loss = |model: &LossModel| {
            losses.push(loss(model, &mut positions));
            losses.len() as u64 - 1
        };
        add_loss(&direction.loss);
        let steps = [
            steps(direction, |change| Some(change.rate?.0)),
            steps(direction, |change| change.delay.map(nanos)),
            steps(direction, |change| change.up.map(u64::from)),
            steps(direction, |change| change.loss.as_ref().map(&mut add_loss)),
        ];
        let opportunities = direction.trace.as_ref().map_or(&[][..], |trace| &trace.times_ms);
        let request = LinkRequest {
            step_counts: steps.each_ref().map(|steps| steps.len() as u64),
            loss_count: losses.len() as u64,
            position_count: positions.len() as u64,
            opportunity_count: opportunities.len() as u64,
            ..self.head(direction)?
        };
        let mut bytes = Vec::new();
        request.append_to(&mut bytes);
        steps.iter().flatten().for_each(|step| step.append_to(&mut bytes));
        losses.iter().for_each(|loss| loss.append_to(&mut bytes));
        positions.iter().for_each(|position| position.append_to(&mut bytes));
        opportunities.iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        Ok(bytes)
    }

    /// The request without its arrays.
    fn head(&self, direction: &Direction) -> Result<LinkRequest> {
        let mut device = [0; DEVICE_NAME];
        if self.device.is_empty() || self.device.len() >= DEVICE_NAME {
            bail!("a device's name has 1 to {} characters, unlike \"{}\"", DEVICE_NAME - 1, self.device);
        }
        device[..self.device.len()].copy_from_slice(self.device.as_bytes());
        let limits = self.config.queue_limits()?;
        let reorder = direction.reorder.filter(|reorder| !reorder.by.is_zero());
        Ok(LinkRequest {
            device,
            rate_bps: direction.rate.map_or(0, |rate| rate.0),
            delay_ns: nanos(direction.delay),
            jitter_ns: nanos(direction.jitter),
            held_back_ns: reorder.map_or(0, |reorder| nanos(reorder.by)),
            held_back: reorder.map_or(0, |reorder| threshold(reorder.share)),
            duplicate: threshold(direction.duplicate),
            ack_loss: threshold(direction.ack_loss),
            ack_hold: direction.acks.map_or(AckHold::default(), ack_hold),
            host_delay_ns: nanos(self.host_delay),
            sample_ns: if direction.has_queue() { nanos(self.sample) } else { 0 },
            queue: limit(limits[self.direction]),
            queue_low: direction.queue_low.map_or(Limit::default(), |most| limit(QueueLimit::Packets(most))),
            mark: self.config.mark_limit(self.direction).map_or(Limit::default(), limit),
            generators: generators(direction.seed)?,
            ..LinkRequest::default()
        })
    }
}

/// Decodes the counters of all directions, in the order of their requests.
///
/// Errors: too few bytes.
pub fn counters(mut bytes: &[u8]) -> Result<Vec<LinkCounters>> {
    let mut links = Vec::new();
    while !bytes.is_empty() {
        links.push(next_counters(&mut bytes).context("the guest's counters of links end too early")?);
    }
    Ok(links)
}

fn next_counters(bytes: &mut &[u8]) -> Option<LinkCounters> {
    let counters = Counters::take_from(bytes)?;
    let lost_positions = (0..counters.first_lost_count).map(|_| u64::take_from(bytes)).collect::<Option<_>>()?;
    Some(LinkCounters {
        received_pkts: counters.received_pkts,
        sent_pkts: counters.sent_pkts,
        sent_bytes: counters.sent_bytes,
        lost_pkts: counters.lost_pkts,
        lost_positions,
        loss_runs: Some(counters.loss_runs),
        down_pkts: counters.down_pkts,
        overflow_pkts: counters.overflow_pkts,
        marked_pkts: counters.marked_pkts,
        duplicated_pkts: counters.duplicated_pkts,
        acks_lost_pkts: counters.acks_lost_pkts,
        acks_held_pkts: counters.acks_held_pkts,
        acks_thinned_pkts: counters.acks_thinned_pkts,
        reordered_pkts: Some(counters.reordered_pkts),
        failed_pkts: counters.failed_pkts,
        max_queue_pkts: Some(counters.max_queue_pkts),
        lateness_us: None,
        moments: None,
    })
}

/// Decodes the samples of the queues of all directions, in the order of their requests. `ends` are the two nodes of
/// each direction.
///
/// Errors: too few or too many bytes.
pub fn queues<'a>(mut bytes: &[u8], ends: impl IntoIterator<Item = [&'a str; 2]>) -> Result<Vec<QueueSample>> {
    let mut samples = Vec::new();
    for [from, to] in ends {
        let count = u64::take_from(&mut bytes);
        let states = count.and_then(|count| (0..count).map(|_| layout::QueueState::take_from(&mut bytes)).collect());
        let states: Vec<layout::QueueState> = states.context("the guest's samples of queues end too early")?;
        samples.extend(states.into_iter().map(|state| QueueSample::of([from, to], state.into())));
    }
    ensure!(bytes.is_empty(), "the guest has samples of more queues than were requested");
    Ok(samples)
}

/// The smallest number of 53 bits that is not below the share: x / 2^53 < share if and only if x < ceil(share * 2^53).
///
/// The product is exact, because it only changes the exponent of the share.
fn threshold(share: Share) -> u64 {
    (share.0 * WHOLE_SHARE).ceil() as u64
}

fn limit(limit: QueueLimit) -> Limit {
    match limit {
        QueueLimit::Packets(most) => Limit { unit: LIMIT_PKTS, most: most.into() },
        QueueLimit::Bytes(most) => Limit { unit: LIMIT_BYTES, most },
    }
}

fn ack_hold(hold: acks::AckHold) -> AckHold {
    let newest = u64::from(hold.kind == AckKind::Thinned);
    AckHold { time_ns: nanos(hold.time), pkts: hold.pkts.into(), share: threshold(hold.share), newest }
}

fn steps(direction: &Direction, mut value: impl FnMut(&DirectionChange) -> Option<u64>) -> Vec<TimedValue> {
    let step = |change: &DirectionChange| Some(TimedValue { at_ns: nanos(change.at), value: value(change)? });
    direction.changes.iter().filter_map(step).collect()
}

fn position_count(model: &LossModel) -> usize {
    match model {
        LossModel::Positions(trace) => trace.positions.len(),
        _ => 0,
    }
}

/// Encodes a loss model. Its positions are appended to those of other models.
fn loss(model: &LossModel, positions: &mut Vec<u64>) -> Loss {
    match (model, model.gilbert()) {
        (LossModel::Positions(trace), _) => {
            let first_position = positions.len() as u64;
            positions.extend_from_slice(&trace.positions);
            Loss { first_position, positions: trace.positions.len() as u64, ..Loss::of(layout::LOSS_POSITIONS) }
        }
        (_, Some(model)) => Loss {
            good_loss: threshold(model.good_loss),
            bad_loss: threshold(model.bad_loss),
            to_bad: threshold(model.to_bad),
            to_good: threshold(model.to_good),
            ..Loss::of(layout::LOSS_STATES)
        },
        _ => {
            let good_loss = model.independent().map_or(0, threshold);
            Loss { good_loss, ..Loss::of(layout::LOSS_INDEPENDENT) }
        }
    }
}

/// The state of a generator, as rand_pcg serialises it.
#[derive(Deserialize)]
struct Parts {
    state: u128,
    increment: u128,
}

/// In the order of `enum tccc_stream`.
fn generators(seed: u64) -> Result<[Generator; STREAMS]> {
    let mut generators = [Generator::default(); STREAMS];
    for (generator, stream) in generators.iter_mut().zip(RandomStream::VARIANTS) {
        *generator = generator_of(&stream.generator(seed)).context("read a generator's state")?;
    }
    Ok(generators)
}

fn generator_of(generator: &Pcg64) -> serde_json::Result<Generator> {
    let Parts { state, increment } = serde_json::from_str(&serde_json::to_string(generator)?)?;
    let halves = |number: u128| (number as u64, (number >> 64) as u64);
    let ((state_low, state_high), (increment_low, increment_high)) = (halves(state), halves(increment));
    Ok(Generator { state_low, state_high, increment_low, increment_high })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;
