//! A synthetic trace of a cellular link: no measurement of any network, but the process that one paper fitted to such
//! measurements, drawn from a seed. Pure.
//!
//! Source: K. Winstein, A. Sivaraman, H. Balakrishnan, "Stochastic forecasts achieve high throughput and low delay over
//! cellular networks" (Sprout), NSDI 2013, section 3.1: packets are delivered by a Poisson process whose rate moves by
//! Brownian motion, and which, once at zero, stays there for a while.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::named::{Named, needed};
use super::rate_trace::{OPPORTUNITY_BYTES, RateTrace};
use super::trace_file::NUMBERS_MAX;
use crate::plain::shown;
use crate::units::{BitsPerSec, format_duration, parse_duration};

/// Ticks of the rate, as Sprout has them.
const TICK_MS: u32 = 20;
/// Noise of the rate, in means per square root of a second: Sprout's 200 packets/s, over the middle of its range of 0
/// to 1000.
const NOISE: f64 = 0.4;
/// Highest rate, in means: the end of that range.
const HIGHEST: f64 = 2.0;
/// Rate of the escape from an outage, per second.
const ESCAPE: f64 = 1.0;
/// Length where none is given.
const LENGTH: Duration = Duration::from_secs(60);
/// Shortest and longest length.
const LENGTH_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
const NAMES: [&str; 3] = ["mean", "seed", "length"];

/// What a generated trace is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("cellular:mean={mean},seed={seed},length={}", format_duration(*length))]
pub struct Cellular {
    /// Rate that it has on average; chance leaves the trace within a few parts in a hundred of it.
    pub mean: BitsPerSec,
    /// Equal seeds give equal traces.
    pub seed: u64,
    /// Length after which it repeats.
    pub length: Duration,
}

impl FromStr for Cellular {
    type Err = String;

    /// Reads `mean=10mbit,seed=1` or `mean=10mbit,seed=1,length=120s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Named::split(text, NAMES)?;
        let seed = |text: &str| text.parse().map_err(|_| format!("\"{}\": expected a whole number", shown(text)));
        let [shortest, longest] = LENGTH_RANGE;
        let length = |text: &str| {
            let time = parse_duration(text).map_err(|error| error.to_string())?;
            let (low, high) = (format_duration(shortest), format_duration(longest));
            (shortest..=longest).contains(&time).then_some(time).ok_or(format!("\"{text}\" is outside {low}..{high}"))
        };
        let model = Cellular {
            mean: needed(named.value("mean")?, "mean", "mean=10mbit")?,
            seed: needed(named.with("seed", seed)?, "seed", "seed=1")?,
            length: named.with("length", length)?.unwrap_or(LENGTH),
        };
        let opportunities = model.packets_per_second() * model.length.as_secs_f64();
        let most = NUMBERS_MAX / 2;
        if !(1.0..=most as f64).contains(&opportunities) {
            return Err(format!("expected 1 to {most} packets of {OPPORTUNITY_BYTES} bytes in its length"));
        }
        Ok(model)
    }
}

impl Cellular {
    fn packets_per_second(&self) -> f64 {
        self.mean.0 as f64 / f64::from(8 * OPPORTUNITY_BYTES)
    }

    /// The trace of this seed.
    ///
    /// Errors: chance gave no opportunity at all, which only few expected ones can.
    pub fn trace(&self) -> Result<RateTrace, String> {
        let mut draws = Pcg64::seed_from_u64(self.seed);
        let ticks = (self.length.as_millis() as u32).div_ceil(TICK_MS);
        let rates = brownian(&mut draws, ticks);
        let total: f64 = rates.iter().sum();
        let packets_per_ms = self.packets_per_second() / 1e3 * f64::from(ticks) / total;
        let mut times = Vec::new();
        let (mut passed, mut next) = (0.0, exponential(&mut draws));
        for (tick, rate) in rates.iter().enumerate() {
            for ms in 0..TICK_MS {
                passed += rate * packets_per_ms;
                while passed >= next {
                    times.push(tick as u32 * TICK_MS + ms + 1);
                    next += exponential(&mut draws);
                }
            }
        }
        // An outage at its end is part of it, although the last opportunity comes before.
        Ok(RateTrace { length_ms: ticks * TICK_MS, ..RateTrace::new(self.to_string(), times)? })
    }
}

