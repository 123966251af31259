//! The columns of a socket, shared by every verb that shows sockets: the words of the style guide with their units.
//!
//! A narrow terminal shows the lowest ranks; where the output is no terminal everything is shown.

use std::io::{self, IsTerminal as _, Write};

use super::naming::Named;
use super::note;
use crate::trace::arrival::RuleArm;
use crate::trace::event::{Event, EventKind};

/// One socket at one moment, with the words for its private state and its arm of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The socket.
    pub event: &'a Event,
    /// Its private state in words.
    pub named: &'a Named,
    /// The rule that decided it, and the arm.
    pub given: Option<&'a RuleArm>,
    /// Seconds since the stream began.
    pub time_s: f64,
}

/// One column: its name with the unit, how wide it is in a stream, when it is left out, what it shows.
pub struct Column {
    name: &'static str,
    width: usize,
    rank: u8,
    value: fn(&Row) -> Option<String>,
}

const fn column(name: &'static str, width: usize, rank: u8, value: fn(&Row) -> Option<String>) -> Column {
    Column { name, width, rank, value }
}

/// What a stream shows before the socket's own columns.
static STREAM: [Column; 3] = [
    column("time_s", 10, 0, |row| Some(format!("{:.6}", row.time_s))),
    column("kind", 8, 0, |row| Some(kind_name(row.event.kind).to_owned())),
    column("prior_ca_state", 14, 1, |row| {
        (row.event.kind == EventKind::State).then(|| row.event.prior_ca_state.name().to_owned())
    }),
];

static SOCKET: [Column; 26] = [
    column("local", 21, 0, |row| Some(row.event.local.to_string())),
    column("remote", 21, 0, |row| Some(row.event.remote.to_string())),
    column("algorithm", 9, 0, |row| Some(row.event.algorithm.clone())),
    column("phase", 10, 1, |row| row.named.phase.clone()),
    column("cwnd_pkts", 9, 0, |row| Some(row.event.cwnd_pkts.to_string())),
    column("ssthresh_pkts", 13, 2, |row| row.event.ssthresh_pkts.map(|n| n.to_string())),
    column("srtt_us", 8, 0, |row| row.event.srtt_us.map(|n| n.to_string())),
    column("min_rtt_us", 10, 3, |row| row.event.min_rtt_us.map(|n| n.to_string())),
    column("inflight_pkts", 13, 1, |row| Some(row.event.inflight_pkts.to_string())),
    column("delivered_pkts", 14, 2, |row| Some(row.event.delivered_pkts.to_string())),
    column("retrans_pkts", 12, 2, |row| Some(row.event.retrans_pkts.to_string())),
    column("lost_pkts", 9, 3, |row| Some(row.event.lost_pkts.to_string())),
    column("ca_state", 8, 1, |row| Some(row.event.ca_state.name().to_owned())),
    column("pacing_rate_bps", 15, 3, |row| row.event.pacing_rate_bps.map(|n| n.to_string())),
    column("rtt_us", 8, 3, |row| row.event.rtt_us.map(|n| n.to_string())),
    column("rto_us", 8, 3, |row| Some(row.event.rto_us.to_string())),
    column("mss_bytes", 9, 3, |row| Some(row.event.mss_bytes.to_string())),
    column("delivered_ce_pkts", 17, 4, |row| Some(row.event.delivered_ce_pkts.to_string())),
    column("bytes_acked", 12, 4, |row| Some(row.event.bytes_acked.to_string())),
    column("bytes_received", 14, 4, |row| Some(row.event.bytes_received.to_string())),
    column("app_limited", 11, 4, |row| Some(row.event.app_limited.to_string())),
    column("tcp_state", 11, 3, |row| Some(tcp_state_name(row.event.tcp_state).to_owned())),
    column("netns", 10, 3, |row| Some(row.event.netns.to_string())),
    column("rule", 12, 2, |row| row.given.map(|given| given.rule.clone())),
    column("arm", 9, 2, |row| row.given.map(|given| given.arm.clone())),
    column("state", 30, 3, |row| row.named.phrase()),
];

/// What a machine reads beside the columns for people.
static MACHINE: [Column; 4] = [
    column("time_ns", 0, 5, |row| Some(row.event.time_ns.to_string())),
    column("socket", 0, 5, |row| Some(row.event.socket.to_string())),
    column("cgroup", 0, 5, |row| Some(row.event.cgroup.to_string())),
    column("uid", 0, 5, |row| Some(row.event.uid.to_string())),
];

