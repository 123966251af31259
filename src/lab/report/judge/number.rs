//! Numbers as text: one scale per column, grouped thousands, no meaningless digits.

/// Text of a missing value.
pub const NOTHING: &str = "-";

/// Decimals of times in seconds: hundredths in columns of 10 s and more, else thousandths. Columns below 0.1 s get as many
/// as give the longest time three significant digits.
fn second_decimals(longest: f64) -> usize {
    match longest {
        longest if longest >= 10.0 || longest <= 0.0 => 2,
        longest if longest >= 0.1 => 3,
        longest => significant_decimals(longest).min(MICROSECONDS),
    }
}

/// Most decimals of a time in seconds. Nothing is measured more finely.
const MICROSECONDS: usize = 6;

/// The format of all values of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Fixed decimals in one unit.
    Fixed {
        unit: &'static str,
        /// Base units per shown unit.
        divisor: f64,
        decimals: usize,
    },
    /// Three significant digits.
    Ratio,
}

impl Scale {
    pub fn of(unit: &str, values: impl IntoIterator<Item = f64>) -> Scale {
        let largest = values.into_iter().filter(|v| v.is_finite()).map(f64::abs).fold(0.0, f64::max);
        let (unit, divisor) = match unit {
            "ratio" => return Scale::Ratio,
            "bit/s" if largest >= 1e9 => ("Gbit/s", 1e9),
            "bit/s" if largest >= 1e6 => ("Mbit/s", 1e6),
            "bit/s" if largest >= 1e3 => ("kbit/s", 1e3),
            "bit/s" => ("bit/s", 1.0),
            "us" if largest >= 1e6 => ("s", 1e6),
            "us" if largest >= 1e3 => ("ms", 1e3),
            "us" => ("µs", 1.0),
            "s" => ("s", 1.0),
            _ => ("pkts", 1.0),
        };
        let decimals = match largest / divisor {
            shown if shown >= 1000.0 => 0,
            shown if shown >= 100.0 => usize::from(divisor > 1.0),
            shown if shown >= 10.0 => 1 + usize::from(divisor > 1.0),
            _ => 2 + usize::from(divisor > 1.0),
        };
        let decimals = if unit == "s" { decimals.max(second_decimals(largest / divisor)) } else { decimals };
        Scale::Fixed { unit, divisor, decimals }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Scale::Fixed { unit, .. } => unit,
            Scale::Ratio => "ratio",
        }
    }

    /// Without the unit, for a column whose heading has it.
    pub fn show(self, value: f64) -> String {
        match self {
            Scale::Fixed { divisor, decimals, .. } => grouped(value / divisor, decimals),
            Scale::Ratio => significant(value),
        }
    }

    /// Both ends of an interval, without the unit.
    pub fn between(self, [low, high]: [f64; 2]) -> String {
        format!("{} to {}", self.show(low), self.show(high))
    }

    /// Without the unit: `1.24 ± 0.10`.
    pub fn plus_minus(self, value: f64, margin: f64) -> String {
        match self {
            Scale::Fixed { .. } => format!("{} ± {}", self.show(value), self.show(margin)),
            Scale::Ratio => format!("{} ± {}", significant(value), significant_at(margin, value)),
        }
    }

    /// With the unit, for a sentence. Ratios have none.
    pub fn with_unit(self, value: f64) -> String {
        self.in_sentence(self.show(value))
    }

    /// Adds the unit to a shown number or range, unless it is a ratio.
    pub fn in_sentence(self, shown: String) -> String {
        match self {
            Scale::Fixed { unit, .. } => format!("{shown} {unit}"),
            Scale::Ratio => shown,
        }
    }
}

/// Fixed decimals and grouped thousands: `24 762`, `9.52`.
pub fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = sign.to_owned();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && index < whole && (whole - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Drops trailing zeros after the decimal point.
pub fn short(number: String) -> String {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.').to_owned() } else { number }
}

/// Three significant digits: `1.24`, `0.00103`, `12.3`, `1 240`.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return grouped(value, 0);
    }
    // Rounding may carry into another digit: 0.9996 is 1.00.
    let carried = format!("{value:.*}", significant_decimals(value)).parse().unwrap_or(value);
    grouped(value, significant_decimals(if carried == 0.0 { value } else { carried }))
}

/// Decimals for three significant digits of a number other than 0.
fn significant_decimals(value: f64) -> usize {
    usize::try_from(2 - value.abs().log10().floor() as i32).unwrap_or(0).min(12)
}

/// A margin with as many decimals as its number: `0.10` beside `1.24`.
fn significant_at(margin: f64, value: f64) -> String {
    let shown = significant(value);
    let decimals = shown.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    grouped(margin, decimals)
}

/// A tolerance as a percentage: `10 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", short(format!("{:.1}", share * 100.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(grouped(24_762.4, 0), "24 762");
        assert_eq!(grouped(1_234_567.891, 2), "1 234 567.89");
        assert_eq!(grouped(-123.0, 0), "-123");
        assert_eq!(significant(1.2399), "1.24");
        assert_eq!(significant(0.001_034), "0.00103");
        assert_eq!(significant(12.34), "12.3");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(0.9996), "1.00");
        assert_eq!(percent(0.1), "10 %");
        assert_eq!(percent(0.025), "2.5 %");
    }

    #[test]
    fn scale_fits_the_largest_value() {
        let rate = Scale::of("bit/s", [9_520_000.0, 120_000.0]);
        assert_eq!(
            (rate.unit(), rate.show(9_520_000.0), rate.show(120_000.0)),
            ("Mbit/s", "9.520".into(), "0.120".into())
        );
        let count = Scale::of("pkts", [24_762.0, 13.0]);
        assert_eq!((count.with_unit(24_762.0), count.show(13.0)), ("24 762 pkts".into(), "13".into()));
        let seconds = |value: f64, longest: f64| Scale::of("s", [value, longest]).with_unit(value);
        for (value, longest, shown) in [
            (12.345, 315.2, "12.35 s"), // savings of 0.28 s must show
            (0.1697, 5.216, "0.170 s"),
            (0.0169, 0.0, "0.0169 s"),
            (0.000_012_3, 0.0, "0.000012 s"),
            (0.0, 0.0, "0.00 s"),
            (0.0, 12.0, "0.00 s"),
        ] {
            assert_eq!(seconds(value, longest), shown);
        }
        assert_eq!(Scale::of("us", [40_120.0]).with_unit(40_120.0), "40.12 ms");
        assert_eq!(Scale::of("ratio", [0.01]).with_unit(0.01), "0.0100");
    }

    proptest! {
        #[test]
        fn every_number_shows(value in any::<f64>()) {
            prop_assert!(!significant(value).is_empty() && !grouped(value, 2).is_empty());
            prop_assert!(!Scale::of("bit/s", [value]).with_unit(value).is_empty());
        }
    }
}
