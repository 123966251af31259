//! Reads a guard's limit such as `retransmitted<1.2x`, `abnormal_ends<1%` or `goodput>0.9x`.
//!
//! Policy files and the option `--guard` share this syntax. `Display` in `rule.rs` writes it.

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::rule::{Allowed, GuardLimit, GuardMetric};
use shared::suggest::nearest;
use shared::units::{BitsPerSec, ParseError};

/// Bits per second.
const GOODPUT: RangeInclusive<u64> = 1..=1_000_000_000_000;

const FORM: &str =
    "a metric, a sign and a value, such as \"retransmitted<1.2x\", \"abnormal_ends<1%\" or \"goodput>0.9x\"";
const METRIC: &str = "a metric before the sign: retransmitted, timeouts, rtt_inflation, goodput or abnormal_ends";

impl FromStr for GuardLimit {
    type Err = ParseError;

    /// Reads `METRIC<VALUE` or `METRIC>VALUE`, with or without spaces around each part.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refuse = |expected, meant| ParseError { meant, ..ParseError::new(text, expected) };
        let at = text.find(['<', '>']).ok_or_else(|| refuse(FORM, None))?;
        let (name, sign, value) = (text[..at].trim(), &text[at..=at], text[at + 1..].trim());
        let Some(metric) = GuardMetric::ALL.into_iter().find(|metric| metric.name() == name) else {
            let near = nearest(name, GuardMetric::ALL.map(GuardMetric::name));
            return Err(refuse(METRIC, near.map(|near| format!("{near}{sign}{value}"))));
        };
        let (right_sign, wrong_sign) = match metric.is_better_when_high() {
            true => (">", "the sign >: more goodput is better"),
            false => ("<", "the sign <: less of this metric is better"),
        };
        let read = allowed(metric, value);
        if sign != right_sign {
            return Err(refuse(wrong_sign, read.ok().map(|_| format!("{metric}{right_sign}{value}"))));
        }
        let refuse_value = |expected| {
            let in_percent = number(value).and_then(|_| allowed(metric, &format!("{value}%")).ok());
            refuse(expected, in_percent.map(|_| format!("{metric}{sign}{value}%")))
        };
        Ok(GuardLimit { metric, allowed: read.map_err(refuse_value)? })
    }
}

/// # Errors
/// What the metric takes as a value.
fn allowed(metric: GuardMetric, value: &str) -> Result<Allowed, &'static str> {
    let times = value.strip_suffix('x').and_then(|times| number(times.trim_end()));
    let (allowed, expected) = match (times, metric) {
        (Some(_), GuardMetric::Goodput) => (
            times.filter(|&times| times > 0.0 && times <= 1.0),
            "a relative limit above 0x and at most 1x; above 1x, equal connections would cross it",
        ),
        (Some(_), _) => (
            times.filter(|times| (1.0..=100.0).contains(times)),
            "a relative limit from 1x to 100x; below 1x, equal connections would cross it",
        ),
        (None, GuardMetric::Retransmitted | GuardMetric::AbnormalEnds) => {
            (share(value), "a value from 0% to 100%, or one relative to the unchanged connections, such as 1.2x")
        }
        (None, GuardMetric::Timeouts) => (
            number(value).filter(|&value| value > 0.0),
            "a number above 0, or a value relative to the unchanged connections, such as 1.2x",
        ),
        (None, GuardMetric::RttInflation) => (
            number(value).filter(|&value| value >= 1.0),
            "a number of at least 1, or a value relative to the unchanged connections, such as 1.2x",
        ),
        (None, GuardMetric::Goodput) => (
            value.parse().ok().filter(|BitsPerSec(bits)| GOODPUT.contains(bits)).map(|BitsPerSec(bits)| bits as f64),
            "a rate from 1bit to 1000gbit, or a value relative to the unchanged connections, such as 0.9x",
        ),
    };
    let kind = if times.is_some() { Allowed::Relative } else { Allowed::Absolute };
    allowed.map(kind).ok_or(expected)
}

