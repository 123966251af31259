//! Short numbers with units.

use std::time::Duration;

/// Three significant digits with the unit of the largest fitting scale: `12.3M`.
fn scaled(value: f64, scales: &[(f64, &str)]) -> String {
    // A value that rounds up to the next thousand gets that unit.
    let fits = |(scale, _): &&(f64, &str)| value >= scale * 0.9995;
    let (scale, unit) = scales.iter().find(fits).unwrap_or(&scales[scales.len() - 1]);
    let value = value / scale;
    let decimals = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{unit}")
}

/// Bits per second: `12.3Mbit`.
pub fn rate(bps: f64) -> String {
    if bps < 1.0 {
        return "0bit".to_owned();
    }
    scaled(bps, &[(1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit"), (1.0, "bit")])
}

/// Microseconds: `40.2ms`.
pub fn micros(us: f64) -> String {
    scaled(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// `85.0ns`.
pub fn nanos(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

/// A share: `1.20%`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        0.0 => "0%".to_owned(),
        v if v < 0.01 => "<0.01%".to_owned(),
        v if v < 9.995 => format!("{v:.2}%"),
        v => format!("{v:.1}%"),
    }
}

/// `9999`, `12.3k`.
pub fn count(number: f64) -> String {
    if number < 9999.5 {
        format!("{number:.0}")
    } else {
        scaled(number, &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")])
    }
}

/// Nanoseconds of an age: `3h12m`, `4m05s`, `7.2s`.
pub fn age(ns: u64) -> String {
    let time = Duration::from_nanos(ns);
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `12,345`.
pub fn grouped(number: u64) -> String {
    let mut text = number.to_string();
    for at in (1..text.len()).rev().filter(|at| (text.len() - at).is_multiple_of(3)).collect::<Vec<_>>() {
        text.insert(at, ',');
    }
    text
}

/// Bars of eight heights for values from 0 to the largest; blank for a missing value.
pub fn sparkline(values: &[Option<f64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = values.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: f64| {
        let level = if top > 0.0 { (value / top * 7.0).round() } else { 0.0 };
        BARS[(level.max(0.0) as usize).min(7)]
    };
    values.iter().map(|value| value.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_their_unit() {
        for (shown, expected) in [
            (rate(0.0), "0bit"),
            (rate(999.6), "1.00kbit"),
            (rate(12_345_678.0), "12.3Mbit"),
            (rate(9.87e9), "9.87Gbit"),
            (micros(950.0), "950us"),
            (micros(40_200.0), "40.2ms"),
            (micros(1_250_000.0), "1.25s"),
            (nanos(85.04), "85.0ns"),
            (percent(0.0), "0%"),
            (percent(0.00001), "<0.01%"),
            (percent(0.0123), "1.23%"),
            (percent(0.5), "50.0%"),
            (count(9999.0), "9999"),
            (count(12_345.0), "12.3k"),
            (age(7_200_000_000), "7.2s"),
            (age(245_000_000_000), "4m05s"),
            (age(11_520_000_000_000), "3h12m"),
            (grouped(0), "0"),
            (grouped(123_456), "123,456"),
            (grouped(1_234), "1,234"),
            (sparkline(&[Some(0.0), Some(3.5), None, Some(7.0)]), "▁▅ █"),
            (sparkline(&[Some(0.0), Some(0.0)]), "▁▁"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
