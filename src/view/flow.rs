//! One flow: window, threshold and RTT over time, phases, losses and timeouts, and what its algorithm believes.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::{App, SPANS_NS};
use super::chart::{self, Plot, Series};
use super::{number, paint};
use crate::model::live::history::{MarkKind, Past};
use crate::model::live::socket::Socket;
use crate::trace::event::CaState;

/// Private state stands beside the plots when there is so much room, else below them.
const BESIDE_WIDTH: u16 = 120;
const STATE_WIDTH: u16 = 36;
/// Lines about the flow above the plots.
const FACT_LINES: u16 = 4;
/// Marks, phases and the scale of time.
const BAND_LINES: u16 = 3;

pub(super) fn draw(frame: &mut Frame, app: &App, area: Rect, socket: u64) {
    let Some(socket) = app.live.socket(socket) else {
        paint::text(
            frame.buffer_mut(),
            area,
            " this connection is not there any more; Esc goes back",
            app.theme.faint(),
        );
        return;
    };
    draw_facts(frame.buffer_mut(), app, socket, Rect { height: FACT_LINES.min(area.height), ..area });
    let below =
        Rect { y: area.y + FACT_LINES.min(area.height), height: area.height.saturating_sub(FACT_LINES), ..area };
    let private = app.live.private_state(socket).into_iter();
    let state: Vec<String> = private.map(|(name, value)| format!("{name}={value}")).collect();
    let is_beside = area.width >= BESIDE_WIDTH;
    let state_lines = if is_beside { 0 } else { (wrapped(&state, area.width).len() as u16 + 1).min(below.height / 4) };
    let plots = Rect {
        width: if is_beside { below.width - STATE_WIDTH } else { below.width },
        height: below.height.saturating_sub(state_lines),
        ..below
    };
    draw_plots(frame, app, socket, plots);
    let state_area = if is_beside {
        Rect { x: plots.right() + 1, width: STATE_WIDTH - 1, ..below }
    } else {
        Rect { y: plots.bottom(), height: state_lines, ..below }
    };
    draw_state(frame.buffer_mut(), app, &state, (state_area, is_beside));
}

/// Who the flow is and how it does, in numbers.
fn draw_facts(buffer: &mut Buffer, app: &App, socket: &Socket, area: Rect) {
    let event = &socket.latest;
    let live = &app.live;
    let owner = live.owner(socket).map_or("-".to_owned(), |owner| format!("{} {}", owner.command, owner.pid));
    let closed = socket
        .closed_ns
        .map_or(String::new(), |at| format!("  CLOSED {} ago", number::age(live.now_ns().saturating_sub(at))));
    let phase = live.phase(socket).map_or(String::new(), |phase| format!(" {phase}"));
    let arm = live.arm(socket).map_or(String::new(), |given| format!("  rule {}, arm {}", given.rule, given.arm));
    let or_dash = |value: Option<f64>, write: fn(f64) -> String| value.map_or("-".to_owned(), write);
    let us = |value: Option<u32>| or_dash(value.map(f64::from), number::micros);
    let goodput = or_dash(socket.goodput_bps(live.now_ns()), number::rate);
    let received = or_dash(socket.received_bps(live.now_ns()), number::rate);
    let ssthresh = event.ssthresh_pkts.map_or("-".to_owned(), |pkts| pkts.to_string());
    let lines = [
        format!(" {} > {}  {owner}  {}{closed}", event.local, event.remote, live.cgroup(socket).unwrap_or("-")),
        format!(
            " {}{phase}{arm}  {}  cwnd {} pkts  ssthresh {ssthresh} pkts  inflight {} pkts",
            event.algorithm,
            event.ca_state.name(),
            event.cwnd_pkts,
            event.inflight_pkts,
        ),
        format!(
            " srtt {}  min_rtt {}  rto {}  goodput {goodput}/s  retrans {}",
            us(event.srtt_us),
            us(event.min_rtt_us),
            number::micros(event.rto_us.into()),
            or_dash(socket.retrans_ratio(), number::percent),
        ),
        format!(
            " retrans {} of {} pkts  mss {} bytes  received {received}/s  pacing {}/s  age {}",
            number::grouped(event.retrans_pkts.into()),
            number::grouped(u64::from(event.delivered_pkts) + u64::from(event.retrans_pkts)),
            event.mss_bytes,
            event.pacing_rate_bps.map_or("-".to_owned(), |rate| number::rate(rate as f64)),
            number::age(live.now_ns().saturating_sub(socket.first_ns)),
        ),
    ];
    let alarm = if matches!(event.ca_state, CaState::Loss) { app.theme.alarm() } else { Style::new() };
    for (row, (line, style)) in lines.iter().zip([app.theme.heading(), alarm, Style::new(), Style::new()]).enumerate() {
        paint::text(buffer, paint::line(area, row as u16), line, style);
    }
}

