//! Plots as SVG for the HTML page: metrics over the sweep with error bars, and windows over time.
//!
//! Colours are those of the light theme; the page's style sheet replaces them in the dark one. A series differs by its
//! mark as well as its colour (and in window plots by its own panel), so that neither colour sight nor ink is needed.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::number;
use super::plot::WindowPlot;
use super::table;
use super::{Cell, Report};
use crate::model::metrics::Metric;

/// Axes, labels and text.
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Grid lines.
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Colours of the series on white: hues of Okabe and Ito, darkened to a contrast of 3 to 1 or more.
const SERIES: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xc0, 0x46, 0x00),
    RGBColor(0x00, 0x7a, 0x5a),
    RGBColor(0xa3, 0x4e, 0x82),
    RGBColor(0x8a, 0x62, 0x00),
    RGBColor(0x2f, 0x86, 0xb5),
    RGBColor(0x55, 0x55, 0x66),
];
/// The same series on a dark ground.
const SERIES_DARK: [&str; 7] = ["#56b4e9", "#ff8f4a", "#2fc79d", "#e8a2c9", "#f0c24b", "#9bd8ff", "#c8c8d4"];
/// Marks of the series as text, in the order in which [`corners`] draws them.
const MARKS: [&str; 4] = ["●", "■", "▲", "◆"];
/// Sizes in units of the drawing, which the page scales to its width.
const WIDTH: u32 = 860;
const METRIC_HEIGHT: u32 = 340;
const PANEL_HEIGHT: u32 = 132;
const LABEL_SIZE: u32 = 15;
/// From this ratio of largest to smallest value on, differences between the small ones cannot be seen on one axis.
const PANEL_RANGE: f64 = 12.0;
/// Panels beside each other, and how many places can have one.
const PANELS_ABREAST: usize = 3;
const MOST_PANELS: usize = 9;
/// Part of a place's width over which its variants are spread.
const SPREAD: f64 = 0.6;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Numbers = Cartesian2d<RangedCoordf64, RangedCoordf64>;

/// Rules of the style sheet that put the series into their dark colours.
pub fn dark_rules() -> String {
    let hex = |color: &RGBColor| format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
    let mut rules = String::new();
    for (light, dark) in SERIES.iter().zip(SERIES_DARK) {
        let light = hex(light);
        rules.push_str(&format!("svg [stroke=\"{light}\"]{{stroke:{dark}}}svg [fill=\"{light}\"]{{fill:{dark}}}"));
    }
    let (ink, grid) = (hex(&INK), hex(&GRID));
    rules.push_str(&format!("svg [fill=\"{ink}\"]{{fill:#d6d6d6}}svg [stroke=\"{ink}\"]{{stroke:#d6d6d6}}"));
    rules.push_str(&format!("svg [stroke=\"{grid}\"]{{stroke:#3a3d42}}"));
    for (index, dark) in SERIES_DARK.iter().enumerate() {
        rules.push_str(&format!(".series-{index}{{color:{dark}}}"));
    }
    rules
}

/// Rules of the style sheet that give legends the light colours.
pub fn light_rules() -> String {
    let rule = |(index, c): (usize, &RGBColor)| format!(".series-{index}{{color:#{:02x}{:02x}{:02x}}}", c.0, c.1, c.2);
    SERIES.iter().enumerate().map(rule).collect()
}

/// Class and mark of a variant in legends.
pub fn legend(index: usize) -> (String, &'static str) {
    (format!("series-{}", index % SERIES.len()), MARKS[index % MARKS.len()])
}

/// Variants of the report in the order of its rows: a variant has the same colour in every plot.
pub fn variants(report: &Report) -> Vec<&str> {
    let mut variants: Vec<&str> = Vec::new();
    for cell in &report.cells {
        if !variants.contains(&cell.variant.as_str()) {
            variants.push(&cell.variant);
        }
    }
    variants
}

