//! What a drawing consists of, before it has a size: axes with their ticks, and shapes in the units of the data.

use crate::report::judge::number;

/// About so many ticks on an axis.
const TICKS: f64 = 5.0;
/// A step is taken when it is at least this part of what would give so many.
const NEAR: f64 = 0.75;

/// One drawing area with two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Line above it, and the series whose colour it has.
    pub heading: Option<(String, Option<usize>)>,
    pub x: Axis,
    pub y: Axis,
    /// What is drawn, the first at the bottom.
    pub shapes: Vec<Shape>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub title: String,
    pub ends: [f64; 2],
    pub ticks: Vec<(f64, String)>,
    /// Whether distances are those of logarithms.
    pub log: bool,
}

/// Something drawn; `title` is what a pointer that rests on it shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through points, in the order of x.
    Line { series: usize, points: Vec<(f64, f64)> },
    /// A measured value: the mark of its series.
    Mark { series: usize, at: (f64, f64), title: String },
    /// The same, hollow: another engine's.
    Hollow { series: usize, at: (f64, f64), title: String },
    /// A published value.
    Cross { series: usize, at: (f64, f64), title: String },
    /// A small sign on a line, such as for a loss.
    Tick { series: usize, at: (f64, f64), title: String },
    /// An interval at one x.
    Interval { series: usize, x: f64, ends: [f64; 2] },
    /// What is expected: a range over a width.
    Range { series: usize, x: [f64; 2], y: [f64; 2], title: String },
    /// A bar from the ground.
    Bar { series: usize, x: [f64; 2], y: f64, title: String },
    /// Where a pointer shows something, over the whole height.
    Span { x: [f64; 2], title: String },
}

/// How charts stand in a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Charts beside each other.
    pub abreast: usize,
    pub height: f64,
    /// Whether the charts are one above the other over the same x, which is then labelled once.
    pub stacked: bool,
}

impl Axis {
    /// An axis of numbers from the lowest to the highest, or from 0, with ticks where people expect them.
    ///
    /// Logarithmic only where all is above 0.
    pub fn numbers(title: String, [low, high]: [f64; 2], log: bool, show: &dyn Fn(f64) -> String) -> Axis {
        if log && low > 0.0 {
            let ends = [low / 1.15, high * 1.15];
            return Axis { title, ends, ticks: labelled(decades(ends), show), log: true };
        }
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        Axis { title, ends: [low, high], ticks: labelled(steps(low, high), show), log: false }
    }

    /// An axis of names, each in the middle of a unit of width.
    pub fn names(title: String, names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect();
        Axis { title, ends: [-0.5, names.len() as f64 - 0.5], ticks, log: false }
    }

    /// Where a value lies, from 0 to 1; a value beyond the ends lies at the end.
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

/// Powers of ten, with twice and five times them where there are few.
fn decades([low, high]: [f64; 2]) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let inside = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let tens = inside(&[1.0]);
    if tens.len() >= 3 { tens } else { inside(&[1.0, 2.0, 5.0]) }
}

/// A number on an axis without a unit of its own.
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
