//! Sums by algorithm and by arm, from the kernel's counts or from a recording.

use std::collections::{BTreeMap, HashMap};

use crate::trace::totals::{CountedGroup, RttCounts};
use shared::arrival::RuleArm;
use shared::model::live::Live;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LineKey {
    /// All connections.
    Host,
    Algorithm(String),
    Arm(RuleArm),
    /// Algorithms without a line of their own.
    OtherAlgorithms,
    OtherArms,
}

impl LineKey {
    /// The line for connections without a line of their own.
    pub(super) fn others(&self) -> LineKey {
        match self {
            LineKey::Host => LineKey::Host,
            LineKey::Algorithm(_) | LineKey::OtherAlgorithms => LineKey::OtherAlgorithms,
            LineKey::Arm(_) | LineKey::OtherArms => LineKey::OtherArms,
        }
    }
}

/// Cumulative, except for `sockets`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineSums {
    /// Open connections.
    pub sockets: u64,
    pub bytes_acked: u64,
    pub sent_pkts: u64,
    pub retrans_pkts: u64,
    pub rtt: Box<RttCounts>,
}

impl LineSums {
    /// Adds up the groups of a sweep by line.
    pub(crate) fn of(groups: &[CountedGroup]) -> BTreeMap<LineKey, LineSums> {
        let mut sums: BTreeMap<LineKey, LineSums> = BTreeMap::from([(LineKey::Host, LineSums::default())]);
        for group in groups {
            let CountedGroup { sockets, bytes_acked, sent_pkts, retrans_pkts, srtt_us, .. } = *group;
            let own = LineSums { sockets, bytes_acked, sent_pkts, retrans_pkts, rtt: Box::new(srtt_us) };
            for key in keys(&group.algorithm, group.arm.as_ref()) {
                sums.entry(key).or_default().add(&own);
            }
        }
        sums
    }

    pub(super) fn add(&mut self, more: &LineSums) {
        self.sockets += more.sockets;
        self.bytes_acked = self.bytes_acked.saturating_add(more.bytes_acked);
        self.sent_pkts = self.sent_pkts.saturating_add(more.sent_pkts);
        self.retrans_pkts = self.retrans_pkts.saturating_add(more.retrans_pkts);
        self.rtt.add(&more.rtt);
    }

    /// The growth since `before`. `sockets` stays.
    pub(super) fn since(&self, before: &LineSums) -> LineSums {
        LineSums {
            sockets: self.sockets,
            bytes_acked: self.bytes_acked.saturating_sub(before.bytes_acked),
            sent_pkts: self.sent_pkts.saturating_sub(before.sent_pkts),
            retrans_pkts: self.retrans_pkts.saturating_sub(before.retrans_pkts),
            rtt: Box::new(self.rtt.since(&before.rtt)),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.sockets > 0 || self.bytes_acked > 0 || self.sent_pkts > 0
    }
}

fn keys(algorithm: &str, arm: Option<&RuleArm>) -> impl Iterator<Item = LineKey> {
    let arm = arm.map(|arm| LineKey::Arm(arm.clone()));
    [LineKey::Host, LineKey::Algorithm(algorithm.to_owned())].into_iter().chain(arm)
}

/// Counts the sockets of a recording as the kernel counts those of a host.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Latest counts of each socket: payload acknowledged, packets delivered, packets retransmitted.
    seen: HashMap<u64, [u64; 3]>,
    sums: BTreeMap<LineKey, LineSums>,
}

impl Sampler {
    pub(crate) fn look(&mut self, live: &Live) -> BTreeMap<LineKey, LineSums> {
        self.sums.values_mut().for_each(|sum| sum.sockets = 0);
        self.sums.entry(LineKey::Host).or_default();
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
                // A recording has no count of packets sent.
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
