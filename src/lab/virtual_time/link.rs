//! Links of a guest: their requests, and their counters and samples. Pure.
//!
//! Requests and counters go through `/proc/tccc/links`, samples of the queues through `/proc/tccc/queues`.

use anyhow::{Context, Result, ensure};

use crate::c_types::{self, Counters, LinkLimit, take, take_all};
use crate::path::LinkConfig;
use crate::path::loss::LossModel;
use crate::path::request::DirectionRequest;
use crate::path::times::{TIME_BUCKETS, delays};
use shared::failure::Failure;
use shared::model::queue::QueueSample;
use shared::model::run::{Delays, LinkCounters};

/// Largest request, bytes.
const REQUEST_BYTES_MAX: u64 = LinkLimit::TCCC_LINK_REQUEST_MAX.0 as u64;
/// Bytes of a sample of a queue in the guest.
pub const SAMPLE_BYTES: u64 = size_of::<c_types::QueueSample>() as u64;

/// # Errors
/// A field is out of range, or has more numbers than fit into a request to the guest.
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

/// # Errors
/// Those of [`check`] and [`DirectionRequest::bytes`].
pub fn request(direction: &DirectionRequest<'_>) -> Result<Vec<u8>> {
    check(direction.config)?;
    direction.bytes()
}

/// What a guest counts of one direction.
#[derive(Debug, Clone)]
pub struct GuestCounters {
    pub counters: LinkCounters,
    /// How long the packets of a flow waited in the queue, each with the number of the flow. Empty without a queue.
    pub flow_waits: Vec<(u64, Delays)>,
}

/// Decodes the counters of all directions, in the order of their requests.
///
/// # Errors
/// Too few bytes.
pub fn counters(mut bytes: &[u8]) -> Result<Vec<GuestCounters>> {
    let mut links = Vec::new();
    while !bytes.is_empty() {
        links.push(next_counters(&mut bytes).context("the guest's counters of links end too early")?);
    }
    Ok(links)
}

fn next_counters(bytes: &mut &[u8]) -> Option<GuestCounters> {
    let counters: Counters = take(bytes)?;
    let lost_positions = take_all(bytes, counters.first_lost_count)?;
    let counters = counters.with(lost_positions, &take_all(bytes, TIME_BUCKETS as u64)?);
    let flows: u64 = take(bytes)?;
    let mut flow_waits = Vec::new();
    for _ in 0..flows {
        let (number, counts): (u64, Vec<u32>) = (take(bytes)?, take_all(bytes, TIME_BUCKETS as u64)?);
        let counts: Vec<u64> = counts.into_iter().map(u64::from).collect();
        flow_waits.extend(delays(&counts).map(|waits| (number, waits)));
    }
    Some(GuestCounters { counters, flow_waits })
}

/// Decodes the samples of the queues of all directions, in the order of their requests. `ends` are the two nodes of
/// each direction.
///
/// # Errors
/// Too few or too many bytes.
pub fn queues<'a>(mut bytes: &[u8], ends: impl IntoIterator<Item = [&'a str; 2]>) -> Result<Vec<QueueSample>> {
    let mut samples = Vec::new();
    for [from, to] in ends {
        let count: Option<u64> = take(&mut bytes);
        let states = count.and_then(|count| take_all(&mut bytes, count));
        let states: Vec<c_types::QueueSample> = states.context("the guest's samples of queues end too early")?;
        samples.extend(states.into_iter().map(|state| QueueSample::of([from, to], state.into())));
    }
    ensure!(bytes.is_empty(), "the guest has samples of more queues than were requested");
    Ok(samples)
}

fn position_count(model: &LossModel) -> usize {
    match model {
        LossModel::Positions(trace) => trace.positions.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
