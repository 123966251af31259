//! On-off senders: when a flow sends, and when it pauses. Pure.
//!
//! A plan has the model. [`Bursts::schedule`] draws the times from it and from the seed of a run. Every engine calls this
//! function, so all engines pause at the same times.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::exponential;
use crate::path::named::NamedValues;
use crate::plan::mix;
use host::read_with;
use host::toml_reader::Value;
use shared::sanitize::shown;
use shared::units::{ParseError, duration_text, format_duration, nanos, parse_duration, serde_as_text};

/// Shortest and longest burst and pause; of drawn ones the mean.
const LENGTHS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(86_400)];

/// Makes the draws of bursts independent of other random numbers of a run. This value must never change, because published
/// results are repeated with their seeds.
const BURST_STREAM: u64 = 0x6275_7273_7473;

/// How long a flow sends and pauses, in turn. It begins with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
#[display("{}", self.text())]
pub struct BurstSpec {
    pub on: Duration,
    pub off: Duration,
    pub distribution: Distribution,
}

/// Of the lengths of bursts, and of those of pauses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Distribution {
    /// All are alike.
    #[default]
    Fixed,
    /// Each is drawn.
    Exponential,
}

impl BurstSpec {
    fn text(&self) -> String {
        let drawn = if self.distribution == Distribution::Fixed { "" } else { ",distribution=exponential" };
        format!("on={},off={}{drawn}", format_duration(self.on), format_duration(self.off))
    }

    /// The expected number of bursts within a time.
    pub fn expected(&self, within: Duration) -> u128 {
        within.as_nanos() / (self.on + self.off).as_nanos().max(1) + 1
    }
}

impl FromStr for BurstSpec {
    type Err = ParseError;

    /// Reads `on=2s,off=1s,distribution=exponential`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<BurstSpec, String> {
    if !text.contains('=') {
        return Err("expected bursts such as on=2s,off=1s".to_owned());
    }
    let named = NamedValues::split(text, ["on", "off", "distribution"])?;
    let on = named.required("on", "on=2s", length)?;
    let off = named.required("off", "off=1s", length)?;
    Ok(BurstSpec { on, off, distribution: named.optional("distribution", distribution)?.unwrap_or_default() })
}

fn length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text)?;
    let [least, most] = LENGTHS;
    let outside = || format!("\"{text}\": outside {}..{}", format_duration(least), format_duration(most));
    (least..=most).contains(&length).then_some(length).ok_or_else(outside)
}

fn distribution(text: &str) -> Result<Distribution, String> {
    let found = Distribution::VARIANTS.iter().find(|known| <&str>::from(**known) == text);
    found.copied().ok_or_else(|| format!("\"{}\": expected fixed or exponential", shown(text)))
}

serde_as_text!(BurstSpec => ToString::to_string);
read_with!(|value: &Value<'_>| value.parsed(FromStr::from_str) => BurstSpec);

/// The bursts of one flow in one run, before they are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    spec: BurstSpec,
    /// Length of the flow.
    #[serde(with = "duration_text")]
    within: Duration,
    /// Seed of the draws.
    seed: u64,
}

impl Bursts {
    /// `flow` is the index of the flow in its cell, `seed` that of the run.
    pub fn of_flow(spec: BurstSpec, within: Duration, flow: usize, seed: u64) -> Bursts {
        Bursts { spec, within, seed: mix(seed ^ BURST_STREAM, flow as u64) }
    }

    pub fn schedule(&self) -> Schedule {
        let mut draws = Pcg64::seed_from_u64(self.seed);
        let mut drawn_ns = |mean: Duration| match self.spec.distribution {
            Distribution::Fixed => nanos(mean),
            Distribution::Exponential => ((nanos(mean) as f64 * exponential(&mut draws)).round() as u64).max(1),
        };
        let mut bursts = vec![Burst::default()];
        let mut last = Burst::default();
        while last.start_ns < nanos(self.within) {
            let (on_ns, off_ns) = (drawn_ns(self.spec.on), drawn_ns(self.spec.off));
            last = Burst { start_ns: last.start_ns + on_ns + off_ns, before_ns: last.before_ns + on_ns };
            bursts.push(last);
        }
        Schedule(bursts)
    }
}

/// Times count from the start of the flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Burst {
    pub start_ns: u64,
    /// How long the bursts before it lasted together.
    pub before_ns: u64,
}

/// The bursts of a flow, in order. The last does not start before the end of the flow. A flow without pauses has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule(Vec<Burst>);

impl Schedule {
    /// Of a flow that may have no pauses.
    pub fn of(bursts: Option<Bursts>) -> Schedule {
        bursts.map(|bursts| bursts.schedule()).unwrap_or_default()
    }

    pub fn bursts(&self) -> &[Burst] {
        &self.0
    }

    /// When the flow has sent for this long. At the end of a burst it is the start of the next.
    pub fn due(&self, sent: Duration) -> Duration {
        let sent_ns = nanos(sent);
        match self.0[..self.0.partition_point(|burst| burst.before_ns <= sent_ns)].last() {
            Some(burst) => Duration::from_nanos(burst.start_ns + (sent_ns - burst.before_ns)),
            None => sent,
        }
    }

