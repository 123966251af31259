//! The last hour of a host in bounded room: what all connections, those of each algorithm and those of each arm of a policy
//! did in every ten seconds.
//!
//! Written by whoever counts, whether a page is open or not; read by the thread that tells the pages.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};

mod changes;
mod ring;
mod sums;

pub use changes::{ArmShare, PolicyNow, Registered, Situation};
pub(super) use sums::{Key, Sampler, Sums};

use changes::Change;
use ring::Ring;
pub(super) use ring::SLOTS;

/// Time that one value of a host stands for.
pub(super) const STEP_NS: u64 = 10_000_000_000;
/// Algorithms with values of their own; the others are one line. The same for arms.
const SERIES_MAX: usize = 24;
/// What the values take at most, bytes: each of 51 series has 361 values of 20 bytes and the RTTs of the latest.
///
/// Beside them there are the latest sums of each algorithm and arm that the kernel side counts, 1.5 kB each: with some
/// twenty of them, as on most hosts, 30 kB.
#[cfg(test)]
const BYTES_MAX: usize = 512 << 10;

/// What one kind of connections did in the last hour.
#[derive(Debug)]
struct Series {
    /// Number by which a page knows it.
    id: u32,
    ring: Ring,
}

/// What the host did in the last hour.
#[derive(Debug)]
pub(super) struct Overview {
    step_ns: u64,
    /// When the latest sums were taken, and these.
    latest: Option<(u64, BTreeMap<Key, Sums>)>,
    /// Numbers of the first and the newest value since the counting began.
    first: u64,
    newest: u64,
    series: BTreeMap<Key, Series>,
    next_id: u32,
    situation: Option<Situation>,
    changes: VecDeque<Change>,
}

/// What a page gets. Columns of all series are as long as each other, and end with the newest value.
#[derive(Serialize)]
struct Frame<'a> {
    status: &'a Status,
    step_ms: f64,
    /// Values that are kept.
    slots: usize,
    /// Number of the newest value: it began at this number of steps.
    newest: u64,
    /// Number of the first value since the counting began.
    first: u64,
    series: Vec<SeriesLine<'a>>,
    /// Times and words, oldest first.
    changes: Vec<(f64, &'a str)>,
}

#[derive(Serialize)]
struct SeriesLine<'a> {
    id: u32,
    /// "host", "algorithm", "arm", "other_algorithms" or "other_arms".
    kind: &'static str,
    algorithm: Option<&'a str>,
    rule: Option<&'a str>,
    arm: Option<&'a str>,
    goodput_bps: Vec<Option<u64>>,
    retrans_ratio: Vec<Option<f32>>,
    rtt_p50_us: Vec<Option<u32>>,
    rtt_p95_us: Vec<Option<u32>>,
    sockets: Vec<Option<u32>>,
}

impl Overview {
    /// Nothing is known yet; values stand for this long each.
    pub(super) fn new(step_ns: u64) -> Overview {
        let (series, changes) = (BTreeMap::new(), VecDeque::new());
        Overview { step_ns, latest: None, first: 0, newest: 0, series, next_id: 0, situation: None, changes }
    }

    /// What was known is void: a recording was set to another time.
    pub(super) fn restart(&mut self) {
        *self = Overview { next_id: self.next_id, ..Overview::new(self.step_ns) };
    }

    /// Takes in sums as of a moment; what they grew by since those before is of the time between. The first say only how
    /// many connections there are.
    pub(super) fn observe(&mut self, now_ns: u64, sums: BTreeMap<Key, Sums>) {
        let slot = now_ns / self.step_ns;
        if slot < self.newest {
            self.restart();
        }
        let (length_ns, before) = match self.latest.take() {
            Some((since_ns, before)) => (now_ns.saturating_sub(since_ns), before),
            None => {
                (self.first, self.newest) = (slot, slot);
                (0, sums.clone())
            }
        };
        let mut growths: BTreeMap<Key, Sums> = BTreeMap::new();
        for (key, sum) in &sums {
            let growth = before.get(key).map_or_else(|| sum.clone(), |before| sum.since(before));
            growths.entry(self.shown_as(key, &growth)).or_default().add(&growth);
        }
        self.newest = slot;
        let nothing = Sums::default();
        for (key, series) in &mut self.series {
            series.ring.add(slot, growths.get(key).unwrap_or(&nothing), length_ns);
        }
        self.series.retain(|key, series| *key == Key::Host || series.ring.is_active());
        self.latest = Some((now_ns, sums));
    }

