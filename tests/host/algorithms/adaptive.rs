//! Verma's adaptive algorithm against the paper's formulas in floating point: `bpf/cc/adaptive.bpf.c`.

use proptest::prelude::*;
use tccc::catalog;

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::{Acked, Kernel};
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Socket, event, state};
use crate::algorithms::operations::{self, Operation, Start};
use crate::algorithms::rounds::{connect as connection, samples};

const ID: &str = "adaptive";
const MS: u32 = 1_000;

/// A connection in congestion avoidance, far above the windows in which delta counts.
fn large() -> Kernel<Socket<'static>> {
    connection(native::find(ID), 1000, 2)
}

/// One ACK: its sample, then growth.
fn acknowledge(kernel: &mut Kernel<Socket>, packets: u32, rtt_us: Option<u32>) {
    let acked = Acked { delivered: packets, in_order: packets, lost: 0, rtt_us };
    kernel.acked(acked);
    kernel.control(acked);
}

fn at(kernel: &mut Kernel<Socket>, now_ms: u64, rtt_us: u32) {
    kernel.cc.set_clock(now_ms * 1_000_000);
    samples(kernel, &[rtt_us]);
}

fn phase(kernel: &Kernel<Socket>) -> &'static str {
    catalog::find(ID).unwrap().layout.phase_name(&kernel.cc.private()).unwrap()
}

fn known(kernel: &Kernel<Socket>, name: &str) -> u64 {
    native::field(&kernel.cc, ID, name)
}

/// Whether an ACK with this sample is kept from growing the window.
fn is_stopped_at(kernel: &mut Kernel<Socket>, rtt_us: u32) -> bool {
    let frozen = known(kernel, "acks_frozen");
    acknowledge(kernel, 1, Some(rtt_us));
    let is_stopped = known(kernel, "acks_frozen") > frozen;
    assert_eq!(is_stopped, phase(kernel) == "stopped");
    is_stopped
}

/// delta of equation 5 and its bound in the table: half of 2^-32 a packet of threshold, and nothing above 20.
#[test]
fn delta_is_the_paper_s_within_its_bound() {
    const PUBLISHED: [(u32, f64); 6] = [(2, 0.238), (3, 0.142), (5, 0.033), (8, 0.0027), (10, 0.00045), (20, 4e-8)];
    let unit = 2_f64.powi(-32);
    let delta = |cwnd: u32, ssthresh: u32| {
        let mut kernel = connection(native::find(ID), cwnd, ssthresh);
        acknowledge(&mut kernel, 1, Some(40 * MS));
        known(&kernel, "delta_frac") as f64 * unit
    };
    for (cwnd, published) in PUBLISHED {
        assert!((delta(cwnd, cwnd) / published - 1.0).abs() < 0.06, "{} for {published}", delta(cwnd, cwnd));
    }
    for cwnd in 2..=40 {
        for ssthresh in 2..=cwnd {
            let exact = f64::from(ssthresh) / (1.0 + f64::from(cwnd).exp());
            let bound = if cwnd <= 20 { f64::from(ssthresh) * unit / 2.0 } else { 1.7e-8 };
            let error = (delta(cwnd, ssthresh) - exact).abs();
            assert!(error <= bound * 1.000_001, "delta({cwnd}, {ssthresh}) is off by {error}");
        }
    }
}

