//! Sums by algorithm and by arm: of what the kernel side counts, and of a recording.

use std::collections::{BTreeMap, HashMap};

use crate::model::live::Live;
use crate::trace::arrival::RuleArm;
use crate::trace::totals::{Group, RttCounts};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Host,
    /// Those of an algorithm, whatever decided them.
    Algorithm(String),
    /// Those of an arm of a policy, whatever their algorithm.
    Arm(RuleArm),
    /// Those of algorithms beyond the first.
    OtherAlgorithms,
    /// Those of arms beyond the first.
    OtherArms,
}

impl Key {
    /// The line that takes what has none of its own.
    pub(super) fn others(&self) -> Key {
        match self {
            Key::Host => Key::Host,
            Key::Algorithm(_) | Key::OtherAlgorithms => Key::OtherAlgorithms,
            Key::Arm(_) | Key::OtherArms => Key::OtherArms,
        }
    }
}

/// What connections did since the counting began, and how many are open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    pub sockets: u64,
    pub bytes_acked: u64,
    pub sent_pkts: u64,
    pub retrans_pkts: u64,
    pub rtt: Box<RttCounts>,
}

impl Sums {
    /// By algorithm and by arm, of the groups of a sweep.
    pub(crate) fn of(groups: &[Group]) -> BTreeMap<Key, Sums> {
        let mut sums: BTreeMap<Key, Sums> = BTreeMap::from([(Key::Host, Sums::default())]);
        for group in groups {
            for key in keys(&group.algorithm, group.arm.as_ref()) {
                let sum = sums.entry(key).or_default();
                sum.sockets += group.sockets;
                sum.bytes_acked += group.bytes_acked;
                sum.sent_pkts += group.sent_pkts;
                sum.retrans_pkts += group.retrans_pkts;
                sum.rtt.add(&group.srtt_us);
            }
        }
        sums
    }

    pub(super) fn add(&mut self, more: &Sums) {
        self.sockets += more.sockets;
        self.bytes_acked = self.bytes_acked.saturating_add(more.bytes_acked);
        self.sent_pkts = self.sent_pkts.saturating_add(more.sent_pkts);
        self.retrans_pkts = self.retrans_pkts.saturating_add(more.retrans_pkts);
        self.rtt.add(&more.rtt);
    }

    /// What was counted since; the connections are those of now.
    pub(super) fn since(&self, before: &Sums) -> Sums {
        Sums {
            sockets: self.sockets,
            bytes_acked: self.bytes_acked.saturating_sub(before.bytes_acked),
            sent_pkts: self.sent_pkts.saturating_sub(before.sent_pkts),
            retrans_pkts: self.retrans_pkts.saturating_sub(before.retrans_pkts),
            rtt: Box::new(self.rtt.since(&before.rtt)),
        }
    }

    /// Whether there is or was a connection.
    pub(super) fn is_active(&self) -> bool {
        self.sockets > 0 || self.bytes_acked > 0 || self.sent_pkts > 0
    }
}

fn keys(algorithm: &str, arm: Option<&RuleArm>) -> impl Iterator<Item = Key> {
    let arm = arm.map(|arm| Key::Arm(arm.clone()));
    [Key::Host, Key::Algorithm(algorithm.to_owned())].into_iter().chain(arm)
}

/// Counts what the sockets of a recording do, as the kernel side counts those of a host.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Of each socket: payload acknowledged, packets delivered and retransmitted when it was looked at last.
    seen: HashMap<u64, [u64; 3]>,
    sums: BTreeMap<Key, Sums>,
}

impl Sampler {
    pub(crate) fn look(&mut self, live: &Live) -> BTreeMap<Key, Sums> {
        self.sums.values_mut().for_each(|sum| sum.sockets = 0);
        self.sums.entry(Key::Host).or_default();
        let mut seen = HashMap::with_capacity(self.seen.len());
        for socket in live.sockets() {
            let event = &socket.latest;
            let now = [event.bytes_acked, event.delivered_pkts.into(), event.retrans_pkts.into()];
            let before = self.seen.get(&event.socket).copied().unwrap_or(now);
            let [acked, delivered, retrans] = std::array::from_fn(|at| now[at].saturating_sub(before[at]));
            seen.insert(event.socket, now);
            for key in keys(&event.algorithm, live.arm(socket).map(AsRef::as_ref)) {
                let sum = self.sums.entry(key).or_default();
                sum.sockets += u64::from(socket.closed_ns.is_none());
                sum.bytes_acked += acked;
                // A recording tells what was delivered, and not what was sent.
                sum.sent_pkts += delivered + retrans;
                sum.retrans_pkts += retrans;
                if let Some(srtt_us) = event.srtt_us.filter(|_| delivered > 0) {
                    sum.rtt.observe(srtt_us);
                }
            }
        }
        self.seen = seen;
        self.sums.clone()
    }
}
