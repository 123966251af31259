//! The transfers of a flow: when each starts and how large it is, at random or from a file. Pure.
//!
//! A plan has the model. [`Load::transfers`] draws the transfers from it and from the seed of a run. Every engine calls
//! this function, so all engines send the same.

mod bursts;
mod models;
mod trace;

use std::time::Duration;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

pub use self::bursts::{Burst, BurstSpec, Bursts, Distribution, Schedule};
pub use self::models::{Arrivals, Lognormal, Pareto, Poisson, Sizes, StartRate};
pub use self::trace::TransferTrace;
use crate::plan::mix;
use shared::units::{duration_text, nanos};

/// One transfer of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTransfer {
    /// After the start of the flow.
    pub start_ns: u64,
    /// Payload.
    pub bytes: u64,
}

/// The model of a flow's transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    Drawn {
        starts: Starts,
        sizes: Sizes,
    },
    /// Both are from a file.
    Trace(TransferTrace),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    Regular {
        count: u32,
        /// From the start of one transfer to the start of the next.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// A Poisson process: the gaps between the starts have an exponential distribution. The first transfer starts with
    /// the flow.
    Poisson {
        /// Of the gaps.
        #[serde(with = "duration_text")]
        mean: Duration,
        /// Flows with the same number draw the same gaps and sizes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<u32>,
    },
}

/// Makes the draws of loads independent of other random numbers of a run. This value and the next two must never change,
/// because published results are repeated with their seeds.
const LOAD_STREAM: u64 = 0x6c6f_6164;
const GAPS: u64 = 1;
const SIZES: u64 = 2;
/// Keeps the streams that a scenario names apart from those of flows.
const NAMED: u64 = 1 << 32;

impl Starts {
    /// The expected number of transfers that start within a time, at least 1.
    fn expected(&self, within: Duration) -> f64 {
        match *self {
            Starts::Regular { count, .. } => f64::from(count),
            Starts::Poisson { mean, .. } => 1.0 + within.as_secs_f64() / mean.as_secs_f64().max(1e-9),
        }
    }

    /// The starts within a time, nanoseconds.
    fn draw(&self, within: Duration, mut draws: Pcg64) -> Vec<u64> {
        match *self {
            Starts::Regular { count, interval } => regular(count, interval, within),
            Starts::Poisson { mean, .. } => {
                let next = |start: &u64| {
                    let gap_ns = (nanos(mean) as f64 * exponential(&mut draws)).round() as u64;
                    Some(start.saturating_add(gap_ns)).filter(|next| *next < nanos(within))
                };
                std::iter::successors(Some(0), next).collect()
            }
        }
    }
}

fn regular(count: u32, interval: Duration, within: Duration) -> Vec<u64> {
    let starts = (0..count).map(|number| nanos(interval.saturating_mul(number)));
    starts.take_while(|start| *start < nanos(within)).collect()
}

/// `count` transfers of one size.
pub fn alike(count: u32, interval: Duration, bytes: u64, within: Duration) -> Vec<PlannedTransfer> {
    regular(count, interval, within).into_iter().map(|start_ns| PlannedTransfer { start_ns, bytes }).collect()
}

impl Load {
    /// Whether all transfers are alike. A file may have any sizes.
    pub fn has_one_size(&self) -> bool {
        matches!(self, Load::Drawn { sizes: Sizes::Fixed(_), .. })
    }

    /// The transfers that start within a time after the flow's start, in the order of their starts.
    ///
    /// `flow` is the index of the flow in its cell, `seed` that of the run. Starts and sizes have their own generators, so
    /// flows with other sizes start alike. The logarithm, the exponential function and the power are those of the crate
    /// `libm`, so the draws are the same on every machine.
    pub fn transfers(&self, within: Duration, flow: usize, seed: u64) -> Vec<PlannedTransfer> {
        let (starts, sizes) = match self {
            Load::Drawn { starts, sizes } => (starts, sizes),
            Load::Trace(trace) => return trace.within(within).to_vec(),
        };
        let stream = match starts {
            Starts::Poisson { stream: Some(number), .. } => NAMED + u64::from(*number),
            _ => flow as u64,
        };
        let draws = |kind| Pcg64::seed_from_u64(mix(mix(seed ^ LOAD_STREAM, stream), kind));
        let mut of_sizes = draws(SIZES);
        let sized = |start_ns| PlannedTransfer { start_ns, bytes: sizes.draw(&mut of_sizes) };
        starts.draw(within, draws(GAPS)).into_iter().map(sized).collect()
    }

    /// The expected number of transfers that start within a time, at least 1.
    pub fn expected(&self, within: Duration) -> u32 {
        match self {
            Load::Drawn { starts, .. } => starts.expected(within) as u32, // saturates
            Load::Trace(trace) => trace.within(within).len().max(1) as u32,
        }
    }

    /// When the first transfer starts, after the start of the flow.
    pub fn first_start(&self) -> Duration {
        match self {
            Load::Drawn { .. } => Duration::ZERO,
            Load::Trace(trace) => {
                trace.within(Duration::MAX).first().map_or(Duration::ZERO, |one| Duration::from_nanos(one.start_ns))
            }
        }
    }

    /// The expected payload per second, bits. `None` if it is a single transfer.
    pub fn mean_bps(&self, within: Duration) -> Option<f64> {
        let per_second = |bytes: f64, seconds: f64| 8.0 * bytes / seconds.max(1e-3);
        match self {
            Load::Drawn { starts: Starts::Poisson { mean, .. }, sizes } => {
                Some(8.0 * sizes.mean() / mean.as_secs_f64().max(1e-9))
            }
            Load::Drawn { starts: Starts::Regular { count: 1, .. }, .. } => None,
            Load::Drawn { starts: Starts::Regular { interval, .. }, sizes } => {
                Some(per_second(sizes.mean(), interval.as_secs_f64()))
            }
            Load::Trace(trace) => {
                let bytes: u64 = trace.within(within).iter().map(|one| one.bytes).sum();
                Some(per_second(bytes as f64, within.as_secs_f64()))
            }
        }
    }

    /// The largest size that is possible.
    pub fn largest(&self) -> u64 {
        match self {
            Load::Drawn { sizes, .. } => sizes.largest(),
            Load::Trace(trace) => trace.within(Duration::MAX).iter().map(|one| one.bytes).max().unwrap_or(0),
        }
    }
}

/// In (0, 1].
fn uniform(draws: &mut Pcg64) -> f64 {
    ((draws.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Of mean 1.
fn exponential(draws: &mut Pcg64) -> f64 {
    -libm::log(uniform(draws))
}

/// Of mean 0 and variance 1.
///
/// Source: G. Box, M. Muller, "A note on the generation of random normal deviates", 1958.
fn normal(draws: &mut Pcg64) -> f64 {
    (2.0 * exponential(draws)).sqrt() * libm::cos(std::f64::consts::TAU * uniform(draws))
}

#[cfg(test)]
mod tests;
