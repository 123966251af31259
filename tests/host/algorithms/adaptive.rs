//! Verma's adaptive algorithm against the paper's formulas in floating point: `bpf/cc/adaptive.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "adaptive";
const MS: u32 = 1_000;

/// A window far above those that delta influences.
fn large() -> Endpoint<'static> {
    Endpoint::of(ID, 1000, 2)
}

/// Passes a sample at this time.
fn at(flow: &mut Endpoint, now_ms: u64, rtt_us: u32) {
    let wait_us = now_ms * 1000 - flow.now_us();
    flow.wait(wait_us);
    flow.sample(&[rtt_us]);
}

fn rtts(flow: &Endpoint) -> [u64; 3] {
    flow.fields(["rtt_min_us", "rtt_max_us", "rtt_cur_us"])
}

/// Whether an ACK with this sample does not grow the window.
fn is_stopped_at(flow: &mut Endpoint, rtt_us: u32) -> bool {
    let frozen = flow.field("acks_frozen");
    flow.acknowledge(1, Some(rtt_us));
    let is_stopped = flow.field("acks_frozen") > frozen;
    assert_eq!(is_stopped, flow.phase() == "stopped");
    is_stopped
}

/// Equation 5. The error is at most half of 2^-32 per packet of threshold; above 20 packets delta is 0.
#[test]
fn delta_is_the_paper_s_within_its_bound() {
    const PUBLISHED: [(u32, f64); 6] = [(2, 0.238), (3, 0.142), (5, 0.033), (8, 0.0027), (10, 0.00045), (20, 4e-8)];
    let unit = 2_f64.powi(-32);
    let delta = |cwnd: u32, ssthresh: u32| {
        let mut flow = Endpoint::of(ID, cwnd, ssthresh);
        flow.acknowledge(1, Some(40 * MS));
        flow.field("delta_frac") as f64 * unit
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

/// Equation 6 packet by packet in floating point.
#[test]
fn small_windows_grow_by_delta_and_one_in_a_window() {
    for ssthresh in [2, 3, 5, 12] {
        let mut flow = Endpoint::of(ID, ssthresh, ssthresh);
        let mut reno = Endpoint::of("bpf_reno", ssthresh, ssthresh);
        let mut reference = f64::from(ssthresh);
        let mut acks_ahead = 0;
        for _ in 0..200 {
            flow.acknowledge(1, Some(40 * MS));
            reno.acknowledge(1, Some(40 * MS));
            reference += f64::from(ssthresh) / (1.0 + reference.exp()) + 1.0 / reference;
            let cwnd = f64::from(flow.cwnd());
            assert!((cwnd - reference).abs() <= 1.2, "{cwnd} for {reference} from {ssthresh}");
            assert!(flow.cwnd() >= reno.cwnd());
            acks_ahead += u32::from(flow.cwnd() > reno.cwnd());
        }
        // The sum of all deltas is 1.02 packets from a threshold of 2, and less than one from 3 on.
        assert_eq!(acks_ahead > 0, ssthresh == 2, "{acks_ahead} ACKs ahead of Reno from {ssthresh}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any RTTs from 1 us to 100 s, growth stops exactly at 2/3 (RTTmax + RTTmin).
    #[test]
    fn growth_stops_from_two_thirds_of_the_extremes_on(
        trace in proptest::collection::vec((1..=100_000_000u32, 0..24u32), 1..60),
    ) {
        let mut flow = large();
        let (mut low, mut high) = (u64::MAX, 0);
        for rtt_us in trace.iter().map(|(rtt_us, shift)| (rtt_us >> shift).max(1)) {
            let rtt = u64::from(rtt_us);
            (low, high) = (low.min(rtt), high.max(rtt));
            prop_assert_eq!(is_stopped_at(&mut flow, rtt_us), 3 * rtt >= 2 * (high + low), "{} of {}..{}", rtt, low, high);
            let thresh = (low + high + rtt) as f64 / 2.5;
            prop_assert!((0.0..1.0).contains(&(flow.field("rtt_thresh_us") as f64 - thresh + 1e-6)));
        }
        prop_assert_eq!(flow.fields(["rtt_min_us", "rtt_max_us"]), [low, high]);
    }

    /// The level is (RTTmax + RTTmin) / (tau - 1).
    #[test]
    fn tau_moves_the_level(tau in 2000..=3000u32, rtts in proptest::collection::vec(1..=100_000_000u32, 3)) {
        let native = native::borrowed(ID, &[&format!("tau={tau}")]);
        let mut flow = Endpoint::over(&native, 1000, 2);
        flow.sample(&rtts[..2]);
        let (low, high) = (rtts.iter().min().unwrap(), rtts.iter().max().unwrap());
        let sum = u64::from(*low) + u64::from(*high);
        let is_above = u64::from(rtts[2]) * u64::from(tau - 1000) >= 1000 * sum;
        prop_assert_eq!(is_stopped_at(&mut flow, rtts[2]), is_above);
    }

    /// Without a queue, and above the windows in which delta counts, the algorithm is Reno.
    #[test]
    fn adaptive_is_reno_where_the_rtt_is_steady(start in 21..100_000u32, acks in proptest::collection::vec(1..100u32, 1..100)) {
        let run = |id| {
            let mut flow = Endpoint::of(id, start, 2);
            acks.iter().for_each(|&packets| flow.acknowledge(packets, Some(40 * MS)));
            (flow.cwnd(), flow.tcp.snd_cwnd_cnt)
        };
        prop_assert_eq!(run(ID), run("bpf_reno"));
    }

    /// Losses in any mode: nothing overflows, and the extremes stay extremes.
    #[test]
    fn any_rtt_in_any_mode_is_sound(
        mode in 0..=1u8, window_s in 0..=3u32, trace in proptest::collection::vec((1..=i32::MAX as u32, 0..30u32, 0..3_000u64), 1..40),
    ) {
        let native = native::borrowed(ID, &[&format!("rttmax_mode={mode}"), &format!("rttmax_win_s={window_s}")]);
        let mut flow = Endpoint::over(&native, 10, 2);
        let mut now_ms = 0;
        for (rtt_us, shift, wait_ms) in trace {
            now_ms += wait_ms;
            at(&mut flow, now_ms, (rtt_us >> shift).max(1));
            flow.acknowledge(3, None);
            flow.enter_recovery();
            flow.leave();
            prop_assert!(flow.field("rtt_max_us") >= flow.field("rtt_cur_us"));
            prop_assert!(flow.field("rtt_min_us") <= flow.field("rtt_cur_us"));
        }
    }
}

/// The paper's bottleneck with 50 packets at 1.5 Mbit/s. The table has ms and percent of the queue.
#[test]
fn brake_engages_at_the_table_s_queue_fill() {
    let check = |packet_bytes: u32, rtt_ms: u32, expected: Option<(u32, f64)>| {
        let drain_us = 50 * packet_bytes * 8 * 10 / 15;
        let (low, high) = (rtt_ms * MS, rtt_ms * MS + drain_us);
        let mut flow = large();
        flow.sample(&[low, high]);
        // The queue fills in steps of 100 us.
        let level = (low..high).step_by(100).find(|&rtt_us| is_stopped_at(&mut flow, rtt_us));
        let found = level.map(|level| (level, 100.0 * f64::from(level - low) / f64::from(drain_us)));
        let is_right = match (found, expected) {
            (Some((level, fill)), Some((ms, percent))) => {
                level.abs_diff(ms * MS) <= 600 && (fill - percent).abs() <= 0.6
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_right, "{packet_bytes} B, {rtt_ms} ms: {found:?}");
    };
    for (rtt_ms, small, full) in [
        (100, Some((311, 79.0)), Some((400, 75.0))),
        (150, Some((378, 85.0)), Some((467, 79.0))),
        (200, Some((445, 92.0)), Some((533, 83.0))),
        (250, Some((511, 98.0)), Some((600, 88.0))),
        (300, None, Some((667, 92.0))),
        (400, None, None),
    ] {
        check(1000, rtt_ms, small);
        check(1500, rtt_ms, full);
    }
}

/// A flow that lost a packet when 300 packets had filled the queue to an RTT of 400 ms.
fn overflowed(settings: &[&str]) -> LoneFlow<'static> {
    let mut flow = LoneFlow::new(native::tuned(ID, settings), 300, 2, [100_000, 1_000]);
    flow.run_for(900_000);
    flow.lose();
    flow
}

#[test]
fn window_stops_short_of_the_queue_that_overflowed() {
    let mut flow = overflowed(&["longest_stop_s=0"]);
    let high = flow.field("rtt_max_us");
    assert_eq!(high, 399_000);
    flow.run_for(80_000_000);
    // The level, 2/3 (RTTmax + RTTmin), in packets of a millisecond.
    let level = (2 * (high + 100_000) / 3).div_ceil(1000);
    assert_eq!(flow.phase(), "stopped");
    assert!(u64::from(flow.cwnd()).abs_diff(level) <= 2, "{} packets at a level of {level}", flow.cwnd());
    assert_eq!(flow.field("rtt_max_us"), high, "the RTT stays below that of the full queue");
}

/// Runs the paper's settings and the defaults; returns a flow whose RTT rose from 20 ms to 50 ms, with its window before.
fn on_longer_route(cwnd: u32, is_paper: bool) -> (LoneFlow<'static>, u32) {
    let settings: &[&str] = if is_paper { &["longest_stop_s=0"] } else { &[] };
    let mut flow = LoneFlow::new(native::tuned(ID, settings), cwnd, 2, [20_000, 200]);
    flow.run_for(500_000);
    let before = flow.cwnd();
    flow.rtt_us = 50_000;
    (flow, before)
}

/// With the paper's settings, RTTmin stays that of the shorter route. Growth stops and losses continue.
#[test]
fn longer_route_with_losses_does_not_end_at_two_packets() {
    for is_paper in [true, false] {
        // The path holds 100 packets, and 18 are in the queue.
        let (mut flow, before) = on_longer_route(118, is_paper);
        for _ in 0..6 {
            flow.run_for(10_000_000);
            flow.lose();
        }
        assert_eq!(flow.cwnd() <= 2, is_paper, "{} packets of {before}", flow.cwnd());
        assert_eq!(flow.cwnd() > before / 2, !is_paper, "{} packets of {before}", flow.cwnd());
    }
}

#[test]
fn longer_route_without_losses_stops_growth_for_the_longest_stop_only() {
    for is_paper in [true, false] {
        let (mut flow, before) = on_longer_route(50, is_paper);
        flow.run_for(9_900_000);
        assert!(flow.cwnd() <= before + 1, "{} packets of {before}", flow.cwnd());
        flow.run_for(10_000_000);
        assert_eq!(flow.cwnd() > before + 1, !is_paper, "{} packets of {before}", flow.cwnd());
    }
}

/// Slow start up to a threshold of 2 packets does not show that the path is free.
#[test]
fn timeouts_more_frequent_than_the_longest_stop_do_not_prolong_it() {
    let mut flow = Endpoint::of(ID, 2, 2);
    flow.sample(&[20 * MS]);
    for _ in 0..4 {
        for _ in 0..60 {
            flow.wait(50_000);
            flow.acknowledge(1, Some(50 * MS));
        }
        flow.time_out();
        flow.recover();
    }
    assert_eq!(flow.field("rtt_min_us"), 50_000);
}

#[test]
fn own_queue_taken_for_a_longer_route_is_recognized_after_a_loss() {
    let mut flow = overflowed(&["longest_stop_s=1"]);
    // The window stops at 2/3 of 500 ms.
    flow.run_until(|flow| flow.field("rtt_min_us") > 110_000);
    let taken = flow.field("rtt_min_us");
    assert!((320_000..350_000).contains(&taken), "{taken}");
    flow.lose();
    flow.lose();
    flow.run_for(1_000_000);
    assert!(flow.field("rtt_min_us") <= 101_000, "{}", flow.field("rtt_min_us"));
}

#[test]
fn retransmitted_packets_give_no_sample() {
    let mut flow = large();
    flow.sample(&[10 * MS, 100 * MS]);
    flow.call(|cc, tcp| cc.pkts_acked(tcp, 1, None));
    assert_eq!(rtts(&flow), [10_000, 100_000, 100_000]);
    flow.sample(&[0]);
    assert_eq!(flow.field("rtt_min_us"), 1, "a sample of no time counts as a microsecond");
}

#[test]
fn stopped_window_keeps_what_it_counted() {
    let mut flow = large();
    flow.acknowledge(700, Some(10 * MS));
    flow.sample(&[100 * MS]);
    flow.acknowledge(700, Some(90 * MS));
    assert_eq!((flow.cwnd(), flow.tcp.snd_cwnd_cnt), (1000, 700));
    flow.acknowledge(300, Some(20 * MS));
    assert_eq!((flow.cwnd(), flow.tcp.snd_cwnd_cnt), (1001, 0));
    assert_eq!(flow.fields(["acks_grown", "acks_frozen"]), [2, 1]);
}

#[test]
fn slow_start_is_not_stopped() {
    let mut flow = Endpoint::of(ID, 10, INFINITE_SSTHRESH);
    flow.sample(&[10 * MS]);
    flow.acknowledge(10, Some(100 * MS));
    assert_eq!((flow.cwnd(), flow.phase()), (20, "slow_start"));
    assert_eq!(flow.fields(["acks_grown", "acks_frozen"]), [0, 0]);
}

#[test]
fn application_limited_window_neither_grows_nor_counts() {
    let mut flow = Endpoint::of(ID, 5, 2);
    (flow.tcp.is_cwnd_limited, flow.tcp.packets_out) = (0, 1);
    let before = flow.tcp.clone();
    for rtt_ms in [10, 100, 95] {
        flow.acknowledge(1, Some(rtt_ms * MS));
    }
    assert_eq!(flow.tcp, before);
    assert_eq!(flow.fields(["acks_grown", "acks_frozen", "delta_frac"]), [0; 3]);
}

#[test]
fn idle_restart_forgets_the_present_rtt_only() {
    let mut flow = large();
    flow.sample(&[10 * MS, 100 * MS]);
    assert!(is_stopped_at(&mut flow, 100 * MS));
    flow.tcp.packets_out = 0;
    flow.apply(Operation::Idle { timeouts: 1 });
    assert_eq!(flow.cwnd(), 500, "the kernel's own restart");
    assert_eq!(rtts(&flow), [10_000, 100_000, 0]);
    flow.tcp.snd_ssthresh = 2;
    flow.acknowledge(1, None);
    assert_eq!((flow.phase(), flow.field("rtt_thresh_us")), ("avoidance", 0), "no RTT, so no brake");
    assert!(is_stopped_at(&mut flow, 100 * MS));
}

#[test]
fn timeout_halves_and_keeps_the_extremes() {
    let mut flow = large();
    flow.sample(&[10 * MS, 100 * MS, 50 * MS]);
    flow.time_out();
    assert_eq!((flow.cwnd(), flow.ssthresh(), flow.phase()), (1, 500, "loss"));
    assert_eq!(rtts(&flow), [10_000, 100_000, 50_000]);
}

#[test]
fn mode_on_loss_measures_at_drops_only() {
    let mut flow = Endpoint::over(native::tuned(ID, &["rttmax_mode=1"]), 1000, 2);
    flow.sample(&[10 * MS]);
    assert!(!is_stopped_at(&mut flow, 200 * MS), "no brake before the first drop");
    assert_eq!(flow.field("rtt_max_us"), 0);
    flow.sample(&[90 * MS]);
    flow.enter_cwr();
    assert_eq!(flow.field("rtt_max_us"), 0, "a mark is no drop");
    flow.set_state(state::OPEN);
    flow.enter_recovery();
    assert_eq!(flow.field("rtt_max_us"), 90_000);
    flow.leave();
    flow.tcp.snd_ssthresh = 2;
    assert!(is_stopped_at(&mut flow, 67 * MS) && !is_stopped_at(&mut flow, 66 * MS), "2/3 of 100 ms");
    flow.sample(&[30 * MS]);
    flow.time_out();
    assert_eq!(flow.field("rtt_max_us"), 90_000, "an earlier drop's was larger");
    flow.sample(&[120 * MS]);
    flow.time_out();
    assert_eq!(flow.field("rtt_max_us"), 120_000);
}

#[test]
fn rttmax_of_a_sliding_window_lives_for_half_of_it_to_all_of_it() {
    let mut flow = Endpoint::over(native::tuned(ID, &["rttmax_win_s=10"]), 1000, 2);
    for (what, now_ms, rtt_ms, high_ms) in [
        ("the spike", 4_900, 100, 100),
        ("the half before still counts", 5_000, 20, 100),
        ("up to its end", 9_999, 30, 100),
        ("5.1 s after the spike", 10_000, 10, 30),
        ("nothing is left after a window of silence", 20_000, 15, 15),
    ] {
        at(&mut flow, now_ms, rtt_ms * MS);
        assert_eq!(flow.field("rtt_max_us"), high_ms * 1000, "{what}");
    }
    let mut flow = large();
    at(&mut flow, 0, 100 * MS);
    at(&mut flow, 1_000_000, 10 * MS);
    assert_eq!(flow.field("rtt_max_us"), 100_000, "off by default");
}

#[test]
fn window_without_any_drop_left_in_it_stops_nothing() {
    let mut flow = Endpoint::over(native::tuned(ID, &["rttmax_mode=1", "rttmax_win_s=1"]), 1000, 2);
    flow.sample(&[10 * MS, 100 * MS]);
    flow.enter_recovery();
    flow.leave();
    flow.tcp.snd_ssthresh = 2;
    assert!(is_stopped_at(&mut flow, 100 * MS));
    at(&mut flow, 3_000, 100 * MS);
    assert!(!is_stopped_at(&mut flow, 100 * MS));
}
