//! Quantities with units: parsed from users' text, and printed for people.
//!
//! Layer 0: no I/O. Times are [`std::time::Duration`].

pub mod prefix;

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeBounds;
use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sanitize::shown;

/// Nanoseconds, up to the largest number of 64 bits.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A value that is not the expected quantity, or that is outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{given}\": {expected}{}", .meant.as_ref().map_or(String::new(), |meant| format!("; did you mean \"{meant}\"?")))]
pub struct ParseError {
    /// The text as given, shortened for a message.
    pub given: String,
    /// What is allowed, or why the value is not: "expected a rate such as 10mbit".
    pub expected: Cow<'static, str>,
    /// What was probably meant.
    pub meant: Option<String>,
}

impl From<ParseError> for String {
    fn from(error: ParseError) -> String {
        error.to_string()
    }
}

impl ParseError {
    /// `expected` is a phrase such as "a rate such as 10mbit".
    pub fn new(given: &str, expected: &'static str) -> ParseError {
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let is_negative = given.trim().strip_prefix('-').is_some_and(is_number);
        let sign = if is_negative { "it must not be negative: " } else { "" };
        ParseError::because(given, format!("{sign}expected {expected}"))
    }

    /// `why` is the last clause of the message.
    pub fn because(given: impl fmt::Display, why: impl Into<Cow<'static, str>>) -> ParseError {
        ParseError { given: shown(&given.to_string()), expected: why.into(), meant: None }
    }

    /// Suggests the unit for one in the wrong case, or for a rate such as `10Mbps`.
    fn of_units(given: &str, expected: &'static str, units: &[&str]) -> ParseError {
        let error = ParseError::new(given, expected);
        let Ok((_, unit)) = number_and_unit(given, expected) else { return error };
        let lower = unit.to_lowercase();
        let as_bits = ["bps", "bit/s", "b/s"].iter().find_map(|end| Some(format!("{}bit", lower.strip_suffix(end)?)));
        let is_meant = |known: &&&str| {
            **known != unit && (known.eq_ignore_ascii_case(unit) || Some(**known) == as_bits.as_deref())
        };
        let number = given.trim().trim_end_matches(unit).trim_end();
        let meant = units.iter().find(is_meant).map(|known| format!("{number}{known}"));
        ParseError { meant, ..error }
    }
}

/// Reads a quantity and multiplies it by the scale of its unit.
fn scaled(text: &str, expected: &'static str, units: &[(&'static str, f64)]) -> Result<f64, ParseError> {
    let (number, unit) = number_and_unit(text, expected)?;
    let scale = units.iter().find(|(known, _)| *known == unit).map(|(_, scale)| scale);
    let refuse = || ParseError::of_units(text, expected, &units.iter().map(|(known, _)| *known).collect::<Vec<_>>());
    Ok(number * scale.ok_or_else(refuse)?)
}

/// Checks the value of an option against its range; `error` says what is expected.
///
/// # Errors
/// Those of `read`; the value is outside the range.
pub fn within<T: PartialOrd>(
    read: Result<T, ParseError>,
    range: impl RangeBounds<T>,
    error: &str,
) -> Result<T, String> {
    let value = read?;
    range.contains(&value).then_some(value).ok_or_else(|| error.to_owned())
}

/// Makes a parser for an option whose time must be in a range.
pub fn time_within([min, max]: [&'static str; 2]) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let [from, to] = [min, max].map(|end| parse_duration(end).expect("the range is two times"));
        within(parse_duration(text), from..=to, &format!("expected {min} to {max}"))
    }
}

/// Splits "12.5mbit" into 12.5 and "mbit".
fn number_and_unit<'a>(text: &'a str, expected: &'static str) -> Result<(f64, &'a str), ParseError> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    Ok((number.parse().map_err(|_| ParseError::new(text, expected))?, unit.trim()))
}

/// A rate of the link layer or of payload; the field's name says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerSec(pub u64);

impl FromStr for BitsPerSec {
    type Err = ParseError;

    /// Reads `10mbit`, `1.544mbit`, `500kbit`, `1gbit`, `9600bit` (decimal multiples, as tc does).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "a rate with bit, kbit, mbit or gbit, such as 10mbit";
        let units = [("bit", 1.0), ("bps", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        Ok(BitsPerSec(scaled(text, EXPECTED, &units)?.round() as u64))
    }
}

impl BitsPerSec {
    /// Text that parses back to exactly this number: `10mbit` if that does, else in bits.
    pub fn exact(self) -> String {
        let short = self.to_string();
        if short.parse() == Ok(self) { short } else { format!("{}bit", self.0) }
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        let (value, unit) = match bits {
            b if b >= 1e9 => (b / 1e9, "gbit"),
            b if b >= 1e6 => (b / 1e6, "mbit"),
            b if b >= 1e3 => (b / 1e3, "kbit"),
            b => (b, "bit"),
        };
        write!(f, "{}{unit}", without_zeros(&format!("{value:.3}")))
    }
}

/// Cuts the zeros at the end of a fraction.
pub fn without_zeros(text: &str) -> &str {
    text.trim_end_matches('0').trim_end_matches('.')
}

/// A share between 0 and 1: a loss probability, a tolerance.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = ParseError;

