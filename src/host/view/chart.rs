//! A plot over time, with a scale on the left.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::canvas::{Canvas, Line, Points};

use super::app::App;
use super::{paint, theme};

/// Every plot has the same width for its scale, so that the time axes of several plots align.
const SCALE_WIDTH: u16 = 8;

pub(super) struct PlotSeries {
    /// Nanoseconds and value, sorted by time.
    pub points: Vec<(f64, f64)>,
    /// False for dots.
    pub is_line: bool,
    pub style: Style,
}

pub(super) struct Plot<'a> {
    pub title: &'a str,
    pub series: [PlotSeries; 2],
    pub span_ns: [u64; 2],
    /// Formats a value of the scale.
    pub scale: fn(f64) -> String,
}

/// The area without the scale.
pub(super) fn field(area: Rect) -> Rect {
    let scale = SCALE_WIDTH.min(area.width);
    Rect { x: area.x + scale, width: area.width - scale, ..area }
}

impl Plot<'_> {
    pub fn draw(&self, frame: &mut Frame, app: &App, area: Rect) {
        if area.height < 2 || area.width <= SCALE_WIDTH {
            return;
        }
        paint::text(frame.buffer_mut(), paint::line(area, 0), self.title, theme::HEADING);
        let area = paint::below(area, 1);
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
