//! The simulated paths that every algorithm runs over, and random ones.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use super::native::INFINITE_SSTHRESH;
use super::sender::INITIAL_CWND;

#[derive(Debug, Clone, Copy)]
pub struct Transmission {
    pub packet: u32,
    pub is_again: bool,
    pub cwnd: u32,
    /// Counts from 1.
    pub round: u32,
    pub timeouts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    /// Arrives with a congestion mark.
    Marked,
    Lost,
    /// Arrives late by this many microseconds.
    Late(u64),
}

/// One path, and the beginning of the connection over it. Windows are in packets.
pub struct SimulatedPath {
    pub name: &'static str,
    /// Length of the simulation in round trips.
    pub rounds: u32,
    pub initial_cwnd: u32,
    pub initial_ssthresh: u32,
    pub clamp: u32,
    /// The application never has more data than this outstanding.
    pub application_limit: u32,
    /// The application pauses after this round until everything has arrived and `pause_timeouts` have passed.
    pub pause_after: Option<u32>,
    pub pause_timeouts: u64,
    /// RTT in each round, microseconds.
    pub rtt_us: fn(u32) -> u64,
    pub fate: Box<dyn FnMut(&Transmission) -> Fate>,
}

const RTT_US: u64 = 40_000;
/// The window at which the path's events happen.
const TROUBLE_CWND: u32 = 40;

impl SimulatedPath {
    /// A path without events. The connection leaves slow start at 32 packets.
    pub fn quiet(name: &'static str, rounds: u32) -> Self {
        SimulatedPath {
            name,
            rounds,
            initial_cwnd: INITIAL_CWND,
            initial_ssthresh: 32,
            clamp: u32::MAX,
            application_limit: u32::MAX,
            pause_after: None,
            pause_timeouts: 0,
            rtt_us: |_| RTT_US,
            fate: Box::new(|_| Fate::Arrives),
        }
    }
}

fn eventful(name: &'static str, rounds: u32, fate: impl FnMut(&Transmission) -> Fate + 'static) -> SimulatedPath {
    SimulatedPath { fate: Box::new(fate), ..SimulatedPath::quiet(name, rounds) }
}

/// Gives `fate` to the first transmission that is due.
fn once(fate: Fate, mut is_due: impl FnMut(&Transmission) -> bool) -> impl FnMut(&Transmission) -> Fate {
    let mut is_done = false;
    move |sent| {
        if is_done || !is_due(sent) {
            return Fate::Arrives;
        }
        is_done = true;
        fate
    }
}

fn in_trouble(sent: &Transmission) -> bool {
    sent.cwnd >= TROUBLE_CWND
}

/// Loses everything from the first trouble until the sender has timed out `timeouts` times.
fn outage(timeouts: u32) -> impl FnMut(&Transmission) -> Fate {
    let mut has_begun = false;
    move |sent| {
        has_begun |= in_trouble(sent);
        if has_begun && sent.timeouts < timeouts { Fate::Lost } else { Fate::Arrives }
    }
}

/// Loses one packet, then its retransmission and everything after it, until the sender has timed out.
fn outage_in_recovery() -> impl FnMut(&Transmission) -> Fate {
    let mut first = None;
    let mut has_begun = false;
    move |sent| {
        if first.is_none() && in_trouble(sent) {
            first = Some(sent.packet);
            return Fate::Lost;
        }
        has_begun |= sent.is_again;
        if has_begun && sent.timeouts == 0 { Fate::Lost } else { Fate::Arrives }
    }
}

/// Loses a packet at the first trouble and another eight rounds later, while the window is still smaller.
fn two_losses() -> impl FnMut(&Transmission) -> Fate {
    let mut first = None;
    let mut is_done = false;
    move |sent| match first {
        None if in_trouble(sent) => {
            first = Some(sent.round);
            Fate::Lost
        }
        Some(round) if !is_done && sent.round >= round + 8 => {
            is_done = true;
            Fate::Lost
        }
        _ => Fate::Arrives,
    }
}

/// The same paths for every algorithm.
pub fn all() -> Vec<SimulatedPath> {
    let quiet = SimulatedPath::quiet;
    let slow_start = |path: SimulatedPath| SimulatedPath { initial_ssthresh: INFINITE_SSTHRESH, ..path };
    vec![
        slow_start(quiet("unlimited", 8)),
        quiet("unlimited from a threshold", 16),
        SimulatedPath { clamp: 50, ..slow_start(quiet("window capped at 50", 8)) },
        eventful("one loss at 40 packets", 24, once(Fate::Lost, in_trouble)),
        // The cap is for an algorithm whose slow start continues after a loss.
        SimulatedPath {
            clamp: 200,
            ..slow_start(eventful("one loss in slow start", 20, once(Fate::Lost, in_trouble)))
        },
        eventful("two losses, the second lower", 32, two_losses()),
        SimulatedPath { application_limit: 6, ..quiet("application-limited", 12) },
        SimulatedPath { rtt_us: |round| if round < 8 { RTT_US } else { 3 * RTT_US }, ..quiet("rtt step up", 20) },
        SimulatedPath { rtt_us: |round| if round < 8 { 3 * RTT_US } else { RTT_US }, ..quiet("rtt step down", 20) },
        eventful("ecn mark", 24, once(Fate::Marked, in_trouble)),
        SimulatedPath { pause_after: Some(8), pause_timeouts: 2, ..quiet("idle, then restart", 20) },
        eventful("reordering, undone", 20, once(Fate::Late(RTT_US / 2), in_trouble)),
        eventful("timeout", 24, outage(1)),
        eventful("timeout repeated", 24, outage(3)),
        eventful("timeout inside recovery", 24, outage_in_recovery()),
    ]
}

/// A path that loses, marks or delays each packet at random, with these probabilities in 1/1000.
pub fn random(seed: u64, [lost, marked, late]: [u32; 3]) -> SimulatedPath {
    let mut dice = Pcg32::new(seed, 0);
    let fate = move |_: &Transmission| match dice.next_u32() % 1000 {
        n if n < lost => Fate::Lost,
        n if n < lost + marked => Fate::Marked,
        n if n < lost + marked + late => Fate::Late(u64::from(dice.next_u32() % 60_000)),
        _ => Fate::Arrives,
    };
    SimulatedPath { clamp: 200, ..eventful("random", 40, fate) }
}
