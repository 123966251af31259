//! Charts as SVG. Colours are classes of the page's style sheet, so that they follow its theme.
//!
//! Series differ by mark as well as by colour (and over time by panel or dashes), so that charts can be read without
//! colour. Texts under the pointer are `title` elements and need no script.

use super::html::escaped;
use crate::report::figures::chart::{Area, Axis, Chart, ChartLayout, ChartShape, Sign};

pub const COLOURS: usize = 8;
/// Marks in legends, in the order of [`mark`].
const MARKS: [&str; 4] = ["●", "■", "▲", "◆"];
const WIDTH: f64 = 860.0;
/// Margins of the plot area: above, right, below, left.
const MARGINS: [f64; 4] = [24.0, 16.0, 46.0, 84.0];
/// Margin below if x has no labels.
const BARE: f64 = 10.0;
/// Width of a character of a label.
const CHARACTER: f64 = 7.2;
/// Height of a label on the y axis.
const LINE_HEIGHT: f64 = 17.0;

/// Class and mark of a series in a legend.
pub fn legend(series: usize) -> (String, &'static str) {
    (format!("s{}", series % COLOURS), MARKS[mark_of(series)])
}

/// Index of a series' mark. It shifts each time the colours repeat.
fn mark_of(series: usize) -> usize {
    (series + series / COLOURS) % MARKS.len()
}

/// Draws charts in rows, with `name` for screen readers.
pub fn draw(charts: &[Chart], layout: ChartLayout, name: &str) -> String {
    let abreast = layout.abreast.clamp(1, charts.len().max(1));
    let rows = charts.len().div_ceil(abreast);
    let wide = WIDTH / abreast as f64;
    let mut body = String::new();
    let mut top = 0.0;
    for (row, charts) in charts.chunks(abreast).enumerate() {
        let is_last = row + 1 == rows;
        let bare = layout.stacked && !is_last;
        let height = layout.height - if bare { MARGINS[2] - BARE } else { 0.0 };
        for (column, chart) in charts.iter().enumerate() {
            let place = Place::new([column as f64 * wide, top, wide, height], bare);
            body.push_str(&place.chart(chart));
        }
        top += height;
    }
    let name = escaped(name);
    let class = if layout.stacked { "" } else { "class=\"one\" " }; // lines of several series share a chart
    format!("<svg {class}viewBox=\"0 0 {WIDTH:.0} {top:.0}\" role=\"img\" aria-label=\"{name}\">{body}</svg>")
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

    fn point(&self, chart: &Chart, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + chart.x.share(x) * self.wide, self.top + (1.0 - chart.y.share(y)) * self.high)
    }

    fn chart(&self, chart: &Chart) -> String {
        let mut text = String::new();
        self.draw_y(&mut text, &chart.y);
        self.draw_x(&mut text, &chart.x);
        if let Some((heading, series)) = &chart.heading {
            let class = series.map_or("heading".to_owned(), |series| format!("heading s{}", series % COLOURS));
            text.push_str(&label([self.left, self.top - 8.0], &format!("class=\"{class}\""), heading));
        }
        text.extend(chart.shapes.iter().map(|shape| self.shape(chart, shape)));
        text
    }

    fn draw_y(&self, text: &mut String, axis: &Axis) {
        let every = (LINE_HEIGHT * axis.ticks.len() as f64 / self.high).ceil().max(1.0) as usize;
        for (value, name) in axis.ticks.iter().step_by(every) {
            let y = self.top + (1.0 - axis.share(*value)) * self.high;
            text.push_str(&format!(
                "<path class=\"grid\" d=\"M{:.1} {y:.1}h{:.1}\"/>{}",
                self.left,
                self.wide,
                label([self.left - 7.0, y + 4.0], "class=\"end\"", name)
            ));
        }
        let [x, y] = [self.left - 70.0, self.top + self.high / 2.0];
        let turned = format!("class=\"middle quiet\" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        text.push_str(&label([x, y], &turned, &axis.title));
    }

    fn draw_x(&self, text: &mut String, axis: &Axis) {
        let bottom = self.top + self.high;
        text.push_str(&format!("<path class=\"axis\" d=\"M{:.1} {bottom:.1}h{:.1}\"/>", self.left, self.wide));
        let longest = axis.ticks.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let room = self.wide / axis.ticks.len().max(1) as f64;
        // Crowded labels alternate between two heights. If that is not enough, only some are drawn.
        let crowding = (longest as f64 * CHARACTER / room).ceil().max(1.0) as usize;
        for (index, (value, name)) in axis.ticks.iter().enumerate() {
            let x = self.left + axis.share(*value) * self.wide;
            text.push_str(&format!("<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>"));
            if !self.bare && (crowding <= 2 || index % crowding == 0) {
                let down = if crowding == 2 && index % 2 == 1 { 29.0 } else { 17.0 };
                text.push_str(&label([x, bottom + down], "class=\"middle\"", name));
            }
        }
        if !self.bare {
            let down = if crowding == 2 { 43.0 } else { 37.0 };
            let middle = self.left + self.wide / 2.0;
            text.push_str(&label([middle, bottom + down], "class=\"middle quiet\"", &axis.title));
        }
    }

    fn shape(&self, chart: &Chart, shape: &ChartShape) -> String {
        let at = |point| self.point(chart, point);
        match shape {
            ChartShape::Line { series, points } => line(*series, points.iter().map(|point| at(*point))),
            ChartShape::Sign { sign, series, at: point, title } => {
                let drawn = match sign {
                    Sign::Measured => mark(*series, at(*point), "mark"),
                    Sign::Rerun => mark(*series, at(*point), "hollow"),
                    Sign::Published => cross(*series, at(*point), 5.0),
                    Sign::Loss => cross(*series, at(*point), 3.0),
                };
                hover(at(*point), title, &drawn)
            }
            ChartShape::Interval { series, x, ends } => interval(*series, ends.map(|end| at((*x, end)))),
            ChartShape::Area { area: kind, series, x, y, title } => {
                area(*kind, *series, [at((x[0], y[1])), at((x[1], y[0]))], title)
            }
        }
    }
}

