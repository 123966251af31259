//! The table of sockets: the columns that fit, the rows that are on the screen.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::App;
use super::{number, paint};
use crate::model::live::listing::{SocketColumn, SocketValue};
use crate::model::live::{Live, socket::Socket};
use crate::trace::event::{CaState, with_room};

/// How a column is shown: heading, width, and the rank by which it finds room.
struct Shown {
    column: SocketColumn,
    heading: &'static str,
    width: u16,
    rank: u8,
}

const fn shown(column: SocketColumn, heading: &'static str, width: u16, rank: u8) -> Shown {
    Shown { column, heading, width, rank }
}

static SHOWN: [Shown; 18] = [
    shown(SocketColumn::Peer, "peer", 21, 1),
    shown(SocketColumn::Process, "process", 16, 4),
    shown(SocketColumn::Cgroup, "cgroup", 22, 7),
    shown(SocketColumn::Algorithm, "algorithm", 11, 2),
    shown(SocketColumn::Rule, "rule", 12, 3),
    shown(SocketColumn::Arm, "arm", 11, 3),
    shown(SocketColumn::Phase, "phase", 11, 5),
    shown(SocketColumn::CaState, "ca_state", 8, 2),
    shown(SocketColumn::Cwnd, "cwnd pkts", 9, 2),
    shown(SocketColumn::Ssthresh, "ssthresh", 8, 6),
    shown(SocketColumn::Srtt, "srtt", 7, 2),
    shown(SocketColumn::MinRtt, "min_rtt", 7, 6),
    shown(SocketColumn::Goodput, "goodput/s", 9, 2),
    shown(SocketColumn::Retrans, "retrans", 7, 2),
    shown(SocketColumn::Received, "received/s", 10, 9),
    shown(SocketColumn::Inflight, "inflight", 8, 10),
    shown(SocketColumn::Local, "local", 21, 11),
    shown(SocketColumn::Age, "age", 6, 10),
];
/// The column that sorts finds room right after the first.
const SORTING_RANK: u8 = 1;
/// Sparklines find room before this rank, and take what is left up to this width.
const SPARK_RANK: u8 = 8;
const SPARK_WIDTHS: [u16; 2] = [12, 40];
/// Time that a sparkline covers.
const SPARK_NS: u64 = 60_000_000_000;
const SIGN_WIDTH: u16 = 2;
const GAP: u16 = 1;

struct Fitted {
    columns: Vec<&'static Shown>,
    /// Width of each of two sparklines: goodput and cwnd; 0: no room.
    spark: u16,
    hidden: usize,
}

/// Draws the table and notes where its rows and headings are.
pub(super) fn draw(frame: &mut Frame, app: &mut App, area: Rect) {
    let fitted = fit(area.width, app.listing.by, app.live.has_arms());
    let rows = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    scroll(app, rows.height.into());
    let headings = draw_headings(frame.buffer_mut(), app, &fitted, paint::line(area, 0));
    let visible = app.order.iter().skip(app.top).take(rows.height.into());
    for (row, socket) in visible.enumerate() {
        let Some(socket) = app.live.socket(*socket) else { continue };
        draw_row(frame.buffer_mut(), app, (&fitted, socket), paint::line(rows, row as u16));
    }
    if app.order.is_empty() {
        draw_nothing(frame.buffer_mut(), app, rows);
    }
    (app.places.rows, app.places.headings) = (rows, headings);
}

fn draw_nothing(buffer: &mut Buffer, app: &App, rows: Rect) {
    let why = if app.live.sockets().next().is_none() {
        " no connection yet: they appear as packets arrive, idle ones with the next sweep"
    } else {
        " no connection passes the filter; Esc clears it"
    };
    paint::text(buffer, paint::line(rows, 0), why, app.theme.faint());
}

fn scroll(app: &mut App, rows: usize) {
    let chosen = app.selected_place().unwrap_or(0);
    let last_top = app.order.len().saturating_sub(rows);
    app.top = app.top.min(last_top).min(chosen).max((chosen + 1).saturating_sub(rows));
}

/// Takes columns by rank while they fit; the one that sorts is always there. Without a policy there are no rules and arms.
fn fit(width: u16, sorting: SocketColumn, has_arms: bool) -> Fitted {
    let is_of_policy = |shown: &Shown| matches!(shown.column, SocketColumn::Rule | SocketColumn::Arm);
    let is_offered = |shown: &&Shown| has_arms || shown.column == sorting || !is_of_policy(shown);
    let offered: Vec<&Shown> = SHOWN.iter().filter(is_offered).collect();
    let rank = |shown: &Shown| if shown.column == sorting { SORTING_RANK } else { shown.rank };
    let needs = offered.iter().map(|shown| (rank(shown), usize::from(shown.width + GAP)));
    let sparks = (SPARK_RANK, usize::from(2 * (SPARK_WIDTHS[0] + GAP)));
    let free = (width + GAP).saturating_sub(SIGN_WIDTH); // no gap after the last
    let (is_shown, left) = with_room(&needs.chain([sparks]).collect::<Vec<_>>(), free.into());
    let has_sparks = is_shown[offered.len()];
    let spark = if has_sparks { (SPARK_WIDTHS[0] + left as u16 / 2).min(SPARK_WIDTHS[1]) } else { 0 };
    let columns: Vec<&Shown> = offered.iter().zip(is_shown).filter(|(_, is)| *is).map(|(shown, _)| *shown).collect();
    Fitted { spark, hidden: offered.len() - columns.len(), columns }
}

