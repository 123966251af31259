//! Figures as files for a paper: SVG with its own colours and fonts on white, and PDF.
//!
//! A figure of one column is 3.5 inches wide and one of several charts abreast 7.16, the columns of IEEE and ACM. Letters have
//! nearly 8 points. Title and explanation belong to the caption: a file has them only as metadata.

use super::html::escaped;
use super::sheet::{Anchor, COLOURS, Form, Item, LETTERS, Label, Pen, Shape, Sheet, Tone};
use super::svg::{element, escaped_lines};
use super::{glyphs, pdf};
use crate::report::figures::chart::{Area, Chart, ChartShape, Sign};
use crate::report::figures::figure::Figure;

/// Points of print per unit of a sheet.
pub const SCALE: f64 = 0.6;
/// Widths of a sheet for one column and for two.
const COLUMN: f64 = 420.0;
const COLUMNS: f64 = 860.0;
/// Largest height of a row of charts. Stacked panels keep their own.
const ROW_HEIGHT: f64 = 270.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 19.0;
/// Length of a sample of a line in the legend, and its distance from the text.
const SAMPLE: [f64; 2] = [24.0, 7.0];
/// Distance between entries of the legend.
const ENTRY_GAP: f64 = 18.0;
/// Margin at the left and right of the legend.
const LEGEND_MARGIN: f64 = 16.0;
/// Most letters of a title in a file's name.
const NAME_MAX: usize = 60;
const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', sans-serif";

pub type Rgb = [u8; 3];
/// The colours of series on a light page.
const SERIES: [Rgb; COLOURS] = [
    [0x00, 0x72, 0xb2],
    [0xc0, 0x46, 0x00],
    [0x00, 0x7a, 0x5a],
    [0xa3, 0x4e, 0x82],
    [0x8a, 0x62, 0x00],
    [0x2f, 0x86, 0xb5],
    [0x55, 0x55, 0x66],
    [0x6a, 0x3f, 0xb5],
];
const INK: Rgb = [0x1c, 0x1e, 0x21];
const QUIET: Rgb = [0x5a, 0x60, 0x68];
const GRID: Rgb = [0xd5, 0xd8, 0xdc];
const GROUND: Rgb = [0xff, 0xff, 0xff];
/// Dashes of lines that share a chart, by colour.
const DASHES: [&[f64]; 4] = [&[], &[7.0, 3.0], &[2.0, 3.0], &[9.0, 3.0, 2.0, 3.0]];

/// The look of a shape on white.
pub struct Look {
    /// Colour and opacity.
    pub fill: Option<(Rgb, f64)>,
    /// Colour, opacity and width.
    pub stroke: Option<(Rgb, f64, f64)>,
    pub dash: &'static [f64],
}

/// The drawing of a figure for a file, with its legend. Nothing is drawn that only a pointer shows.
pub fn sheet(figure: &Figure) -> Sheet {
    let mut layout = figure.layout;
    let wide = if layout.abreast > 1 && figure.charts.len() > 1 { COLUMNS } else { COLUMN };
    layout.height = layout.height.min(ROW_HEIGHT);
    let (legend, top) = legend(figure, wide);
    let mut sheet = Sheet::of(&figure.charts, layout, wide, top);
    sheet.items.retain(|item| !matches!(item, Item::Shape(shape) if shape.pen == Pen::Span));
    sheet.items.extend(legend);
    sheet
}

/// Samples and names of the series, in as many lines as they need, and their height.
fn legend(figure: &Figure, wide: f64) -> (Vec<Item>, f64) {
    let (mut items, mut x, mut y) = (Vec::new(), LEGEND_MARGIN, LEGEND_LINE / 2.0);
    for (series, name) in &figure.legend {
        let width = SAMPLE.iter().sum::<f64>() + glyphs::width(name, LETTERS);
        if x > LEGEND_MARGIN && x + width > wide - LEGEND_MARGIN {
            (x, y) = (LEGEND_MARGIN, y + LEGEND_LINE);
        }
        items.extend(samples(&figure.charts, *series, (x, y)).into_iter().map(Item::Shape));
        let at = (x + SAMPLE.iter().sum::<f64>(), y + 4.5);
        let (text, anchor, tone) = (name.clone(), Anchor::Start, Tone::Plain);
        items.push(Item::Text(Label { at, text, anchor, tone, is_turned: false }));
        x += width + ENTRY_GAP;
    }
    let high = if figure.legend.is_empty() { 0.0 } else { y + LEGEND_LINE / 2.0 };
    (items, high)
}

/// What the charts draw of a series: its line, bar and mark, or the cross of a published one.
fn samples(charts: &[Chart], series: usize, (x, y): (f64, f64)) -> Vec<Shape> {
    let has = |is: fn(&ChartShape) -> Option<usize>| {
        charts.iter().flat_map(|chart| &chart.shapes).any(|shape| is(shape) == Some(series))
    };
    let has_line = has(|shape| if let ChartShape::Line { series, .. } = shape { Some(*series) } else { None });
    let has_bar = has(|shape| match shape {
        ChartShape::Area { series, area: Area::Bar, .. } => Some(*series),
        _ => None,
    });
    let has_mark = has(|shape| match shape {
        ChartShape::Sign { series, sign: Sign::Measured, .. } => Some(*series),
        _ => None,
    });
    let middle = (x + SAMPLE[0] / 2.0, y);
    let line = || Shape::new(Pen::Line, series, Form::Lines(vec![vec![(x, y), (x + SAMPLE[0], y)]]));
    let bar = || Shape::new(Pen::Bar, series, Form::Box([x, y - 5.0, SAMPLE[0], 10.0]));
    let shapes = [
        has_line.then(line),
        has_bar.then(bar),
        has_mark.then(|| Shape::mark(Pen::Mark, series, middle)),
        (!has_line && !has_bar && !has_mark).then(|| Shape::cross(series, middle, 5.0)),
    ];
    shapes.into_iter().flatten().collect()
}

