//! Changes of a direction of a link during a run. Plain data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::discipline::Discipline;
use super::jitter::Jitter;
use super::link::Direction;
use super::loss::LossModel;
use super::range::{wrong_delay, wrong_rate};
use crate::c_types::LinkLimit;
use shared::units::{BitsPerSec, ParseError, QueueSize, duration_text, format_duration, some_duration_text};

/// Most changes of a direction.
pub(crate) const CHANGES_MAX: usize = 10_000;
/// Most queue disciplines that a direction has in turn.
const DISCIPLINES_MAX: usize = LinkLimit::TCCC_LINK_DISCIPLINES_MAX.0 as usize;

/// Share of lost packets from which a path is as good as cut.
const LOSS_OF_A_CUT: f64 = 0.5;

/// A change at one time. A property that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionChange {
    /// Time from the start of the run.
    #[serde(with = "duration_text")]
    pub at: Duration,
    /// New rate, also for the packet that is being serialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitsPerSec>,
    /// New delay of packets that leave the serialiser. A shorter delay does not reorder packets.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "some_duration_text")]
    pub delay: Option<Duration>,
    /// New random addition to the delay, for packets that enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// New size of the drop-tail queue, or the limit of the new discipline. Packets that wait stay in a drop-tail queue,
    /// even if it holds less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSize>,
    /// Takes the place of the queue discipline. What waits in that one is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// New losses of packets that enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossModel>,
    /// Whether packets that enter are carried. Packets in the queue and in flight arrive in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

impl DirectionChange {
    pub fn is_empty(&self) -> bool {
        *self == DirectionChange { at: self.at, ..DirectionChange::default() }
    }
}

impl Direction {
    /// The first mistake in the changes: the index of the change, its field, and why it is wrong.
    pub(crate) fn wrong_change(&self) -> Option<(usize, &'static str, ParseError)> {
        if self.changes.len() > CHANGES_MAX {
            let wrong = ParseError::because(self.changes.len(), format!("expected at most {CHANGES_MAX} changes"));
            return Some((CHANGES_MAX, "at", wrong));
        }
        self.changes.iter().enumerate().find_map(|(index, change)| {
            let before = index.checked_sub(1).map(|before| self.changes[before].at);
            self.wrong(change, before).map(|(field, wrong)| (index, field, wrong))
        })
    }

    fn wrong(&self, change: &DirectionChange, before: Option<Duration>) -> Option<(&'static str, ParseError)> {
        if let Some(before) = before.filter(|before| *before >= change.at) {
            let why = format!("after {}: expected the changes in order", format_duration(before));
            return Some(("at", ParseError::because(format_duration(change.at), why)));
        }
        let of_trace = || {
            let rate = change.rate.filter(|_| self.trace.is_some())?;
            Some(ParseError::because(rate, "the rate of this link is a trace"))
        };
        let rate = wrong_rate(change.rate).or_else(of_trace).map(|wrong| ("rate", wrong));
        let delay = || Some(("delay", wrong_delay(change.delay?)?));
        let jitter = || Some(("jitter", change.jitter?.out_of_range()?));
        let loss = || Some(("loss", change.loss.as_ref()?.out_of_range()?));
        let queue = || Some(("queue", self.wrong_queue(change)?));
        let discipline = || Some(("discipline", self.wrong_discipline(change)?));
        rate.or_else(delay).or_else(jitter).or_else(queue).or_else(discipline).or_else(loss)
    }

    /// Why the queue discipline cannot be replaced by that of the change.
    fn wrong_discipline(&self, change: &DirectionChange) -> Option<ParseError> {
        let discipline = change.discipline.as_ref()?;
        let before = self.changes.iter().take_while(|one| one.at <= change.at).filter(|one| one.discipline.is_some());
        let why = if self.discipline.is_none() {
            "expected a discipline of the link too, such as discipline = \"pfifo\", which is drop tail".to_owned()
        } else if before.count() >= DISCIPLINES_MAX {
            format!("expected at most {} changes of it", DISCIPLINES_MAX - 1)
        } else {
            return None;
        };
        Some(ParseError::because(discipline, why))
    }