/// Draws one metric over the places of the sweep: means with 95 % intervals, published values as crosses.
///
/// Where the largest value would press all others to the ground, each place has a panel and an axis of its own.
///
/// Errors: the drawing cannot be written.
pub fn metric(report: &Report, metric: &str) -> Result<String> {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.metric == metric).collect();
    let mut variants = variants(report);
    let all = variants.clone();
    variants.retain(|variant| cells.iter().any(|cell| cell.variant == *variant));
    let places = places(&cells);
    let plot = |cells: Vec<_>, places| MetricPlot { cells, all: &all, shown: &variants, places };
    if places.len() < 2 || places.len() > MOST_PANELS || range(&cells) < PANEL_RANGE {
        return draw((WIDTH, METRIC_HEIGHT), |area| plot(cells, places).draw(area));
    }
    let rows = places.len().div_ceil(PANELS_ABREAST);
    draw((WIDTH, METRIC_HEIGHT * rows as u32), |area| {
        for (place, panel) in places.iter().zip(area.split_evenly((rows, PANELS_ABREAST.min(places.len())))) {
            let here = cells.iter().copied().filter(|cell| place_of(cell) == *place).collect();
            plot(here, vec![place.clone()]).draw(&panel)?;
        }
        Ok(())
    })
}

/// Largest over smallest value drawn; 1 without values above zero.
fn range(cells: &[&Cell]) -> f64 {
    let values = cells.iter().flat_map(|cell| cell.measured.iter().map(|m| m.mean).chain(cell.published));
    let positive: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let smallest = positive.iter().copied().fold(f64::INFINITY, f64::min);
    positive.iter().map(|value| value / smallest).fold(1.0, f64::max)
}

/// Draws the windows of one place: a panel per variant.
///
/// Errors: the drawing cannot be written.
pub fn windows(report: &Report, plot: &WindowPlot) -> Result<String> {
    let all = variants(report);
    let shown: Vec<(usize, &str)> =
        all.into_iter().enumerate().filter(|(_, name)| plot.lines.iter().any(|line| line.variant == **name)).collect();
    let height = PANEL_HEIGHT * shown.len() as u32 + 30;
    draw((WIDTH, height), |area| {
        let (panels, last) = area.split_vertically(PANEL_HEIGHT * (shown.len() as u32 - 1));
        let above = panels.split_evenly((shown.len().max(2) - 1, 1));
        for (index, (series, variant)) in shown.iter().enumerate() {
            let is_last = index + 1 == shown.len();
            panel(if is_last { &last } else { &above[index] }, plot, (*series, variant), is_last)?;
        }
        Ok(())
    })
}

fn draw(size: (u32, u32), content: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        content(&area)?;
        area.present().map_err(refused)?;
    }
    Ok(svg)
}

fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("draw a plot: {error}")
}

/// Places of the cells, as labels, in order.
fn places(cells: &[&Cell]) -> Vec<String> {
    let mut places = Vec::new();
    for cell in cells {
        let place = place_of(cell);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Everything of a cell's position but its variant, as a label.
fn place_of(cell: &Cell) -> String {
    let others = cell.at.iter().filter(|(_, value)| **value != cell.variant);
    others.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

struct MetricPlot<'a> {
    cells: Vec<&'a Cell>,
    /// Variants of the report, for the colour.
    all: &'a [&'a str],
    /// Variants of this metric, for the position.
    shown: &'a [&'a str],
    places: Vec<String>,
}