    /// Reads `1%`, `0.1%` or a plain fraction such as `0.001`. Refuses a plain 1, which could mean 1% or 100%.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "a share from 0 to 1, such as 0.001 or 0.1%";
        let refuse = || ParseError::new(text, EXPECTED);
        let (number, unit) = number_and_unit(text, EXPECTED)?;
        let share = match unit {
            "" if number == 1.0 => return Err(ParseError::new(text, "a unit: write 1% or 100%")),
            "" => number,
            "%" => number / 100.0,
            _ => return Err(refuse()),
        };
        if (0.0..=1.0).contains(&share) { Ok(Share(share)) } else { Err(refuse()) }
    }
}

impl Share {
    /// Text that parses back to exactly this number: `1%` if that does, else a plain fraction.
    pub fn exact(self) -> String {
        let short = self.to_string();
        if short.parse() == Ok(self) { short } else { self.0.to_string() }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", without_zeros(&format!("{:.4}", self.0 * 100.0)))
    }
}

/// The size of a drop-tail queue in the unit in which it was given.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
pub enum QueueSize {
    /// Of any size.
    #[display("{_0}pkts")]
    Packets(u32),
    /// On the wire.
    #[display("{_0}B")]
    Bytes(u64),
    /// Bandwidth-delay products: rate times both one-way delays of this link.
    #[display("{_0}bdp")]
    Bdp(f64),
}

/// The transmit queue length of a Linux device.
impl Default for QueueSize {
    fn default() -> Self {
        QueueSize::Packets(1000)
    }
}

impl FromStr for QueueSize {
    type Err = ParseError;

    /// Reads `50pkts`, `64kB`, `1500B` or `1.5bdp`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str =
            "a number with pkts, B, kB, MB or bdp, above 0 and at most 4294967295pkts, such as 50pkts";
        let (number, unit) = number_and_unit(text, EXPECTED)?;
        match unit {
            "pkts" | "pkt" if (1.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0 => {
                Ok(QueueSize::Packets(number as u32))
            }
            "B" if number >= 1.0 => Ok(QueueSize::Bytes(number as u64)),
            "kB" if number > 0.0 => Ok(QueueSize::Bytes((number * 1e3) as u64)),
            "MB" if number > 0.0 => Ok(QueueSize::Bytes((number * 1e6) as u64)),
            "bdp" if number > 0.0 => Ok(QueueSize::Bdp(number)),
            _ => Err(ParseError::of_units(text, EXPECTED, &["pkts", "B", "kB", "MB", "bdp"])),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("{_0}B")]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = ParseError;

    /// Reads `1500B`, `64kB`, `10MB` or `1GB` (decimal multiples), `4KiB`, `4MiB` or `1GiB` (binary ones).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "a number with B, kB, MB, GB, KiB, MiB or GiB, such as 10MB";
        let [kib, mib, gib] = [10, 20, 30].map(|power| f64::from(1 << power));
        let decimal = [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
        let units = [&decimal[..], &[("KiB", kib), ("MiB", mib), ("GiB", gib)]].concat();
        Ok(Bytes(scaled(text, EXPECTED, &units)?.round() as u64))
    }
}

impl Bytes {
    /// Whole binary multiples as `4MiB` or `64KiB`, anything else in bytes.
    pub fn binary(self) -> String {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        whole.map_or(self.to_string(), |(shift, unit)| format!("{}{unit}", self.0 >> shift))
    }
}

/// Reads a duration with its unit, as every option and scenario field writes it.
///
/// # Errors
/// No number; no unit or an unknown one; a negative or too large time.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    const EXPECTED: &str = "a time with us, ms, s, m, h or d, such as 100ms";
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let seconds = scaled(text, EXPECTED, &units)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| ParseError::new(text, EXPECTED))
}

/// Text that [`parse_duration`] reads back: `40ms`, `1.5s`, `250us`.
pub fn format_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (digits, unit) = match nanos {
        n if n >= 1_000_000_000 => (9, "s"),
        n if n >= 1_000_000 => (6, "ms"),
        _ => (3, "us"),
    };
    let one = 10_u128.pow(digits);
    let text = format!("{}.{:0width$}", nanos / one, nanos % one, width = digits as usize);
    format!("{}{unit}", without_zeros(&text))
}

/// Serialises a quantity as text: the given function writes it, `FromStr` reads it.
#[macro_export]
macro_rules! serde_as_text {
    ($($name:ty => $text:expr),*) => {$(
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$text(self))
            }
        }
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = $crate::units::TextOrNumber::deserialize(deserializer)?.to_string();
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}
pub use serde_as_text;
serde_as_text!(QueueSize => ToString::to_string, Bytes => ToString::to_string, prefix::Prefix => ToString::to_string);
// Their `Display` rounds.
serde_as_text!(BitsPerSec => |rate: &BitsPerSec| rate.exact(), Share => |share: &Share| share.exact());