/// Equation 6 packet by packet in floating point, from small windows on: never more than one packet apart.
#[test]
fn small_windows_grow_by_delta_and_one_in_a_window() {
    for ssthresh in [2, 3, 5, 12] {
        let mut kernel = connection(native::find(ID), ssthresh, ssthresh);
        let mut reno = connection(native::find("bpf_reno"), ssthresh, ssthresh);
        let mut reference = f64::from(ssthresh);
        let mut acks_ahead = 0;
        for _ in 0..200 {
            acknowledge(&mut kernel, 1, Some(40 * MS));
            acknowledge(&mut reno, 1, Some(40 * MS));
            reference += f64::from(ssthresh) / (1.0 + reference.exp()) + 1.0 / reference;
            let cwnd = f64::from(kernel.tcp.snd_cwnd);
            assert!((cwnd - reference).abs() <= 1.2, "{cwnd} for {reference} from {ssthresh}");
            assert!(kernel.tcp.snd_cwnd >= reno.tcp.snd_cwnd);
            acks_ahead += u32::from(kernel.tcp.snd_cwnd > reno.tcp.snd_cwnd);
        }
        // All the deltas on the way up from a threshold are 1.02 packets from 2, and less than one from 3 on.
        assert_eq!(acks_ahead > 0, ssthresh == 2, "{acks_ahead} ACKs ahead of Reno from {ssthresh}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A synthetic trace: growth stops exactly at 2/3 (RTTmax + RTTmin), for any RTTs from 1 us to 100 s.
    #[test]
    fn growth_stops_from_two_thirds_of_the_extremes_on(
        trace in proptest::collection::vec((1..=100_000_000u32, 0..24u32), 1..60),
    ) {
        let mut kernel = large();
        let (mut low, mut high) = (u64::MAX, 0);
        for rtt_us in trace.iter().map(|(rtt_us, shift)| (rtt_us >> shift).max(1)) {
            let rtt = u64::from(rtt_us);
            (low, high) = (low.min(rtt), high.max(rtt));
            prop_assert_eq!(is_stopped_at(&mut kernel, rtt_us), 3 * rtt >= 2 * (high + low), "{} of {}..{}", rtt, low, high);
            let thresh = (low + high + rtt) as f64 / 2.5;
            prop_assert!((0.0..1.0).contains(&(known(&kernel, "rtt_thresh_us") as f64 - thresh + 1e-6)));
        }
        prop_assert_eq!((known(&kernel, "rtt_min_us"), known(&kernel, "rtt_max_us")), (low, high));
    }

    /// Any scale: the level is (RTTmax + RTTmin) / (tau - 1).
    #[test]
    fn tau_moves_the_level(tau in 2000..=3000u32, rtts in proptest::collection::vec(1..=100_000_000u32, 3)) {
        let native = native::borrowed(ID, &[&format!("tau={tau}")]);
        let mut kernel = connection(&native, 1000, 2);
        samples(&mut kernel, &rtts[..2]);
        let (low, high) = (rtts.iter().min().unwrap(), rtts.iter().max().unwrap());
        let sum = u64::from(*low) + u64::from(*high);
        let is_above = u64::from(rtts[2]) * u64::from(tau - 1000) >= 1000 * sum;
        prop_assert_eq!(is_stopped_at(&mut kernel, rtts[2]), is_above);
    }

    /// RTTmax <= 2 RTTmin: the brake never engages, whatever the order of the samples.
    #[test]
    fn growth_never_stops_within_twice_the_lowest(low in 1..50_000_000u32, trace in proptest::collection::vec(0.0..1.0, 1..60)) {
        let mut kernel = large();
        for share in trace {
            // Twice the lowest itself is the level: RTT = RTTthresh.
            let rtt_us = low + (f64::from(low - 1) * share) as u32;
            prop_assert!(!is_stopped_at(&mut kernel, rtt_us));
        }
    }

    /// Without a queue, and above the windows in which delta counts, the algorithm is Reno.
    #[test]
    fn adaptive_is_reno_where_the_rtt_is_steady(start in 21..100_000u32, acks in proptest::collection::vec(1..100u32, 1..100)) {
        let run = |id| {
            let mut kernel = connection(native::find(id), start, 2);
            acks.iter().for_each(|&packets| acknowledge(&mut kernel, packets, Some(40 * MS)));
            (kernel.tcp.snd_cwnd, kernel.tcp.snd_cwnd_cnt)
        };
        prop_assert_eq!(run(ID), run("bpf_reno"));
    }

    /// Losses in any mode with a window over RTTmax: nothing overflows, and the extremes stay extremes.
    #[test]
    fn any_rtt_in_any_mode_is_sound(
        mode in 0..=1u8, window_s in 0..=3u32, trace in proptest::collection::vec((1..=i32::MAX as u32, 0..30u32, 0..3_000u64), 1..40),
    ) {
        let native = native::borrowed(ID, &[&format!("rttmax_mode={mode}"), &format!("rttmax_win_s={window_s}")]);
        let mut kernel = connection(&native, 10, 2);
        let mut now_ms = 0;
        for (rtt_us, shift, wait_ms) in trace {
            now_ms += wait_ms;
            at(&mut kernel, now_ms, (rtt_us >> shift).max(1));
            kernel.control(Acked { delivered: 3, in_order: 3, ..Acked::default() });
            kernel.enter_recovery();
            kernel.leave();
            prop_assert!(known(&kernel, "rtt_max_us") >= known(&kernel, "rtt_cur_us"));
            prop_assert!(known(&kernel, "rtt_min_us") <= known(&kernel, "rtt_cur_us"));
        }
    }
}

/// The paper's bottleneck: 50 packets at 1.5 Mbit/s. Where the brake engages, by the specification's table (in ms and %).
#[test]
fn brake_engages_at_the_table_s_queue_fill() {
    const NEVER: Option<(u32, f64)> = None;
    let check = |packet_bytes: u32, rtt_ms: u32, expected: Option<(u32, f64)>| {
        let drain_us = 50 * packet_bytes * 8 * 10 / 15;
        let (low, high) = (rtt_ms * MS, rtt_ms * MS + drain_us);
        let mut kernel = large();
        samples(&mut kernel, &[low, high]);
        // The queue fills from empty to all but full, 100 us a step; full, RTT = RTTthresh where RTTmax = 2 RTTmin.
        let level = (low..high).step_by(100).find(|&rtt_us| is_stopped_at(&mut kernel, rtt_us));
        let found = level.map(|level| (level, 100.0 * f64::from(level - low) / f64::from(drain_us)));
        match (found, expected) {
            (Some((level, fill)), Some((level_ms, percent))) => {
                assert!(level.abs_diff(level_ms * MS) <= 600, "{packet_bytes} B, {rtt_ms} ms: {level}");
                assert!((fill - percent).abs() <= 0.6, "{packet_bytes} B, {rtt_ms} ms: {fill} %");
            }
            (found, expected) => assert_eq!(found, expected, "{packet_bytes} B, {rtt_ms} ms"),
        }
    };
    for (rtt_ms, small, full) in [
        (100, Some((311, 79.0)), Some((400, 75.0))),
        (150, Some((378, 85.0)), Some((467, 79.0))),
        (200, Some((445, 92.0)), Some((533, 83.0))),
        (250, Some((511, 98.0)), Some((600, 88.0))),
        (300, NEVER, Some((667, 92.0))),
        (400, NEVER, NEVER),
    ] {
        check(1000, rtt_ms, small);
        check(1500, rtt_ms, full);
    }
}

/// The full queue of an earlier loss is remembered: the next time the window stops before it.
#[test]
fn window_stops_short_of_the_queue_that_overflowed() {
    let native = native::tuned(ID, &["longest_stop_s=0"]);
    // 100 ms and 1 ms a packet: a burst of 300 packets fills the queue to an RTT of 400 ms.
    let mut flow = Flow::new(&native, 300, 2, [100_000, 1_000]);
    flow.run_for(900_000);
    let high = flow.field(ID, "rtt_max_us");
    assert_eq!(high, 399_000);
    flow.lose();
    flow.run_for(80_000_000);
    // The level, 2/3 (RTTmax + RTTmin), in packets of a millisecond.
    let level = (2 * (high + 100_000) / 3).div_ceil(1000);
    assert_eq!(flow.phase(ID), "stopped");
    assert!(u64::from(flow.cwnd()).abs_diff(level) <= 2, "{} packets at a level of {level}", flow.cwnd());
    assert_eq!(flow.field(ID, "rtt_max_us"), high, "it stays below the RTT that filled the queue");
}

/// Settings of the paper, and the default.
const ROUTES: [&[&str]; 2] = [&["longest_stop_s=0"], &[]];

/// It went wrong for life: RTTmin stayed that of the shorter route, so that growth stood still and losses went on.
#[test]
fn longer_route_with_losses_does_not_end_at_two_packets() {
    for settings in ROUTES {
        let native = native::tuned(ID, settings);
        // 20 ms and 0.2 ms a packet; 118 packets are those of the path and 18 in the queue.
        let mut flow = Flow::new(&native, 118, 2, [20_000, 200]);
        flow.run_for(500_000);
        let before = flow.cwnd();
        flow.change_route(50_000);
        for _ in 0..6 {
            flow.run_for(10_000_000);
            flow.lose();
        }
        let is_paper = !settings.is_empty();
        assert_eq!(flow.cwnd() <= 2, is_paper, "{} packets of {before}", flow.cwnd());
        assert_eq!(flow.cwnd() > before / 2, !is_paper, "{} packets of {before}", flow.cwnd());
    }
}

#[test]
fn longer_route_without_losses_stops_growth_for_the_longest_stop_only() {
    for settings in ROUTES {
        let native = native::tuned(ID, settings);
        let mut flow = Flow::new(&native, 50, 2, [20_000, 200]);
        flow.run_for(500_000);
        let before = flow.cwnd();
        flow.change_route(50_000);
        flow.run_for(9_900_000);
        assert!(flow.cwnd() <= before + 1, "{} packets of {before}", flow.cwnd());
        flow.run_for(10_000_000);
        assert_eq!(flow.cwnd() > before + 1, settings.is_empty(), "{} packets of {before}", flow.cwnd());
    }
}

/// Slow start up to a threshold of 2 packets is no growth that proves the path free.
#[test]
fn timeouts_more_frequent_than_the_longest_stop_do_not_prolong_it() {
    let native = native::tuned(ID, &[]);
    let mut kernel = connection(&native, 2, 2);
    at(&mut kernel, 0, 20 * MS);
    let mut now_ms = 0;
    for _ in 0..4 {
        for _ in 0..60 {
            now_ms += 50;
            kernel.cc.set_clock(now_ms * 1_000_000);
            acknowledge(&mut kernel, 1, Some(50 * MS));
        }
        operations::apply(&mut kernel, Operation::TimeOut, now_ms * 1_000_000);
        kernel.undo_retrans = 1;
        kernel.leave();
    }
    assert_eq!(known(&kernel, "rtt_min_us"), 50_000);
}

#[test]
fn queue_of_its_own_that_was_taken_for_a_route_is_known_again_after_a_loss() {
    let native = native::tuned(ID, &["longest_stop_s=1"]);
    // 100 ms and 1 ms a packet: 300 packets fill the queue to 400 ms, and the window stops at 2/3 of 500 ms.
    let mut flow = Flow::new(&native, 300, 2, [100_000, 1_000]);
    flow.run_for(900_000);
    flow.lose();
    flow.run_until(|flow| flow.field(ID, "rtt_min_us") > 110_000);
    let taken = flow.field(ID, "rtt_min_us");
    assert!((320_000..350_000).contains(&taken), "{taken}");
    flow.lose();
    flow.lose();
    flow.run_for(1_000_000);
    assert!(flow.field(ID, "rtt_min_us") <= 101_000, "{}", flow.field(ID, "rtt_min_us"));
}

#[test]
fn retransmitted_packets_give_no_sample() {
    let mut kernel = large();
    samples(&mut kernel, &[10 * MS, 100 * MS]);
    kernel.cc.pkts_acked(&mut kernel.tcp, 1, None);
    let rtts = ["rtt_min_us", "rtt_max_us", "rtt_cur_us"].map(|name| known(&kernel, name));
    assert_eq!(rtts, [10_000, 100_000, 100_000]);
    samples(&mut kernel, &[0]);
    assert_eq!(known(&kernel, "rtt_min_us"), 1, "a sample of no time counts as a microsecond");
}

#[test]
fn stopped_window_keeps_what_it_counted() {
    let mut kernel = large();
    acknowledge(&mut kernel, 700, Some(10 * MS));
    samples(&mut kernel, &[100 * MS]);
    acknowledge(&mut kernel, 700, Some(90 * MS));
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_cwnd_cnt), (1000, 700));
    acknowledge(&mut kernel, 300, Some(20 * MS));
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_cwnd_cnt), (1001, 0));
    assert_eq!((known(&kernel, "acks_grown"), known(&kernel, "acks_frozen")), (2, 1));
}