    /// Why the queue cannot have this size during a run.
    fn wrong_queue(&self, change: &DirectionChange) -> Option<ParseError> {
        let queue = change.queue?;
        let because = |why: String| Some(ParseError::because(queue, why));
        if change.discipline.is_some() {
            return None; // its limit
        }
        if let Some(discipline) = &self.discipline {
            return because(format!("beside discipline = \"{discipline}\": only a drop-tail queue changes its size"));
        }
        match self.queue_low {
            Some(low) if !matches!(queue, QueueSize::Packets(all) if low < all) => {
                because(format!("expected more than queue_low, {low}pkts, and in pkts"))
            }
            _ => None,
        }
    }

    /// The queue disciplines that it has in turn.
    pub(crate) fn disciplines(&self) -> impl Iterator<Item = &Discipline> {
        self.discipline.iter().chain(self.changes.iter().filter_map(|change| change.discipline.as_ref()))
    }

    /// The largest jitter at any time.
    pub(crate) fn longest_jitter(&self) -> Duration {
        let changed = self.changes.iter().filter_map(|change| change.jitter);
        changed.map(Jitter::longest).fold(self.jitter.longest(), Duration::max)
    }

    /// The highest rate at any time. `None` is unlimited.
    pub(crate) fn fastest_rate(&self) -> Option<BitsPerSec> {
        let changed = self.changes.iter().filter_map(|change| change.rate);
        self.rate.map(|rate| changed.fold(rate, BitsPerSec::max))
    }

    /// The lowest rate at any time. `None` is unlimited.
    pub(crate) fn slowest_rate(&self) -> Option<BitsPerSec> {
        let changed = self.changes.iter().filter_map(|change| change.rate);
        self.rate.into_iter().chain(changed).min()
    }

    /// The shortest and the longest delay at any time, without jitter.
    pub fn delays(&self) -> [Duration; 2] {
        let changed = || self.changes.iter().filter_map(|change| change.delay);
        [changed().fold(self.delay, Duration::min), changed().fold(self.delay, Duration::max)]
    }

    /// Whether packets can wait. Without a rate, serialisation takes no time.
    pub(crate) fn has_queue(&self) -> bool {
        self.rate.is_some() || self.trace.is_some() || self.changes.iter().any(|change| change.rate.is_some())
    }

    /// Whether its capacity changes over time.
    pub(crate) fn varies(&self) -> bool {
        self.trace.is_some() || self.changes.iter().any(|change| change.rate.is_some() || change.up.is_some())
    }

    /// Since when it is down, if it does not come up again.
    pub(crate) fn down_for_good(&self) -> Option<Duration> {
        let states = self.changes.iter().filter_map(|change| Some((change.at, change.up?)));
        states.fold(None, |since, (at, is_up)| if is_up { None } else { since.or(Some(at)) })
    }

    /// Whether it ends down, or with so many losses that retransmission timeouts grow to minutes.
    pub(crate) fn is_cut_at_the_end(&self) -> bool {
        let changed = self.changes.iter().rev().find_map(|change| change.loss.as_ref());
        self.down_for_good().is_some() || changed.unwrap_or(&self.loss).long_run().0 >= LOSS_OF_A_CUT
    }

    /// Mean capacity between two times after the start, bits per second. `None` is unlimited.
    pub(crate) fn mean_rate(&self, [from, to]: [Duration; 2]) -> Option<f64> {
        let rate = self.rate?;
        Some((self.bits_by(to, rate) - self.bits_by(from, rate)) / (to - from).as_secs_f64())
    }

