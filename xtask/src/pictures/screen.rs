//! Draws a terminal's screen as SVG: a rectangle for each background, a text for each run of one style.

use vt100::{Cell, Color, Parser};

/// Width of a cell, pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: u16 = 18;
/// Distance of the baseline from the top of a cell.
const BASE: u16 = 14;
const BACKGROUND: &str = "#11161c";
const FOREGROUND: &str = "#d8dee6";
/// A terminal's sixteen named colours.
const NAMED: [&str; 16] = [
    "#1c2128", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#c9d1d9", "#6e7681", "#ffa198",
    "#aff5b4", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff",
];

/// Adjacent cells of one style.
#[derive(Debug, PartialEq)]
struct Stretch {
    row: u16,
    column: u16,
    text: String,
    cells: u16,
    style: Style,
}

#[derive(Debug, Clone, PartialEq)]
struct Style {
    foreground: String,
    background: String,
    is_bold: bool,
}

pub fn svg(parser: &Parser) -> String {
    let (rows, columns) = parser.screen().size();
    let (width, height) = (f64::from(columns.get()) * WIDTH, rows.get() * HEIGHT);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" font-family=\"monospace\" \
         font-size=\"14\">\n<title>tccc top over a recording</title>\n<rect width=\"100%\" height=\"100%\" \
         fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows.get() {
        for stretch in stretches(parser, row, columns.get()) {
            text += &drawn(&stretch);
        }
    }
    text + "</svg>\n"
}

fn stretches(parser: &Parser, row: u16, columns: u16) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    let cells = (0..columns).filter_map(|column| Some((column, parser.screen().cell(row, column)?)));
    for (column, cell) in cells {
        let style = style(cell);
        let character = if cell.contents().is_empty() { " " } else { cell.contents() };
        match all.last_mut().filter(|last| last.style == style) {
            Some(last) => {
                last.text += character;
                last.cells += 1;
            }
            None => all.push(Stretch { row, column, text: character.to_owned(), cells: 1, style }),
        }
    }
    all
}

fn style(cell: &Cell) -> Style {
    let colours = [colour(cell.fgcolor(), FOREGROUND), colour(cell.bgcolor(), BACKGROUND)];
    let [foreground, background] = colours;
    let is_bold = cell.bold();
    match cell.inverse() {
        true => Style { foreground: background, background: foreground, is_bold },
        false => Style { foreground, background, is_bold },
    }
}

fn colour(colour: Color, default: &str) -> String {
    match colour {
        Color::Default => default.to_owned(),
        Color::Idx(index) => indexed(index),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

/// The 256 colours of a terminal: sixteen named ones, a cube of six steps, a ramp of greys.
fn indexed(index: u8) -> String {
    let step = |value: u8| if value == 0 { 0 } else { 55 + 40 * value };
    let [red, green, blue] = match index {
        0..=15 => return NAMED[usize::from(index)].to_owned(),
        16..=231 => [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6].map(step),
        232..=255 => [8 + 10 * (index - 232); 3],
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn drawn(stretch: &Stretch) -> String {
    let Style { foreground, background, is_bold } = &stretch.style;
    let (y, mut text) = (stretch.row * HEIGHT, String::new());
    let at = |column: u16| f64::from(column) * WIDTH;
    if background != BACKGROUND {
        let (x, width) = (at(stretch.column), at(stretch.cells));
        text +=
            &format!("<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{background}\"/>\n");
    }
    let visible = stretch.text.trim_end();
    let before = visible.chars().count() - visible.trim_start().chars().count();
    let visible = visible.trim_start();
    if visible.is_empty() {
        return text;
    }
    let (x, width) = (at(stretch.column + before as u16), at(visible.chars().count() as u16));
    let weight = if *is_bold { " font-weight=\"bold\"" } else { "" };
    text + &format!(
        "<text x=\"{x:.1}\" y=\"{}\" textLength=\"{width:.1}\" fill=\"{foreground}\"{weight} \
         xml:space=\"preserve\">{}</text>\n",
        y + BASE,
        escaped(visible)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Parser {
        let mut parser = Parser::new(1.try_into().unwrap(), 8.try_into().unwrap(), 0);
        parser.process(bytes);
        parser
    }

    #[test]
    fn cells_of_one_style_are_one_text() {
        let parser = parsed(b"ab \x1b[1mc<\x1b[0m");
        let texts: Vec<_> = stretches(&parser, 0, 8).into_iter().map(|one| (one.column, one.text)).collect();
        assert_eq!(texts, [(0, "ab ".to_owned()), (3, "c<".to_owned()), (5, "   ".to_owned())]);
        let picture = svg(&parser);
        assert!(picture.contains("font-weight=\"bold\" xml:space=\"preserve\">c&lt;</text>"), "{picture}");
    }

    #[test]
    fn colours_are_those_of_a_terminal() {
        assert_eq!([0, 16, 196, 231, 232].map(indexed), ["#1c2128", "#000000", "#ff0000", "#ffffff", "#080808"]);
        let inverse = style(parsed(b"\x1b[7ma").screen().cell(0, 0).unwrap());
        assert_eq!((inverse.foreground.as_str(), inverse.background.as_str()), (BACKGROUND, FOREGROUND));
    }
}