/// The rate in every tick, in means: reflected nowhere, held at its highest, and stuck at zero until it escapes.
fn brownian(draws: &mut Pcg64, ticks: u32) -> Vec<f64> {
    let tick = f64::from(TICK_MS) / 1e3;
    let stays = (-ESCAPE * tick).exp();
    let mut rate: f64 = 1.0;
    let step = |_| {
        if rate > 0.0 || uniform(draws) >= stays {
            rate = (rate + NOISE * tick.sqrt() * normal(draws)).clamp(0.0, HIGHEST);
        }
        rate
    };
    let mut rates: Vec<f64> = (0..ticks).map(step).collect();
    // The first rate is above 0 whatever is drawn, so that there is something to scale.
    rates[0] = rates[0].max(f64::MIN_POSITIVE);
    rates
}

/// In (0, 1].
fn uniform(draws: &mut Pcg64) -> f64 {
    ((draws.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

fn exponential(draws: &mut Pcg64) -> f64 {
    -uniform(draws).ln()
}

/// G. Box, M. Muller, "A note on the generation of random normal deviates", 1958.
fn normal(draws: &mut Pcg64) -> f64 {
    (2.0 * exponential(draws)).sqrt() * (std::f64::consts::TAU * uniform(draws)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cellular(text: &str) -> Cellular {
        text.parse().unwrap()
    }

    fn trace(seed: u64) -> RateTrace {
        cellular(&format!("mean=12mbit,seed={seed}")).trace().unwrap()
    }

    /// Opportunities in every second.
    fn per_second(trace: &RateTrace) -> Vec<f64> {
        let mut counts = vec![0.0; trace.length_ms.div_ceil(1000) as usize];
        trace.times_ms.iter().for_each(|at| counts[((at - 1) / 1000) as usize] += 1.0);
        counts
    }

    #[test]
    fn equal_seeds_give_equal_traces_of_the_asked_mean() {
        assert_eq!(trace(3).sha256, trace(3).sha256);
        assert_ne!(trace(3).sha256, trace(4).sha256);
        for seed in 1..=10 {
            let trace = trace(seed);
            // 60 000 are expected: 1 % is 2.4 standard deviations.
            assert!((59_000..=61_000).contains(&trace.opportunities), "{} of seed {seed}", trace.opportunities);
            assert_eq!(trace.length_ms, 60_000, "an outage at the end counts");
            assert!((11_800_000..=12_200_000).contains(&trace.mean().0), "{}", trace.mean());
        }
    }

    /// Sprout's process: no rate for long, and outages.
    #[test]
    fn rate_wanders_and_some_traces_have_outages() {
        let mut outages = 0;
        for seed in 1..=10 {
            let counts = per_second(&trace(seed));
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
            let variation = variance.sqrt() / mean;
            assert!((0.1..2.5).contains(&variation), "seed {seed}: {variation}");
            outages += trace(seed).times_ms.windows(2).filter(|pair| pair[1] - pair[0] > 500).count();
        }
        assert!((3..200).contains(&outages), "{outages} outages of half a second in ten minutes");
    }

    /// Within a tick the rate is steady, so its packets are a Poisson process: the variance of a count is its mean.
    #[test]
    fn packets_of_a_tick_are_as_irregular_as_a_poisson_process() {
        let mut draws = Pcg64::seed_from_u64(5);
        let (rate, gaps) = (0.37, 20_000);
        let total: f64 = (0..gaps).map(|_| exponential(&mut draws) / rate).sum();
        let mean = total / f64::from(gaps);
        // An exponential's standard deviation is its mean.
        assert!((mean * rate - 1.0).abs() < 3.5 / f64::from(gaps).sqrt(), "{mean}");
        let normals: Vec<f64> = (0..gaps).map(|_| normal(&mut draws)).collect();
        let variance = normals.iter().map(|value| value * value).sum::<f64>() / f64::from(gaps);
        assert!((variance - 1.0).abs() < 3.5 * (2.0 / f64::from(gaps)).sqrt(), "{variance}");
    }

    #[test]
    fn mistakes_name_the_value_and_what_is_allowed() {
        let refused = |text: &str| text.parse::<Cellular>().unwrap_err();
        assert_eq!(refused("seed=1"), "mean is missing, such as mean=10mbit");
        assert_eq!(refused("mean=1mbit"), "seed is missing, such as seed=1");
        assert_eq!(refused("mean=1mbit,seed=x"), "seed = \"x\": expected a whole number");
        assert_eq!(refused("mean=1mbit,seed=1,length=2h"), "length = \"2h\" is outside 1s..3600s");
        assert_eq!(refused("mean=9gbit,seed=1"), "expected 1 to 2000000 packets of 1500 bytes in its length");
        assert!(refused("mean=100bit,seed=1").starts_with("expected 1 to"));
    }
}