pub fn look(shape: &Shape, is_dashed: bool) -> Look {
    let colour = SERIES[shape.series % COLOURS];
    let plain = Look { fill: None, stroke: None, dash: &[] };
    let stroke = |colour, width| Look { stroke: Some((colour, 1.0, width)), ..plain };
    match shape.pen {
        Pen::Grid => Look { stroke: Some((GRID, 1.0, 1.0)), ..plain },
        Pen::Axis => Look { stroke: Some((QUIET, 1.0, 1.0)), ..plain },
        Pen::Line => {
            let dash = if is_dashed { DASHES[shape.series % DASHES.len()] } else { &[] };
            Look { stroke: Some((colour, 1.0, 1.6)), dash, ..plain }
        }
        Pen::Mark => Look { fill: Some((colour, 1.0)), ..plain },
        Pen::Hollow => Look { fill: Some((GROUND, 1.0)), stroke: Some((colour, 1.0, 2.0)), ..plain },
        Pen::Cross | Pen::Error => stroke(colour, 2.0),
        Pen::Range => Look { fill: Some((colour, 0.14)), stroke: Some((colour, 0.5, 1.0)), ..plain },
        Pen::Bar => Look { fill: Some((colour, 0.38)), ..plain },
        Pen::Span => plain,
    }
}

/// Colour of a text.
pub fn colour_of(tone: Tone) -> Rgb {
    match tone {
        Tone::Plain | Tone::Heading(None) => INK,
        Tone::Quiet => QUIET,
        Tone::Heading(Some(series)) => SERIES[series % COLOURS],
    }
}

/// A self-contained SVG document.
pub fn svg(figure: &Figure) -> String {
    let sheet = sheet(figure);
    let (wide, high) = (sheet.wide, sheet.high);
    let [print_wide, print_high] = [wide, high].map(|units| units * SCALE);
    let body: String = sheet.items.iter().map(|item| format!("{}\n", drawn(item, sheet.is_dashed))).collect();
    let (title, about) = (escaped(&figure.title), escaped_lines(&figure.explanation));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" \
         width=\"{print_wide:.1}pt\" height=\"{print_high:.1}pt\" viewBox=\"0 0 {wide:.0} {high:.0}\" \
         font-family=\"{FONTS}\" font-size=\"{LETTERS}\">\n<title>{title}</title>\n<desc>{about}</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{body}</svg>\n",
        hex(GROUND),
    )
}

pub fn pdf(figure: &Figure) -> Vec<u8> {
    pdf::write(&sheet(figure), &figure.title, &figure.explanation)
}

/// Scenario, number and title, in letters that every file system and LaTeX take.
pub fn file_name(scenario: &str, number: usize, title: &str) -> String {
    let [scenario, title] = [scenario, title].map(plain_letters);
    format!("{scenario}-{number:02}-{title}")
}

/// Words of a text, which may be from a file of others, joined by `-`.
fn plain_letters(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let mut joined = plain.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    joined.truncate(NAME_MAX);
    joined.trim_end_matches('-').to_owned()
}

fn drawn(item: &Item, is_dashed: bool) -> String {
    match item {
        Item::Text(label) => text(label),
        Item::Shape(shape) => element(&shape.form, &attributes(&look(shape, is_dashed)), ""),
    }
}

fn attributes(look: &Look) -> String {
    let opacity = |name: &str, share: f64| if share < 1.0 { format!(" {name}=\"{share}\"") } else { String::new() };
    let fill = look.fill.map_or("fill=\"none\"".to_owned(), |(colour, share)| {
        format!("fill=\"{}\"{}", hex(colour), opacity("fill-opacity", share))
    });
    let stroke = look.stroke.map_or(String::new(), |(colour, share, width)| {
        format!(" stroke=\"{}\" stroke-width=\"{width}\"{}", hex(colour), opacity("stroke-opacity", share))
    });
    let dash: Vec<String> = look.dash.iter().map(f64::to_string).collect();
    let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", dash.join(" ")) };
    format!("{fill}{stroke}{dash}")
}

fn text(label: &Label) -> String {
    let (x, y) = label.at;
    let anchor = match label.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = if matches!(label.tone, Tone::Heading(_)) { " font-weight=\"bold\"" } else { "" };
    let turned = if label.is_turned { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
    let (colour, text) = (hex(colour_of(label.tone)), escaped(&label.text));
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\"{weight}{turned}>{text}</text>")
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_the_colours_of_a_light_page() {
        let page = include_str!("page.css");
        let light = page.split("@media").next().unwrap();
        for (series, colour) in SERIES.iter().enumerate() {
            let rule = format!(".s{series} {{ --c: {}; }}", hex(*colour));
            assert!(light.contains(&rule), "{rule}");
        }
        for (name, colour) in [("ink", INK), ("quiet", QUIET), ("line", GRID), ("ground", GROUND)] {
            assert!(light.contains(&format!("--{name}: {};", hex(colour))), "{name}");
        }
    }

    #[test]
    fn name_of_a_file_stays_in_its_directory() {
        assert_eq!(file_name("../../etc/x y", 2, "Goodput, by $loss"), "etc-x-y-02-goodput-by-loss");
    }
}