fn series(socket: &Socket, from_ns: u64, value: impl Fn(&Past) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = socket.history.points().filter(|past| past.time_ns >= from_ns);
    points.filter_map(|past| Some((past.time_ns as f64, value(past)?))).collect()
}

/// The span that the reader chose, or a shorter one that shows all there is.
fn span_of(app: &App, socket: &Socket) -> u64 {
    let begin = socket.history.points().next().map_or(app.live.now_ns(), |past| past.time_ns);
    let known = app.live.now_ns().saturating_sub(begin);
    let enough = SPANS_NS.into_iter().find(|span| *span >= known);
    SPANS_NS[app.span].min(enough.unwrap_or(u64::MAX))
}

/// Windows above, marks and phases in the middle, round-trip times below: all on one time.
fn draw_plots(frame: &mut Frame, app: &App, socket: &Socket, area: Rect) {
    let now = app.live.now_ns();
    let length = span_of(app, socket);
    let span_ns = [now.saturating_sub(length), now];
    let rows = area.height.saturating_sub(BAND_LINES);
    let upper = Rect { height: rows - rows * 2 / 5, ..area };
    let bands = Rect { y: upper.bottom(), height: BAND_LINES.min(area.height), ..area };
    let lower = Rect { y: bands.bottom(), height: rows * 2 / 5, ..area };
    let window = |value: fn(&Past) -> Option<f64>| series(socket, span_ns[0], value);
    let nonzero = |value: u32| (value > 0).then(|| f64::from(value));
    let cwnd = window(|past| Some(past.cwnd_pkts.into()));
    let top = cwnd.iter().map(|point| point.1).fold(1.0, f64::max);
    let ssthresh = series(socket, span_ns[0], |past| {
        // A threshold far above the window would flatten it; what is above the plot is in the numbers.
        past.ssthresh_pkts.map(|pkts| f64::from(pkts.get())).filter(|pkts| *pkts <= top * 2.0)
    });
    let windows = Plot {
        title: " cwnd (line) and ssthresh (dots), pkts",
        series: vec![
            Series { points: ssthresh, is_line: false, style: app.theme.ssthresh() },
            Series { points: cwnd, is_line: true, style: app.theme.cwnd() },
        ],
        span_ns,
        scale: number::count,
    };
    windows.draw(frame, app, upper);
    draw_bands(frame.buffer_mut(), app, (socket, span_ns), bands);
    let times = Plot {
        title: " srtt (line) and min_rtt (dots)",
        series: vec![
            Series {
                points: series(socket, span_ns[0], |past| nonzero(past.min_rtt_us)),
                is_line: false,
                style: app.theme.ssthresh(),
            },
            Series {
                points: series(socket, span_ns[0], |past| nonzero(past.srtt_us)),
                is_line: true,
                style: app.theme.measure(),
            },
        ],
        span_ns,
        scale: number::micros,
    };
    times.draw(frame, app, lower);
}

/// Losses and timeouts, phases, and the scale of time.
fn draw_bands(buffer: &mut Buffer, app: &App, (socket, span_ns): (&Socket, [u64; 2]), area: Rect) {
    let field = chart::field(area);
    let names = ["loss", if has_phases(app, socket) { "phase" } else { "state" }, ""];
    for (row, name) in names.iter().enumerate() {
        paint::text(buffer, paint::line(area, row as u16), &format!(" {name}"), app.theme.faint());
    }
    draw_marks(buffer, app, (socket, span_ns), paint::line(field, 0));
    draw_phases(buffer, app, (socket, span_ns), paint::line(field, 1));
    let seconds = (span_ns[1] - span_ns[0]) / 1_000_000_000;
    let scale = paint::line(field, 2);
    paint::text(buffer, scale, &format!("-{seconds}s"), app.theme.faint());
    let middle = Rect { x: scale.x + scale.width / 2, width: scale.width - scale.width / 2, ..scale };
    paint::text(buffer, middle, &format!("-{}s", seconds / 2), app.theme.faint());
    paint::right(buffer, scale, "now", app.theme.faint());
}

