//! The counts of one group, and their entry in the kernel's map.

use zerocopy::FromBytes as _;

use super::bins::{Powers, RttCounts};
use crate::trace::program::types::{totals, totals_key};
use shared::arrival::RuleArm;
use shared::c_text;

/// Number of congestion states.
pub const STATES: usize = 5;
/// Counts of the connections of one algorithm in one cgroup and arm. Cumulative, except for `sockets`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedGroup {
    pub algorithm: String,
    /// cgroup v2 id. 0: the sum over removed cgroups.
    pub cgroup: u64,
    /// Path below the mount, kept after the cgroup's removal. `None`: the cgroup was removed before it was named, or
    /// there is no cgroup v2.
    pub path: Option<String>,
    /// Number of the arm in the policy's labels. 0: no rule decided.
    pub slot: u32,
    pub arm: Option<RuleArm>,
    /// Open connections in the latest sweep.
    pub sockets: u64,
    pub opened: u64,
    pub closed: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// Data packets sent, including retransmissions.
    pub sent_pkts: u64,
    pub retrans_pkts: u64,
    pub delivered_pkts: u64,
    pub delivered_ce_pkts: u64,
    pub lost_pkts: u64,
    /// Time of all connections in each congestion state: Open, Disorder, CWR, Recovery, Loss.
    pub state_ns: [u64; STATES],
    pub srtt_us: RttCounts,
    pub min_rtt_us: Powers,
    pub cwnd_pkts: Powers,
    /// Payload bytes acknowledged per second, of connections that sent.
    pub goodput_bytes: Powers,
}

impl CountedGroup {
    pub(super) fn order(&self, other: &CountedGroup) -> std::cmp::Ordering {
        (&self.algorithm, self.cgroup, self.slot).cmp(&(&other.algorithm, other.cgroup, other.slot))
    }

    pub fn add(&mut self, other: &CountedGroup) {
        self.sockets += other.sockets;
        self.opened += other.opened;
        self.closed += other.closed;
        self.bytes_acked += other.bytes_acked;
        self.bytes_received += other.bytes_received;
        self.sent_pkts += other.sent_pkts;
        self.retrans_pkts += other.retrans_pkts;
        self.delivered_pkts += other.delivered_pkts;
        self.delivered_ce_pkts += other.delivered_ce_pkts;
        self.lost_pkts += other.lost_pkts;
        self.state_ns.iter_mut().zip(other.state_ns).for_each(|(own, more)| *own += more);
        self.srtt_us.add(&other.srtt_us);
        self.min_rtt_us.add(&other.min_rtt_us);
        self.cwnd_pkts.add(&other.cwnd_pkts);
        self.goodput_bytes.add(&other.goodput_bytes);
    }
}

/// Bytes of a name that are no text were replaced. Such a key finds no entry.
pub(super) fn key_of(group: &CountedGroup) -> totals_key {
    let &CountedGroup { cgroup, slot, .. } = group;
    totals_key { algorithm: c_text::padded(&group.algorithm), cgroup, slot, pad: 0 }
}

/// Decodes an entry of the map. None: it has another size.
pub(super) fn decode(key: &[u8], value: &[u8], sweep: u64) -> Option<CountedGroup> {
    let totals_key { algorithm, cgroup, slot, .. } = totals_key::read_from_bytes(key).ok()?;
    let counts = totals::read_from_bytes(value).ok()?;
    Some(CountedGroup {
        algorithm: c_text::text(&algorithm),
        cgroup,
        path: None,
        slot,
        arm: None,
        sockets: if counts.sweep == sweep { counts.sockets } else { 0 },
        opened: counts.opened,
        closed: counts.closed,
        bytes_acked: counts.bytes_acked,
        bytes_received: counts.bytes_received,
        sent_pkts: counts.sent_pkts,
        retrans_pkts: counts.retrans_pkts,
        delivered_pkts: counts.delivered_pkts,
        delivered_ce_pkts: counts.delivered_ce_pkts,
        lost_pkts: counts.lost_pkts,
        state_ns: counts.state_ns,
        srtt_us: counts.srtt_us,
        min_rtt_us: counts.min_rtt_us,
        cwnd_pkts: counts.cwnd_pkts,
        goodput_bytes: counts.goodput_bytes,
    })
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes as _;

    use super::*;

    #[test]
    fn entry_is_read_only_at_its_size_and_has_sockets_only_of_the_latest_sweep() {
        let key = totals_key { algorithm: c_text::padded("reno"), cgroup: 77, slot: 3, pad: 0 };
        let value = totals { sweep: 1, sockets: 2, lost_pkts: 11, ..totals::default() };
        let group = decode(key.as_bytes(), value.as_bytes(), 1).unwrap();
        assert_eq!((group.algorithm.as_str(), group.cgroup, group.sockets, group.lost_pkts), ("reno", 77, 2, 11));
        assert_eq!(key_of(&group), key);
        let of_a_module = CountedGroup { algorithm: "\u{fffd}".repeat(16), ..group };
        assert_ne!(key_of(&of_a_module), key, "a name that is no text is longer than its field");
        assert_eq!(decode(key.as_bytes(), value.as_bytes(), 9).unwrap().sockets, 0, "the latest sweep found none");
        assert_eq!(decode(key.as_bytes(), &value.as_bytes()[8..], 1), None);
    }
}
