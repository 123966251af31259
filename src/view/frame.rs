//! The lines around every view: what is watched, what was missed, the filter, the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::{App, Playing, View};
use super::{number, paint};

pub(super) struct Areas {
    head: Rect,
    notice: Rect,
    pub body: Rect,
    foot: Rect,
}

/// Divides the screen; the notice has a line only when there is something to say.
pub(super) fn areas(screen: Rect, app: &App) -> Areas {
    let has_notice = notice(app).is_some();
    let part = |from: u16, height: u16| Rect {
        y: screen.y + from.min(screen.height),
        height: height.min(screen.height.saturating_sub(from)),
        ..screen
    };
    let above = 2 + u16::from(has_notice);
    Areas {
        head: part(0, 2),
        notice: part(2, u16::from(has_notice)),
        body: part(above, screen.height.saturating_sub(above + 1)),
        foot: part(screen.height.saturating_sub(1), 1),
    }
}

pub(super) fn draw(frame: &mut Frame, app: &App, areas: &Areas) {
    let buffer = frame.buffer_mut();
    let bar = app.theme.bar();
    for line in [paint::line(areas.head, 0), areas.foot] {
        buffer.set_style(line, bar);
    }
    let first = paint::line(areas.head, 0);
    let clock = app.playing.map_or_else(String::new, |playing| playing_words(&playing));
    let room = usize::from(first.width).saturating_sub(clock.chars().count() + 1);
    paint::text(buffer, first, &paint::cut(&format!(" tccc top  {}", app.title), room), bar);
    paint::right(buffer, first, &format!("{clock} "), bar);
    let counts = app.live.counts();
    let second = paint::line(areas.head, 1);
    let missed = missed_words(app);
    let style =
        if counts.dropped + counts.untracked + counts.unnamed > 0 { app.theme.alarm() } else { app.theme.faint() };
    let room = usize::from(second.width).saturating_sub(missed.chars().count() + 1);
    paint::text(buffer, second, &paint::cut(&total_words(app), room), Style::new());
    paint::right(buffer, second, &missed, style);
    if let Some((text, style)) = notice(app) {
        paint::text(buffer, areas.notice, &text, style);
    }
    paint::text(buffer, areas.foot, &keys(app, areas.foot.width.into()), bar);
}

fn playing_words(playing: &Playing) -> String {
    let speed = match playing.speed {
        0.0 => "paused".to_owned(),
        speed if speed >= 1.0 => format!("{speed:.0}x"),
        speed => format!("{speed:.2}x"),
    };
    format!("{speed} {}/{}", number::age(playing.at_ns), number::age(playing.length_ns))
}

fn total_words(app: &App) -> String {
    let goodput: f64 = app.live.summaries().iter().map(|summary| summary.goodput_bps).sum();
    let open = number::grouped(app.live.open_sockets() as u64);
    let state = if app.is_frozen() { "  FROZEN (space)" } else { "" };
    let closed = number::count(app.live.counts().closed as f64);
    format!(" {open} sockets  {}/s{state}  {closed} closed", number::rate(goodput))
}

/// What was not seen; said also when it is nothing.
fn missed_words(app: &App) -> String {
    let counts = app.live.counts();
    let mut words =
        format!("{} events, {} dropped", number::count(counts.events as f64), number::count(counts.dropped as f64));
    if counts.untracked > 0 {
        words.push_str(&format!(", {} of sockets beyond the limit", number::count(counts.untracked as f64)));
    }
    if counts.unnamed > 0 {
        words.push_str(&format!(", {} names beyond the limit", number::count(counts.unnamed as f64)));
    }
    if counts.hidden > 0 {
        words.push_str(&format!(", {} hidden", counts.hidden));
    }
    words
}

/// The filter while it is typed or in force, else the last thing that is missing.
fn notice(app: &App) -> Option<(String, Style)> {
    if let Some(refusal) = &app.refusal {
        return Some((format!(" filter: {}▏  {refusal}", app.typed), app.theme.alarm()));
    }
    if app.is_typing {
        let example = "  words, process:nginx, srtt>50ms, retrans>2%; Enter keeps, Esc clears";
        return Some((format!(" filter: {}▏{example}", app.typed), Style::new()));
    }
    if !app.typed.is_empty() && app.view == View::Table {
        let shown = format!("{} of {}", app.order.len(), app.live.sockets().count());
        return Some((format!(" filter: {}  {shown} sockets; Esc clears", app.typed), Style::new()));
    }
    app.notices.last().map(|notice| (format!(" note: {notice}"), app.theme.alarm()))
}

/// The keys that matter here, as many as fit.
fn keys(app: &App, width: usize) -> String {
    let own: &[&str] = match app.view {
        View::Table => &["Enter flow", "/ filter", "<> sort", "r reverse", "a algorithms"],
        View::Flow(_) => &["Esc back", "jk next", "z zoom", "a algorithms"],
        View::Summary if app.playing.is_none() => &["Esc back", "jk choose", "Enter its sockets", "c ns per call"],
        View::Summary => &["Esc back", "jk choose", "Enter its sockets"],
    };
    let playing: &[&str] = if app.playing.is_some() { &["+- speed", "[] {} 0-9 seek"] } else { &[] };
    let mut line = String::new();
    for key in [&["q quit", "? help"], &["space pause"][..], playing, own].concat() {
        if line.len() + key.len() + 2 <= width {
            line.push_str("  ");
            line.push_str(key);
        }
    }
    line
}
