//! The figures of a report: those its scenario asks for, else every metric over the sweep and the windows over time.

use super::chart::{Axis, Chart, Shape, plain};
use super::number::Scale;
use super::svg::Format;
use super::{Cell, Report, Verdict, plot, table, timeline};
use crate::experiment::scenario::{Draw, FigureSpec, Of, TIME};
use crate::model::metrics::Metric;
use crate::units::Share;

/// From this ratio of largest to smallest value on, differences between the small ones cannot be seen on one axis.
const PANEL_RANGE: f64 = 12.0;
/// Charts beside each other, and how many places can have one.
const ABREAST: usize = 3;
const MOST_PANELS: usize = 9;
/// Part of a place's width over which its variants are spread.
const SPREAD: f64 = 0.72;
const HEIGHT: f64 = 340.0;

/// A figure as it stands on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Heading.
    pub title: String,
    /// What it shows, as sentences.
    pub explanation: String,
    /// Series with their names.
    pub legend: Vec<(usize, String)>,
    /// The charts it consists of.
    pub charts: Vec<Chart>,
    /// How they stand.
    pub format: Format,
    /// Whether it is one of many of its kind.
    pub folded: bool,
}

/// Everything that is to be drawn, in the order of the page.
pub fn figures(report: &Report) -> Vec<Figure> {
    if report.figures.is_empty() {
        let metrics = table::metric_names(report).into_iter().map(|metric| over_places(report, metric));
        return metrics.chain(timeline::windows(report)).collect();
    }
    let mut figures = Vec::new();
    for spec in &report.figures {
        match spec.x.as_str() {
            TIME => figures.extend(timeline::of_spec(report, spec)),
            _ => figures.push(over_variable(report, spec)),
        }
    }
    figures
}

/// Variants of the report in the order of its rows: a variant has the same colour in every figure.
pub fn variants(report: &Report) -> Vec<&str> {
    table::each_once(report.cells.iter().map(|cell| cell.variant.as_str()))
}

/// Title of a figure with the place of the source it is drawn as.
pub fn titled(spec: &FigureSpec) -> String {
    spec.place.as_ref().map_or_else(|| spec.title.clone(), |place| format!("{} (as {place})", spec.title))
}

/// Series with their names, of the variants that are shown.
pub fn legend_of(report: &Report, shown: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let all = variants(report).into_iter().enumerate();
    all.filter(|(_, variant)| shown(variant)).map(|(series, variant)| (series, variant.to_owned())).collect()
}

/// One value that is drawn, wherever it comes from.
struct Drawn<'a> {
    cell: &'a Cell,
    series: usize,
    published: Option<f64>,
    expected: Option<[f64; 2]>,
    rerun: Option<f64>,
    measured: Option<f64>,
    ci95: Option<[f64; 2]>,
}