#[test]
fn slow_start_is_not_stopped() {
    let mut kernel = connection(native::find(ID), 10, INFINITE_SSTHRESH);
    samples(&mut kernel, &[10 * MS]);
    acknowledge(&mut kernel, 10, Some(100 * MS));
    assert_eq!((kernel.tcp.snd_cwnd, phase(&kernel)), (20, "slow_start"));
    assert_eq!((known(&kernel, "acks_grown"), known(&kernel, "acks_frozen")), (0, 0));
}

#[test]
fn application_limited_window_neither_grows_nor_counts() {
    let mut kernel = connection(native::find(ID), 5, 2);
    (kernel.tcp.is_cwnd_limited, kernel.tcp.packets_out) = (0, 1);
    let before = kernel.tcp.clone();
    for rtt_ms in [10, 100, 95] {
        acknowledge(&mut kernel, 1, Some(rtt_ms * MS));
    }
    assert_eq!(kernel.tcp, before);
    assert_eq!(["acks_grown", "acks_frozen", "delta_frac"].map(|name| known(&kernel, name)), [0; 3]);
}

#[test]
fn growth_by_delta_ends_at_the_clamp() {
    let mut kernel = operations::connect(native::find(ID).socket(0xaa), Start { cwnd: 2, ssthresh: 2, clamp: 3 });
    (0..50).for_each(|_| acknowledge(&mut kernel, 2, Some(40 * MS)));
    assert_eq!(kernel.tcp.snd_cwnd, 3);
}

