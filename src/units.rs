//! Quantities with their unit: parsed from what people write, printed as people read.
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

use crate::plain::shown;

/// A value that does not read as the quantity it should be, or that is outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The text as given, shortened for a message.
    pub given: String,
    /// What is allowed, or why the value is not: "expected a rate such as 10mbit".
    pub expected: Cow<'static, str>,
    /// What was probably meant.
    pub meant: Option<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\": {}", self.given, self.expected)?;
        self.meant.as_ref().map_or(Ok(()), |meant| write!(f, "; did you mean \"{meant}\"?"))
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for String {
    fn from(error: ParseError) -> String {
        error.to_string()
    }
}

impl ParseError {
    /// A value that is not what is expected, a phrase such as "a rate such as 10mbit".
    pub fn new(given: &str, expected: &'static str) -> ParseError {
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let is_negative = given.trim().strip_prefix('-').is_some_and(is_number);
        let sign = if is_negative { "it must not be negative: " } else { "" };
        ParseError::because(given, format!("{sign}expected {expected}"))
    }

    /// A value that is refused for a reason, which is the last clause of the message.
    pub fn because(given: impl fmt::Display, why: impl Into<Cow<'static, str>>) -> ParseError {
        ParseError { given: shown(&given.to_string()), expected: why.into(), meant: None }
    }

    /// A quantity of one of these units; one in other letters, or a rate as `10Mbps`, was probably meant as that unit.
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

/// Reads a quantity of one of these units, and how many of the smallest it is.
fn scaled(text: &str, expected: &'static str, units: &[(&'static str, f64)]) -> Result<f64, ParseError> {
    let (number, unit) = number_and_unit(text, expected)?;
    let scale = units.iter().find(|(known, _)| *known == unit).map(|(_, scale)| scale);
    let refuse = || ParseError::of_units(text, expected, &units.iter().map(|(known, _)| *known).collect::<Vec<_>>());
    Ok(number * scale.ok_or_else(refuse)?)
}

/// Checks a value of an option against its range.
///
/// Errors: it does not read; otherwise what is expected.
pub fn within<T>(read: Result<T, ParseError>, range: impl RangeBounds<T>, expected: &str) -> Result<T, String>
where
    T: PartialOrd,
{
    let value = read?;
    range.contains(&value).then_some(value).ok_or_else(|| expected.to_owned())
}

/// Splits "12.5mbit" into 12.5 and "mbit".
fn number_and_unit<'a>(text: &'a str, expected: &'static str) -> Result<(f64, &'a str), ParseError> {
    let text = text.trim();
    let refuse = || ParseError::new(text, expected);
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| refuse())?;
    Ok((number, unit.trim()))
}

/// A rate in bits per second, link-layer or payload as the name of the field says.
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
    /// Writes the rate so that it reads back as exactly this number: `10mbit` where that does, else in bits.
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
        let text = format!("{value:.3}");
        write!(f, "{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A share between 0 and 1: a loss probability, a tolerance.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = ParseError;

    /// Reads `1%`, `0.1%` or a plain fraction such as `0.001`; a plain 1 could mean either end and is refused.
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
    /// Writes the share so that it reads back as exactly this number: `1%` where that does, else a plain fraction.
    pub fn exact(self) -> String {
        let short = self.to_string();
        if short.parse() == Ok(self) { short } else { self.0.to_string() }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.4}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The size of a drop-tail queue in the unit it was asked in.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
pub enum QueueSize {
    /// Packets of any size.
    #[display("{_0}pkts")]
    Packets(u32),
    /// Bytes on the wire.
    #[display("{_0}B")]
    Bytes(u64),
    /// Multiples of the path's bandwidth-delay product (rate times both one-way delays of this link).
    #[display("{_0}bdp")]
    Bdp(f64),
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
    /// Writes whole binary multiples as people write buffer sizes: `4MiB`, `64KiB`; anything else in bytes.
    pub fn binary(self) -> String {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        whole.map_or(self.to_string(), |(shift, unit)| format!("{}{unit}", self.0 >> shift))
    }
}

/// Reads a duration with its unit, as every option and scenario field writes it.
///
/// Errors: no unit, an unknown unit, or no number.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    const EXPECTED: &str = "a time with us, ms, s, m, h or d, such as 100ms";
    let refuse = || ParseError::of_units(text, EXPECTED, &["us", "ms", "s", "m", "h", "d"]);
    let (number, unit) = number_and_unit(text, EXPECTED)?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(refuse()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| refuse())
}

