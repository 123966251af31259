//! The table of sockets: the columns that fit, and the rows that are on the screen.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::App;
use super::{number, paint, theme};
use shared::event::{CaState, with_room};
use shared::model::live::listing::{SocketColumn, SocketValue};
use shared::model::live::{Live, socket::Socket};
use shared::sanitize::cut_begin;

struct TableColumn {
    column: SocketColumn,
    heading: &'static str,
    width: u16,
    /// Columns with lower ranks get room first.
    rank: u8,
}

const fn shown(column: SocketColumn, heading: &'static str, width: u16, rank: u8) -> TableColumn {
    TableColumn { column, heading, width, rank }
}

static COLUMNS: [TableColumn; 18] = [
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
/// Rank of the column that the table is sorted by.
const SORTING_RANK: u8 = 1;
/// Rank of the sparklines, which share the remaining width up to the maximum.
const SPARK_RANK: u8 = 8;
const SPARK_WIDTHS: [u16; 2] = [12, 40];
/// Time span of a sparkline.
const SPARK_NS: u64 = 60_000_000_000;
const SIGN_WIDTH: u16 = 2;
const GAP: u16 = 1;

struct FittedTable {
    columns: Vec<&'static TableColumn>,
    /// Width of each of the two sparklines, goodput and cwnd; 0 if they do not fit.
    spark: u16,
    hidden: usize,
}

/// Draws the table and records where its rows and headings are.
pub(super) fn draw(frame: &mut Frame, app: &mut App, area: Rect) {
    let table = FittedTable::new(area.width, app.listing.by, app.live.has_arms());
    let rows = paint::below(area, 1);
    let height = usize::from(rows.height);
    let selected = app.selected_row().unwrap_or(0);
    app.top =
        app.top.min(app.order.len().saturating_sub(height)).min(selected).max((selected + 1).saturating_sub(height));
    let buffer = frame.buffer_mut();
    let headings = table.draw_headings(buffer, app, paint::line(area, 0));
    for (row, socket) in app.order.iter().skip(app.top).take(height).enumerate() {
        let Some(socket) = app.live.socket(*socket) else { continue };
        table.draw_row(buffer, app, socket, paint::line(rows, row as u16));
    }
    if app.order.is_empty() {
        let why = if app.live.sockets().next().is_none() {
            " no connections yet: they appear with their next packet or the next sweep"
        } else {
            " no connection passes the filter; Esc clears it"
        };
        paint::text(buffer, paint::line(rows, 0), why, app.theme.faint());
    }
    (app.targets.rows, app.targets.headings) = (rows, headings);
}

impl FittedTable {
    /// Takes the columns that fit, by rank. Offers rule and arm only with a policy, or to a table sorted by them.
    fn new(width: u16, sorting: SocketColumn, has_arms: bool) -> Self {
        let is_of_policy = |it: &TableColumn| matches!(it.column, SocketColumn::Rule | SocketColumn::Arm);
        let is_offered = |it: &&TableColumn| has_arms || it.column == sorting || !is_of_policy(it);
        let offered: Vec<&TableColumn> = COLUMNS.iter().filter(is_offered).collect();
        let rank = |it: &TableColumn| if it.column == sorting { SORTING_RANK } else { it.rank };
        let needs = offered.iter().map(|it| (rank(it), usize::from(it.width + GAP)));
        let sparks = (SPARK_RANK, usize::from(2 * (SPARK_WIDTHS[0] + GAP)));
        let free = (width + GAP).saturating_sub(SIGN_WIDTH); // no gap after the last
        let (is_shown, left) = with_room(&needs.chain([sparks]).collect::<Vec<_>>(), free.into());
        let has_sparks = is_shown[offered.len()];
        let spark = if has_sparks { (SPARK_WIDTHS[0] + left as u16 / 2).min(SPARK_WIDTHS[1]) } else { 0 };
        let columns: Vec<&TableColumn> =
            offered.iter().zip(is_shown).filter(|(_, is)| *is).map(|(it, _)| *it).collect();
        FittedTable { spark, hidden: offered.len() - columns.len(), columns }
    }

    /// The place of each column in a line, and the places of the sparklines and of the rest to their right.
    fn places(&self, line: Rect) -> (Vec<Rect>, [Rect; 3]) {
        let mut x = line.x + SIGN_WIDTH;
        let mut next = |width: u16| {
            let place = Rect { x, width: width.min(line.right().saturating_sub(x)), ..line };
            x = x.saturating_add(if width > 0 { width + GAP } else { 0 });
            place
        };
        let columns = self.columns.iter().map(|it| next(it.width)).collect();
        (columns, [next(self.spark), next(self.spark), next(line.width)])
    }

    fn draw_headings(&self, buffer: &mut Buffer, app: &App, line: Rect) -> Vec<(SocketColumn, Rect)> {
        let (places, [goodput, cwnd, rest]) = self.places(line);
        for (it, place) in self.columns.iter().zip(&places) {
            let is_sorting = it.column == app.listing.by;
            let style = if is_sorting { theme::CHOSEN } else { theme::HEADING };
            draw_cell(buffer, *place, it.column, it.heading, style);
        }
        paint::text(buffer, goodput, "goodput, 60s", theme::HEADING);
        paint::text(buffer, cwnd, "cwnd, 60s", theme::HEADING);
        if self.hidden > 0 && rest.width >= 4 {
            paint::right(buffer, rest, &format!("+{}", self.hidden), app.theme.faint());
        }
        self.columns.iter().map(|it| it.column).zip(places).collect()
    }

    fn draw_row(&self, buffer: &mut Buffer, app: &App, socket: &Socket, line: Rect) {
        let (sign, style) = sign_of(app, socket);
        paint::text(buffer, Rect { width: SIGN_WIDTH.min(line.width), ..line }, sign, style);
        let (places, [goodput, cwnd, _]) = self.places(line);
        for (it, place) in self.columns.iter().zip(places) {
            draw_cell(buffer, place, it.column, &cell_text(&app.live, socket, it), style);
        }
        let mut parts = vec![None; self.spark.into()];
        let now = app.live.now_ns();
        let from = now.saturating_sub(SPARK_NS);
        socket.history.resample(from, now, |past| Some(f64::from(past.goodput_bps)), &mut parts);
        paint::text(buffer, goodput, &number::sparkline(&parts), app.theme.colour(theme::MEASURE));
        socket.history.resample(from, now, |past| Some(f64::from(past.cwnd_pkts)), &mut parts);
        paint::text(buffer, cwnd, &number::sparkline(&parts), app.theme.colour(theme::CWND));
        if app.selected == Some(socket.latest.socket) {
            buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

fn draw_cell(buffer: &mut Buffer, place: Rect, column: SocketColumn, text: &str, style: Style) {
    let write = if column.is_text() { paint::text } else { paint::right };
    write(buffer, place, text, style);
}

/// Shows the congestion state, a closed connection or an idle one without relying on colour.
fn sign_of(app: &App, socket: &Socket) -> (&'static str, Style) {
    let (theme, now) = (app.theme, app.live.now_ns());
    if socket.closed_ns.is_some() {
        return ("x", theme.faint());
    }
    match socket.latest.ca_state {
        CaState::Loss => ("!!", theme.alarm()),
        CaState::Recovery => ("!", theme.alarm()),
        CaState::Cwr | CaState::Disorder => ("~", Style::new()),
        CaState::Open if socket.is_idle(now) => ("", theme.faint()),
        CaState::Open if socket.latest.inflight_pkts > 0 || socket.goodput_bps(now) > Some(0.0) => (">", Style::new()),
        CaState::Open => ("", Style::new()),
    }
}

fn cell_text(live: &Live, socket: &Socket, shown: &TableColumn) -> String {
    match (live.cell(socket, shown.column), shown.column) {
        (SocketValue::Nothing, _) => "-".to_owned(),
        (SocketValue::Text(text), SocketColumn::Cgroup) => cut_begin(&text, shown.width.into()),
        (SocketValue::Text(text), _) => text,
        (SocketValue::Number(value), SocketColumn::Srtt | SocketColumn::MinRtt) => number::micros(value),
        (SocketValue::Number(value), SocketColumn::Goodput | SocketColumn::Received) => number::rate(value),
        (SocketValue::Number(value), SocketColumn::Retrans) => number::percent(value),
        (SocketValue::Number(value), SocketColumn::Age) => number::age(value as u64),
        (SocketValue::Number(value), _) => number::count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(width: u16, by: SocketColumn, has_arms: bool) -> Vec<&'static str> {
        FittedTable::new(width, by, has_arms).columns.iter().map(|it| it.column.name()).collect()
    }

    #[test]
    fn columns_find_room_by_rank_and_the_sorting_one_always() {
        let narrow = names(80, SocketColumn::Goodput, false).join(" ");
        assert_eq!(narrow, "peer algorithm ca_state cwnd srtt goodput retrans");
        assert!(names(80, SocketColumn::Age, false).contains(&"age"));
        let narrower = names(40, SocketColumn::Retrans, false);
        assert!(narrower[0] == "peer" && narrower.contains(&"retrans"), "{narrower:?}");
        assert!(names(5, SocketColumn::Peer, false).is_empty());
        let wide = FittedTable::new(300, SocketColumn::Peer, false);
        assert_eq!((wide.columns.len(), wide.hidden), (16, 0));
        assert!(wide.spark > SPARK_WIDTHS[0]);
    }

    #[test]
    fn rule_and_arm_find_room_where_there_is_a_policy() {
        for (width, has_arms, expected) in [(110, true, true), (110, false, false), (80, true, false)] {
            let names = names(width, SocketColumn::Goodput, has_arms);
            assert_eq!(["rule", "arm"].map(|name| names.contains(&name)), [expected; 2], "{width}");
        }
        assert_eq!(FittedTable::new(300, SocketColumn::Peer, true).hidden, 0);
    }
}