#[test]
fn idle_restart_forgets_the_present_rtt_only() {
    let mut kernel = large();
    samples(&mut kernel, &[10 * MS, 100 * MS]);
    assert!(is_stopped_at(&mut kernel, 100 * MS));
    kernel.tcp.packets_out = 0;
    operations::apply(&mut kernel, Operation::Idle { timeouts: 1 }, 0);
    assert_eq!(kernel.tcp.snd_cwnd, 500, "the kernel's own restart");
    let rtts = ["rtt_min_us", "rtt_max_us", "rtt_cur_us"].map(|name| known(&kernel, name));
    assert_eq!(rtts, [10_000, 100_000, 0]);
    kernel.tcp.snd_ssthresh = 2;
    acknowledge(&mut kernel, 1, None);
    assert_eq!((phase(&kernel), known(&kernel, "rtt_thresh_us")), ("avoidance", 0), "no RTT, so no brake");
    assert!(is_stopped_at(&mut kernel, 100 * MS));
}

#[test]
fn timeout_halves_and_keeps_the_extremes() {
    let mut kernel = large();
    samples(&mut kernel, &[10 * MS, 100 * MS, 50 * MS]);
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh, phase(&kernel)), (1, 500, "loss"));
    let rtts = ["rtt_min_us", "rtt_max_us", "rtt_cur_us"].map(|name| known(&kernel, name));
    assert_eq!(rtts, [10_000, 100_000, 50_000]);
}