impl MetricPlot<'_> {
    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let chart = self.axes(area)?;
        let corner = area.get_base_pixel();
        for (index, place) in self.places.iter().enumerate() {
            let (x, y) = chart.plotting_area().map_coordinate(&(index as f64, 0.0));
            label(area, place, (x - corner.0, y - corner.1 + 10), (HPos::Center, INK))?;
        }
        self.cells.iter().try_for_each(|cell| self.cell(chart.plotting_area(), cell))
    }

    fn axes<'a>(&self, area: &Area<'a>) -> Result<ChartContext<'a, SVGBackend<'a>, Numbers>> {
        let scale = table::scale_of(&self.cells);
        let top = self.highest() * 1.06;
        let top = if top > 0.0 { top } else { 1.0 };
        let title = self.cells.first().and_then(|cell| Metric::find(&cell.metric)).map_or("", |metric| metric.title);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(86)
            .build_cartesian_2d(-0.5..self.places.len() as f64 - 0.5, 0.0..top)
            .map_err(refused)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", LABEL_SIZE).with_color(INK))
            .y_desc(format!("{title} [{}]", scale.unit()))
            .x_labels(0)
            .y_label_formatter(&|y| scale.show_short(*y))
            .draw()
            .map_err(refused)?;
        Ok(chart)
    }

    /// The largest value that is drawn.
    fn highest(&self) -> f64 {
        let values = self.cells.iter().flat_map(|cell| {
            let measured = cell.measured.iter().flat_map(|m| m.ci95.map(|ci| ci[1]).into_iter().chain([m.mean]));
            measured.chain(cell.published)
        });
        values.filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Published cross, error bar and mark of one cell.
    fn cell(&self, area: &DrawingArea<SVGBackend<'_>, Numbers>, cell: &Cell) -> Result<()> {
        let (x, series) = self.position(cell);
        let color = SERIES[series % SERIES.len()];
        if let Some(published) = cell.published {
            area.draw(&Cross::new((x, published), 5, color.stroke_width(2))).map_err(refused)?;
        }
        let Some(measured) = &cell.measured else { return Ok(()) };
        if let Some([low, high]) = measured.ci95 {
            let low = low.max(0.0);
            area.draw(&PathElement::new(vec![(x, low), (x, high)], color.stroke_width(2))).map_err(refused)?;
            for end in [low, high] {
                let cap = PathElement::new(vec![(-5, 0), (5, 0)], color.stroke_width(2));
                area.draw(&(EmptyElement::at((x, end)) + cap)).map_err(refused)?;
            }
        }
        let at = EmptyElement::at((x, measured.mean));
        match corners(series) {
            None => area.draw(&(at + Circle::new((0, 0), 5, color.filled()))),
            Some(corners) => area.draw(&(at + Polygon::new(corners, color.filled()))),
        }
        .map_err(refused)
    }

    /// Where a cell stands: its place, with the variants side by side; and its series.
    fn position(&self, cell: &Cell) -> (f64, usize) {
        let place = place_of(cell);
        let place = self.places.iter().position(|known| *known == place).unwrap_or(0);
        let index = |variants: &[&str]| variants.iter().position(|known| *known == cell.variant).unwrap_or(0);
        let offset = (index(self.shown) as f64 + 0.5) / self.shown.len().max(1) as f64 - 0.5;
        let series = index(self.all);
        (place as f64 + offset * SPREAD, series)
    }
}

/// The corners of a series' mark: none for a circle, then square, triangle, diamond.
fn corners(series: usize) -> Option<Vec<(i32, i32)>> {
    match series % MARKS.len() {
        0 => None,
        1 => Some(vec![(-5, -5), (5, -5), (5, 5), (-5, 5)]),
        2 => Some(vec![(0, -6), (6, 5), (-6, 5)]),
        _ => Some(vec![(0, -7), (6, 0), (0, 7), (-6, 0)]),
    }
}

fn panel(area: &Area<'_>, plot: &WindowPlot, (series, variant): (usize, &str), is_last: bool) -> Result<()> {
    let (time, window) = (plot.length_s().max(0.001), plot.top_pkts(variant).max(1.0) * 1.05);
    let color = SERIES[series % SERIES.len()];
    let mut chart = ChartBuilder::on(area)
        .margin_right(14)
        .margin_top(22)
        .x_label_area_size(if is_last { 40 } else { 8 })
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..time, 0.0..window)
        .map_err(refused)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", LABEL_SIZE).with_color(INK))
        .y_labels(4)
        .x_labels(if is_last { 10 } else { 0 })
        .y_desc("cwnd [pkts]")
        .x_label_formatter(&|x| number::short(number::significant(*x)))
        .y_label_formatter(&|y| number::grouped(*y, 0));
    if is_last {
        mesh.x_desc("time since the flow's first event [s]");
    }
    mesh.draw().map_err(refused)?;
    for line in plot.lines.iter().filter(|line| line.variant == variant) {
        let points = line.points.iter().map(|&(x, y)| (x, y.min(window)));
        let drawn = LineSeries::new(points, color.stroke_width(1));
        chart.draw_series(drawn).map_err(refused)?;
    }
    let cut = plot.cut_pkts(variant).map(|peak| format!(" (peak of {} pkts cut off)", number::grouped(peak, 0)));
    label(area, &format!("{variant}{}", cut.unwrap_or_default()), (66, 2), (HPos::Left, color))
}

/// Writes a text below a point, relative to the corner of the area.
fn label(area: &Area<'_>, text: &str, at: (i32, i32), (side, color): (HPos, RGBColor)) -> Result<()> {
    let style = TextStyle::from(("sans-serif", LABEL_SIZE + 1)).color(&color).pos(Pos::new(side, VPos::Top));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(refused)
}
