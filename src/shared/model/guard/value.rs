//! Limits on an arm's own value over a window of time. They need no other arm to compare with.

use derive_more::Display;

use super::estimate::{Effect, Sums};
use super::look::{Limit, needed};

/// Fewest connections of a window.
const CONNECTIONS_MIN: f64 = 100.0;
/// Fewest events of a value that is beyond its limit.
const EVENTS_MIN: f64 = 10.0;
/// Looks of 30 days, which is the longest step, at one every 10 s.
///
/// Longer windows overlap: in the same time, there are fewer independent ones than looks.
const LOOKS: f64 = 259_200.0;

/// What a window tells about a metric of one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowSums {
    /// Connections that began or sent something in the window. A connection counts once a minute.
    pub connections: f64,
    pub sums: Sums,
}

/// How much a metric varies by chance.
///
/// The variance of ln(value) is burst / events + spread² / connections. The constants are large enough for the hosts in
/// `tests/host/guard_statistics/values.rs`: lossy and clean paths, lognormal and Pareto sizes, a few and many peers.
/// The largest connections decide: one of 50,000 segments on a lossy path has as many retransmissions as 500 others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueNoise {
    pub effect: Effect,
    /// Events that occur together. `None` if the numerator counts no events.
    pub burst: Option<f64>,
    /// Standard deviation of one connection's contribution over the mean contribution.
    pub spread: f64,
    /// Smallest denominator of a value that says something without events.
    pub denominator_min: f64,
    /// What the denominator counts.
    pub unit: &'static str,
}

impl WindowSums {
    /// `None` without data.
    pub fn value(&self, effect: Effect) -> Option<f64> {
        let ratio = self.sums.ratio();
        let value = if effect == Effect::Difference { ratio.exp() } else { ratio };
        value.is_finite().then_some(value)
    }
}

impl ValueNoise {
    pub const RETRANSMITTED: Self =
        Self { effect: Effect::LogRatio, burst: Some(10.0), spread: 16.0, denominator_min: 1000.0, unit: "segments" };
    pub const TIMEOUTS: Self = Self {
        effect: Effect::LogRatio,
        burst: Some(4.0),
        spread: 0.0,
        denominator_min: CONNECTIONS_MIN,
        unit: "connections",
    };
    pub const RTT_INFLATION: Self = Self {
        effect: Effect::Difference,
        burst: None,
        spread: 1.0,
        denominator_min: CONNECTIONS_MIN,
        unit: "looks at an RTT",
    };
    pub const GOODPUT: Self = Self {
        effect: Effect::LogRatio,
        burst: None,
        spread: 10.0,
        denominator_min: 10.0,
        unit: "seconds with data to send",
    };
    pub const ABNORMAL_ENDS: Self = Self {
        effect: Effect::LogRatio,
        burst: Some(2.0),
        spread: 0.0,
        denominator_min: CONNECTIONS_MIN,
        unit: "ended connections",
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Display)]
pub enum ValueVerdict {
    /// The value is beyond the limit by more than chance.
    #[display("beyond the limit")]
    Beyond,
    #[display("within the limit")]
    Within,
    #[display("the value is beyond the limit by no more than chance may explain")]
    Chance,
    #[display("{seen:.0} {unit} of the {least:.0} that a value needs")]
    TooFew { seen: f64, least: f64, unit: &'static str },
}

/// Judges the value of one window by a limit.
///
/// The value is beyond the limit if ln(value / limit) exceeds √(2 ln(looks / level)) standard errors, where
/// level = [`super::ALPHA`] / decisions. By Chernoff's bound for a normal quantity, a window has a chance of at most
/// level / looks to be so far above a true value that equals the limit. All windows of 30 days together then have at
/// most the chance `level`. The margin falls with the data: a window of a minute finds an outage at once, and a window
/// of hours finds a small harm.
///
/// Shape: `decisions` as in [`super::look`].
pub fn judge_value(window: &WindowSums, noise: &ValueNoise, limit: Limit, decisions: usize) -> ValueVerdict {
    let WindowSums { connections, sums } = *window;
    if connections < CONNECTIONS_MIN {
        return ValueVerdict::TooFew { seen: connections, least: CONNECTIONS_MIN, unit: "connections" };
    }
    let has_events = noise.burst.is_some() && sums.numerator >= EVENTS_MIN;
    if !has_events && sums.denominator < noise.denominator_min {
        return ValueVerdict::TooFew { seen: sums.denominator, least: noise.denominator_min, unit: noise.unit };
    }
    let theta = match noise.effect {
        Effect::LogRatio => sums.ratio().ln(),
        Effect::Difference => sums.ratio(),
    };
    let excess = limit.excess(theta);
    if excess <= 0.0 {
        return ValueVerdict::Within;
    }
    let variance = noise.burst.map_or(0.0, |burst| burst / sums.numerator) + noise.spread.powi(2) / connections;
    let is_beyond = excess.powi(2) >= 2.0 * variance * (LOOKS * needed(decisions)).ln();
    if is_beyond && (has_events || noise.burst.is_none()) { ValueVerdict::Beyond } else { ValueVerdict::Chance }
}
