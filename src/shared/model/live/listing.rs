//! Filtered and sorted lists of sockets, as the terminal and the web page show them.

use std::cmp::Ordering;

use strum::{IntoStaticStr, VariantArray};

use super::Live;
use super::filter::SocketFilter;
use super::socket::Socket;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum SocketColumn {
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

/// A column's value in base units.
#[derive(Debug, Clone, PartialEq)]
pub enum SocketValue {
    Text(String),
    /// Packets, microseconds, bits per second, a share, or nanoseconds, depending on the column.
    Number(f64),
    /// Unknown or not applicable.
    Nothing,
}

impl SocketColumn {
    pub const ALL: &[SocketColumn] = SocketColumn::VARIANTS;

    /// Name in filters and headings.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it has text, which sorts from a to z. Numbers sort from the largest.
    pub fn is_text(self) -> bool {
        SocketColumn::ALL[..=SocketColumn::CaState as usize].contains(&self)
    }
}

#[derive(Debug, Clone)]
pub struct Listing {
    pub filter: SocketFilter,
    pub by: SocketColumn,
    /// Text from z to a, numbers from the smallest.
    pub reversed: bool,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { filter: SocketFilter::default(), by: SocketColumn::Goodput, reversed: false }
    }
}

impl Live {
    /// The value of a column for a socket.
    ///
    /// Units: packets, microseconds, bits per second, a share of 1, or nanoseconds for the age.
    pub fn cell(&self, socket: &Socket, column: SocketColumn) -> SocketValue {
        let event = &socket.latest;
        let text = |text: Option<&str>| text.map_or(SocketValue::Nothing, |text| SocketValue::Text(text.to_owned()));
        let number = |number: Option<f64>| number.map_or(SocketValue::Nothing, SocketValue::Number);
        match column {
            SocketColumn::Peer => SocketValue::Text(event.remote.to_string()),
            SocketColumn::Local => SocketValue::Text(event.local.to_string()),
            SocketColumn::Process => self
                .owner(socket)
                .map_or(SocketValue::Nothing, |it| SocketValue::Text(format!("{} {}", it.command, it.pid))),
            SocketColumn::Cgroup => text(self.cgroup(socket)),
            SocketColumn::Algorithm => text(Some(&event.algorithm)),
            SocketColumn::Rule => text(self.arm(socket).map(|given| given.rule.as_str())),
            SocketColumn::Arm => text(self.arm(socket).map(|given| given.arm.as_str())),
            SocketColumn::Phase => text(self.phase(socket)),
            SocketColumn::CaState => text(Some(event.ca_state.name())),
            SocketColumn::Cwnd => SocketValue::Number(event.cwnd_pkts.into()),
            SocketColumn::Ssthresh => number(event.ssthresh_pkts.map(f64::from)),
            SocketColumn::Inflight => SocketValue::Number(event.inflight_pkts.into()),
            SocketColumn::Srtt => number(event.srtt_us.map(f64::from)),
            SocketColumn::MinRtt => number(event.min_rtt_us.map(f64::from)),
            SocketColumn::Goodput => number(socket.goodput_bps(self.now_ns())),
            SocketColumn::Received => number(socket.received_bps(self.now_ns())),
            SocketColumn::Retrans => number(socket.retrans_ratio()),
            SocketColumn::Age => SocketValue::Number(self.now_ns().saturating_sub(socket.first_ns) as f64),
        }
    }

    /// Cookies of the listed sockets. Sockets without a value come last in either order.
    pub fn list(&self, listing: &Listing) -> Vec<u64> {
        let passing = self.sockets().filter(|socket| listing.filter.pass(self, socket));
        let mut keyed: Vec<(SocketValue, u64)> =
            passing.map(|socket| (self.cell(socket, listing.by), socket.latest.socket)).collect();
        keyed.sort_unstable_by(|(a, a_id), (b, b_id)| compare(a, b, listing.reversed).then(a_id.cmp(b_id)));
        keyed.into_iter().map(|(_, socket)| socket).collect()
    }
}

fn compare(a: &SocketValue, b: &SocketValue, reversed: bool) -> Ordering {
    let turned = |order: Ordering| if reversed { order.reverse() } else { order };
    match (a, b) {
        (SocketValue::Nothing, SocketValue::Nothing) => Ordering::Equal,
        (SocketValue::Nothing, _) => Ordering::Greater,
        (_, SocketValue::Nothing) => Ordering::Less,
        (SocketValue::Number(a), SocketValue::Number(b)) => turned(b.total_cmp(a)),
        (SocketValue::Text(a), SocketValue::Text(b)) => turned(a.cmp(b)),
        (SocketValue::Text(_), SocketValue::Number(_)) => Ordering::Less,
        (SocketValue::Number(_), SocketValue::Text(_)) => Ordering::Greater,
    }
}