    /// How many of `count` messages, one every `interval` of the bursts, start within a time; at least one.
    pub fn started(&self, count: u32, interval: Duration, within: Duration) -> u32 {
        if self.0.is_empty() {
            return count;
        }
        let sent: Duration = self.spans().map(|[start, end]| end.min(within).saturating_sub(start)).sum();
        let most = sent.as_nanos().div_ceil(interval.as_nanos().max(1)).max(1);
        count.min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Start and end of each burst but the last.
    pub fn spans(&self) -> impl Iterator<Item = [Duration; 2]> {
        let span = |pair: &[Burst]| {
            let start_ns = pair[0].start_ns;
            [start_ns, start_ns + (pair[1].before_ns - pair[0].before_ns)].map(Duration::from_nanos)
        };
        self.0.windows(2).map(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn drawn(text: &str, within: Duration, seed: u64) -> Schedule {
        Bursts::of_flow(text.parse().unwrap(), within, 0, seed).schedule()
    }

    #[test]
    fn flow_sends_in_turns_until_it_ends() {
        let schedule = drawn("on=20ms,off=10ms", MS(65), 1);
        let spans: Vec<[u128; 2]> = schedule.spans().map(|span| span.map(|time| time.as_millis())).collect();
        assert_eq!(spans, [[0, 20], [30, 50], [60, 80]]);
        let due: Vec<u128> = (0..8).map(|number| schedule.due(MS(8) * number).as_millis()).collect();
        assert_eq!(due, [0, 8, 16, 34, 42, 60, 68, 76]);
        assert_eq!(schedule.due(MS(20)), MS(30), "the end of a burst is the start of the next");
        assert_eq!([9, 3].map(|count| schedule.started(count, MS(8), MS(65))), [6, 3]);
        assert_eq!(Schedule::of(None).due(MS(70)), MS(70));
    }

    #[test]
    fn lengths_are_drawn_by_seed_with_their_means() {
        let hour = Duration::from_secs(3_600);
        let text = "on=200ms,off=100ms,distribution=exponential";
        let schedule = drawn(text, hour, 1);
        assert_eq!(schedule, drawn(text, hour, 1));
        assert_ne!(schedule, drawn(text, hour, 2));
        let other = Bursts::of_flow(text.parse().unwrap(), hour, 1, 1).schedule();
        assert_ne!(schedule, other, "each flow draws its own");
        let short = drawn(text, MS(60_000), 1);
        assert_eq!(
            short.bursts(),
            &schedule.bursts()[..short.bursts().len()],
            "a shorter flow has the first of the same"
        );
        let last = schedule.bursts().last().unwrap();
        let share = last.before_ns as f64 / last.start_ns as f64;
        assert!((share - 2.0 / 3.0).abs() < 0.01 && (11_500..12_500).contains(&schedule.bursts().len()), "{last:?}");
        let is_first = |pair: &[Burst]| pair[0].before_ns < pair[1].before_ns && pair[0].start_ns < pair[1].start_ns;
        assert!(schedule.bursts().windows(2).all(is_first));
    }

    #[test]
    fn bursts_are_read_printed_and_refused_by_name() {
        let bursts: BurstSpec = "off=1s, on=1500ms".parse().unwrap();
        assert_eq!((bursts.to_string().as_str(), bursts.expected(MS(5_000))), ("on=1.5s,off=1s", 3));
        for text in ["on=1.5s,off=1s", "on=1ms,off=1d,distribution=exponential"] {
            let bursts: BurstSpec = text.parse().unwrap();
            assert_eq!(bursts.to_string().parse(), Ok(bursts));
        }
        for (text, expected) in [
            ("", "expected bursts such as on=2s,off=1s"),
            ("2s", "expected bursts such as on=2s,off=1s"),
            ("exponential", "expected bursts such as on=2s,off=1s"),
            ("off=1s", "on is missing, such as on=2s"),
            ("on=2s", "off is missing, such as off=1s"),
            ("on=0s,off=1s", "on = \"0s\": outside 1ms..86400s"),
            ("on=2s,off=0s", "off = \"0s\": outside 1ms..86400s"),
            ("on=10us,off=1s", "on = \"10us\": outside 1ms..86400s"),
            ("on=2d,off=1s", "on = \"2d\": outside 1ms..86400s"),
            ("on=2,off=1s", "on = \"2\": expected a time"),
            ("on=-2s,off=1s", "on = \"-2s\": it must not be negative"),
            ("on=2s,off=", "off = \"\": expected a time"),
            ("on=2s,off=1s,on=3s", "on occurs twice"),
            ("on=2s,of=1s", "\"of\": expected one of on, off, distribution"),
            ("on=2s,off=1s,distribution=pareto", "distribution = \"pareto\": expected fixed or exponential"),
            ("on=2s,off=1s,distribution=", "distribution = \"\": expected fixed or exponential"),
            ("on=2s,off=1s,exponential", "\"exponential\": expected name=value"),
            ("on=2s;off=1s", "on = \"2s;off=1s\": expected a time"),
            ("on=50%,off=1s", "on = \"50%\": expected a time"),
            ("on=2s,off=1s,stream=1", "\"stream\": expected one of on, off, distribution"),
            ("on=1S,off=1s", "on = \"1S\": expected a time"),
        ] {
            let why = text.parse::<BurstSpec>().unwrap_err().expected;
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }
}