fn draw_headings(buffer: &mut Buffer, app: &App, fitted: &Fitted, line: Rect) -> Vec<(SocketColumn, Rect)> {
    let mut x = line.x + SIGN_WIDTH;
    let mut places = Vec::new();
    for shown in &fitted.columns {
        let place = Rect { x, width: shown.width.min(line.right().saturating_sub(x)), ..line };
        let is_sorting = shown.column == app.listing.by;
        let style = if is_sorting { app.theme.chosen() } else { app.theme.heading() };
        if shown.column.is_text() {
            paint::text(buffer, place, shown.heading, style);
        } else {
            paint::right(buffer, place, shown.heading, style);
        }
        places.push((shown.column, place));
        x += shown.width + GAP;
    }
    for name in ["goodput, 60s", "cwnd, 60s"].iter().filter(|_| fitted.spark > 0) {
        paint::text(buffer, Rect { x, width: fitted.spark, ..line }, name, app.theme.heading());
        x += fitted.spark + GAP;
    }
    let rest = Rect { x, width: line.right().saturating_sub(x), ..line };
    if fitted.hidden > 0 && rest.width >= 4 {
        paint::right(buffer, rest, &format!("+{}", fitted.hidden), app.theme.faint());
    }
    places
}

fn draw_row(buffer: &mut Buffer, app: &App, (fitted, socket): (&Fitted, &Socket), line: Rect) {
    let is_chosen = app.selected == Some(socket.latest.socket);
    let (sign, base) = sign_of(app, socket);
    paint::text(buffer, Rect { width: SIGN_WIDTH.min(line.width), ..line }, sign, base);
    let mut x = line.x + SIGN_WIDTH;
    for shown in &fitted.columns {
        let place = Rect { x, width: shown.width.min(line.right().saturating_sub(x)), ..line };
        let words = words_of(&app.live, socket, shown);
        if shown.column.is_text() {
            paint::text(buffer, place, &words, base);
        } else {
            paint::right(buffer, place, &words, base);
        }
        x += shown.width + GAP;
    }
    if fitted.spark > 0 {
        let place = Rect { x, width: fitted.spark, ..line };
        draw_sparks(buffer, app, socket, place);
    }
    if is_chosen {
        buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
    }
}

fn draw_sparks(buffer: &mut Buffer, app: &App, socket: &Socket, place: Rect) {
    let mut parts = vec![None; place.width.into()];
    let now = app.live.now_ns();
    let from = now.saturating_sub(SPARK_NS);
    socket.history.resample(from, now, |past| Some(f64::from(past.goodput_bps)), &mut parts);
    paint::text(buffer, place, &number::sparkline(&parts), app.theme.measure());
    socket.history.resample(from, now, |past| Some(f64::from(past.cwnd_pkts)), &mut parts);
    let second = Rect { x: place.x + place.width + GAP, ..place };
    paint::text(buffer, second, &number::sparkline(&parts), app.theme.cwnd());
}

/// A sign that says without colour how a socket is: lost its clock, recovers, is disturbed, is closed, sends nothing.
fn sign_of(app: &App, socket: &Socket) -> (&'static str, Style) {
    let theme = app.theme;
    if socket.closed_ns.is_some() {
        return ("x", theme.faint());
    }
    match socket.latest.ca_state {
        CaState::Loss => ("!!", theme.alarm()),
        CaState::Recovery => ("!", theme.alarm()),
        CaState::Cwr | CaState::Disorder => ("~", Style::new()),
        CaState::Open if socket.is_idle(app.live.now_ns()) => ("", theme.faint()),
        CaState::Open => (">", Style::new()),
    }
}

fn words_of(live: &Live, socket: &Socket, shown: &Shown) -> String {
    let value = match live.cell(socket, shown.column) {
        SocketValue::Nothing => return "-".to_owned(),
        SocketValue::Text(text) if shown.column == SocketColumn::Cgroup => {
            return paint::cut_begin(&text, shown.width.into());
        }
        SocketValue::Text(text) => return text,
        SocketValue::Number(value) => value,
    };
    match shown.column {
        SocketColumn::Srtt | SocketColumn::MinRtt => number::micros(value),
        SocketColumn::Goodput | SocketColumn::Received => number::rate(value),
        SocketColumn::Retrans => number::percent(value),
        SocketColumn::Age => number::age(value as u64),
        _ => number::count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_find_room_by_rank_and_the_sorting_one_always() {
        let names =
            |width, by| fit(width, by, false).columns.iter().map(|it| it.column.name()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(80, SocketColumn::Goodput), "peer algorithm ca_state cwnd srtt goodput retrans");
        assert!(names(80, SocketColumn::Age).contains("age"));
        assert!(
            names(40, SocketColumn::Retrans).starts_with("peer")
                && names(40, SocketColumn::Retrans).contains("retrans")
        );
        assert_eq!(names(5, SocketColumn::Peer), "");
        let wide = fit(300, SocketColumn::Peer, false);
        assert_eq!((wide.columns.len(), wide.hidden), (16, 0));
        assert!(wide.spark > SPARK_WIDTHS[0]);
    }

    #[test]
    fn rule_and_arm_find_room_where_there_is_a_policy() {
        let has_both = |width, has_arms| {
            let fitted = fit(width, SocketColumn::Goodput, has_arms);
            [SocketColumn::Rule, SocketColumn::Arm].map(|column| fitted.columns.iter().any(|it| it.column == column))
        };
        assert_eq!(
            [has_both(110, true), has_both(110, false), has_both(80, true)],
            [[true; 2], [false; 2], [false; 2]]
        );
        assert_eq!(fit(300, SocketColumn::Peer, true).hidden, 0);
    }
}