impl<'a> Drawn<'a> {
    fn new(report: &Report, cell: &'a Cell, of: Of) -> Drawn<'a> {
        let series = variants(report).iter().position(|variant| *variant == cell.variant).unwrap_or(0);
        let around = |one: &super::Expectation| [one.value - one.plus_minus, one.value + one.plus_minus];
        let ratio = cell.ratio_to_baseline.as_ref();
        match of {
            Of::Value => Drawn {
                cell,
                series,
                published: cell.published,
                expected: cell.expected.as_ref().map(around),
                rerun: cell.rerun.as_ref().map(|rerun| rerun.measured.mean),
                measured: cell.measured.as_ref().map(|measured| measured.mean),
                ci95: cell.measured.as_ref().and_then(|measured| measured.ci95),
            },
            Of::Ratio => Drawn {
                cell,
                series,
                published: ratio.and_then(|ratio| ratio.published),
                expected: ratio.and_then(|ratio| ratio.expected.as_ref()).map(around),
                rerun: cell.rerun.as_ref().and_then(|rerun| rerun.ratio_to_baseline),
                measured: ratio.and_then(|ratio| ratio.measured),
                ci95: ratio.and_then(|ratio| ratio.ci95),
            },
        }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let ranges = self.expected.into_iter().chain(self.ci95).flatten();
        [self.published, self.rerun, self.measured].into_iter().flatten().chain(ranges)
    }

    /// What a pointer is told about the cell.
    fn title(&self, what: &str, scale: Scale) -> String {
        let mut lines =
            vec![format!("{}, {}", self.cell.variant, plot::place_name(&place_of(self.cell))), what.to_owned()];
        if let Some(measured) = self.measured {
            let interval = self.ci95.map(|[low, high]| format!(" ({} to {})", scale.show(low), scale.show(high)));
            let n = self.cell.measured.as_ref().map_or(0, |measured| measured.n);
            lines.push(format!("measured {}{}, {n} runs", scale.with_unit(measured), interval.unwrap_or_default()));
        }
        lines.extend(self.rerun.map(|rerun| format!("re-run {}", scale.with_unit(rerun))));
        lines.extend(self.expected.map(|[low, high]| format!("expected {} to {}", scale.show(low), scale.show(high))));
        lines.extend(self.published.map(|published| format!("published {}", scale.with_unit(published))));
        if self.cell.verdict != Verdict::NotComparable {
            lines.push(self.cell.verdict.name().to_owned());
        }
        lines.join("\n")
    }

    /// Expected range, published cross, interval and marks around one x.
    fn shapes(&self, x: f64, wide: f64, (what, scale): (&str, Scale)) -> Vec<Shape> {
        let (series, title) = (self.series, || self.title(what, scale));
        let mut shapes = Vec::new();
        let beside = [x - wide / 2.0, x + wide / 2.0];
        shapes.extend(self.expected.map(|y| Shape::Range { series, x: beside, y, title: title() }));
        shapes.extend(self.published.map(|y| Shape::Cross { series, at: (x, y), title: title() }));
        shapes.extend(self.rerun.map(|y| Shape::Hollow { series, at: (x, y), title: title() }));
        shapes.extend(self.ci95.map(|ends| Shape::Interval { series, x, ends }));
        shapes.extend(self.measured.map(|y| Shape::Mark { series, at: (x, y), title: title() }));
        shapes
    }
}

/// Everything of a cell's position but its variant.
fn place_of(cell: &Cell) -> super::At {
    let mut place = cell.at.clone();
    place.retain(|_, value| *value != cell.variant);
    place
}

/// What the shapes of a figure over the sweep mean.
fn explained(drawn: &[Drawn<'_>]) -> String {
    let mut parts = Vec::new();
    if drawn.iter().any(|one| one.measured.is_some()) {
        let interval = drawn.iter().any(|one| one.ci95.is_some());
        parts.push(if interval { "Filled: measured mean with its 95 % interval" } else { "Filled: measured mean" });
    }
    for (is_there, sentence) in [
        (drawn.iter().any(|one| one.rerun.is_some()), "hollow: the simulator run again"),
        (drawn.iter().any(|one| one.expected.is_some()), "boxes: expected"),
        (drawn.iter().any(|one| one.published.is_some()), "crosses: published"),
    ] {
        parts.extend(is_there.then_some(sentence));
    }
    format!("{}.", parts.join("; "))
}

fn scale_of(drawn: &[Drawn<'_>], unit: &str, of: Of) -> Scale {
    Scale::of(if of == Of::Ratio { "ratio" } else { unit }, drawn.iter().flat_map(Drawn::values))
}

fn y_axis(drawn: &[&Drawn<'_>], (title, scale): (String, Scale), log: bool) -> Axis {
    let values = || drawn.iter().flat_map(|one| one.values()).filter(|value| value.is_finite());
    let highest = values().fold(0.0, f64::max);
    let lowest = values().filter(|value| !log || *value > 0.0).fold(f64::INFINITY, f64::min);
    let ends = [if log { lowest.min(highest) } else { 0.0 }, highest * if log { 1.0 } else { 1.06 }];
    let title = format!("{title} [{}]", scale.unit());
    Axis::numbers(title, ends, log, &move |value| scale.show_short(value))
}

/// One metric over all places of the sweep, variants side by side. Where the largest value would press all others to
/// the ground, each place has a chart and an axis of its own.
fn over_places(report: &Report, metric: &str) -> Figure {
    let cells = report.cells.iter().filter(|cell| cell.metric == metric);
    let drawn: Vec<Drawn<'_>> = cells.map(|cell| Drawn::new(report, cell, Of::Value)).collect();
    let unit = drawn.first().map_or("", |one| one.cell.unit.as_str());
    let scale = scale_of(&drawn, unit, Of::Value);
    let title = Metric::find(metric).map_or(metric, |metric| metric.title);
    let legend = legend_of(report, |variant| drawn.iter().any(|one| one.cell.variant == variant));
    let mut places: Vec<String> = Vec::new();
    for place in drawn.iter().map(|one| plot::place_name(&place_of(one.cell))) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let chart = |places: &[String]| {
        let here = |one: &&Drawn<'_>| places.contains(&plot::place_name(&place_of(one.cell)));
        let drawn: Vec<&Drawn<'_>> = drawn.iter().filter(here).collect();
        let wide = SPREAD / legend.len().max(1) as f64;
        let x = |one: &Drawn<'_>| {
            let place = places.iter().position(|place| *place == plot::place_name(&place_of(one.cell))).unwrap_or(0);
            let index = legend.iter().position(|(series, _)| *series == one.series).unwrap_or(0);
            place as f64 + (index as f64 + 0.5) * wide - SPREAD / 2.0
        };
        Chart {
            heading: None,
            x: Axis::names(String::new(), places),
            y: y_axis(&drawn, (title.to_owned(), scale), false),
            shapes: drawn.iter().flat_map(|one| one.shapes(x(one), wide * 0.8, (title, scale))).collect(),
        }
    };
    let apart = (2..=MOST_PANELS).contains(&places.len()) && range(&drawn) >= PANEL_RANGE;
    let charts = if apart {
        places.iter().map(|place| chart(std::slice::from_ref(place))).collect()
    } else {
        vec![chart(&places)]
    };
    let format = Format { abreast: if apart { ABREAST } else { 1 }, height: HEIGHT, stacked: false };
    Figure { title: table::caption(metric), explanation: explained(&drawn), legend, charts, format, folded: false }
}

/// Largest over smallest value drawn; 1 without values above zero.
fn range(drawn: &[Drawn<'_>]) -> f64 {
    let values = drawn.iter().flat_map(|one| one.measured.into_iter().chain(one.published));
    let positive: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let smallest = positive.iter().copied().fold(f64::INFINITY, f64::min);
    positive.iter().map(|value| value / smallest).fold(1.0, f64::max)
}

/// One metric over one variable of the sweep; every combination of the others has a chart.
fn over_variable(report: &Report, spec: &FigureSpec) -> Figure {
    let cells = report.cells.iter().filter(|cell| cell.metric == spec.y && spec.at.contain(&cell.at));
    let drawn: Vec<Drawn<'_>> = cells.map(|cell| Drawn::new(report, cell, spec.of)).collect();
    let unit = drawn.first().map_or("", |one| one.cell.unit.as_str());
    let scale = scale_of(&drawn, unit, spec.of);
    let x = Positions::new(spec, &drawn);
    let mut others: Vec<super::At> = Vec::new();
    for other in drawn.iter().map(|one| other_place(one.cell, &spec.x)) {
        if !others.contains(&other) {
            others.push(other);
        }
    }
    let chart = |other: &super::At| {
        let here: Vec<&Drawn<'_>> = drawn.iter().filter(|one| other_place(one.cell, &spec.x) == *other).collect();
        chart_over(spec, &x, &here, (other, scale))
    };
    let format = Format { abreast: if others.len() > 1 { 2 } else { 1 }, height: HEIGHT, stacked: false };
    Figure {
        title: titled(spec),
        explanation: explained(&drawn),
        legend: legend_of(report, |variant| drawn.iter().any(|one| one.cell.variant == variant)),
        charts: others.iter().map(chart).collect(),
        format,
        folded: false,
    }
}

fn chart_over(spec: &FigureSpec, x: &Positions, here: &[&Drawn<'_>], (other, scale): (&super::At, Scale)) -> Chart {
    let title = Metric::find(&spec.y).map_or(spec.y.as_str(), |metric| metric.title);
    let mut series: Vec<usize> = here.iter().map(|one| one.series).collect();
    series.sort_unstable();
    series.dedup();
    let wide = if x.names.is_some() { SPREAD / series.len().max(1) as f64 } else { 0.0 };
    let mut shapes = Vec::new();
    for (index, series) in series.iter().enumerate() {
        let mut own: Vec<(f64, &&Drawn<'_>)> =
            here.iter().filter(|one| one.series == *series).map(|one| (x.of(one.cell), one)).collect();
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        let aside = if x.bars { (index as f64 + 0.5) * wide - SPREAD / 2.0 } else { 0.0 };
        if x.bars {
            shapes.extend(own.iter().filter_map(|(at, one)| {
                let middle = at + aside;
                let ends = [middle - wide * 0.45, middle + wide * 0.45];
                Some(Shape::Bar { series: *series, x: ends, y: one.measured?, title: one.title(title, scale) })
            }));
        } else {
            let points = own.iter().filter_map(|(at, one)| Some((*at, one.measured?))).collect();
            shapes.push(Shape::Line { series: *series, points });
        }
        for (at, one) in own {
            let marks = one.shapes(at + aside, x.width(), (title, scale));
            shapes.extend(marks.into_iter().filter(|shape| !x.bars || !matches!(shape, Shape::Mark { .. })));
        }
    }
    let heading = plot::place_name(other);
    let over = if spec.of == Of::Ratio { " over the baseline's" } else { "" };
    Chart {
        heading: (!heading.is_empty()).then_some((heading, None)),
        x: x.axis.clone(),
        y: y_axis(here, (format!("{title}{over}"), scale), spec.log_y),
        shapes,
    }
}

/// Everything of a cell's position but its variant and one variable.
fn other_place(cell: &Cell, variable: &str) -> super::At {
    let mut place = place_of(cell);
    place.remove(variable);
    place
}

/// Where the values of the swept variable stand on the x axis.
struct Positions {
    axis: Axis,
    variable: String,
    /// Where they are no numbers, or not drawn as such: the values, one step apart.
    names: Option<Vec<String>>,
    values: Vec<(String, f64)>,
    bars: bool,
}

impl Positions {
    fn new(spec: &FigureSpec, drawn: &[Drawn<'_>]) -> Positions {
        let mut names: Vec<String> = Vec::new();
        for name in drawn.iter().filter_map(|one| one.cell.at.get(&spec.x)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let numbers = numbers(&names).filter(|numbers| {
            spec.draw != Draw::Bars && numbers.len() > 1 && (!spec.log_x || numbers.iter().all(|number| *number > 0.0))
        });
        let bars = spec.draw == Draw::Bars || (spec.draw == Draw::Auto && numbers.is_none());
        let Some(numbers) = numbers else {
            let values = names.iter().enumerate().map(|(index, name)| (name.clone(), index as f64)).collect();
            let axis = Axis::names(spec.x.clone(), &names);
            return Positions { axis, variable: spec.x.clone(), names: Some(names), values, bars };
        };
        let unit = names.iter().map(|name| unit_of(name)).find(|unit| !unit.is_empty()).unwrap_or_default();
        let title = if unit.is_empty() { spec.x.clone() } else { format!("{} [{unit}]", spec.x) };
        let lowest = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut axis = Axis::numbers(title, [lowest, highest], spec.log_x, &plain);
        if !axis.log {
            // Delays of 100 to 200 ms are drawn from about there, not from 0.
            let room = (highest - lowest) * 0.06;
            let ends = [if lowest > 0.3 * highest { lowest - room } else { lowest.min(0.0) - room }, highest + room];
            axis.ends = ends;
            axis.ticks.retain(|(value, _)| (ends[0]..=ends[1]).contains(value));
        }
        Positions {
            axis,
            variable: spec.x.clone(),
            names: None,
            values: names.into_iter().zip(numbers).collect(),
            bars,
        }
    }

    fn of(&self, cell: &Cell) -> f64 {
        let value = cell.at.get(&self.variable);
        self.values.iter().find(|(name, _)| Some(name) == value).map_or(0.0, |(_, position)| *position)
    }

    /// Width of an expected range.
    fn width(&self) -> f64 {
        let [low, high] = self.axis.ends;
        if self.names.is_some() { 0.12 } else { (high - low) * 0.02 }
    }
}

/// The values as numbers in one unit; none where they are no numbers or of several units.
fn numbers(names: &[String]) -> Option<Vec<f64>> {
    let units: Vec<&str> = names.iter().map(|name| unit_of(name)).collect();
    let numbers: Option<Vec<f64>> =
        names.iter().zip(&units).map(|(name, unit)| name[..name.len() - unit.len()].trim().parse().ok()).collect();
    let numbers = numbers?;
    let real = |index: usize| numbers[index] != 0.0;
    let first = (0..names.len()).find(|index| real(*index)).unwrap_or(0);
    if (0..names.len()).all(|index| units[index] == units[first] || !real(index)) {
        return Some(numbers);
    }
    // Shares are written as `0.001` or `0.1%`.
    names.iter().map(|name| name.parse::<Share>().ok().map(|share| share.0)).collect()
}

/// What follows the number in a value such as `50ms`.
fn unit_of(name: &str) -> &str {
    let number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = name.find(|c: char| !number(c)).unwrap_or(name.len());
    // An exponent, as in 1e-5, belongs to the number.
    if name[end..].starts_with('e') && name.parse::<f64>().is_ok() { "" } else { &name[end..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str]) -> Option<Vec<f64>> {
        numbers(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_one_unit_are_numbers_and_others_are_names() {
        assert_eq!(read(&["100ms", "150ms"]), Some(vec![100.0, 150.0]));
        assert_eq!(read(&["0", "1e-5", "0.01"]), Some(vec![0.0, 1e-5, 0.01]));
        assert_eq!(read(&["0", "1%", "2%"]), Some(vec![0.0, 1.0, 2.0]));
        assert_eq!(read(&["0.001", "1%"]), Some(vec![0.001, 0.01]));
        assert_eq!(read(&["50pkts", "1bdp"]), None);
        assert_eq!(read(&["reno", "cubic"]), None);
        assert_eq!((unit_of("0.25bdp"), unit_of("12"), unit_of("1e-4")), ("bdp", "", ""));
    }
}
