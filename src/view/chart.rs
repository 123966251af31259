//! A plot over time: lines and dots on a grid, a scale at the left, rows of signs below that keep its time.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::canvas::{Canvas, Line, Points};

use super::app::App;
use super::paint;

/// Room for the scale at the left of every plot, so that plots below each other share their time.
pub(super) const SCALE_WIDTH: u16 = 8;

pub(super) struct Series {
    /// Nanoseconds and value, sorted by time.
    pub points: Vec<(f64, f64)>,
    /// A line, or dots only.
    pub is_line: bool,
    pub style: ratatui::style::Style,
}

pub(super) struct Plot<'a> {
    pub title: &'a str,
    pub series: Vec<Series>,
    pub span_ns: [u64; 2],
    /// Writes a value of the scale.
    pub scale: fn(f64) -> String,
}

/// The part of an area that a plot draws in: what stands below it begins at the same column.
pub(super) fn field(area: Rect) -> Rect {
    let scale = SCALE_WIDTH.min(area.width);
    Rect { x: area.x + scale, width: area.width - scale, ..area }
}

impl Plot<'_> {
    pub fn draw(&self, frame: &mut Frame, app: &App, area: Rect) {
        if area.height < 2 || area.width <= SCALE_WIDTH {
            return;
        }
        paint::text(frame.buffer_mut(), paint::line(area, 0), self.title, app.theme.heading());
        let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let top = self.series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
        let top = if top > 0.0 { top * 1.05 } else { 1.0 };
        self.draw_scale(frame, app, area, top);
        let begin = self.span_ns[0] as f64;
        let length = (self.span_ns[1].saturating_sub(self.span_ns[0])).max(1) as f64;
        let canvas = Canvas::default().marker(app.theme.marker()).x_bounds([0.0, length]).y_bounds([0.0, top]).paint(
            |context| {
                for series in &self.series {
                    let colour = series.style.fg.unwrap_or(Color::Reset);
                    let at = |point: &(f64, f64)| (point.0 - begin, point.1);
                    if series.is_line {
                        for pair in series.points.windows(2) {
                            let ((x1, y1), (x2, y2)) = (at(&pair[0]), at(&pair[1]));
                            context.draw(&Line { x1, y1, x2, y2, color: colour });
                        }
                    } else {
                        let dots: Vec<(f64, f64)> = series.points.iter().map(at).collect();
                        context.draw(&Points { coords: &dots, color: colour });
                    }
                }
            },
        );
        frame.render_widget(canvas, field(area));
    }

    fn draw_scale(&self, frame: &mut Frame, app: &App, area: Rect, top: f64) {
        let scale = Rect { width: SCALE_WIDTH - 1, ..area };
        let buffer = frame.buffer_mut();
        let mut write = |row: u16, value: f64| {
            paint::right(buffer, paint::line(scale, row), &(self.scale)(value), app.theme.faint());
        };
        write(0, top);
        if area.height >= 5 {
            write(area.height / 2, top / 2.0);
        }
        write(area.height - 1, 0.0);
    }
}
