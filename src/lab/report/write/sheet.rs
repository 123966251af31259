//! Charts laid out on a sheet: the shapes and texts that SVG and PDF have in common.
//!
//! Series differ by mark as well as by colour (and over time by panel or dashes), so that charts can be read without
//! colour.

use std::iter;

use strum::IntoStaticStr;

use crate::report::figures::chart::{Area, Axis, Chart, ChartLayout, ChartShape, Sign};

pub const COLOURS: usize = 8;
/// Marks as text, in the order of [`mark`].
pub const MARKS: [&str; 4] = ["●", "■", "▲", "◆"];
/// Height of the letters and of a line of text.
pub const LETTERS: f64 = 13.0;
/// Margins of the plot area: above, right, below, left.
const MARGINS: [f64; 4] = [24.0, 16.0, 46.0, 84.0];
/// Margin below if x has no labels.
const BARE: f64 = 10.0;
/// Width of a character of a label.
const CHARACTER: f64 = 7.2;
/// Height of a label on the y axis.
const LINE_HEIGHT: f64 = 17.0;

type Point = (f64, f64);

#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    pub wide: f64,
    pub high: f64,
    /// Whether lines of several series share a chart, so that dashes tell them apart.
    pub is_dashed: bool,
    /// Shape: from bottom to top.
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Shape(Shape),
    Text(Label),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub pen: Pen,
    pub series: usize,
    pub form: Form,
    /// Text under the pointer.
    pub title: Option<String>,
    /// Centre of a mark, which a pointer need only come near.
    pub near: Option<Point>,
}

/// What a shape is for, which decides its look. The word is its class on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Pen {
    Grid,
    Axis,
    Line,
    Mark,
    Hollow,
    Cross,
    Error,
    Range,
    Bar,
    Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    Straight(Point, Point),
    /// Lines, each through its points.
    Lines(Vec<Vec<Point>>),
    /// A filled outline through these points.
    Closed(Vec<Point>),
    /// Centre and radius.
    Circle(Point, f64),
    /// Left, top, width and height.
    Box([f64; 4]),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    pub at: Point,
    pub text: String,
    pub anchor: Anchor,
    pub tone: Tone,
    /// Reads upwards, around its middle.
    pub is_turned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Quiet,
    /// The heading of a chart, in the colour of its series if it has one.
    Heading(Option<usize>),
}

/// Index of a series' mark. It shifts each time the colours repeat.
pub fn mark_of(series: usize) -> usize {
    (series + series / COLOURS) % MARKS.len()
}

impl Shape {
    pub fn new(pen: Pen, series: usize, form: Form) -> Shape {
        Shape { pen, series, form, title: None, near: None }
    }

    /// A circle, square, triangle or diamond.
    pub fn mark(pen: Pen, series: usize, (x, y): Point) -> Shape {
        let around = |corners: &[Point]| Form::Closed(corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect());
        let form = match mark_of(series) {
            0 => Form::Circle((x, y), 5.0),
            1 => around(&[(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)]),
            2 => around(&[(0.0, -6.0), (6.0, 5.0), (-6.0, 5.0)]),
            _ => around(&[(0.0, -7.0), (6.0, 0.0), (0.0, 7.0), (-6.0, 0.0)]),
        };
        Shape::new(pen, series, form)
    }

    pub fn cross(series: usize, (x, y): Point, arm: f64) -> Shape {
        let across = |down: f64| vec![(x - arm, y - down), (x + arm, y + down)];
        Shape::new(Pen::Cross, series, Form::Lines(vec![across(arm), across(-arm)]))
    }
}

impl Sheet {
    /// Lays charts out in rows, below `top`.
    pub fn of(charts: &[Chart], layout: ChartLayout, wide: f64, top: f64) -> Sheet {
        let abreast = layout.abreast.clamp(1, charts.len().max(1));
        let rows = charts.len().div_ceil(abreast);
        let each = wide / abreast as f64;
        let mut sheet = Sheet { wide, high: top, is_dashed: !layout.stacked, items: Vec::new() };
        for (row, charts) in charts.chunks(abreast).enumerate() {
            let bare = layout.stacked && row + 1 < rows;
            let height = layout.height - if bare { MARGINS[2] - BARE } else { 0.0 };
            for (column, chart) in charts.iter().enumerate() {
                let place = Place::new([column as f64 * each, sheet.high, each, height], bare);
                place.draw(&mut sheet.items, chart);
            }
            sheet.high += height;
        }
        sheet
    }
}

