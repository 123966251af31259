//! Positions of a swept variable's values on an axis: by their numbers, or one step apart.

use super::chart::{Axis, plain};
use crate::report::judge::cell::{ReportCell, each_once};
use crate::report::judge::swept::numbers;
use crate::scenario::{Draw, FigureSpec};

/// Fraction of a step over which the bars of one value are spread.
pub const BARS_SPREAD: f64 = 0.72;
/// The same for marks on lines.
const MARKS_SPREAD: f64 = 0.24;
/// Distance between the marks of one value on a numeric axis, as a fraction of the axis, so that intervals do not overlap.
const APART: f64 = 0.008;
/// By default, an axis is logarithmic if the largest value is at least this many times the smallest.
const LOG_RANGE: f64 = 8.0;
/// Lines over a variable need at least this many values.
const FEWEST_FOR_LINES: usize = 3;

/// The x axis of a figure over a variable of the sweep.
pub struct Positions {
    pub axis: Axis,
    pub bars: bool,
    variable: String,
    /// Whether values are one step apart, because they are not numbers, no scale fits them, or bars are drawn.
    is_named: bool,
    values: Vec<(String, f64)>,
}

impl Positions {
    pub fn new(spec: &FigureSpec, cells: &[&ReportCell]) -> Positions {
        let names = values_of(&spec.x, cells);
        let numbers = numbers(&names).filter(|(numbers, _)| numbers.len() > 1);
        let bars = spec.draw == Draw::Bars || (spec.draw == Draw::Auto && numbers.is_none());
        let numbers = numbers.filter(|(numbers, _)| !bars && !has_no_scale(numbers, spec.log_x));
        let variable = spec.x.clone();
        let Some((numbers, unit)) = numbers else {
            let values = names.iter().enumerate().map(|(index, name)| (name.clone(), index as f64)).collect();
            return Positions { axis: Axis::names(spec.x.clone(), &names), bars, variable, is_named: true, values };
        };
        let title = if unit.is_empty() { spec.x.clone() } else { format!("{} [{unit}]", spec.x) };
        let axis = axis_of(title, &numbers, spec.log_x);
        let values = names.iter().cloned().zip(numbers).collect();
        Positions { axis, bars, variable, is_named: false, values }
    }

    pub fn of(&self, cell: &ReportCell) -> f64 {
        let value = cell.at.get(&self.variable);
        self.values.iter().find(|(name, _)| Some(name) == value).map_or(0.0, |(_, position)| *position)
    }

    /// Position of the mark or bar of one of `count` variants.
    pub fn beside(&self, x: f64, index: usize, count: usize) -> f64 {
        let steps = index as f64 - (count as f64 - 1.0) / 2.0;
        match (self.bars, self.is_named) {
            (true, _) => x + steps * BARS_SPREAD / count.max(1) as f64,
            (false, true) => x + steps * MARKS_SPREAD / count.max(1) as f64,
            (false, false) => self.aside(x, steps * APART),
        }
    }

    /// The two sides of a bar, or of the box of an expected range.
    pub fn sides(&self, x: f64, count: usize) -> [f64; 2] {
        match (self.bars, self.is_named) {
            (true, _) => [-1.0, 1.0].map(|side| x + side * 0.45 * BARS_SPREAD / count.max(1) as f64),
            (false, true) => [x - 0.06, x + 0.06],
            (false, false) => [self.aside(x, -0.01), self.aside(x, 0.01)],
        }
    }

    /// A position shifted to the right by a fraction of the axis.
    fn aside(&self, x: f64, part: f64) -> f64 {
        let [low, high] = self.axis.ends;
        if self.axis.log { x * (high / low).powf(part) } else { x + part * (high - low) }
    }
}

/// Whether neither scale fits: 0 has no logarithm, and on a linear axis most of a wide range would crowd at one end.
fn has_no_scale(numbers: &[f64], log: bool) -> bool {
    numbers.iter().any(|number| *number <= 0.0) && (log || is_wide(numbers))
}

/// Whether the largest number is many times the smallest one above 0.
fn is_wide(numbers: &[f64]) -> bool {
    let above = || numbers.iter().copied().filter(|number| *number > 0.0);
    above().fold(0.0, f64::max) >= LOG_RANGE * above().fold(f64::INFINITY, f64::min)
}

fn axis_of(title: String, numbers: &[f64], log: bool) -> Axis {
    let lowest = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut axis = Axis::numbers(title, [lowest, highest], log, &plain);
    if !axis.log {
        // Numbers far from 0, such as delays of 100 to 200 ms, get an axis that does not begin at 0.
        let room = (highest - lowest) * 0.06;
        axis.ends = [if lowest > 0.3 * highest { lowest - room } else { lowest.min(0.0) - room }, highest + room];
        let [low, high] = axis.ends;
        axis.ticks.retain(|(value, _)| (low..=high).contains(value));
    }
    axis
}

/// The variable with the most numbers, and whether its axis should be logarithmic.
///
/// None: no variable has enough numbers for a line.
pub fn telling_variable(cells: &[&ReportCell]) -> Option<(String, bool)> {
    let first = cells.first()?;
    let names = first.at.keys().filter(|name| **name != first.series);
    let of = |name: &String| {
        let values = values_of(name, cells);
        let (numbers, _) = numbers(&values).filter(|(numbers, _)| numbers.len() >= FEWEST_FOR_LINES)?;
        Some((numbers.len(), name.clone(), is_wide(&numbers)))
    };
    // Among equal counts the first wins; `max_by_key` would take the last.
    let (_, name, log) = names.filter_map(of).reduce(|best, one| if one.0 > best.0 { one } else { best })?;
    Some((name, log))
}

/// Distinct values of a variable, in the order of the cells.
fn values_of(variable: &str, cells: &[&ReportCell]) -> Vec<String> {
    each_once(cells.iter().filter_map(|cell| cell.at.get(variable)).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_from_0_to_1_percent_stand_one_step_apart_and_delays_by_their_numbers() {
        assert!(has_no_scale(&[0.0, 0.001, 0.01], false) && has_no_scale(&[0.0, 1.0], true));
        assert!(!has_no_scale(&[0.0, 1.0, 2.0], false) && !has_no_scale(&[5.0, 155.0], false));
    }
}
