//! The simulated paths that every algorithm runs, and random ones.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use super::native::INFINITE_SSTHRESH;
use super::sender::INITIAL_CWND;

#[derive(Debug, Clone, Copy)]
pub struct Transmission {
    pub packet: u32,
    pub is_again: bool,
    /// The sender's window, packets.
    pub cwnd: u32,
    /// The round trip, from 1.
    pub round: u32,
    pub timeouts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives in its turn.
    Arrives,
    /// It arrives with a congestion mark.
    Marked,
    /// It never arrives.
    Lost,
    /// Arrives this many microseconds after its turn.
    Late(u64),
}

/// One path, and how the connection over it begins.
pub struct Path {
    pub name: &'static str,
    /// Round trips that it lasts.
    pub rounds: u32,
    /// The window at first, packets.
    pub initial_cwnd: u32,
    /// The threshold at first, packets.
    pub initial_ssthresh: u32,
    /// The highest window, packets.
    pub clamp: u32,
    /// Packets outstanding that the application has data for.
    pub application_limit: u32,
    /// The application pauses after this round until everything has arrived and some timeouts have passed.
    pub pause_after: Option<u32>,
    pub pause_timeouts: u64,
    pub rtt_us: fn(u32) -> u64,
    /// What becomes of each packet.
    pub fate: Box<dyn FnMut(&Transmission) -> Fate>,
}

const RTT_US: u64 = 40_000;
/// The window at which the path's events happen.
const TROUBLE_CWND: u32 = 40;

impl Path {
    /// Nothing happens; the connection begins in slow start and leaves it at 32 packets.
    pub fn quiet(name: &'static str, rounds: u32) -> Self {
        Path {
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

    fn with(name: &'static str, rounds: u32, fate: impl FnMut(&Transmission) -> Fate + 'static) -> Self {
        Path { fate: Box::new(fate), ..Path::quiet(name, rounds) }
    }
}

/// Happens to the first packet sent at the given window, once.
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

/// Loses one packet, then the retransmission of it and everything after, until the sender has timed out.
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

/// Loses a packet at the first trouble and another one eight rounds later, when the window is still smaller.
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

/// The paths of the house: the same for every algorithm.
pub fn all() -> Vec<Path> {
    let slow_start = |path: Path| Path { initial_ssthresh: INFINITE_SSTHRESH, ..path };
    vec![
        slow_start(Path::quiet("unlimited", 8)),
        Path::quiet("unlimited from a threshold", 16),
        Path { clamp: 50, ..slow_start(Path::quiet("window capped at 50", 8)) },
        Path::with("one loss at 40 packets", 24, once(Fate::Lost, in_trouble)),
        // The cap is for an algorithm whose slow start goes on after a loss.
        Path { clamp: 200, ..slow_start(Path::with("one loss in slow start", 20, once(Fate::Lost, in_trouble))) },
        Path::with("two losses, the second lower", 32, two_losses()),
        Path { application_limit: 6, ..Path::quiet("application-limited", 12) },
        Path { rtt_us: |round| if round < 8 { RTT_US } else { 3 * RTT_US }, ..Path::quiet("rtt step up", 20) },
        Path { rtt_us: |round| if round < 8 { 3 * RTT_US } else { RTT_US }, ..Path::quiet("rtt step down", 20) },
        Path::with("ecn mark", 24, once(Fate::Marked, in_trouble)),
        Path { pause_after: Some(8), pause_timeouts: 2, ..Path::quiet("idle, then restart", 20) },
        Path::with("reordering, undone", 20, once(Fate::Late(RTT_US / 2), in_trouble)),
        Path::with("timeout", 24, outage(1)),
        Path::with("timeout repeated", 24, outage(3)),
        Path::with("timeout inside recovery", 24, outage_in_recovery()),
    ]
}

/// A path on which every packet may be lost, marked or late, each with its own probability in 1/1000.
pub fn random(seed: u64, [lost, marked, late]: [u32; 3]) -> Path {
    let mut dice = Pcg32::new(seed, 0);
    let fate = move |_: &Transmission| match dice.next_u32() % 1000 {
        n if n < lost => Fate::Lost,
        n if n < lost + marked => Fate::Marked,
        n if n < lost + marked + late => Fate::Late(u64::from(dice.next_u32() % 60_000)),
        _ => Fate::Arrives,
    };
    Path { clamp: 200, ..Path::with("random", 40, fate) }
}
