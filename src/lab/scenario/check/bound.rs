//! The bounds of conditions, and what the fields of a private state are worth.

use std::borrow::Cow;

use host::read_with;
use host::toml_reader::Value;
use shared::units::ParseError;

use super::quantity::{Quantity, QuantityOf, Unit};

/// What a plain number is multiplied by: units, as scenarios write them, in base units.
const UNITS: [(&str, Unit, f64); 10] = [
    ("pkts", Unit::Packets, 1.0),
    ("us", Unit::Time, 1.0),
    ("ms", Unit::Time, 1e3),
    ("s", Unit::Time, 1e6),
    ("bit", Unit::BitRate, 1.0),
    ("kbit", Unit::BitRate, 1e3),
    ("mbit", Unit::BitRate, 1e6),
    ("gbit", Unit::BitRate, 1e9),
    ("pps", Unit::PacketRate, 1.0),
    ("", Unit::Plain, 1.0),
];

/// A limit of a quantity: a number, times what it refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub factor: f64,
    pub of: BoundOf,
    /// As it is written.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BoundOf {
    /// The number itself, in base units.
    One(Unit),
    /// The bandwidth-delay product of the flow's path, in full packets.
    Bdp,
    /// The round trip of the flow's path without queues.
    RoundTrip,
    /// The rate of the flow's bottleneck, a hundredth for each percent.
    Rate,
    /// The quantity itself just before the window began.
    Before,
    /// Another quantity at the same moment.
    Other(Quantity),
}

/// Splits `-2.5bdp` into -2.5 and `bdp`.
fn number_and_rest(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_number = |(index, c): (usize, char)| c.is_ascii_digit() || c == '.' || index == 0 && c == '-';
    let end = text.char_indices().find(|place| !is_number(*place)).map_or(text.len(), |(index, _)| index);
    let (number, rest) = text.split_at(end);
    Some((number.parse().ok()?, rest.trim()))
}

/// The unit that differs only in its case.
fn meant(unit: &str) -> Option<&'static str> {
    let known = UNITS.iter().map(|(name, ..)| *name).chain(["bdp", "rtt", "before"]);
    known.into_iter().find(|known| known.eq_ignore_ascii_case(unit))
}

impl Bound {
    fn parse(text: &str) -> Result<Bound, ParseError> {
        const EXPECTED: &str = "a number, alone or with a unit, `bdp`, `rtt`, `%`, `before` or another quantity, such \
                                as 2bdp";
        let (number, rest) = number_and_rest(text).ok_or_else(|| ParseError::new(text, EXPECTED))?;
        let (factor, of) = match rest {
            "bdp" => (number, BoundOf::Bdp),
            "rtt" => (number, BoundOf::RoundTrip),
            "%" => (number / 100.0, BoundOf::Rate),
            "before" => (number, BoundOf::Before),
            _ => match UNITS.iter().find(|(name, ..)| *name == rest) {
                Some((_, unit, scale)) => (number * scale, BoundOf::One(*unit)),
                None => {
                    let other = Quantity::find(rest).filter(|other| other.unit() != Unit::Word);
                    let refuse = || ParseError {
                        meant: meant(rest).map(|unit| format!("{number}{unit}")),
                        ..ParseError::because(text, format!("expected {EXPECTED}"))
                    };
                    (number, BoundOf::Other(other.ok_or_else(refuse)?))
                }
            },
        };
        Ok(Bound { factor, of, text: text.trim().to_owned() })
    }

    /// Why a quantity in this unit cannot have the bound. `None`: it can.
    pub fn misfit(&self, unit: Unit) -> Option<Cow<'static, str>> {
        let allowed = match unit {
            Unit::Packets => "a number of packets, such as 50, 50pkts or 2bdp",
            Unit::Time => "a time, such as 20ms or 1.5rtt",
            Unit::BitRate => "a rate, such as 10mbit or 98%",
            Unit::PacketRate => "a number of packets per second, such as 800, 800pps or 98%",
            Unit::Plain => "a number, because the field has no unit; `unit` gives it one",
            Unit::Word => "`is` or `is_not`, because its values are words",
        };
        let fits = match (&self.of, unit) {
            (_, Unit::Word) => false,
            (BoundOf::Before, _) => true,
            (BoundOf::One(Unit::Plain), Unit::Packets | Unit::PacketRate | Unit::Plain) => true,
            (BoundOf::One(given), _) => *given == unit,
            (BoundOf::Bdp, _) => unit == Unit::Packets,
            (BoundOf::RoundTrip, _) => unit == Unit::Time,
            (BoundOf::Rate, _) => matches!(unit, Unit::BitRate | Unit::PacketRate),
            (BoundOf::Other(other), _) => match other.of {
                // The unit of the condition counts for both.
                QuantityOf::State { .. } => true,
                _ => other.unit() == unit,
            },
        };
        (!fits).then(|| format!("expected {allowed}").into())
    }

    /// Whether it depends on the path of the flow.
    pub fn is_of_path(&self) -> bool {
        matches!(self.of, BoundOf::Bdp | BoundOf::RoundTrip | BoundOf::Rate)
    }
}

