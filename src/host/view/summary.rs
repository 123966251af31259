//! Algorithms side by side, with the round-trip times and costs of the chosen one.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::App;
use super::{number, paint, theme};
use shared::event::CaState;
use shared::model::live::histogram::{BOUNDS_US, Histogram};
use shared::model::live::summary::Summary;

/// Heading, width and value.
type AlgorithmColumn = (&'static str, u16, fn(&Summary) -> String);

static COLUMNS: [AlgorithmColumn; 8] = [
    ("sockets", 8, |it| number::grouped(it.sockets as u64)),
    ("goodput/s", 9, |it| number::rate(it.goodput_bps)),
    ("retrans", 7, |it| it.retrans_ratio.map_or("-".into(), number::percent)),
    ("rtt p50", 8, |it| percentile(it, 0.5)),
    ("rtt p95", 8, |it| percentile(it, 0.95)),
    ("in loss", 7, |it| number::grouped(it.ca_states[CaState::Loss as usize] as u64)),
    ("ns/call", 8, |it| it.ns_per_call.map_or("-".into(), number::nanos)),
    ("received/s", 10, |it| number::rate(it.received_bps)),
];
const NAME_WIDTH: u16 = 15;
/// Widths of a bin's upper bound and of its count.
const BOUND_WIDTH: u16 = 9;
const COUNT_WIDTH: u16 = 9;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

fn percentile(summary: &Summary, share: f64) -> String {
    match summary.rtt.percentile_us(share) {
        Some(bound) => format!("<{}", number::micros(bound.into())),
        None if summary.rtt.total() == 0 => "-".into(),
        None => format!(">{}", number::micros(BOUNDS_US[BOUNDS_US.len() - 1].into())),
    }
}

pub(super) fn draw(frame: &mut Frame, app: &App, area: Rect) {
    let summaries = app.live.summaries();
    let buffer = frame.buffer_mut();
    if summaries.is_empty() {
        let none = " no algorithm yet: each appears with its first socket";
        return paint::text(buffer, paint::line(area, 0), none, app.theme.faint());
    }
    let chosen = app.chosen_index(&summaries);
    let rows = (summaries.len() as u16).min(area.height.saturating_sub(1) / 2);
    draw_row(buffer, paint::line(area, 0), " algorithm", theme::HEADING, |(name, ..)| (*name).to_owned());
    let top = (chosen + 1).saturating_sub(rows.into());
    for (row, summary) in summaries.iter().skip(top).take(rows.into()).enumerate() {
        let line = paint::line(area, row as u16 + 1);
        draw_row(buffer, line, &format!(" {}", summary.algorithm), Style::new(), |(.., value)| value(summary));
        if row + top == chosen {
            buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
    draw_chosen(buffer, app, &summaries[chosen], paint::below(area, rows + 2));
}

/// Writes the columns that fit completely.
fn draw_row(buffer: &mut Buffer, line: Rect, name: &str, style: Style, cell: impl Fn(&AlgorithmColumn) -> String) {
    paint::text(buffer, Rect { width: NAME_WIDTH.min(line.width), ..line }, name, style);
    let mut x = line.x + NAME_WIDTH + 1;
    for column in &COLUMNS {
        if x + column.1 > line.right() {
            return;
        }
        paint::right(buffer, Rect { x, width: column.1, ..line }, &cell(column), style);
        x += column.1 + 1;
    }
}

/// Draws the states, callback costs and histogram of one algorithm.
fn draw_chosen(buffer: &mut Buffer, app: &App, summary: &Summary, area: Rect) {
    let states = CaState::ALL.iter().zip(summary.ca_states);
    let states: Vec<String> = states.map(|(state, count)| format!("{} {count}", state.name())).collect();
    let costs = summary.callback_ns.iter();
    let costs: Vec<String> = costs.map(|(name, ns)| format!("{name} {}", number::nanos(*ns))).collect();
    let costs = match (costs.is_empty(), app.counts_costs, app.replay.is_some()) {
        (false, ..) => costs.join("  "),
        (true, false, true) => "was not counted".to_owned(),
        (true, false, false) => "not counted; c makes the kernel count it".to_owned(),
        (true, true, _) => "counting; BPF algorithms show it after their next calls".to_owned(),
    };
    let lines = [
        format!(" {}: sockets in {}", summary.algorithm, states.join("  ")),
        format!(" cost of a call: {costs}"),
        format!(" RTT samples of the last 30 to 60 s: {}", number::grouped(summary.rtt.total())),
    ];
    paint::lines(buffer, area, lines.iter().zip([theme::HEADING, Style::new(), Style::new()]));
    draw_histogram(buffer, app, summary, paint::below(area, 3));
}

/// Draws one bar per bin, from the first to the last with samples. Merges neighbouring bins if lines are few.
fn draw_histogram(buffer: &mut Buffer, app: &App, summary: &Summary, area: Rect) {
    let bars = bars(&summary.rtt, area.height.into());
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(1).max(1);
    for (row, (last, samples)) in bars.into_iter().enumerate() {
        let line = paint::line(area, row as u16);
        let bound = BOUNDS_US.get(last).map(|bound| format!("<{}", number::micros((*bound).into())));
        let bound = bound.unwrap_or_else(|| "more".to_owned());
        paint::right(buffer, Rect { width: BOUND_WIDTH.min(line.width), ..line }, &bound, app.theme.faint());
        let count =
            Rect { x: line.x + BOUND_WIDTH, width: COUNT_WIDTH.min(line.width.saturating_sub(BOUND_WIDTH)), ..line };
        paint::right(buffer, count, &number::grouped(samples), Style::new());
        let x = count.right() + 1;
        let width = line.right().saturating_sub(x);
        let eighths = (u128::from(samples) * u128::from(width) * 8).div_ceil(u128::from(most)) as usize;
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        paint::text(buffer, Rect { x, width, ..line }, &bar, app.theme.colour(theme::MEASURE));
    }
}

/// The last bin of each bar and its samples. There are at most `lines` bars.
fn bars(rtt: &Histogram, lines: usize) -> Vec<(usize, u64)> {
    let counts = &rtt.counts;
    let Some(first) = counts.iter().position(|count| *count > 0).filter(|_| lines > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    let bins: Vec<usize> = (first..=last).collect();
    let merged = bins.chunks(bins.len().div_ceil(lines));
    merged.map(|bins| (bins[bins.len() - 1], bins.iter().map(|bin| counts[*bin]).sum())).collect()
}