/// Writes a duration so that [`parse_duration`] reads it back: `40ms`, `1.5s`, `250us`.
pub fn format_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (digits, unit) = match nanos {
        n if n >= 1_000_000_000 => (9, "s"),
        n if n >= 1_000_000 => (6, "ms"),
        _ => (3, "us"),
    };
    let one = 10_u128.pow(digits);
    let text = format!("{}.{:0width$}", nanos / one, nanos % one, width = digits as usize);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A quantity is text in files and records: the given function writes it, `FromStr` reads it.
macro_rules! serde_as_text {
    ($($name:ty => $text:expr),*) => {$(
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$text(self))
            }
        }
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = $crate::units::TextOrNumber::deserialize(deserializer)?;
                text.0.parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use serde_as_text;
serde_as_text!(QueueSize => ToString::to_string, Bytes => ToString::to_string, prefix::Prefix => ToString::to_string);
// Exactly, where the text of these is rounded for people.
serde_as_text!(BitsPerSec => |rate: &BitsPerSec| rate.exact(), Share => |share: &Share| share.exact());

/// Accepts `0.001` as well as `"0.1%"` in TOML, so that a sweep may list plain numbers.
pub(crate) struct TextOrNumber(pub(crate) String);

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl serde::de::Visitor<'_> for Visit {
            type Value = TextOrNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity with its unit")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(text.to_owned()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

/// Serde of a [`Duration`] as text with its unit: `#[serde(with = "units::duration_text")]`.
pub mod duration_text {
    use super::*;

    /// Writes `40ms`.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*time))
    }

    /// Reads `40ms`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = TextOrNumber::deserialize(deserializer)?;
        parse_duration(&text.0).map_err(serde::de::Error::custom)
    }
}

/// Serde of a [`Duration`] that may be missing: `#[serde(default, with = "units::some_duration_text")]`.
pub mod some_duration_text {
    use super::*;

    /// Writes `40ms`, or null.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(format_duration).serialize(serializer)
    }

    /// Reads `40ms`, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<TextOrNumber>::deserialize(deserializer)?;
        text.map(|text| parse_duration(&text.0).map_err(serde::de::Error::custom)).transpose()
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
    fn quantities_without_unit_are_refused() {
        assert!("10".parse::<BitsPerSec>().is_err());
        assert!("2xbdp".parse::<QueueSize>().is_err());
        assert!("0pkts".parse::<QueueSize>().is_err());
        assert!("1.5".parse::<Share>().is_err());
        assert!("-1%".parse::<Share>().is_err());
        assert_eq!("1".parse::<Share>().unwrap_err().to_string(), "\"1\": expected a unit: write 1% or 100%");
        assert_eq!(("0".parse(), "0.001".parse()), (Ok(Share(0.0)), Ok(Share(0.001))));
        assert!("99999999999999999999pkts".parse::<QueueSize>().is_err());
        assert!(parse_duration("100").is_err());
    }

    #[test]
    fn unit_in_other_letters_is_refused_with_the_one_that_was_meant() {
        let check = |error: ParseError, meant: Option<&str>| assert_eq!(error.meant.as_deref(), meant, "{error}");
        check("5MBIT".parse::<BitsPerSec>().unwrap_err(), Some("5mbit"));
        check("5 Mbps".parse::<BitsPerSec>().unwrap_err(), Some("5mbit"));
        check("1.5Gbit/s".parse::<BitsPerSec>().unwrap_err(), Some("1.5gbit"));
        check("5MB".parse::<BitsPerSec>().unwrap_err(), None);
        check("30KB".parse::<QueueSize>().unwrap_err(), Some("30kB"));
        check("30PKTS".parse::<QueueSize>().unwrap_err(), Some("30pkts"));
        check("0pkts".parse::<QueueSize>().unwrap_err(), None);
        check("30KB".parse::<Bytes>().unwrap_err(), Some("30kB"));
        check(parse_duration("20 MS").unwrap_err(), Some("20ms"));
        check(parse_duration("20").unwrap_err(), None);
        let text = parse_duration("20MS").unwrap_err().to_string();
        assert!(text.ends_with("such as 100ms; did you mean \"20ms\"?"), "{text}");
    }

    #[test]
    fn negative_quantities_are_refused_as_such() {
        let text = parse_duration("-10ms").unwrap_err().to_string();
        assert!(text.starts_with("\"-10ms\": it must not be negative: expected a time"), "{text}");
        let text = "-1%".parse::<Share>().unwrap_err().to_string();
        assert!(text.starts_with("\"-1%\": it must not be negative: expected a share"), "{text}");
        assert!("-ms".parse::<Share>().unwrap_err().to_string().starts_with("\"-ms\": expected"));
    }
}
