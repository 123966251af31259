//! Narrows a source to the connections of some rules.
//!
//! The arm of a connection is known about a second after the connection opened, so its first events wait.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use anyhow::Result;

use super::arrival::{Arrival, Fact};
use super::event::{Event, EventKind};
use super::source::{EventSource, Playback};

/// Longest wait of an event for the arm of its connection, in stream time.
const PATIENCE_NS: u64 = 3_000_000_000;
/// Limit of waiting events: about 25 MB.
const WAITING_MAX: usize = 65_536;
/// Limit of connections with a known arm.
const KNOWN_MAX: usize = 400_000;

/// Passes all facts, and the events of connections in some rules. Without rules everything passes.
pub struct RuleFilter<S> {
    source: S,
    gate: RuleGate,
}

struct RuleGate {
    rules: BTreeSet<String>,
    /// Connections with a known arm; true if their events pass.
    known: HashMap<u64, bool>,
    /// Events of connections without a known arm, oldest first.
    waiting: VecDeque<Event>,
}

impl<S: EventSource> RuleFilter<S> {
    pub fn new(source: S, rules: BTreeSet<String>) -> Self {
        RuleFilter { source, gate: RuleGate { rules, known: HashMap::new(), waiting: VecDeque::new() } }
    }

    pub fn whole(&self) -> &S {
        &self.source
    }
}

impl RuleGate {
    fn pass(&mut self, arrival: Arrival, take: &mut dyn FnMut(Arrival)) {
        match arrival {
            Arrival::Event(event) => self.pass_event(event, take),
            Arrival::Fact(fact) => {
                let socket = self.learn(&fact);
                take(Arrival::Fact(fact));
                socket.into_iter().for_each(|socket| self.release(socket, take));
            }
            Arrival::Restart => {
                self.known.clear();
                self.waiting.clear();
                take(Arrival::Restart);
            }
        }
    }

    fn pass_event(&mut self, event: Event, take: &mut dyn FnMut(Arrival)) {
        match self.known.get(&event.socket) {
            Some(is_ours) => {
                let (is_ours, socket, is_over) = (*is_ours, event.socket, event.kind == EventKind::Close);
                if is_ours {
                    take(Arrival::Event(event));
                }
                if is_over {
                    self.known.remove(&socket);
                }
            }
            None => {
                if self.waiting.len() >= WAITING_MAX {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(event);
            }
        }
    }

    /// Learns an arm; returns its socket.
    fn learn(&mut self, fact: &Fact) -> Option<u64> {
        let Fact::Arm { socket, given } = fact else { return None };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(*socket, given.as_ref().is_some_and(|given| self.rules.contains(&given.rule)));
        Some(*socket)
    }

    /// Passes or drops the waiting events of a socket whose arm became known.
    fn release(&mut self, socket: u64, take: &mut dyn FnMut(Arrival)) {
        if !self.waiting.iter().any(|event| event.socket == socket) {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (own, others): (VecDeque<Event>, _) = waiting.partition(|event| event.socket == socket);
        self.waiting = others;
        own.into_iter().for_each(|event| self.pass_event(event, take));
    }

    /// Drops events that have waited too long, because no rule decided their connection.
    fn let_go(&mut self, now_ns: u64) {
        let is_old = |event: &Event| event.time_ns.saturating_add(PATIENCE_NS) < now_ns;
        while self.waiting.front().is_some_and(is_old) {
            self.waiting.pop_front();
        }
    }
}

impl<S: EventSource> EventSource for RuleFilter<S> {
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        let RuleFilter { source, gate } = self;
        if gate.rules.is_empty() {
            return source.poll(timeout, take);
        }
        let polled = source.poll(timeout, &mut |arrival| gate.pass(arrival, take));
        gate.let_go(source.now_ns());
        polled
    }

    fn now_ns(&self) -> u64 {
        self.source.now_ns()
    }

    fn title(&self) -> String {
        self.source.title()
    }

    fn notices(&self) -> Vec<String> {
        self.source.notices()
    }

    fn counts_costs(&self) -> bool {
        self.source.counts_costs()
    }

    fn count_costs(&mut self, counts: bool) -> Result<()> {
        self.source.count_costs(counts)
    }

    fn is_over(&self) -> bool {
        self.source.is_over()
    }

    fn playback(&mut self) -> Option<&mut dyn Playback> {
        self.source.playback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::source::Batches;
    use shared::arrival::RuleArm;
    use shared::model::live::samples::{SECOND, sample};

    fn event(socket: u64, time_ns: u64) -> Arrival {
        Arrival::Event(sample(socket, time_ns))
    }

    fn close(socket: u64, time_ns: u64) -> Arrival {
        Arrival::Event(Event { kind: EventKind::Close, ..sample(socket, time_ns) })
    }

    fn in_rule(socket: u64, rule: &str) -> Arrival {
        let given = Some(RuleArm { rule: rule.into(), arm: "keep".into() });
        Arrival::Fact(Fact::Arm { socket, given })
    }

    /// Sockets and times of the events that pass in one poll.
    fn poll(source: &mut RuleFilter<Batches>) -> Vec<(u64, u64)> {
        let mut passed = Vec::new();
        let mut take = |arrival| {
            if let Arrival::Event(event) = arrival {
                passed.push((event.socket, event.time_ns));
            }
        };
        source.poll(Duration::ZERO, &mut take).unwrap();
        passed
    }

    fn of_web(batches: impl IntoIterator<Item = Vec<Arrival>>) -> RuleFilter<Batches> {
        let batches = batches.into_iter().collect();
        RuleFilter::new(Batches { batches, now_ns: SECOND }, BTreeSet::from(["web".to_owned()]))
    }

    #[test]
    fn first_events_wait_until_the_rule_is_known() {
        let mut source = of_web([
            vec![event(1, 1), event(2, 2), event(1, 3)],
            vec![in_rule(2, "mail"), in_rule(1, "web"), event(1, 4), event(2, 5)],
            vec![close(1, 6), close(2, 7)],
        ]);
        assert_eq!(poll(&mut source), []);
        assert_eq!(poll(&mut source), [(1, 1), (1, 3), (1, 4)]);
        assert_eq!(poll(&mut source), [(1, 6)]);
        assert!(source.gate.known.is_empty() && source.gate.waiting.is_empty());
        assert!(source.is_over(), "the end of the source is the end of its rules");
    }

    #[test]
    fn events_of_connections_without_a_rule_are_let_go() {
        let mut source = of_web([vec![event(1, SECOND)], vec![in_rule(1, "web"), event(1, 9 * SECOND)]]);
        source.source.now_ns = 9 * SECOND;
        assert_eq!(poll(&mut source), []);
        assert!(source.gate.waiting.is_empty(), "nothing told its rule for three seconds");
        assert_eq!(poll(&mut source), [(1, 9 * SECOND)]);
    }

    #[test]
    fn waiting_events_are_bounded_and_a_jump_forgets_them() {
        let mut source =
            of_web([(0..WAITING_MAX as u64 + 9).map(|n| event(n, SECOND)).collect(), vec![Arrival::Restart]]);
        poll(&mut source);
        assert_eq!(source.gate.waiting.len(), WAITING_MAX);
        poll(&mut source);
        assert!(source.gate.waiting.is_empty());
    }

    #[test]
    fn without_rules_everything_passes() {
        let mut source = of_web([vec![event(1, 1)]]);
        source.gate.rules.clear();
        assert_eq!(poll(&mut source), [(1, 1)]);
    }
}
