//! A sheet as PDF of one page, without any font of this machine.
//!
//! Texts use Helvetica, one of the 14 fonts that every reader of PDF supplies. It is not embedded.

use pdf_writer::types::LineJoinStyle;
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};

use super::glyphs;
use super::paper::{self, Look, Rgb, SCALE};
use super::sheet::{Anchor, Form, Item, LETTERS, Label, Sheet, Tone};

const REGULAR: (Name<'static>, Name<'static>) = (Name(b"F0"), Name(b"Helvetica"));
const BOLD: (Name<'static>, Name<'static>) = (Name(b"F1"), Name(b"Helvetica-Bold"));
/// Distance of the ends of a circle's curves from their control points, as a share of the radius: 4/3 (√2 - 1).
const ROUND: f64 = 0.552_284_75;

pub fn write(sheet: &Sheet, title: &str, about: &str) -> Vec<u8> {
    let [catalog, pages, page, contents, info, regular, bold] = [1, 2, 3, 4, 5, 6, 7].map(Ref::new);
    let mut drawing = Drawing { sheet, content: Content::new(), opacities: Vec::new() };
    sheet.items.iter().for_each(|item| drawing.draw(item));
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut only = pdf.page(page);
    only.parent(pages).media_box(Rect::new(0.0, 0.0, points(sheet.wide), points(sheet.high))).contents(contents);
    let mut resources = only.resources();
    resources.fonts().pair(REGULAR.0, regular).pair(BOLD.0, bold);
    let mut states = resources.ext_g_states();
    let numbered = || drawing.opacities.iter().enumerate();
    for (index, _) in numbered() {
        states.pair(Name(state(index).as_bytes()), state_ref(index));
    }
    states.finish();
    resources.finish();
    only.finish();
    for (id, (_, font)) in [(regular, REGULAR), (bold, BOLD)] {
        pdf.type1_font(id).base_font(font).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    for (index, [fill, stroke]) in numbered() {
        pdf.ext_graphics(state_ref(index)).non_stroking_alpha(*fill as f32).stroking_alpha(*stroke as f32);
    }
    let creator = concat!("tccc ", env!("CARGO_PKG_VERSION"));
    pdf.document_info(info).title(TextStr(title)).subject(TextStr(about)).creator(TextStr(creator));
    pdf.stream(contents, &drawing.content.finish());
    pdf.finish()
}

fn points(units: f64) -> f32 {
    (units * SCALE) as f32
}

/// Name and object of a pair of opacities.
fn state(index: usize) -> String {
    format!("G{index}")
}

fn state_ref(index: usize) -> Ref {
    Ref::new(8 + index as i32)
}

struct Drawing<'a> {
    sheet: &'a Sheet,
    content: Content,
    /// Opacities of fill and stroke that the page uses.
    opacities: Vec<[f64; 2]>,
}

impl Drawing<'_> {
    fn draw(&mut self, item: &Item) {
        match item {
            Item::Text(label) => self.text(label),
            Item::Shape(shape) => {
                let look = paper::look(shape, self.sheet.is_dashed);
                self.content.save_state();
                self.set(&look);
                self.path(&shape.form);
                match (look.fill, look.stroke) {
                    (Some(_), Some(_)) => self.content.fill_nonzero_and_stroke(),
                    (Some(_), None) => self.content.fill_nonzero(),
                    (None, Some(_)) => self.content.stroke(),
                    (None, None) => self.content.end_path(),
                };
                self.content.restore_state();
            }
        }
    }

    fn set(&mut self, look: &Look) {
        if let Some((colour, _)) = look.fill {
            let [red, green, blue] = shares(colour);
            self.content.set_fill_rgb(red, green, blue);
        }
        if let Some((colour, _, width)) = look.stroke {
            let [red, green, blue] = shares(colour);
            self.content.set_stroke_rgb(red, green, blue).set_line_width(points(width));
            self.content.set_line_join(LineJoinStyle::RoundJoin);
        }
        if !look.dash.is_empty() {
            self.content.set_dash_pattern(look.dash.iter().map(|length| points(*length)), 0.0);
        }
        let opacity = [look.fill.map_or(1.0, |fill| fill.1), look.stroke.map_or(1.0, |stroke| stroke.1)];
        if opacity != [1.0, 1.0] {
            let known = self.opacities.iter().position(|known| *known == opacity);
            let index = known.unwrap_or(self.opacities.len());
            if known.is_none() {
                self.opacities.push(opacity);
            }
            self.content.set_parameters(Name(state(index).as_bytes()));
        }
    }

    /// PDF counts from the bottom.
    fn at(&self, (x, y): (f64, f64)) -> [f32; 2] {
        [points(x), points(self.sheet.high - y)]
    }

    fn path(&mut self, form: &Form) {
        match form {
            Form::Straight(from, to) => self.line(&[*from, *to]),
            Form::Lines(lines) => lines.iter().for_each(|line| self.line(line)),
            Form::Closed(corners) => {
                self.line(corners);
                self.content.close_path();
            }
            Form::Circle(centre, radius) => self.circle(*centre, *radius),
            Form::Box([left, top, wide, high]) => {
                let [x, y] = self.at((*left, top + high));
                self.content.rect(x, y, points(*wide), points(*high));
            }
        }
    }

    fn line(&mut self, line: &[(f64, f64)]) {
        for (index, point) in line.iter().enumerate() {
            let [x, y] = self.at(*point);
            if index == 0 {
                self.content.move_to(x, y)
            } else {
                self.content.line_to(x, y)
            };
        }
    }

    fn circle(&mut self, (x, y): (f64, f64), radius: f64) {
        let on = |[right, down]: [f64; 2]| (x + right * radius, y + down * radius);
        let [from_x, from_y] = self.at(on([1.0, 0.0]));
        self.content.move_to(from_x, from_y);
        for [right, down] in [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]] {
            // A quarter turn, from (right, down) to (-down, right).
            let first = self.at(on([right - ROUND * down, down + ROUND * right]));
            let second = self.at(on([ROUND * right - down, ROUND * down + right]));
            let end = self.at(on([-down, right]));
            self.content.cubic_to(first[0], first[1], second[0], second[1], end[0], end[1]);
        }
        self.content.close_path();
    }

    fn text(&mut self, label: &Label) {
        let (font, _) = if matches!(label.tone, Tone::Heading(_)) { BOLD } else { REGULAR };
        let width = glyphs::width(&label.text, LETTERS);
        let back = match label.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = label.at;
        let begin = if label.is_turned { (x, y + back) } else { (x - back, y) };
        let ([x, y], turn) =
            (self.at(begin), if label.is_turned { [0.0, 1.0, -1.0, 0.0] } else { [1.0, 0.0, 0.0, 1.0] });
        let [red, green, blue] = shares(paper::colour_of(label.tone));
        self.content.begin_text().set_font(font, points(LETTERS)).set_fill_rgb(red, green, blue);
        self.content.set_text_matrix([turn[0], turn[1], turn[2], turn[3], x, y]);
        self.content.show(Str(&glyphs::encoded(&label.text))).end_text();
    }
}

fn shares(colour: Rgb) -> [f32; 3] {
    colour.map(|part| f32::from(part) / 255.0)
}