/// Accepts `0.001` as well as `"0.1%"` in TOML, so that a sweep may list plain numbers.
#[derive(derive_more::Display, Deserialize)]
#[serde(untagged, expecting = "a quantity with its unit")]
pub enum TextOrNumber {
    Text(String),
    Whole(i64),
    Real(f64),
}

/// Serde of a [`Duration`] as text with its unit: `#[serde(with = "units::duration_text")]`.
pub mod duration_text {
    use super::*;

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*time))
    }

    /// # Errors
    /// No time with a unit; those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = TextOrNumber::deserialize(deserializer)?;
        parse_duration(&text.to_string()).map_err(serde::de::Error::custom)
    }
}

/// Serde of a [`Duration`] that may be missing: `#[serde(default, with = "units::some_duration_text")]`.
pub mod some_duration_text {
    use super::*;

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(format_duration).serialize(serializer)
    }

    /// # Errors
    /// No time with a unit; those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<TextOrNumber>::deserialize(deserializer)?;
        text.map(|text| parse_duration(&text.to_string()).map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_survive_print_and_parse() {
        for text in ["10mbit", "1.544mbit", "500kbit", "1gbit"] {
            assert_eq!(text.parse::<BitsPerSec>().unwrap().to_string(), text);
        }
        for text in ["1%", "0.1%", "0%", "100%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for share in [0.0, 1.0, 0.07, 1.234_567_8e-7, 1.0 - f64::EPSILON, f64::MIN_POSITIVE] {
            assert_eq!(Share(share).exact().parse(), Ok(Share(share)));
        }
        for rate in [0, 999, 1_234_567, 8_074_800, 6_042_600, 10_000_000, 1_000_000_001, u64::from(u32::MAX), 1 << 50] {
            let text = serde_json::to_string(&BitsPerSec(rate)).unwrap();
            assert_eq!(serde_json::from_str::<BitsPerSec>(&text).unwrap(), BitsPerSec(rate), "{text}");
        }
        assert_eq!(BitsPerSec(10_000_000).exact(), "10mbit");
        assert_eq!(BitsPerSec(999_999_999).exact(), "999999999bit"); // short it is 1gbit
        for text in ["50pkts", "1500B", "1.5bdp"] {
            assert_eq!(text.parse::<QueueSize>().unwrap().to_string(), text);
        }
        for text in ["4MiB", "64KiB", "1GiB", "1500B", "0B"] {
            assert_eq!(text.parse::<Bytes>().unwrap().binary(), text);
        }
        for text in ["40ms", "1.5s", "250us", "0us", "0.5us", "1.234567s", "12.0005ms", "86400s"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn refusals_name_what_is_expected_and_what_was_probably_meant() {
        fn check<T: FromStr<Err = ParseError>>(text: &str, said: &str, meant: Option<&str>) {
            let error = text.parse::<T>().err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(error.to_string().starts_with(&format!("\"{text}\": {said}")), "{error}");
            assert_eq!(error.meant.as_deref(), meant, "{error}");
        }
        let (rate, queue, share, negative) =
            ("expected a rate", "expected a number with pkts", "expected a share", "it must not be negative: expected");
        check::<BitsPerSec>("10", rate, None);
        check::<BitsPerSec>("5MB", rate, None);
        check::<BitsPerSec>("5MBIT", rate, Some("5mbit"));
        check::<BitsPerSec>("5 Mbps", rate, Some("5mbit"));
        check::<BitsPerSec>("1.5Gbit/s", rate, Some("1.5gbit"));
        check::<QueueSize>("2xbdp", queue, None);
        check::<QueueSize>("0pkts", queue, None);
        check::<QueueSize>("99999999999999999999pkts", queue, None);
        check::<QueueSize>("30KB", queue, Some("30kB"));
        check::<QueueSize>("30PKTS", queue, Some("30pkts"));
        check::<Bytes>("30KB", "expected a number with B", Some("30kB"));
        check::<Share>("1.5", share, None);
        check::<Share>("1", "expected a unit: write 1% or 100%", None);
        check::<Share>("-1%", negative, None);
        check::<Share>("-ms", share, None);
        assert_eq!(("0".parse(), "0.001".parse()), (Ok(Share(0.0)), Ok(Share(0.001))));
        for (text, said) in [
            ("100", "\"100\": expected a time with us, ms, s, m, h or d, such as 100ms"),
            ("20MS", "\"20MS\": expected a time with us, ms, s, m, h or d, such as 100ms; did you mean \"20ms\"?"),
            ("20 MS", "\"20 MS\": expected a time with us, ms, s, m, h or d, such as 100ms; did you mean \"20ms\"?"),
            ("-10ms", "\"-10ms\": it must not be negative: expected a time with us, ms, s, m, h or d, such as 100ms"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), said);
        }
    }
}