/// Reads digits with at most one point: no sign, no exponent, no infinity.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// Reads a percentage as a share from 0 to 1.
///
/// The exponent moves the point before the text is rounded to a float, so that `Display` gives the same text back.
fn share(text: &str) -> Option<f64> {
    let percent = text.strip_suffix('%')?.trim_end();
    number(percent)?;
    format!("{percent}e-2").parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> GuardLimit {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn limit_reads_metric_sign_and_value_and_prints_as_it_was_written() {
        let check = |text: &str, metric, allowed| assert_eq!(read(text), GuardLimit { metric, allowed }, "{text}");
        check("retransmitted<1.2x", GuardMetric::Retransmitted, Allowed::Relative(1.2));
        check("retransmitted < 2%", GuardMetric::Retransmitted, Allowed::Absolute(0.02));
        check(" timeouts<0.5 ", GuardMetric::Timeouts, Allowed::Absolute(0.5));
        check("rtt_inflation<1x", GuardMetric::RttInflation, Allowed::Relative(1.0));
        check("rtt_inflation<3", GuardMetric::RttInflation, Allowed::Absolute(3.0));
        check("goodput > 0.9x", GuardMetric::Goodput, Allowed::Relative(0.9));
        check("goodput>1mbit", GuardMetric::Goodput, Allowed::Absolute(1e6));
        check("abnormal_ends<0%", GuardMetric::AbnormalEnds, Allowed::Absolute(0.0));
        let texts = ["retransmitted<0.07%", "abnormal_ends<7%", "abnormal_ends<100%", "retransmitted<0%"];
        for text in texts.into_iter().chain(["timeouts<0.1", "rtt_inflation<1.5x", "goodput>1234567bit"]) {
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn limit_that_makes_no_sense_is_refused_with_what_is_allowed() {
        let check = |text: &str, expected: &str, meant: Option<&str>| {
            let error = text.parse::<GuardLimit>().unwrap_err();
            assert!(error.expected.contains(expected), "{error}");
            assert_eq!((error.given.as_str(), error.meant.as_deref()), (text, meant));
        };
        check("", "a metric, a sign and a value", None);
        check("retransmitted", "a metric, a sign and a value", None);
        check("retransmited<1.2x", "retransmitted, timeouts, rtt_inflation", Some("retransmitted<1.2x"));
        check("loss<1%", "retransmitted, timeouts, rtt_inflation", None);
        check("retransmitted>1.2x", "the sign <", Some("retransmitted<1.2x"));
        check("goodput<0.9x", "the sign >", Some("goodput>0.9x"));
        check("goodput<1.9x", "the sign >", None);
        check("retransmitted<0.9x", "equal connections would cross it", None);
        check("retransmitted<101x", "from 1x to 100x", None);
        check("goodput>1.1x", "equal connections would cross it", None);
        check("goodput>0x", "above 0x", None);
        check("retransmitted<2", "from 0% to 100%", Some("retransmitted<2%"));
        check("abnormal_ends<101%", "from 0% to 100%", None);
        check("timeouts<0", "a number above 0", None);
        check("timeouts<1%", "a number above 0", None);
        check("rtt_inflation<0.5", "at least 1", None);
        check("goodput>5", "a rate from 1bit", None);
        check("goodput>0bit", "a rate from 1bit", None);
        for value in ["", "-1x", "+1.2x", "infx", "NaNx", "1e1x", "x", "1.2.3x", "=1.2x", "<2%", "1.2X"] {
            assert!(format!("retransmitted<{value}").parse::<GuardLimit>().is_err(), "{value}");
        }
        assert!(format!("timeouts<{}", "9".repeat(400)).parse::<GuardLimit>().is_err());
        GuardMetric::ALL.into_iter().for_each(|metric| assert!(METRIC.contains(metric.name()), "{metric}"));
    }

    pub(in crate::policy) fn any_limit() -> impl Strategy<Value = GuardLimit> {
        let number = 1.0..=100.0;
        let allowed = |metric, share: f64, number: f64, bits: u64, is_relative| match (metric, is_relative) {
            (GuardMetric::Goodput, true) => Allowed::Relative(share.max(f64::MIN_POSITIVE)),
            (GuardMetric::Goodput, false) => Allowed::Absolute(bits as f64),
            (GuardMetric::Retransmitted | GuardMetric::AbnormalEnds, false) => Allowed::Absolute(share),
            (_, true) => Allowed::Relative(number),
            (GuardMetric::Timeouts | GuardMetric::RttInflation, false) => Allowed::Absolute(number),
        };
        (prop::sample::select(GuardMetric::ALL.to_vec()), 0.0..=1.0, number, GOODPUT, any::<bool>()).prop_map(
            move |(metric, share, number, bits, is_relative)| {
                let allowed = allowed(metric, share, number, bits, is_relative);
                GuardLimit { metric, allowed }
            },
        )
    }

    proptest! {
        #[test]
        fn limit_reads_back_what_it_prints(limit in any_limit()) {
            prop_assert_eq!(read(&limit.to_string()), limit);
        }

        #[test]
        fn limit_of_any_text_never_panics(text in ".{0,40}") {
            let _ = text.parse::<GuardLimit>();
        }
    }
}
