//! One flow: window, threshold and RTT over time, phases, losses and timeouts, and the algorithm's private state.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::{App, SPANS_NS};
use super::chart::{self, Plot, PlotSeries};
use super::{number, paint, theme};
use shared::event::CaState;
use shared::model::live::history::{MarkKind, Past};
use shared::model::live::socket::Socket;

/// From this width on, the private state is to the right of the plots. On narrower screens it is below them.
const BESIDE_WIDTH: u16 = 120;
const STATE_WIDTH: u16 = 36;
/// Number of lines about the flow above the plots.
const FACT_LINES: u16 = 4;
/// Number of lines for marks, phases and the time axis.
const BAND_LINES: u16 = 3;

pub(super) fn draw(frame: &mut Frame, app: &App, area: Rect, socket: u64) {
    let Some(socket) = app.live.socket(socket) else {
        let gone = " this connection no longer exists; Esc goes back";
        return paint::text(frame.buffer_mut(), area, gone, app.theme.faint());
    };
    draw_facts(frame.buffer_mut(), app, socket, Rect { height: FACT_LINES.min(area.height), ..area });
    let below = paint::below(area, FACT_LINES);
    let private = app.live.private_state(socket).into_iter();
    let state: Vec<String> = private.map(|(name, value)| format!("{name}={value}")).collect();
    let is_beside = area.width >= BESIDE_WIDTH;
    let lines =
        if is_beside { state.iter().map(|word| format!(" {word}")).collect() } else { wrapped(&state, area.width) };
    let (plots, state_area) = if is_beside {
        let plots = Rect { width: below.width - STATE_WIDTH, ..below };
        (plots, Rect { x: plots.right() + 1, width: STATE_WIDTH - 1, ..below })
    } else {
        let height = (lines.len() as u16 + 1).min(below.height / 4);
        let plots = Rect { height: below.height - height, ..below };
        (plots, paint::below(below, plots.height))
    };
    Timeline::new(app, socket).draw(frame, plots);
    draw_state(frame.buffer_mut(), &lines, state_area);
}

/// Endpoints, owner and present values.
fn draw_facts(buffer: &mut Buffer, app: &App, socket: &Socket, area: Rect) {
    let event = &socket.latest;
    let live = &app.live;
    let ago = |then_ns: u64| number::age(live.now_ns().saturating_sub(then_ns));
    let owner = live.owner(socket).map_or("-".to_owned(), |owner| format!("{} {}", owner.command, owner.pid));
    let closed = socket.closed_ns.map_or(String::new(), |at| format!("  CLOSED {} ago", ago(at)));
    let phase = live.phase(socket).map_or(String::new(), |phase| format!(" {phase}"));
    let arm = live.arm(socket).map_or(String::new(), |given| format!("  rule {}, arm {}", given.rule, given.arm));
    let or_dash = |value: Option<f64>, write: fn(f64) -> String| value.map_or("-".to_owned(), write);
    let us = |value: Option<u32>| or_dash(value.map(f64::from), number::micros);
    let goodput = or_dash(socket.goodput_bps(live.now_ns()), number::rate);
    let received = or_dash(socket.received_bps(live.now_ns()), number::rate);
    let ssthresh = event.ssthresh_pkts.map_or("-".to_owned(), |pkts| pkts.to_string());
    let is_alarming = matches!(event.ca_state, CaState::Loss);
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
            " srtt {}  min_rtt {}  rto {}  goodput {goodput}  retrans {}",
            us(event.srtt_us),
            us(event.min_rtt_us),
            number::micros(event.rto_us.into()),
            or_dash(socket.retrans_ratio(), number::percent),
        ),
        format!(
            " age {}  retrans {} of {} pkts  mss {} B  received {received}  pacing {}",
            ago(socket.first_ns),
            number::grouped(event.retrans_pkts.into()),
            number::grouped(u64::from(event.delivered_pkts) + u64::from(event.retrans_pkts)),
            event.mss_bytes,
            or_dash(event.pacing_rate_bps.map(|rate| rate as f64), number::rate),
        ),
    ];
    let second = if is_alarming { app.theme.alarm() } else { Style::new() };
    paint::lines(buffer, area, lines.iter().zip([theme::HEADING, second, Style::new(), Style::new()]));
}

/// A flow over the visible time span.
struct Timeline<'a> {
    app: &'a App,
    socket: &'a Socket,
    span_ns: [u64; 2],
    /// Whether the algorithm has phases; otherwise the congestion state is shown.
    has_phases: bool,
}

impl<'a> Timeline<'a> {
    /// Shortens the chosen span if there is less history.
    fn new(app: &'a App, socket: &'a Socket) -> Self {
        let now = app.live.now_ns();
        let begin = socket.history.points().next().map_or(now, |past| past.time_ns);
        let enough = SPANS_NS.into_iter().find(|span| *span >= now.saturating_sub(begin));
        let length = SPANS_NS[app.span].min(enough.unwrap_or(u64::MAX));
        let layout = app.live.algorithm(&socket.latest.algorithm).and_then(|algorithm| algorithm.layout.as_ref());
        let has_phases = layout.is_some_and(|layout| !layout.phases.is_empty());
        Timeline { app, socket, span_ns: [now.saturating_sub(length), now], has_phases }
    }

