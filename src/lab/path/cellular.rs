//! A synthetic trace of a cellular link. It is not a measurement, but is drawn from a process that a paper fitted to
//! measurements. Pure.
//!
//! Source: K. Winstein, A. Sivaraman, H. Balakrishnan, "Stochastic forecasts achieve high throughput and low delay over
//! cellular networks" (Sprout), NSDI 2013, section 3.1: packets are delivered by a Poisson process whose rate follows
//! Brownian motion. Once the rate is zero, it stays zero for a while.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::named::{NamedValues, parse};
use super::rate_trace::{OPPORTUNITY_BYTES, RateTrace};
use super::trace_file::NUMBERS_MAX;
use shared::sanitize::shown;
use shared::units::{BitsPerSec, format_duration, parse_duration};

/// Interval at which the rate changes, as in Sprout.
const TICK_MS: u32 = 20;
/// Noise of the rate, in means per square root of a second: Sprout's 200 packets/s over 500, the middle of its range.
const NOISE: f64 = 0.4;
/// Highest rate, in means: Sprout's 1000 packets/s over 500.
const HIGHEST: f64 = 2.0;
/// Rate of the escape from an outage, per second.
const ESCAPE: f64 = 1.0;
/// Default length.
const LENGTH: Duration = Duration::from_secs(60);
const LENGTH_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("cellular:mean={mean},seed={seed},length={}", format_duration(*length))]
pub struct Cellular {
    /// The mean rate of a trace differs from this by a few percent.
    pub mean: BitsPerSec,
    /// Equal seeds give equal traces.
    pub seed: u64,
    /// The trace repeats after this time.
    pub length: Duration,
}

impl FromStr for Cellular {
    type Err = String;

    /// Reads `mean=10mbit,seed=1` or `mean=10mbit,seed=1,length=120s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = NamedValues::split(text, ["mean", "seed", "length"])?;
        let seed = |text: &str| text.parse().map_err(|_| format!("\"{}\": expected a whole number", shown(text)));
        let [shortest, longest] = LENGTH_RANGE;
        let length = |text: &str| {
            let time = parse_duration(text)?;
            let (low, high) = (format_duration(shortest), format_duration(longest));
            (shortest..=longest).contains(&time).then_some(time).ok_or(format!("\"{text}\" is outside {low}..{high}"))
        };
        let model = Cellular {
            mean: named.required("mean", "mean=10mbit", parse)?,
            seed: named.required("seed", "seed=1", seed)?,
            length: named.optional("length", length)?.unwrap_or(LENGTH),
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

    /// Draws the trace.
    ///
    /// # Errors
    /// It has no opportunity, which is possible if only few are expected.
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
        // An outage at the end counts, although the last opportunity is before it.
        Ok(RateTrace { length_ms: ticks * TICK_MS, ..RateTrace::new(self.to_string(), times)? })
    }
}

/// The rate in every tick, in means. It is cut off at the highest rate, and stays at 0 until it escapes.
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
    // The first rate is above 0, so that the trace can be scaled.
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

    fn trace(seed: u64) -> RateTrace {
        format!("mean=12mbit,seed={seed}").parse::<Cellular>().unwrap().trace().unwrap()
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

    /// As in Sprout's process, no rate lasts long, and there are outages.
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