    /// Bits that it can carry from the start up to a time.
    fn bits_by(&self, time: Duration, rate: BitsPerSec) -> f64 {
        let (mut rate, mut is_up, mut since, mut bits) = (rate.0 as f64, true, Duration::ZERO, 0.0);
        let trace = self.trace.as_ref().filter(|trace| !trace.times_ms.is_empty());
        let carried = |rate: f64, from: Duration, to: Duration| match trace {
            Some(trace) => trace.bits_by(to) - trace.bits_by(from),
            None => rate * (to - from).as_secs_f64(),
        };
        for change in self.changes.iter().filter(|change| change.at < time) {
            bits += if is_up { carried(rate, since, change.at) } else { 0.0 };
            rate = change.rate.map_or(rate, |rate| rate.0 as f64);
            (is_up, since) = (change.up.unwrap_or(is_up), change.at);
        }
        bits + if is_up { carried(rate, since, time) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::LinkConfig;
    use crate::path::rate_trace::RateTrace;
    use shared::units::Share;

    fn at(seconds: u64) -> DirectionChange {
        DirectionChange { at: Duration::from_secs(seconds), ..DirectionChange::default() }
    }

    fn mbit(rate: u64) -> Option<BitsPerSec> {
        Some(BitsPerSec(rate * 1_000_000))
    }

    #[test]
    fn path_is_cut_if_its_last_change_leaves_it_down_or_losing_half() {
        let lossy = |share| DirectionChange { loss: Some(Share(share).into()), ..at(2) };
        let down = |up| DirectionChange { up: Some(up), ..at(3) };
        for (changes, is_cut) in [
            (vec![], false),
            (vec![lossy(0.99)], true),
            (vec![lossy(0.01)], false),
            (vec![lossy(0.99), lossy(0.01)], false),
            (vec![down(false)], true),
            (vec![down(false), down(true)], false),
        ] {
            let direction = Direction { changes, ..Direction::default() };
            assert_eq!(direction.is_cut_at_the_end(), is_cut, "{:?}", direction.changes);
        }
    }

    #[test]
    fn capacity_of_a_run_follows_the_changes() {
        let changes = vec![
            DirectionChange { rate: mbit(5), ..at(2) },
            DirectionChange { up: Some(false), ..at(4) },
            DirectionChange { up: Some(true), rate: mbit(20), ..at(6) },
            DirectionChange { rate: mbit(1), ..at(99) },
        ];
        let direction = Direction { rate: mbit(10), changes, ..Direction::default() };
        let mean = |direction: &Direction, span: [u64; 2]| direction.mean_rate(span.map(Duration::from_millis));
        // 2 s at 10, 2 s at 5, 2 s down, 4 s at 20
        assert_eq!(mean(&direction, [0, 10_000]), Some(11e6));
        assert_eq!(mean(&direction, [0, 2000]), Some(10e6));
        assert_eq!(mean(&direction, [1000, 3000]), Some(7.5e6));
        assert_eq!(mean(&direction, [6000, 12_000]), Some(20e6));
        assert_eq!(direction.fastest_rate(), mbit(20));
        assert_eq!(mean(&Direction::default(), [0, 1000]), None);
        let trace = RateTrace::new("x".into(), vec![10, 10, 20]).unwrap();
        let mut traced = Direction { rate: Some(trace.mean()), trace: Some(trace), ..Direction::default() };
        assert_eq!(mean(&traced, [0, 10]), Some(2.0 * 12_000.0 / 0.01));
        assert_eq!(mean(&traced, [10, 30]), Some(3.0 * 12_000.0 / 0.02));
        traced.changes = vec![DirectionChange { up: Some(false), at: Duration::from_millis(15), ..at(0) }];
        assert_eq!(mean(&traced, [0, 30]), Some(2.0 * 12_000.0 / 0.03), "nothing while it is down");
        assert!(traced.varies() && direction.varies() && !Direction::default().varies());
    }

    #[test]
    fn link_is_down_for_good_since_its_last_fall() {
        let since = |states: &[bool]| {
            let changes =
                (1..).zip(states).map(|(second, &up)| DirectionChange { up: Some(up), ..at(second) }).collect();
            Direction { changes, ..Direction::default() }.down_for_good().map(|since| since.as_secs())
        };
        assert_eq!([since(&[]), since(&[true]), since(&[false, true])], [None; 3]);
        assert_eq!([since(&[false]), since(&[false, true, false, false])], [Some(1), Some(3)]);
    }

    #[test]
    fn changes_out_of_order_or_range_are_named() {
        let wrong = |changes: Vec<DirectionChange>| {
            let wrong = Direction { rate: mbit(10), changes, ..Direction::default() }.wrong_change().unwrap();
            (wrong.0, wrong.1, wrong.2.to_string())
        };
        let late = DirectionChange { up: Some(true), ..at(3) };
        assert_eq!(
            wrong(vec![late.clone(), late.clone()]),
            (1, "at", "\"3s\": after 3s: expected the changes in order".into())
        );
        let fast = wrong(vec![late.clone(), DirectionChange { rate: mbit(20_000), ..at(4) }]);
        assert_eq!(fast, (1, "rate", "\"20gbit\": outside 1kbit..10gbit".into()));
        let far = wrong(vec![DirectionChange { delay: Some(Duration::from_secs(11)), ..at(4) }]);
        assert_eq!(far, (0, "delay", "\"11s\": outside 0us..10s".into()));
        assert!(at(1).is_empty() && !late.is_empty());
        let jittery = wrong(vec![DirectionChange { jitter: Some(Duration::from_secs(11).into()), ..at(4) }]);
        assert_eq!(jittery, (0, "jitter", "\"11s\": outside 0us..10s".into()));
    }

    #[test]
    fn changed_queue_that_contradicts_the_link_is_named() {
        let changes = vec![at(1), DirectionChange { queue: Some(QueueSize::Packets(20)), ..at(2) }];
        let queue = Direction { rate: mbit(10), changes, ..Direction::default() };
        let wrong = |direction: Direction| {
            let config = LinkConfig { directions: [direction, Direction::default()], mtu: 1500 };
            config.out_of_range().map(|(_, field, wrong)| format!("{field} = {wrong}"))
        };
        assert_eq!(wrong(queue.clone()), None);
        let low = wrong(Direction { queue_low: Some(20), ..queue.clone() });
        assert_eq!(low.unwrap(), "change = \"2, queue = 20pkts\": expected more than queue_low, 20pkts, and in pkts");
        let mark = wrong(Direction { mark: Some(QueueSize::Bytes(30_000)), ..queue.clone() });
        assert_eq!(mark.unwrap(), "change = \"20pkts\": change 2: expected a longer queue than `mark`");
        let mut long = queue.clone();
        long.changes[1].queue = Some(QueueSize::Bdp(1e6));
        assert_eq!(wrong(long), None, "without a delay, a BDP is a packet");
        let mut endless = Direction { rate: None, ..queue };
        endless.changes[1].queue = Some(QueueSize::Bdp(1.0));
        let endless = wrong(endless).unwrap();
        assert_eq!(endless, "change = \"1bdp\": change 2: needs a rate: without one there is no BDP");
    }

    #[test]
    fn changed_discipline_needs_one_before_it_and_fits_rate_and_limit_of_its_time() {
        let discipline = |text: &str| Some(text.parse::<Discipline>().unwrap());
        let red = DirectionChange { discipline: discipline("red min 15kB max 45kB"), ..at(2) };
        let wrong = |first: Option<Discipline>, changes: Vec<DirectionChange>| {
            let one = Direction { rate: mbit(10), discipline: first, changes, ..Direction::default() };
            let config = LinkConfig { directions: [one, Direction::default()], mtu: 1500 };
            config.out_of_range().map(|(_, field, wrong)| format!("{field} = {wrong}"))
        };
        let [red_text, why] =
            ["red min 15000B max 45000B", "expected a discipline of the link too, such as discipline ="];
        let alone = wrong(None, vec![red.clone()]).unwrap();
        assert!(alone.starts_with(&format!("change = \"1, discipline = {red_text}\": {why}")), "{alone}");
        assert_eq!(wrong(discipline("pfifo"), vec![red.clone()]), None);
        let short = DirectionChange { queue: Some(QueueSize::Packets(20)), ..red.clone() };
        let small = wrong(discipline("pfifo"), vec![at(1), short]).unwrap();
        let why = "change 2: min 15000B, max 45000B, queue 30000B: expected each less than the next";
        assert_eq!(small, format!("change = \"{red_text}\": {why}"));
        let size = DirectionChange { queue: Some(QueueSize::Packets(200)), ..at(4) };
        let later = wrong(discipline("pfifo"), vec![red.clone(), size]).unwrap();
        assert!(later.contains("only a drop-tail queue changes its size"), "{later}");
        let many = (0..16).map(|second| DirectionChange { at: Duration::from_secs(second), ..red.clone() }).collect();
        let many = wrong(discipline("pfifo"), many).unwrap();
        assert!(many.ends_with("expected at most 15 changes of it"), "{many}");
    }

    #[test]
    fn later_jitter_counts_for_the_longest_delay() {
        let changes = vec![DirectionChange { jitter: Some(Duration::from_millis(9).into()), ..at(2) }];
        let direction = Direction { jitter: Duration::from_millis(3).into(), changes, ..Direction::default() };
        assert_eq!([direction.spread(), direction.spread_at_start()].map(|time| time.as_millis()), [9, 3]);
    }

    #[test]
    fn change_survives_a_plan() {
        let change =
            DirectionChange { rate: mbit(5), delay: Some(Duration::from_micros(1_234_567)), up: Some(false), ..at(90) };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(text, r#"{"at":"90s","rate":"5mbit","delay":"1.234567s","up":false}"#);
        assert_eq!(serde_json::from_str::<DirectionChange>(&text).unwrap(), change);
    }
}