/// What 1 of a private field is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldUnit {
    pub scale: f64,
    pub unit: Unit,
}

impl FieldUnit {
    fn parse(text: &str) -> Result<FieldUnit, ParseError> {
        const EXPECTED: &str = "pkts, us, ms, s, bit, kbit, mbit, gbit or pps, after a number or a fraction if it is \
                                not 1, such as 1/256 or 0.001pps";
        let refuse = || ParseError::new(text, EXPECTED);
        let (number, rest) = number_and_rest(text).unwrap_or((1.0, text.trim()));
        let (divisor, rest) = match rest.strip_prefix('/') {
            Some(rest) => number_and_rest(rest).ok_or_else(refuse)?,
            None => (1.0, rest),
        };
        let (_, unit, scale) = UNITS.iter().find(|(name, ..)| *name == rest).ok_or_else(refuse)?;
        let scale = number / divisor * scale;
        let is_one = text.trim().is_empty() || !scale.is_finite() || scale <= 0.0;
        if is_one { Err(refuse()) } else { Ok(FieldUnit { scale, unit: *unit }) }
    }
}

read_with!(|value: &Value<'_>| value.parsed(Bound::parse) => Bound);
read_with!(|value: &Value<'_>| value.parsed(FieldUnit::parse) => FieldUnit);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_a_number_of_something_that_fits_its_quantity() {
        let all = [Unit::Packets, Unit::Time, Unit::BitRate, Unit::PacketRate, Unit::Plain];
        for (text, factor, fits) in [
            ("50", 50.0, vec![Unit::Packets, Unit::PacketRate, Unit::Plain]),
            ("-1.5", -1.5, vec![Unit::Packets, Unit::PacketRate, Unit::Plain]),
            ("2bdp", 2.0, vec![Unit::Packets]),
            ("2 bdp", 2.0, vec![Unit::Packets]),
            ("98 %", 0.98, vec![Unit::BitRate, Unit::PacketRate]),
            ("20ms", 20e3, vec![Unit::Time]),
            ("1.5rtt", 1.5, vec![Unit::Time]),
            ("10mbit", 10e6, vec![Unit::BitRate]),
            ("0.7 before", 0.7, all.to_vec()),
            ("0.7 cwnd_pkts", 0.7, vec![Unit::Packets]),
            ("1 state.bw", 1.0, all.to_vec()),
        ] {
            let bound = Bound::parse(text).unwrap();
            assert!((bound.factor - factor).abs() < 1e-9, "{bound:?}");
            assert_eq!(
                all.into_iter().filter(|unit| bound.misfit(*unit).is_none()).collect::<Vec<_>>(),
                fits,
                "{text}"
            );
            assert!(bound.misfit(Unit::Word).is_some());
        }
        for text in ["", "bdp", "2xbdp", "1 phase", "1 state.", "1 state.a[x]", "1 ca_state", "two"] {
            assert!(Bound::parse(text).is_err(), "{text}");
        }
        assert_eq!(Bound::parse("2 BDP").unwrap_err().meant.as_deref(), Some("2bdp"));
    }

    #[test]
    fn unit_of_a_field_is_a_number_a_fraction_or_a_name() {
        for (text, scale, unit) in [
            ("1/256", 1.0 / 256.0, Unit::Plain),
            ("pkts", 1.0, Unit::Packets),
            ("ms", 1e3, Unit::Time),
            ("0.001pps", 1e-3, Unit::PacketRate),
            ("1/16 pps", 1.0 / 16.0, Unit::PacketRate),
            ("8bit", 8.0, Unit::BitRate),
        ] {
            assert_eq!(FieldUnit::parse(text).ok(), Some(FieldUnit { scale, unit }), "{text}");
        }
        for text in ["", "1/0", "0", "-1", "1/", "parsec"] {
            assert!(FieldUnit::parse(text).is_err(), "{text}");
        }
    }
}