#[test]
fn spurious_reduction_is_taken_back() {
    let mut kernel = connection(native::find(ID), 40, 20);
    kernel.enter_recovery();
    assert_eq!((kernel.tcp.snd_ssthresh, phase(&kernel)), (20, "recovery"));
    kernel.undo();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (40, 30));
}

#[test]
fn mode_on_loss_measures_at_drops_only() {
    let native = native::tuned(ID, &["rttmax_mode=1"]);
    let mut kernel = connection(&native, 1000, 2);
    samples(&mut kernel, &[10 * MS]);
    assert!(!is_stopped_at(&mut kernel, 200 * MS), "no brake before the first drop");
    assert_eq!(known(&kernel, "rtt_max_us"), 0);
    samples(&mut kernel, &[90 * MS]);
    kernel.enter_cwr();
    assert_eq!(known(&kernel, "rtt_max_us"), 0, "a mark is no drop");
    kernel.set_state(state::OPEN);
    kernel.enter_recovery();
    assert_eq!(known(&kernel, "rtt_max_us"), 90_000);
    kernel.leave();
    kernel.tcp.snd_ssthresh = 2;
    assert!(is_stopped_at(&mut kernel, 67 * MS) && !is_stopped_at(&mut kernel, 66 * MS), "2/3 of 100 ms");
    samples(&mut kernel, &[30 * MS]);
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(known(&kernel, "rtt_max_us"), 90_000, "an earlier drop's was larger");
    samples(&mut kernel, &[120 * MS]);
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(known(&kernel, "rtt_max_us"), 120_000);
}

