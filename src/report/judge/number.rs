//! Numbers as people read them: one scale a column, thousands apart, no more digits than mean something.

/// Shown where there is no value.
pub const NOTHING: &str = "-";

/// Times in seconds differ by hundredths, however long the longest of the column is; shorter ones, as those of
/// milliseconds are, by as much as gives the longest three significant digits, and at least thousandths.
fn second_decimals(longest: f64) -> usize {
    match longest {
        longest if longest >= 10.0 || longest <= 0.0 => 2,
        longest if longest >= 0.1 => 3,
        longest => significant_decimals(longest).min(MICROSECONDS),
    }
}

/// Decimals of a time in seconds beyond which nothing is measured.
const MICROSECONDS: usize = 6;

/// How all values of one metric are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Divided, with a fixed number of decimals, in the named unit.
    Fixed {
        unit: &'static str,
        /// Base units per shown unit.
        divisor: f64,
        decimals: usize,
    },
    /// Ratios: three significant digits each.
    Ratio,
}

impl Scale {
    /// The scale in which the largest of the values reads best.
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

    /// Unit for a heading.
    pub fn unit(self) -> &'static str {
        match self {
            Scale::Fixed { unit, .. } => unit,
            Scale::Ratio => "ratio",
        }
    }

    /// The number without its unit, for a column whose heading has it.
    pub fn show(self, value: f64) -> String {
        match self {
            Scale::Fixed { divisor, decimals, .. } => grouped(value / divisor, decimals),
            Scale::Ratio => significant(value),
        }
    }

    /// The number without trailing zeros, for an axis.
    pub fn show_short(self, value: f64) -> String {
        short(self.show(value))
    }

    /// A number and its margin without unit: `1.24 ± 0.10`.
    pub fn plus_minus(self, value: f64, margin: f64) -> String {
        match self {
            Scale::Fixed { .. } => format!("{} ± {}", self.show(value), self.show(margin)),
            Scale::Ratio => format!("{} ± {}", significant(value), significant_at(margin, value)),
        }
    }

    /// A number and its margin with unit, for a sentence.
    pub fn range(self, value: f64, margin: f64) -> String {
        match self {
            Scale::Fixed { unit, .. } => format!("{} {unit}", self.plus_minus(value, margin)),
            Scale::Ratio => self.plus_minus(value, margin),
        }
    }

    /// The number with its unit, for a sentence.
    pub fn with_unit(self, value: f64) -> String {
        match self {
            Scale::Fixed { unit, .. } => format!("{} {unit}", self.show(value)),
            Scale::Ratio => self.show(value),
        }
    }
}

/// Fixed decimals, thousands apart: `24 762`, `9.52`.
pub fn grouped(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = format!("{value:.decimals$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = text.split_once('.').map_or((text, ""), |(whole, fraction)| (whole, fraction));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

/// A number without trailing zeros after its point.
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

/// Decimals that show three significant digits of a number that is not 0.
fn significant_decimals(value: f64) -> usize {
    usize::try_from(2 - value.abs().log10().floor() as i32).unwrap_or(0).min(12)
}

/// A margin with the decimals of the number it belongs to: `0.10` beside `1.24`.
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
        assert_eq!(
            Scale::of("s", [12.345, 315.2]).with_unit(12.345),
            "12.35 s",
            "or 0.28 s saved of it would not show"
        );
        let short = Scale::of("s", [0.1697, 5.216]);
        assert_eq!([0.1697, 5.216].map(|value| short.show(value)), ["0.170", "5.216"], "0.17 was two digits");
        assert_eq!(
            Scale::of("s", [12.0, 0.0]).plus_minus(12.0, 0.0),
            "12.00 ± 0.00",
            "hundredths in tables of 10 s and more"
        );
        assert_eq!(
            [0.0169, 0.000_012_3, 0.0].map(|value| Scale::of("s", [value]).show(value)),
            ["0.0169", "0.000012", "0.00"]
        );
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