/// `T` where the timer ran out, `x` where packets were lost.
fn draw_marks(buffer: &mut Buffer, app: &App, (socket, span_ns): (&Socket, [u64; 2]), line: Rect) {
    let length = u128::from(span_ns[1].saturating_sub(span_ns[0]).max(1));
    let mut signs = vec![' '; line.width.into()];
    for mark in socket.history.marks().filter(|mark| mark.time_ns >= span_ns[0]) {
        let at = u128::from(mark.time_ns - span_ns[0]) * signs.len() as u128 / length;
        if let Some(sign) = signs.get_mut(at as usize) {
            *sign = if mark.kind == MarkKind::Timeout || *sign == 'T' { 'T' } else { 'x' };
        }
    }
    paint::text(buffer, line, &signs.into_iter().collect::<String>(), app.theme.alarm());
}

fn has_phases(app: &App, socket: &Socket) -> bool {
    let layout = app.live.algorithm(&socket.latest.algorithm).and_then(|algorithm| algorithm.layout.as_ref());
    layout.is_some_and(|layout| !layout.phases.is_empty())
}

/// Bands with the name of each phase, or of each congestion state where the algorithm has no phases.
fn draw_phases(buffer: &mut Buffer, app: &App, (socket, span_ns): (&Socket, [u64; 2]), line: Rect) {
    let by_phase = has_phases(app, socket);
    let value = |past: &Past| Some(if by_phase { past.phase.into() } else { f64::from(past.ca_state as u8) });
    let mut parts = vec![None; line.width.into()];
    socket.history.resample(span_ns[0], span_ns[1], value, &mut parts);
    let mut before = None;
    parts.iter_mut().for_each(|part| {
        *part = part.or(before);
        before = *part;
    });
    let mut at = 0;
    for (number, band) in parts.chunk_by(|a, b| a == b).enumerate() {
        let place = Rect { x: line.x + at, width: band.len() as u16, ..line };
        at += band.len() as u16;
        let Some(value) = band[0] else { continue };
        let name = if by_phase {
            app.live.phase_name(&socket.latest.algorithm, value as u8).unwrap_or("?")
        } else {
            state_name(value as u8)
        };
        let style = if number % 2 == 0 {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED)
        };
        buffer.set_style(place, style);
        let begin: String = name.chars().take(band.len()).collect();
        paint::text(buffer, place, &begin, style);
    }
}

fn state_name(value: u8) -> &'static str {
    CaState::ALL.iter().find(|state| **state as u8 == value).map_or("?", |state| state.name())
}

fn wrapped(words: &[String], width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() + 2 <= width.into() => {
                line.push_str("  ");
                line.push_str(word);
            }
            _ => lines.push(format!(" {word}")),
        }
    }
    lines
}

fn draw_state(buffer: &mut Buffer, app: &App, words: &[String], (area, is_beside): (Rect, bool)) {
    let algorithm = "private state of the algorithm";
    let lines =
        if is_beside { words.iter().map(|word| format!(" {word}")).collect() } else { wrapped(words, area.width) };
    let shown = usize::from(area.height).saturating_sub(1);
    let hidden = lines.len().saturating_sub(shown);
    let title = match (words.is_empty(), hidden) {
        (true, _) => format!(" {algorithm}: none known"),
        (false, 0) => format!(" {algorithm}"),
        (false, 1) => format!(" {algorithm} (1 more line)"),
        (false, hidden) => format!(" {algorithm} ({hidden} more lines)"),
    };
    paint::text(buffer, paint::line(area, 0), &title, app.theme.heading());
    for (row, line) in lines.iter().take(shown).enumerate() {
        paint::text(buffer, paint::line(area, row as u16 + 1), line, Style::new());
    }
}