/// The plot area of one chart.
struct Place {
    left: f64,
    top: f64,
    wide: f64,
    high: f64,
    bare: bool,
}

impl Place {
    fn new([left, top, wide, high]: [f64; 4], bare: bool) -> Place {
        let [above, right, below, before] = MARGINS;
        let below = if bare { BARE } else { below };
        Place { left: left + before, top: top + above, wide: wide - before - right, high: high - above - below, bare }
    }

    fn point(&self, chart: &Chart, (x, y): Point) -> Point {
        (self.left + chart.x.share(x) * self.wide, self.top + (1.0 - chart.y.share(y)) * self.high)
    }

    fn draw(&self, items: &mut Vec<Item>, chart: &Chart) {
        self.draw_y(items, &chart.y);
        self.draw_x(items, &chart.x);
        if let Some((heading, series)) = &chart.heading {
            let at = (self.left, self.top - 8.0);
            items.push(label(at, Anchor::Start, Tone::Heading(*series), heading));
        }
        items.extend(chart.shapes.iter().map(|shape| Item::Shape(self.shape(chart, shape))));
    }

    fn draw_y(&self, items: &mut Vec<Item>, axis: &Axis) {
        let every = (LINE_HEIGHT * axis.ticks.len() as f64 / self.high).ceil().max(1.0) as usize;
        for (value, name) in axis.ticks.iter().step_by(every) {
            let y = self.top + (1.0 - axis.share(*value)) * self.high;
            items.push(straight(Pen::Grid, (self.left, y), (self.left + self.wide, y)));
            items.push(label((self.left - 7.0, y + 4.0), Anchor::End, Tone::Plain, name));
        }
        let middle = self.top + self.high / 2.0;
        let (first, second) = match axis.title.split_once(", ") {
            Some((first, rest)) if axis.title.chars().count() as f64 * CHARACTER > self.high + MARGINS[0] => {
                (first, Some(rest))
            }
            _ => (axis.title.as_str(), None),
        };
        for (x, text) in iter::once((self.left - 70.0, first)).chain(second.map(|rest| (self.left - 55.0, rest))) {
            let (at, text) = ((x, middle), text.to_owned());
            items.push(Item::Text(Label { at, text, anchor: Anchor::Middle, tone: Tone::Quiet, is_turned: true }));
        }
    }

    fn draw_x(&self, items: &mut Vec<Item>, axis: &Axis) {
        let bottom = self.top + self.high;
        items.push(straight(Pen::Axis, (self.left, bottom), (self.left + self.wide, bottom)));
        let longest = axis.ticks.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let room = self.wide / axis.ticks.len().max(1) as f64;
        // Crowded labels alternate between two heights. If that is not enough, only some are drawn.
        let crowding = (longest as f64 * CHARACTER / room).ceil().max(1.0) as usize;
        for (index, (value, name)) in axis.ticks.iter().enumerate() {
            let x = self.left + axis.share(*value) * self.wide;
            items.push(straight(Pen::Axis, (x, bottom), (x, bottom + 4.0)));
            if !self.bare && (crowding <= 2 || index % crowding == 0) {
                let down = if crowding == 2 && index % 2 == 1 { 29.0 } else { 17.0 };
                items.push(label((x, bottom + down), Anchor::Middle, Tone::Plain, name));
            }
        }
        if !self.bare {
            let down = if crowding == 2 { 43.0 } else { 37.0 };
            let middle = self.left + self.wide / 2.0;
            items.push(label((middle, bottom + down), Anchor::Middle, Tone::Quiet, &axis.title));
        }
    }

