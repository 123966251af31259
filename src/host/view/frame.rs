//! The lines around every view: source, lost events, filter, keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::{App, ReplayPosition, View};
use super::{number, paint, theme};
use shared::sanitize::cut;

/// Draws the lines and returns the rest of the screen. A notice takes a line only if there is one.
pub(super) fn draw(frame: &mut Frame, app: &App) -> Rect {
    let screen = frame.area();
    let notice = notice(app);
    let (first, second) = (paint::line(screen, 0), paint::line(screen, 1));
    let foot = paint::line(screen, screen.height.saturating_sub(1));
    let buffer = frame.buffer_mut();
    let bar = theme::BAR;
    [first, foot].into_iter().for_each(|line| buffer.set_style(line, bar));
    let clock = app.replay.map_or_else(String::new, |replay| position_text(&replay));
    let room = usize::from(first.width).saturating_sub(clock.chars().count() + 1);
    paint::text(buffer, first, &cut(&format!(" tccc top  {}", app.title), room), bar);
    paint::right(buffer, first, &format!("{clock} "), bar);
    let counts = app.live.counts();
    let lost = lost_text(app);
    let style =
        if counts.dropped + counts.untracked + counts.unnamed > 0 { app.theme.alarm() } else { app.theme.faint() };
    let room = usize::from(second.width).saturating_sub(lost.chars().count() + 1);
    paint::text(buffer, second, &cut(&totals_text(app), room), Style::new());
    paint::right(buffer, second, &lost, style);
    let above = 2 + u16::from(notice.is_some());
    if let Some((text, style)) = notice {
        paint::text(buffer, paint::line(screen, 2), &text, style);
    }
    paint::text(buffer, foot, &keys_text(app, foot.width.into()), bar);
    let body = paint::below(screen, above);
    Rect { height: body.height.saturating_sub(1), ..body }
}

fn position_text(replay: &ReplayPosition) -> String {
    let speed = match replay.speed {
        0.0 => "paused".to_owned(),
        speed if speed >= 1.0 => format!("{speed:.0}x"),
        speed => format!("{speed:.2}x"),
    };
    format!("{speed} {}/{}", number::age(replay.at_ns), number::age(replay.length_ns))
}

fn totals_text(app: &App) -> String {
    let goodput: f64 = app.live.summaries().iter().map(|summary| summary.goodput_bps).sum();
    let open = number::grouped(app.live.open_sockets() as u64);
    let state = if app.behind.is_some() { "  FROZEN (space)" } else { "" };
    let closed = number::count(app.live.counts().closed as f64);
    format!(" {open} sockets  {}/s{state}  {closed} closed", number::rate(goodput))
}

/// Always contains the number of dropped events, even 0.
fn lost_text(app: &App) -> String {
    let counts = app.live.counts();
    let count = |number: u64| number::count(number as f64);
    let mut text = format!("{} events, {} dropped", count(counts.events), count(counts.dropped));
    let more = [
        (counts.untracked, "of sockets beyond the limit"),
        (counts.unnamed, "names beyond the limit"),
        (counts.hidden, "hidden"),
    ];
    for (number, what) in more.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!(", {} {what}", count(number));
    }
    text
}

/// The filter, or else the source's latest notice.
fn notice(app: &App) -> Option<(String, Style)> {
    if let Some(refusal) = &app.refusal {
        return Some((format!(" filter: {}▏  {refusal}", app.typed), app.theme.alarm()));
    }
    if app.is_typing {
        let example = "  words, process:nginx, srtt>50ms, retrans>2%; Enter keeps, Esc clears";
        return Some((format!(" filter: {}▏{example}", app.typed), Style::new()));
    }
    if !app.typed.is_empty() && app.view() == View::Table {
        let shown = format!("{} of {}", app.order.len(), app.live.sockets().count());
        return Some((format!(" filter: {}  {shown} sockets; Esc clears", app.typed), Style::new()));
    }
    app.notices.last().map(|notice| (format!(" note: {notice}"), app.theme.alarm()))
}

/// The keys of this view, as many as fit.
fn keys_text(app: &App, width: usize) -> String {
    let own: &[&str] = match app.view() {
        View::Table => &["Enter flow", "/ filter", "<> sort", "r reverse", "a algorithms"],
        View::Flow(_) => &["Esc back", "jk next", "z zoom", "a algorithms"],
        View::Summary if app.replay.is_none() => &["Esc back", "jk choose", "Enter its sockets", "c ns per call"],
        View::Summary => &["Esc back", "jk choose", "Enter its sockets"],
    };
    let replay: &[&str] = if app.replay.is_some() { &["+- speed", "[] {} 0-9 seek"] } else { &[] };
    let mut line = String::new();
    for key in [&["q quit", "? help", "space pause"][..], replay, own].concat() {
        if line.len() + key.len() + 2 <= width {
            line += "  ";
            line += key;
        }
    }
    line
}
