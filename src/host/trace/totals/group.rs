//! The counts of one group, and their encoding in the kernel's map.

use super::bins::{BINS, Powers, RTT_BINS, RttCounts};
use shared::arrival::RuleArm;

/// Number of congestion states.
pub const STATES: usize = 5;
/// Size of `struct totals_key` and of the algorithm's name in it.
pub(super) const KEY_BYTES: usize = 32;
const NAME_BYTES: usize = 16;
/// Offset of the arm's number in the key.
const SLOT_AT: usize = 24;
/// Size of `struct totals` in words: 11 counts, the states, the smoothed RTT, three histograms.
const VALUE_WORDS: usize = 11 + STATES + (1 + RTT_BINS) + 3 * (1 + BINS);

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

pub(super) fn key_of(group: &CountedGroup) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    // Bytes that are no text were replaced by longer ones. Such a key finds no entry.
    let name = &group.algorithm.as_bytes()[..group.algorithm.len().min(NAME_BYTES)];
    key[..name.len()].copy_from_slice(name);
    key[NAME_BYTES..SLOT_AT].copy_from_slice(&group.cgroup.to_ne_bytes());
    key[SLOT_AT..SLOT_AT + 4].copy_from_slice(&group.slot.to_ne_bytes());
    key
}

/// Decodes an entry of the map. None: it has another size.
pub(super) fn decode(key: &[u8], value: &[u8], sweep: u64) -> Option<CountedGroup> {
    if key.len() != KEY_BYTES || value.len() != VALUE_WORDS * 8 {
        return None;
    }
    let name = &key[..NAME_BYTES];
    let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES)];
    let cgroup = u64::from_ne_bytes(key[NAME_BYTES..SLOT_AT].try_into().expect("eight bytes"));
    let slot = u32::from_ne_bytes(key[SLOT_AT..SLOT_AT + 4].try_into().expect("four bytes"));
    let mut words = value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    let mut word = || words.next().expect("the size was checked");
    let was_swept = word() == sweep;
    let sockets = word();
    Some(CountedGroup {
        algorithm: String::from_utf8_lossy(name).into_owned(),
        cgroup,
        slot,
        sockets: if was_swept { sockets } else { 0 },
        opened: word(),
        closed: word(),
        bytes_acked: word(),
        bytes_received: word(),
        sent_pkts: word(),
        retrans_pkts: word(),
        delivered_pkts: word(),
        delivered_ce_pkts: word(),
        lost_pkts: word(),
        state_ns: std::array::from_fn(|_| word()),
        srtt_us: RttCounts { sum_us: word(), bins: std::array::from_fn(|_| word()) },
        min_rtt_us: powers(&mut word),
        cwnd_pkts: powers(&mut word),
        goodput_bytes: powers(&mut word),
        ..CountedGroup::default()
    })
}

fn powers(word: &mut impl FnMut() -> u64) -> Powers {
    Powers { sum: word(), bins: std::array::from_fn(|_| word()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_word_by_word_and_only_at_its_size() {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(b"reno");
        key[NAME_BYTES..SLOT_AT].copy_from_slice(&77u64.to_ne_bytes());
        key[SLOT_AT] = 3;
        let value: Vec<u8> = (1..=VALUE_WORDS as u64).flat_map(u64::to_ne_bytes).collect();
        let group = decode(&key, &value, 1).unwrap();
        assert_eq!((group.algorithm.as_str(), group.cgroup, group.sockets, group.lost_pkts), ("reno", 77, 2, 11));
        assert_eq!(group.slot, 3);
        assert_eq!((group.state_ns, group.srtt_us.sum_us), ([12, 13, 14, 15, 16], 17));
        assert_eq!(group.goodput_bytes.bins[BINS - 1], VALUE_WORDS as u64);
        assert_eq!(key_of(&group), key);
        let of_a_module = CountedGroup { algorithm: "\u{fffd}".repeat(NAME_BYTES), ..CountedGroup::default() };
        assert_eq!(key_of(&of_a_module).len(), KEY_BYTES, "a name that is no text has no end here");
        assert_eq!(decode(&key, &value, 9).unwrap().sockets, 0, "the latest sweep found none");
        assert_eq!(decode(&key, &value[8..], 1), None);
    }
}
