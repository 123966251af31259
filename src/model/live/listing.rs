//! The sockets as a list: which of them, in which order; the same in the terminal and in the web page.

use std::cmp::Ordering;

use super::filter::Words;
use super::{Live, Socket};

/// What a list can show of a socket, and be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    Peer,
    Local,
    Process,
    Cgroup,
    Algorithm,
    Rule,
    Arm,
    Phase,
    CaState,
    Cwnd,
    Ssthresh,
    Inflight,
    Srtt,
    MinRtt,
    Goodput,
    Received,
    Retrans,
    Age,
}

/// A value of a column, in base units.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    /// Packets, microseconds, bits per second, a share, or nanoseconds, as the column says.
    Number(f64),
    /// Not known, or not so.
    Nothing,
}

impl Column {
    /// Every column, in the order a reader meets them.
    pub const ALL: [Column; 18] = [
        Column::Peer,
        Column::Local,
        Column::Process,
        Column::Cgroup,
        Column::Algorithm,
        Column::Rule,
        Column::Arm,
        Column::Phase,
        Column::CaState,
        Column::Cwnd,
        Column::Ssthresh,
        Column::Inflight,
        Column::Srtt,
        Column::MinRtt,
        Column::Goodput,
        Column::Received,
        Column::Retrans,
        Column::Age,
    ];

    /// Its word, as filters and headings write it.
    pub fn name(self) -> &'static str {
        match self {
            Column::Peer => "peer",
            Column::Local => "local",
            Column::Process => "process",
            Column::Cgroup => "cgroup",
            Column::Algorithm => "algorithm",
            Column::Rule => "rule",
            Column::Arm => "arm",
            Column::Phase => "phase",
            Column::CaState => "ca_state",
            Column::Cwnd => "cwnd",
            Column::Ssthresh => "ssthresh",
            Column::Inflight => "inflight",
            Column::Srtt => "srtt",
            Column::MinRtt => "min_rtt",
            Column::Goodput => "goodput",
            Column::Received => "received",
            Column::Retrans => "retrans",
            Column::Age => "age",
        }
    }

    /// Whether its values are words, which sort from a to z; numbers sort from the largest.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Column::Peer
                | Column::Local
                | Column::Process
                | Column::Cgroup
                | Column::Algorithm
                | Column::Rule
                | Column::Arm
                | Column::Phase
                | Column::CaState
        )
    }
}

/// Which sockets, in which order.
#[derive(Debug, Clone)]
pub struct Listing {
    pub words: Words,
    pub by: Column,
    /// From the other end: words from z to a, numbers from the smallest.
    pub reversed: bool,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { words: Words::default(), by: Column::Goodput, reversed: false }
    }
}

impl Live {
    /// What a column shows of a socket.
    ///
    /// Units: packets; microseconds; bits per second; a share of 1; nanoseconds for the age.
    pub fn cell(&self, socket: &Socket, column: Column) -> Cell {
        let event = &socket.latest;
        let text = |text: Option<&str>| text.map_or(Cell::Nothing, |text| Cell::Text(text.to_owned()));
        let number = |number: Option<f64>| number.map_or(Cell::Nothing, Cell::Number);
        match column {
            Column::Peer => Cell::Text(event.remote.to_string()),
            Column::Local => Cell::Text(event.local.to_string()),
            Column::Process => {
                self.owner(socket).map_or(Cell::Nothing, |it| Cell::Text(format!("{} {}", it.command, it.pid)))
            }
            Column::Cgroup => text(self.cgroup(socket)),
            Column::Algorithm => text(Some(&event.algorithm)),
            Column::Rule => text(self.arm(socket).map(|given| given.rule.as_str())),
            Column::Arm => text(self.arm(socket).map(|given| given.arm.as_str())),
            Column::Phase => text(self.phase(socket)),
            Column::CaState => text(Some(event.ca_state.name())),
            Column::Cwnd => Cell::Number(event.cwnd_pkts.into()),
            Column::Ssthresh => number(event.ssthresh_pkts.map(f64::from)),
            Column::Inflight => Cell::Number(event.inflight_pkts.into()),
            Column::Srtt => number(event.srtt_us.map(f64::from)),
            Column::MinRtt => number(event.min_rtt_us.map(f64::from)),
            Column::Goodput => number(socket.goodput_bps(self.now_ns())),
            Column::Received => number(socket.received_bps(self.now_ns())),
            Column::Retrans => number(socket.retrans_ratio()),
            Column::Age => Cell::Number(self.now_ns().saturating_sub(socket.first_ns) as f64),
        }
    }

    /// The sockets of a listing by their cookies; those without a value come last whichever way it is sorted.
    pub fn list(&self, listing: &Listing) -> Vec<u64> {
        let passing = self.sockets().filter(|socket| listing.words.pass(self, socket));
        let mut keyed: Vec<(Cell, u64)> =
            passing.map(|socket| (self.cell(socket, listing.by), socket.latest.socket)).collect();
        keyed.sort_unstable_by(|(a, a_id), (b, b_id)| compare(a, b, listing.reversed).then(a_id.cmp(b_id)));
        keyed.into_iter().map(|(_, socket)| socket).collect()
    }
}

fn compare(a: &Cell, b: &Cell, reversed: bool) -> Ordering {
    let turned = |order: Ordering| if reversed { order.reverse() } else { order };
    match (a, b) {
        (Cell::Nothing, Cell::Nothing) => Ordering::Equal,
        (Cell::Nothing, _) => Ordering::Greater,
        (_, Cell::Nothing) => Ordering::Less,
        (Cell::Number(a), Cell::Number(b)) => turned(b.total_cmp(a)),
        (Cell::Text(a), Cell::Text(b)) => turned(a.cmp(b)),
        (Cell::Text(_), Cell::Number(_)) => Ordering::Less,
        (Cell::Number(_), Cell::Text(_)) => Ordering::Greater,
    }
}