/// The word for why an event was sent.
pub fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Open => "open",
        EventKind::Sample => "sample",
        EventKind::State => "state",
        EventKind::Loss => "loss",
        EventKind::Close => "close",
        EventKind::Snapshot => "snapshot",
    }
}

/// The kernel's words for its TCP states.
pub fn tcp_state_name(state: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "unknown",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        "SYN_RECV",
    ];
    NAMES.get(usize::from(state)).unwrap_or(&NAMES[0])
}

/// A table for people: the columns that fit, each as wide as it needs to be.
pub struct Table {
    columns: Vec<(&'static Column, usize)>,
    /// Columns that did not fit.
    hidden: usize,
}

impl Table {
    /// A table of a stream, whose rows are not known yet.
    pub fn of_stream(limit: usize) -> Self {
        Self::fitting(STREAM.iter().chain(&SOCKET).map(|column| (column, column.width)), limit)
    }

    /// A table of these rows.
    pub fn of_rows(rows: &[Row], limit: usize) -> Self {
        let widest = |column: &Column| rows.iter().map(|row| text(column, row).chars().count()).max().unwrap_or(0);
        Self::fitting(SOCKET.iter().map(|column| (column, widest(column))), limit)
    }

    /// Takes columns by rank while they fit into `limit` characters; rank 0 is always there.
    fn fitting(columns: impl Iterator<Item = (&'static Column, usize)>, limit: usize) -> Self {
        let all: Vec<_> = columns.map(|(column, width)| (column, width.max(column.name.len()))).collect();
        let mut ranks: Vec<u8> = all.iter().map(|(column, _)| column.rank).collect();
        ranks.sort_unstable();
        let mut chosen: Vec<usize> = Vec::new();
        let mut taken = 0;
        for rank in ranks.into_iter().collect::<std::collections::BTreeSet<u8>>() {
            for (index, (_, width)) in all.iter().enumerate().filter(|(_, (column, _))| column.rank == rank) {
                if rank == 0 || taken + width < limit {
                    chosen.push(index);
                    taken += width + 2;
                }
            }
        }
        chosen.sort_unstable();
        let hidden = all.len() - chosen.len();
        Table { columns: chosen.into_iter().map(|index| all[index]).collect(), hidden }
    }

    /// Writes the names of the columns.
    pub fn write_header(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_line(out, |column| column.name.to_owned())
    }

    /// Writes one row.
    pub fn write_row(&self, out: &mut dyn Write, row: &Row) -> io::Result<()> {
        self.write_line(out, |column| text(column, row))
    }

    fn write_line(&self, out: &mut dyn Write, text: impl Fn(&Column) -> String) -> io::Result<()> {
        let cells: Vec<String> =
            self.columns.iter().map(|&(column, width)| format!("{:<width$}", text(column))).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())
    }
}

fn text(column: &Column, row: &Row) -> String {
    let text = (column.value)(row).unwrap_or_else(|| "-".to_owned());
    // The words come from an algorithm's own object: they must not steer the terminal.
    text.replace(char::is_control, " ")
}

/// Says which columns the terminal has no room for, and how to see them.
pub fn note_hidden(table: &Table) {
    if table.hidden > 0 {
        let all = table.hidden + table.columns.len();
        note(&format!(
            "{} of {all} columns do not fit this terminal; `| less -S` or another -o shows all",
            table.hidden
        ));
    }
}

/// The names of all columns of a stream, for CSV.
pub fn csv_names() -> impl Iterator<Item = &'static str> {
    STREAM.iter().chain(&MACHINE).chain(&SOCKET).map(|column| column.name)
}

/// The values of all columns of a stream, for CSV; what is not known is empty.
pub fn csv_values(row: &Row) -> impl Iterator<Item = String> {
    STREAM.iter().chain(&MACHINE).chain(&SOCKET).map(move |column| (column.value)(row).unwrap_or_default())
}

/// Characters in a line of the terminal that stdout is; without a terminal there is no limit.
pub fn line_limit() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return usize::MAX;
    }
    terminal_width(&stdout).unwrap_or(80)
}

fn terminal_width(terminal: &impl std::os::fd::AsRawFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize to the address given, which lives through the call.
    let answer = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (answer == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}
