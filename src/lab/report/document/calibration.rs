//! Describes the calibration of empty paths.

use crate::report::judge::cell::each_once;
use crate::report::judge::number::{Scale, significant};
use shared::model::run::Calibration;

/// Up to this many paths have a line each. More are summarised in one line.
const PATHS_SHOWN: usize = 4;

/// One line per path. Many paths share one line with their deviations. Only paths outside their range, or without
/// a deviation in percent, then have their own.
pub fn lines(calibrations: &[Calibration]) -> Vec<String> {
    if calibrations.is_empty() {
        return vec!["none recorded".to_owned()];
    }
    let mut paths: Vec<Vec<&Calibration>> = Vec::new();
    for calibration in calibrations {
        let is_of = |path: &Vec<&Calibration>| {
            path[0].quantity.at == calibration.quantity.at
                && path.iter().all(|other| other.quantity != calibration.quantity)
        };
        match paths.last_mut().filter(|path| is_of(path)) {
            Some(path) => path.push(calibration),
            None => paths.push(vec![calibration]),
        }
    }
    let (count, mut lines) = (paths.len(), Vec::new());
    if count > PATHS_SHOWN {
        lines.push(format!("{count} paths: {}", deviations(calibrations)));
        let has_no_percentage = |one: &Calibration| one.unit != "ratio" && one.asked == 0.0 && one.measured != 0.0;
        paths.retain(|path| path.iter().any(|one| !one.within || has_no_percentage(one)));
    }
    let line = |path: Vec<&Calibration>| path.into_iter().map(calibrated).collect::<Vec<_>>().join("; ");
    lines.extend(paths.into_iter().map(line));
    lines
}

fn calibrated(calibration: &Calibration) -> String {
    let scale = Scale::of(&calibration.unit, [calibration.asked, calibration.measured]);
    let outside = if calibration.within { "" } else { ", OUTSIDE its range" };
    let (measured, asked) = (scale.with_unit(calibration.measured), scale.with_unit(calibration.asked));
    format!("{} {measured} (requested {asked}{outside})", calibration.quantity)
}

/// Deviations over all paths: `rtt +0.10 to +0.90 % off the requested value, loss as requested`.
fn deviations(calibrations: &[Calibration]) -> String {
    let kinds = each_once(calibrations.iter().map(|one| one.quantity.kind.as_str()));
    let off = |name: &str| {
        let off = calibrations.iter().filter(|one| one.quantity.kind == name && one.measured != one.asked);
        let (shares, others): (Vec<_>, Vec<_>) = off.partition(|one| one.unit == "ratio");
        let most = shares.iter().map(|one| (one.measured - one.asked).abs()).fold(0.0, f64::max);
        let percents = others.iter().filter(|one| one.asked != 0.0).map(|one| 100.0 * (one.measured / one.asked - 1.0));
        let (low, high) = percents.fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
        match (shares.is_empty(), low > high) {
            (false, _) => format!("{name} at most {} off the requested value", significant(most)),
            (true, false) => format!("{name} {low:+.2} to {high:+.2} % off the requested value"),
            (true, true) => format!("{name} as requested"),
        }
    };
    kinds.into_iter().map(off).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(quantity: &str, unit: &str, asked: f64, measured: f64) -> Calibration {
        Calibration {
            quantity: quantity.into(),
            unit: unit.into(),
            asked,
            measured,
            within: (measured - asked).abs() <= 0.05 * asked.max(0.02),
            ..Calibration::default()
        }
    }

    #[test]
    fn few_paths_have_a_line_each() {
        assert_eq!(lines(&[]), ["none recorded"]);
        let both =
            [one("s-r rtt at delay = 1ms", "us", 2000.0, 2020.0), one("s-r rtt at delay = 2ms", "us", 4000.0, 4000.0)];
        let each = [
            "s-r rtt at delay = 1ms 2.020 ms (requested 2.000 ms)",
            "s-r rtt at delay = 2ms 4.000 ms (requested 4.000 ms)",
        ];
        assert_eq!(lines(&both), each);
        let of_one = [one("s-r rtt", "us", 2000.0, 2020.0), one("r-s rtt", "us", 2000.0, 2000.0)];
        assert_eq!(lines(&of_one), ["s-r rtt 2.020 ms (requested 2.000 ms); r-s rtt 2.000 ms (requested 2.000 ms)"]);
    }

    /// Once fourteen paths filled a page before the first result.
    #[test]
    fn many_paths_have_one_line_and_those_outside_their_own() {
        let path = |n: u32, rtt: f64, loss: f64| {
            let at = |name: &str| format!("s-r {name} at delay = {n}ms");
            [one(&at("rtt"), "us", 1000.0, rtt), one(&at("loss"), "ratio", 0.01, loss)]
        };
        let mut all: Vec<Calibration> = (0..5).flat_map(|n| path(n, 1001.0 + f64::from(n), 0.01)).collect();
        assert_eq!(lines(&all), ["5 paths: rtt +0.10 to +0.50 % off the requested value, loss as requested"]);
        all.extend(path(5, 1500.0, 0.01));
        all.extend(path(6, 990.0, 0.0095));
        let lines = lines(&all);
        assert_eq!(
            lines[0],
            "7 paths: rtt -1.00 to +50.00 % off the requested value, loss at most 0.000500 off the requested value"
        );
        assert!(lines[1].contains("delay = 5ms 1.500 ms (requested 1.000 ms, OUTSIDE its range)"), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }
}