fn interval(series: usize, [(x, low), (_, high)]: [(f64, f64); 2]) -> String {
    let class = series % COLOURS;
    let (left, right) = (x - 5.0, x + 5.0);
    format!(
        "<path class=\"error s{class}\" d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\"/>"
    )
}

fn label([x, y]: [f64; 2], attributes: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escaped(text))
}

fn line(series: usize, points: impl Iterator<Item = (f64, f64)>) -> String {
    let tenths = points.map(|(x, y)| ((10.0 * x).round() as i64, (10.0 * y).round() as i64));
    let written = |(x, y): (i64, i64)| format!("{},{}", x as f64 / 10.0, y as f64 / 10.0);
    let points: Vec<String> = corners(tenths).into_iter().map(written).collect();
    format!("<polyline class=\"line s{}\" points=\"{}\"/>", series % COLOURS, points.join(" "))
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

/// Draws a circle, square, triangle or diamond.
fn mark(series: usize, (x, y): (f64, f64), kind: &str) -> String {
    let class = format!("{kind} s{}", series % COLOURS);
    let corners = match mark_of(series) {
        0 => return format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        1 => "m-5 -5h10v10h-10z",
        2 => "m0 -6l6 11h-12z",
        _ => "m0 -7l6 7l-6 7l-6 -7z",
    };
    format!("<path class=\"{class}\" d=\"M{x:.1} {y:.1}{corners}\"/>")
}

fn cross(series: usize, (x, y): (f64, f64), arm: f64) -> String {
    let (across, class) = (2.0 * arm, series % COLOURS);
    let [left, top] = [x - arm, y - arm];
    format!(
        "<path class=\"cross s{class}\" d=\"M{left:.1} {top:.1}l{across} {across}m-{across} 0l{across} -{across}\"/>"
    )
}

/// Adds a text for a pointer near a shape.
fn hover((x, y): (f64, f64), title: &str, shape: &str) -> String {
    let title = escaped_lines(title);
    format!(
        "<g class=\"point\"><title>{title}</title>{shape}<circle class=\"near\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\"/></g>"
    )
}

fn area(kind: Area, series: usize, [(left, top), (right, bottom)]: [(f64, f64); 2], title: &str) -> String {
    let (wide, high, class) = ((right - left).max(0.5), (bottom - top).max(0.5), series % COLOURS);
    let (kind, title): (&str, String) = (kind.into(), escaped_lines(title));
    format!(
        "<rect class=\"{kind} s{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\"><title>{title}</title></rect>"
    )
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::chart::plain;

    #[test]
    fn values_from_files_never_become_markup() {
        let axis = |title: &str| Axis::numbers(title.into(), [0.0, 1.0], false, &plain);
        let title = "<script>\n\"&".to_owned();
        let shapes = vec![ChartShape::Sign { sign: Sign::Measured, series: 3, at: (0.5, 0.5), title: title.clone() }];
        let chart = Chart { heading: Some((title.clone(), Some(9))), x: axis(&title), y: axis("y"), shapes };
        let svg = draw(&[chart.clone(), chart], ChartLayout { abreast: 2, height: 300.0, stacked: false }, &title);
        assert!(!svg.contains("<script") && svg.matches("<title>&lt;script&gt;\n&quot;&amp;</title>").count() == 2);
        assert!(svg.starts_with("<svg class=\"one\" viewBox=\"0 0 860 300\"") && svg.ends_with("</svg>"));
    }

    #[test]
    fn points_on_a_level_are_left_out_and_corners_are_not() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 5.02), (3.0, 5.0), (3.0, 9.0), (4.0, 9.0), (5.0, 9.0)];
        assert!(line(9, points.into_iter()).contains("class=\"line s1\" points=\"0,5 3,5 3,9 5,9\""));
    }

    #[test]
    fn no_two_series_of_many_look_alike() {
        let looks: std::collections::BTreeSet<_> = (0..COLOURS * MARKS.len()).map(legend).collect();
        assert_eq!(looks.len(), COLOURS * MARKS.len());
    }

    #[test]
    fn charts_above_each_other_label_x_once() {
        let axis = |title: &str| Axis::numbers(title.into(), [0.0, 1.0], false, &plain);
        let chart = Chart { heading: None, x: axis("time"), y: axis("y"), shapes: Vec::new() };
        let stacked = draw(&[chart.clone(), chart], ChartLayout { abreast: 1, height: 150.0, stacked: true }, "x");
        assert_eq!(stacked.matches(">time</text>").count(), 1);
    }
}
