//! The last hour of a host in bounded memory: one value per ten seconds for all connections, for each algorithm and for
//! each arm of a policy.
//!
//! The exporter writes it, whether a page is open or not. The page's thread reads it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};

mod changes;
mod ring;
mod sums;

pub use changes::{ArmShare, HostConfig, LastTrial, LimitShown, PolicyNow, Registered};
pub(super) use sums::{LineKey, LineSums, Sampler};

use changes::HostChange;
use ring::HourRing;
pub(super) use ring::SLOTS;

/// The step of a live host.
pub(super) const STEP_NS: u64 = 10_000_000_000;
/// Up to this many algorithms have a line of their own. One more line sums up the others. The limit holds for arms too.
const SERIES_MAX: usize = 24;
/// Limit for the values. Each of 51 series has 361 values of 20 bytes, and the RTT counts of the latest value.
///
/// The latest sums of each algorithm and arm take 1.5 kB each in addition: about 30 kB on most hosts.
#[cfg(test)]
const BYTES_MAX: usize = 512 << 10;

#[derive(Debug)]
struct OverviewSeries {
    /// Identifies the line on a page.
    id: u32,
    ring: HourRing,
}

/// Value number `n` covers the step that starts at `n * step_ns`.
#[derive(Debug)]
pub(super) struct Overview {
    step_ns: u64,
    /// The latest sums and their time.
    latest: Option<(u64, BTreeMap<LineKey, LineSums>)>,
    /// Number of the first value since counting began.
    first: u64,
    newest: u64,
    series: BTreeMap<LineKey, OverviewSeries>,
    next_id: u32,
    situation: Option<HostConfig>,
    changes: VecDeque<HostChange>,
}

/// The columns of all series have equal length and end with the newest value.
#[derive(Serialize)]
struct OverviewFrame<'a> {
    status: &'a Status,
    step_ms: f64,
    /// Values kept per series.
    slots: usize,
    newest: u64,
    first: u64,
    series: Vec<SeriesLine<'a>>,
    /// Time and description, oldest first.
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
    pub(super) fn new(step_ns: u64) -> Overview {
        let (series, changes) = (BTreeMap::new(), VecDeque::new());
        Overview { step_ns, latest: None, first: 0, newest: 0, series, next_id: 0, situation: None, changes }
    }

    /// Forgets everything, because the time of a recording jumped.
    pub(super) fn restart(&mut self) {
        *self = Overview { next_id: self.next_id, ..Overview::new(self.step_ns) };
    }

    /// Adds the growth of the sums since the previous call. The first call gives only the numbers of connections.
    pub(super) fn observe(&mut self, now_ns: u64, sums: BTreeMap<LineKey, LineSums>) {
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
        let mut growths: BTreeMap<LineKey, LineSums> = BTreeMap::new();
        for (key, sum) in &sums {
            let growth = before.get(key).map_or_else(|| sum.clone(), |before| sum.since(before));
            growths.entry(self.shown_as(key, &growth)).or_default().add(&growth);
        }
        self.newest = slot;
        let nothing = LineSums::default();
        for (key, series) in &mut self.series {
            series.ring.add(slot, growths.get(key).unwrap_or(&nothing), length_ns);
        }
        self.series.retain(|key, series| *key == LineKey::Host || series.ring.is_active());
        self.latest = Some((now_ns, sums));
    }

    /// The line that shows these connections: the line of the others, or their own. They get their own once they are
    /// active and there is room.
    fn shown_as(&mut self, key: &LineKey, growth: &LineSums) -> LineKey {
        if self.series.contains_key(key) {
            return key.clone();
        }
        let kind = std::mem::discriminant(key);
        let has_room = self.series.keys().filter(|it| std::mem::discriminant(*it) == kind).count() < SERIES_MAX;
        let shown = if growth.is_active() && has_room { key.clone() } else { key.others() };
        if growth.is_active() && !self.series.contains_key(&shown) {
            self.next_id += 1;
            self.series.insert(shown.clone(), OverviewSeries { id: self.next_id, ring: HourRing::new(self.newest) });
        }
        shown
    }

    /// Updates the settings of the host and remembers the changes.
    pub(super) fn note_situation(&mut self, now_ns: u64, situation: HostConfig) {
        if let Some(before) = &self.situation {
            self.changes.extend(situation.since(before).into_iter().map(|what| HostChange::new(now_ns, what)));
        }
        let oldest_ns = now_ns.saturating_sub(self.step_ns * SLOTS as u64);
        let excess = self.changes.len().saturating_sub(changes::CHANGES_MAX);
        self.changes.drain(..excess);
        self.changes.retain(|change| change.time_ns >= oldest_ns);
        self.situation = Some(situation);
    }

    pub(super) fn whole(&self, status: &Status) -> Bytes {
        self.frame("overview", status, SLOTS)
    }

    /// The newest two values: the previous one may have been incomplete at the last tick.
    pub(super) fn recent(&self, status: &Status) -> Bytes {
        self.frame("recent", status, 2)
    }

    fn frame(&self, name: &str, status: &Status, values: usize) -> Bytes {
        let values = values.min((self.newest - self.first) as usize + 1);
        let series = self.series.iter().map(|(key, series)| self.line(key, series, values)).collect();
        frame::encode(
            name,
            &OverviewFrame {
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

    fn line<'a>(&self, key: &'a LineKey, series: &OverviewSeries, values: usize) -> SeriesLine<'a> {
        let (kind, algorithm, given) = match key {
            LineKey::Host => ("host", None, None),
            LineKey::Algorithm(name) => ("algorithm", Some(name.as_str()), None),
            LineKey::Arm(given) => ("arm", None, Some(given)),
            LineKey::OtherAlgorithms => ("other_algorithms", None, None),
            LineKey::OtherArms => ("other_arms", None, None),
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
            rtt_p50_us: seen.iter().map(|it| it.rtt_us()[0]).collect(),
            rtt_p95_us: seen.iter().map(|it| it.rtt_us()[1]).collect(),
            sockets: seen.iter().map(|it| it.sockets()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