#[test]
fn rttmax_of_a_sliding_window_lives_for_half_of_it_to_all_of_it() {
    let native = native::tuned(ID, &["rttmax_win_s=10"]);
    let mut kernel = connection(&native, 1000, 2);
    let high = |kernel: &Kernel<Socket>| known(kernel, "rtt_max_us");
    at(&mut kernel, 4_900, 100 * MS);
    at(&mut kernel, 5_000, 20 * MS);
    assert_eq!(high(&kernel), 100_000, "the half before still counts");
    at(&mut kernel, 9_999, 30 * MS);
    assert_eq!(high(&kernel), 100_000);
    at(&mut kernel, 10_000, 10 * MS);
    assert_eq!(high(&kernel), 30_000, "5.1 s after the spike");
    at(&mut kernel, 20_000, 15 * MS);
    assert_eq!(high(&kernel), 15_000, "nothing is left after a window of silence");
    let mut kernel = large();
    at(&mut kernel, 0, 100 * MS);
    at(&mut kernel, 1_000_000, 10 * MS);
    assert_eq!(high(&kernel), 100_000, "off by default");
}

#[test]
fn window_without_any_drop_left_in_it_stops_nothing() {
    let native = native::tuned(ID, &["rttmax_mode=1", "rttmax_win_s=1"]);
    let mut kernel = connection(&native, 1000, 2);
    at(&mut kernel, 0, 10 * MS);
    at(&mut kernel, 0, 100 * MS);
    kernel.enter_recovery();
    kernel.leave();
    kernel.tcp.snd_ssthresh = 2;
    assert!(is_stopped_at(&mut kernel, 100 * MS));
    at(&mut kernel, 3_000, 100 * MS);
    assert!(!is_stopped_at(&mut kernel, 100 * MS));
}

#[test]
fn other_events_change_nothing() {
    for other in [event::TX_START, event::COMPLETE_CWR, event::LOSS] {
        let mut kernel = large();
        samples(&mut kernel, &[10 * MS]);
        let before = (kernel.tcp.clone(), kernel.cc.private());
        kernel.cc.cwnd_event(&mut kernel.tcp, other);
        assert_eq!((kernel.tcp.clone(), kernel.cc.private()), before);
    }
}