    /// The line that shows these connections: their own while there is room for one, which they get when they do something.
    fn shown_as(&mut self, key: &Key, growth: &Sums) -> Key {
        if self.series.contains_key(key) {
            return key.clone();
        }
        let kind = std::mem::discriminant(key);
        let has_room = self.series.keys().filter(|it| std::mem::discriminant(*it) == kind).count() < SERIES_MAX;
        let shown = if growth.is_active() && has_room { key.clone() } else { key.others() };
        if growth.is_active() && !self.series.contains_key(&shown) {
            self.next_id += 1;
            self.series.insert(shown.clone(), Series { id: self.next_id, ring: Ring::new(self.newest) });
        }
        shown
    }

    /// Takes in what the host is set to as of a moment, and remembers what differs from before.
    pub(super) fn note_situation(&mut self, now_ns: u64, situation: Situation) {
        if let Some(before) = &self.situation {
            self.changes.extend(situation.since(before).into_iter().map(|what| Change::new(now_ns, what)));
        }
        let oldest_ns = now_ns.saturating_sub(self.step_ns * SLOTS as u64);
        while self.changes.len() > changes::CHANGES_MAX
            || self.changes.front().is_some_and(|it| it.is_before(oldest_ns))
        {
            self.changes.pop_front();
        }
        self.situation = Some(situation);
    }

    pub(super) fn whole(&self, status: &Status) -> Bytes {
        self.frame("overview", status, SLOTS)
    }

    /// The newest values, for a page that knows the others: the one before them may have been the newest then.
    pub(super) fn recent(&self, status: &Status) -> Bytes {
        self.frame("recent", status, 2)
    }

    fn frame(&self, name: &str, status: &Status, values: usize) -> Bytes {
        let values = values.min((self.newest - self.first) as usize + 1);
        let series = self.series.iter().map(|(key, series)| self.line(key, series, values)).collect();
        frame::encode(
            name,
            &Frame {
                status,
                step_ms: millis(self.step_ns),
                slots: SLOTS,
                newest: self.newest,
                first: self.first,
                series,
                changes: self.changes.iter().map(|change| (millis(change.time_ns), change.what.as_str())).collect(),
            },
        )
    }

    fn line<'a>(&self, key: &'a Key, series: &Series, values: usize) -> SeriesLine<'a> {
        let (kind, algorithm, given) = match key {
            Key::Host => ("host", None, None),
            Key::Algorithm(name) => ("algorithm", Some(name.as_str()), None),
            Key::Arm(given) => ("arm", None, Some(given)),
            Key::OtherAlgorithms => ("other_algorithms", None, None),
            Key::OtherArms => ("other_arms", None, None),
        };
        let seen: Vec<_> = series.ring.newest(self.newest, values).collect();
        SeriesLine {
            id: series.id,
            kind,
            algorithm,
            rule: given.map(|given| given.rule.as_str()),
            arm: given.map(|given| given.arm.as_str()),
            goodput_bps: seen.iter().map(|it| it.goodput_bps()).collect(),
            retrans_ratio: seen.iter().map(|it| it.retrans_ratio()).collect(),
            rtt_p50_us: seen.iter().map(|it| it.rtt_p50_us()).collect(),
            rtt_p95_us: seen.iter().map(|it| it.rtt_p95_us()).collect(),
            sockets: seen.iter().map(|it| it.sockets()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