    /// Draws windows above, marks and phases in the middle, and round-trip times below, all on one time axis.
    fn draw(&self, frame: &mut Frame, area: Rect) {
        let (app, span_ns) = (self.app, self.span_ns);
        let rows = area.height.saturating_sub(BAND_LINES);
        let upper = Rect { height: rows - rows * 2 / 5, ..area };
        let bands = Rect { y: upper.bottom(), height: BAND_LINES.min(area.height), ..area };
        let lower = Rect { y: bands.bottom(), height: rows * 2 / 5, ..area };
        let nonzero = |value: u32| (value > 0).then(|| f64::from(value));
        let line = |points, style| PlotSeries { points, is_line: true, style };
        let dots = |points| PlotSeries { points, is_line: false, style: app.theme.colour(theme::SSTHRESH) };
        let cwnd = self.series(|past| Some(past.cwnd_pkts.into()));
        let top = cwnd.iter().map(|point| point.1).fold(1.0, f64::max);
        // A threshold far above the window would flatten the curve of the window. Its number is in the facts.
        let ssthresh =
            self.series(|past| past.ssthresh_pkts.map(|pkts| f64::from(pkts.get())).filter(|pkts| *pkts <= top * 2.0));
        let windows = Plot {
            title: " cwnd (line) and ssthresh (dots), pkts",
            series: [dots(ssthresh), line(cwnd, app.theme.colour(theme::CWND))],
            span_ns,
            scale: number::count,
        };
        windows.draw(frame, app, upper);
        self.draw_bands(frame.buffer_mut(), bands);
        let min_rtt = self.series(|past| nonzero(past.min_rtt_us));
        let srtt = self.series(|past| nonzero(past.srtt_us));
        let times = Plot {
            title: " srtt (line) and min_rtt (dots)",
            series: [dots(min_rtt), line(srtt, app.theme.colour(theme::MEASURE))],
            span_ns,
            scale: number::micros,
        };
        times.draw(frame, app, lower);
    }

    fn series(&self, value: impl Fn(&Past) -> Option<f64>) -> Vec<(f64, f64)> {
        let points = self.socket.history.points().filter(|past| past.time_ns >= self.span_ns[0]);
        points.filter_map(|past| Some((past.time_ns as f64, value(past)?))).collect()
    }

    /// Draws losses and timeouts, phases, and the time axis.
    fn draw_bands(&self, buffer: &mut Buffer, area: Rect) {
        let faint = self.app.theme.faint();
        let names = [" loss", if self.has_phases { " phase" } else { " state" }];
        paint::lines(buffer, area, names.map(|name| (name, faint)));
        let field = chart::field(area);
        self.draw_marks(buffer, paint::line(field, 0));
        self.draw_phases(buffer, paint::line(field, 1));
        let seconds = (self.span_ns[1] - self.span_ns[0]) / 1_000_000_000;
        let axis = paint::line(field, 2);
        paint::text(buffer, axis, &format!("-{seconds}s"), faint);
        let middle = Rect { x: axis.x + axis.width / 2, width: axis.width - axis.width / 2, ..axis };
        paint::text(buffer, middle, &format!("-{}s", seconds / 2), faint);
        paint::right(buffer, axis, "now", faint);
    }

    /// `T` for a timeout, `x` for lost packets.
    fn draw_marks(&self, buffer: &mut Buffer, line: Rect) {
        let [from_ns, to_ns] = self.span_ns;
        let length = u128::from(to_ns.saturating_sub(from_ns).max(1));
        let mut signs = vec![' '; line.width.into()];
        for mark in self.socket.history.marks().filter(|mark| mark.time_ns >= from_ns) {
            let at = u128::from(mark.time_ns - from_ns) * signs.len() as u128 / length;
            if let Some(sign) = signs.get_mut(at as usize) {
                *sign = if mark.kind == MarkKind::Timeout || *sign == 'T' { 'T' } else { 'x' };
            }
        }
        paint::text(buffer, line, &signs.into_iter().collect::<String>(), self.app.theme.alarm());
    }

    /// Draws a band with the name of each phase or congestion state.
    fn draw_phases(&self, buffer: &mut Buffer, line: Rect) {
        let value = |past: &Past| Some(if self.has_phases { past.phase } else { past.ca_state as u8 }.into());
        let mut parts = vec![None; line.width.into()];
        self.socket.history.resample(self.span_ns[0], self.span_ns[1], value, &mut parts);
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
            let name = self.band_name(value as u8);
            let contrast = if number % 2 == 0 { Modifier::REVERSED } else { Modifier::UNDERLINED };
            let style = Style::new().add_modifier(contrast);
            buffer.set_style(place, style);
            let begin: String = name.chars().take(band.len()).collect();
            paint::text(buffer, place, &begin, style);
        }
    }

    fn band_name(&self, value: u8) -> &str {
        if self.has_phases {
            return self.app.live.phase_name(&self.socket.latest.algorithm, value).unwrap_or("?");
        }
        CaState::ALL.iter().find(|state| **state as u8 == value).map_or("?", |state| state.name())
    }
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

fn draw_state(buffer: &mut Buffer, lines: &[String], area: Rect) {
    let shown = usize::from(area.height).saturating_sub(1);
    let more = match (lines.len(), lines.len().saturating_sub(shown)) {
        (0, _) => ": none known".to_owned(),
        (_, 0) => String::new(),
        (_, 1) => " (1 more line)".to_owned(),
        (_, hidden) => format!(" ({hidden} more lines)"),
    };
    let title = format!(" private state of the algorithm{more}");
    paint::text(buffer, paint::line(area, 0), &title, theme::HEADING);
    paint::lines(buffer, paint::below(area, 1), lines.iter().map(|line| (line, Style::new())));
}