    fn shape(&self, chart: &Chart, shape: &ChartShape) -> Shape {
        let at = |point| self.point(chart, point);
        match shape {
            ChartShape::Line { series, points } => line(*series, points.iter().map(|point| at(*point))),
            ChartShape::Sign { sign, series, at: point, title } => {
                let drawn = match sign {
                    Sign::Measured => Shape::mark(Pen::Mark, *series, at(*point)),
                    Sign::Rerun => Shape::mark(Pen::Hollow, *series, at(*point)),
                    Sign::Published => Shape::cross(*series, at(*point), 5.0),
                    Sign::Loss => Shape::cross(*series, at(*point), 3.0),
                };
                Shape { title: Some(title.clone()), near: Some(at(*point)), ..drawn }
            }
            ChartShape::Interval { series, x, ends } => interval(*series, ends.map(|end| at((*x, end)))),
            ChartShape::Area { area, series, x, y, title } => {
                let [(left, top), (right, bottom)] = [at((x[0], y[1])), at((x[1], y[0]))];
                let form = Form::Box([left, top, (right - left).max(0.5), (bottom - top).max(0.5)]);
                let pen = match area {
                    Area::Range => Pen::Range,
                    Area::Bar => Pen::Bar,
                    Area::Span => Pen::Span,
                };
                Shape { title: Some(title.clone()), ..Shape::new(pen, *series, form) }
            }
        }
    }
}

fn straight(pen: Pen, from: Point, to: Point) -> Item {
    Item::Shape(Shape::new(pen, 0, Form::Straight(from, to)))
}

fn label(at: Point, anchor: Anchor, tone: Tone, text: &str) -> Item {
    Item::Text(Label { at, text: text.to_owned(), anchor, tone, is_turned: false })
}

fn interval(series: usize, [(x, low), (_, high)]: [Point; 2]) -> Shape {
    let end = |y: f64| vec![(x - 5.0, y), (x + 5.0, y)];
    Shape::new(Pen::Error, series, Form::Lines(vec![vec![(x, low), (x, high)], end(low), end(high)]))
}

/// Points are rounded to tenths, so that level stretches are found.
fn line(series: usize, points: impl Iterator<Item = Point>) -> Shape {
    let tenths = points.map(|(x, y)| ((10.0 * x).round() as i64, (10.0 * y).round() as i64));
    let points = corners(tenths).into_iter().map(|(x, y)| (x as f64 / 10.0, y as f64 / 10.0)).collect();
    Shape::new(Pen::Line, series, Form::Lines(vec![points]))
}

/// Drops points between two of the same height, which are invisible.
fn corners(points: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut kept: Vec<(i64, i64)> = Vec::new();
    for point in points {
        if let [.., before, last] = kept[..]
            && before.1 == last.1
            && last.1 == point.1
        {
            kept.pop();
        }
        if kept.last() != Some(&point) {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::chart::plain;

    #[test]
    fn points_on_a_level_are_left_out_and_corners_are_not() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 5.02), (3.0, 5.0), (3.0, 9.0), (4.0, 9.0), (5.0, 9.0)];
        let Form::Lines(lines) = line(9, points.into_iter()).form else { panic!("not a line") };
        assert_eq!(lines, [[(0.0, 5.0), (3.0, 5.0), (3.0, 9.0), (5.0, 9.0)]]);
    }

    #[test]
    fn no_two_series_of_many_look_alike() {
        let looks = (0..COLOURS * MARKS.len()).map(|series| (series % COLOURS, mark_of(series)));
        assert_eq!(looks.collect::<std::collections::BTreeSet<_>>().len(), COLOURS * MARKS.len());
    }

    #[test]
    fn charts_above_each_other_label_x_once() {
        let axis = |title: &str| Axis::numbers(title.into(), [0.0, 1.0], false, &plain);
        let chart = Chart { heading: None, x: axis("time"), y: axis("y"), shapes: Vec::new() };
        let layout = ChartLayout { abreast: 1, height: 150.0, stacked: true };
        let sheet = Sheet::of(&[chart.clone(), chart], layout, 860.0, 0.0);
        let titles = sheet.items.iter().filter(|item| matches!(item, Item::Text(label) if label.text == "time"));
        assert_eq!(titles.count(), 1);
    }
}
