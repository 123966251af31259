//! Charts independent of their size: axes with ticks, and shapes in the units of the data.

use strum::IntoStaticStr;

use crate::report::judge::number;

/// Approximate number of steps on an axis.
const TICKS: f64 = 5.0;
/// A round step is used if it is at least this fraction of the step that would give [`TICKS`].
const NEAR: f64 = 0.75;

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Text above the chart, and the series that gives its colour.
    pub heading: Option<(String, Option<usize>)>,
    pub x: Axis,
    pub y: Axis,
    /// Shape: from bottom to top.
    pub shapes: Vec<ChartShape>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub title: String,
    pub ends: [f64; 2],
    pub ticks: Vec<(f64, String)>,
    pub log: bool,
}

/// A drawn shape. A pointer that rests on it shows its `title`.
#[derive(Debug, Clone, PartialEq)]
pub enum ChartShape {
    /// Shape: points sorted by x.
    Line {
        series: usize,
        points: Vec<(f64, f64)>,
    },
    Sign {
        sign: Sign,
        series: usize,
        at: (f64, f64),
        title: String,
    },
    Interval {
        series: usize,
        x: f64,
        ends: [f64; 2],
    },
    /// A rectangle; infinite ends reach to the edges of the chart.
    Area {
        area: Area,
        series: usize,
        x: [f64; 2],
        y: [f64; 2],
        title: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A measured value: the mark of its series.
    Measured,
    /// A value of another engine: the same mark, hollow.
    Rerun,
    /// A published value: a cross.
    Published,
    /// A loss on a line: a small cross.
    Loss,
}

/// The class of a rectangle in the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Area {
    /// An expected range.
    Range,
    Bar,
    /// Invisible; shows values under the pointer.
    Span,
}

/// Arrangement of the charts of a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChartLayout {
    /// Charts in a row.
    pub abreast: usize,
    pub height: f64,
    /// Whether the charts are stacked over the same x axis, which is then labelled once.
    pub stacked: bool,
}

impl Axis {
    /// A numeric axis with round ticks. A linear axis includes 0. Logarithmic only if all values are above 0.
    pub fn numbers(title: String, [low, high]: [f64; 2], log: bool, show: &dyn Fn(f64) -> String) -> Axis {
        if log && low > 0.0 {
            let ends = [low / 1.15, high * 1.15];
            return Axis { title, ends, ticks: labelled(decades(ends), show), log: true };
        }
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        Axis { title, ends: [low, high], ticks: labelled(steps(low, high), show), log: false }
    }

    /// A categorical axis. Names are at 0, 1, 2 and so on.
    pub fn names(title: String, names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect();
        Axis { title, ends: [-0.5, names.len() as f64 - 0.5], ticks, log: false }
    }

    /// Position of a value on the axis, from 0 to 1. Values beyond the ends lie at the ends.
    pub fn share(&self, value: f64) -> f64 {
        let [low, high] = self.ends;
        let share = match self.log {
            true => (value.max(low) / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        share.clamp(0.0, 1.0)
    }
}

fn labelled(values: Vec<f64>, show: &dyn Fn(f64) -> String) -> Vec<(f64, String)> {
    values.into_iter().map(|value| (value, show(value))).collect()
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= NEAR * rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..=(high / step * (1.0 + 1e-9)).floor() as i64).map(|index| index as f64 * step).collect()
}

/// Powers of ten; if there are few, also their multiples by 2 and 5.
fn decades([low, high]: [f64; 2]) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let inside = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let tens = inside(&[1.0]);
    if tens.len() >= 3 { tens } else { inside(&[1.0, 2.0, 5.0]) }
}

/// A tick label of an axis without a scale of its own.
pub fn plain(value: f64) -> String {
    number::short(number::significant(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_where_people_expect_them() {
        let axis = |ends, log| Axis::numbers(String::new(), ends, log, &plain);
        assert_eq!(ticks(&axis([0.0, 100.0], false)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(&axis([3.0, 7.3], false)), ["0", "2", "4", "6"]);
        assert_eq!(ticks(&axis([0.0, 0.0], false)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(ticks(&axis([0.001, 1.0], true)), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(ticks(&axis([10.0, 60.0], true)), ["10", "20", "50"]);
        assert!(!axis([0.0, 1.0], true).log, "0 has no logarithm");
    }

    #[test]
    fn values_lie_between_the_ends() {
        let linear = Axis::numbers(String::new(), [0.0, 8.0], false, &plain);
        assert_eq!([linear.share(2.0), linear.share(9.0), linear.share(-1.0)], [0.25, 1.0, 0.0]);
        let log = Axis { ends: [1.0, 100.0], log: true, ..linear };
        assert!((log.share(10.0) - 0.5).abs() < 1e-12 && log.share(0.0) == 0.0);
        assert_eq!(Axis::names(String::new(), &["a".into(), "b".into()]).share(0.0), 0.25);
    }
}
