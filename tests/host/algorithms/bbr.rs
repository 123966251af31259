//! BBR version 1 over the ring's bottleneck of 1000 packets/s. `twins` compares it with the kernel's own, event by event.

use tccc::catalog::StateValue;

use super::*;
use path::{Fate, Transmission};

/// Packets/us times 2^24 at the ring's bottleneck.
const BOTTLENECK_BW: u64 = (1 << 24) / 1000;
/// RTT of 40 ms at that rate.
const BDP_PKTS: u32 = 40;

/// A round over a path: window, phase and the fields asked for.
struct BbrRound<const N: usize> {
    cwnd: u32,
    phase: String,
    fields: [u64; N],
}

fn rounds<const N: usize>(native: &Native, path: SimulatedPath, names: [&str; N]) -> Vec<BbrRound<N>> {
    let layout = &catalog::find("bpf_bbr").unwrap().layout;
    let mut rounds = Vec::new();
    SimulatedSender::new(native.socket(0xaa), path).run(|round, socket| {
        let private = socket.private();
        let state = layout.decode(&private);
        let field = |name: &str| match state.iter().find(|(field, _)| *field == name) {
            Some((_, StateValue::Unsigned(value))) => *value,
            other => panic!("{name} is {other:?}"),
        };
        let phase = layout.phase_name(&private).unwrap().to_owned();
        rounds.push(BbrRound { cwnd: round.cwnd, phase, fields: names.map(field) });
    });
    rounds
}

fn eventful(rounds: u32, fate: impl FnMut(&Transmission) -> Fate + 'static) -> SimulatedPath {
    SimulatedPath { fate: Box::new(fate), ..SimulatedPath::quiet("of bbr", rounds) }
}

#[test]
fn bbr_fills_the_path_and_drains_the_queue_of_its_startup() {
    let seen = rounds(native::find("bpf_bbr"), SimulatedPath::quiet("quiet", 60), ["best[0].bw", "min_rtt_us"]);
    let phases: Vec<&str> = seen.iter().map(|round| round.phase.as_str()).collect();
    let of = |name: &str| phases.iter().position(|phase| *phase == name);
    assert!(of("startup") < of("drain") && of("drain") < of("probe_bw"), "{phases:?}");
    let last = seen.last().unwrap();
    let bw = last.fields[0];
    assert!((BOTTLENECK_BW * 98 / 100..=BOTTLENECK_BW * 102 / 100).contains(&bw), "{bw} for {BOTTLENECK_BW}");
    assert!((40_000..=42_000).contains(&last.fields[1]), "RTTmin {}", last.fields[1]);
    assert!((2 * BDP_PKTS..3 * BDP_PKTS).contains(&last.cwnd), "cwnd {}", last.cwnd);
}

/// 1 % of random loss does not matter to BBR: figure 8 of the paper.
#[test]
fn random_loss_leaves_the_window() {
    let lossy = eventful(60, |sent| if sent.packet % 100 == 99 && !sent.is_again { Fate::Lost } else { Fate::Arrives });
    let seen = rounds(native::find("bpf_bbr"), lossy, []);
    let small = seen[20..].iter().filter(|round| round.cwnd < BDP_PKTS).count();
    assert!(small <= 4, "{small} of 40 rounds below the BDP");
}

#[test]
fn path_that_loses_a_third_is_taken_for_a_policer() {
    let policed = eventful(80, |sent| if sent.packet % 3 == 0 && !sent.is_again { Fate::Lost } else { Fate::Arrives });
    let seen = rounds(native::find("bpf_bbr"), policed, ["is_policed", "pacing_gain"]);
    let policed: Vec<_> = seen.iter().filter(|round| round.fields[0] == 1 && round.phase == "probe_bw").collect();
    assert!(!policed.is_empty(), "no round of {}", seen.len());
    assert!(policed.iter().all(|round| round.fields[1] == 256), "no gain above the rate of the policer");
}

#[test]
fn rtt_probe_sends_four_packets_and_comes_back() {
    let native = native::tuned("bpf_bbr", &["min_rtt_window_ms=1000"]);
    let seen = rounds(native, SimulatedPath::quiet("long", 120), ["prior_cwnd"]);
    let probes: Vec<_> = seen.iter().filter(|round| round.phase == "probe_rtt").collect();
    assert!(probes.len() >= 4, "{} rounds", probes.len());
    assert!(probes.iter().filter(|round| round.cwnd == 4).count() + 3 >= probes.len());
    assert!(seen.last().unwrap().cwnd >= BDP_PKTS || seen.last().unwrap().phase == "probe_rtt");
}
