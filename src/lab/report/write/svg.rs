//! Charts as SVG in a page. Colours are classes of the page's style sheet, so that they follow its theme.
//!
//! Texts under the pointer are `title` elements and need no script.

use super::html::escaped;
use super::sheet::{Anchor, COLOURS, Form, Item, Label, MARKS, Shape, Sheet, Tone, mark_of};
use crate::report::figures::chart::{Chart, ChartLayout};

const WIDTH: f64 = 860.0;

/// Class and mark of a series in a legend.
pub fn legend(series: usize) -> (String, &'static str) {
    (format!("s{}", series % COLOURS), MARKS[mark_of(series)])
}

/// Draws charts in rows, with `name` for screen readers.
pub fn draw(charts: &[Chart], layout: ChartLayout, name: &str) -> String {
    let sheet = Sheet::of(charts, layout, WIDTH, 0.0);
    let body: String = sheet.items.iter().map(item).collect();
    let (name, high) = (escaped(name), sheet.high);
    let class = if sheet.is_dashed { "class=\"one\" " } else { "" };
    format!("<svg {class}viewBox=\"0 0 {WIDTH:.0} {high:.0}\" role=\"img\" aria-label=\"{name}\">{body}</svg>")
}

fn item(item: &Item) -> String {
    let shape = match item {
        Item::Text(label) => return text(label),
        Item::Shape(shape) => shape,
    };
    let title = shape.title.as_ref().map_or(String::new(), |title| format!("<title>{}</title>", escaped_lines(title)));
    let Some((x, y)) = shape.near else { return element(&shape.form, &class(shape), &title) };
    let drawn = element(&shape.form, &class(shape), "");
    format!("<g class=\"point\">{title}{drawn}<circle class=\"near\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\"/></g>")
}

fn class(shape: &Shape) -> String {
    let pen: &str = shape.pen.into();
    let series = if matches!(pen, "grid" | "axis") { String::new() } else { format!(" s{}", shape.series % COLOURS) };
    format!("class=\"{pen}{series}\"")
}

/// An element with these attributes and content.
pub fn element(form: &Form, attributes: &str, content: &str) -> String {
    let points =
        |points: &[(f64, f64)]| points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
    let (name, geometry) = match form {
        Form::Straight((x1, y1), (x2, y2)) => {
            ("line", format!("x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\""))
        }
        Form::Lines(lines) if lines.len() == 1 => ("polyline", format!("points=\"{}\"", points(&lines[0]))),
        Form::Lines(lines) => {
            let path: String = lines.iter().map(|line| format!("M{}", points(line))).collect();
            ("path", format!("d=\"{path}\""))
        }
        Form::Closed(corners) => ("polygon", format!("points=\"{}\"", points(corners))),
        Form::Circle((x, y), radius) => ("circle", format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"")),
        Form::Box([left, top, wide, high]) => {
            ("rect", format!("x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\""))
        }
    };
    match content {
        "" => format!("<{name} {attributes} {geometry}/>"),
        _ => format!("<{name} {attributes} {geometry}>{content}</{name}>"),
    }
}

fn text(label: &Label) -> String {
    let (x, y) = label.at;
    let mut classes = match label.tone {
        Tone::Plain => Vec::new(),
        Tone::Quiet => vec!["quiet".to_owned()],
        Tone::Heading(series) => {
            let series = series.map(|series| format!("s{}", series % COLOURS));
            ["heading".to_owned()].into_iter().chain(series).collect()
        }
    };
    classes.extend(match label.anchor {
        Anchor::Start => None,
        Anchor::Middle => Some("middle".to_owned()),
        Anchor::End => Some("end".to_owned()),
    });
    let turned = if label.is_turned { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
    let (class, text) = (classes.join(" "), escaped(&label.text));
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\"{turned}>{text}</text>")
}

pub fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::chart::{Axis, ChartShape, Sign, plain};

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
}
