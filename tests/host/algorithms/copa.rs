//! Copa against the paper's equations: `bpf/cc/copa.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "copa";
const MS: u32 = 1_000;
const BASE_US: u32 = 40 * MS;

/// The rate of the text: the present window per RTT.
const PRESENT: &str = "present_window=1";

/// Outside slow start, with this RTT known as the lowest.
fn steady(native: &Native, cwnd: u32, base_us: u32) -> Endpoint<'_> {
    let mut flow = Endpoint::over(native, cwnd, 2);
    flow.wait(1_000_000);
    flow.ack(1, base_us);
    flow
}

/// The window with its fraction, packets.
fn exact_cwnd(flow: &Endpoint) -> f64 {
    f64::from(flow.cwnd()) + flow.field("parts") as f64 / 2_f64.powi(32)
}

/// Passes an ACK after so long that its RTT is the standing one.
fn later_ack(flow: &mut Endpoint, packets: u32, rtt_us: u32) {
    flow.wait(u64::from(rtt_us));
    flow.ack(packets, rtt_us);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Section 2.1, steps 1 to 3, in floating point: cwnd +- v / (delta cwnd) for each packet, v = 1.
    #[test]
    fn window_moves_as_the_paper_s_equations(
        cwnd in 20..100_000u32, base_us in 100..500_000u32, delay_us in 0..300_000u32, acked in 1..20u32, queue in 1..=16u32,
    ) {
        let native = native::borrowed(ID, &[&format!("queue_pkts={queue}"), "competitive_mode=0", PRESENT]);
        let mut flow = steady(&native, cwnd, base_us);
        let before = exact_cwnd(&flow);
        later_ack(&mut flow, acked, base_us + delay_us);
        let (rate, inverse_target) = (before / f64::from(base_us + delay_us), f64::from(delay_us) / f64::from(queue));
        let step = f64::from(acked) * (f64::from(queue) / before).min(1.0);
        let expected = if rate * inverse_target <= 1.0 { before + step } else { before - step };
        let nearly_equal = (rate * inverse_target - 1.0).abs() < 1e-6;
        let error = (exact_cwnd(&flow) - expected).abs();
        prop_assert!(nearly_equal || error <= step / (1000.0 * before) + 1e-6, "{} for {expected}", exact_cwnd(&flow));
    }
}

/// lambda_t = 1 / (delta dq): 2 packets in 10 ms are the rate of 10 packets in 50 ms.
#[test]
fn direction_changes_where_the_rate_equals_the_target() {
    for (cwnd, grows) in [(5, true), (9, true), (11, false), (20, false)] {
        let mut flow = steady(native::tuned(ID, &[PRESENT]), cwnd, BASE_US);
        let before = exact_cwnd(&flow);
        later_ack(&mut flow, 1, 50 * MS);
        assert_eq!(exact_cwnd(&flow) > before, grows, "{cwnd} packets");
    }
}

/// RTTstanding is the lowest of srtt / 2, RTTmin that of 10 s.
#[test]
fn standing_and_lowest_rtt_are_those_of_their_times() {
    let mut flow = steady(native::find(ID), 100, BASE_US);
    let rtts = |flow: &Endpoint| flow.fields(["standing[0].rtt_us", "lowest[0].rtt_us"]);
    for (wait_ms, rtt_ms, expected_ms) in
        [(10, 80, [40, 40]), (31, 80, [80, 40]), (5, 90, [80, 40]), (50, 90, [90, 40])]
    {
        flow.wait(wait_ms * 1000);
        flow.ack(1, rtt_ms * MS);
        assert_eq!(rtts(&flow), expected_ms.map(|ms: u64| ms * 1000), "{wait_ms} ms later {rtt_ms} ms");
    }
    for _ in 0..120 {
        flow.wait(100_000);
        flow.ack(1, 90 * MS);
    }
    assert_eq!(rtts(&flow), [90_000; 2], "the RTT of 40 ms is older than 10 s");
}

#[test]
fn packets_are_paced_at_twice_the_window_per_standing_rtt() {
    let mut flow = steady(native::find(ID), 100, BASE_US);
    later_ack(&mut flow, 1, 50 * MS);
    assert_eq!(flow.cc.pacing_status(), 1);
    assert_eq!(flow.cc.pacing_rate(), 2 * (u64::from(flow.cwnd()) * u64::from(MSS_BYTES) * 20));
    flow.cc.set_max_pacing_rate(1_000_000);
    later_ack(&mut flow, 1, 50 * MS);
    assert_eq!(flow.cc.pacing_rate(), 1_000_000);
}

/// Without a queue the window grows. Each round trip it grows by v / delta.
#[test]
fn velocity_doubles_after_three_round_trips_in_one_direction() {
    let mut flow = steady(native::find(ID), 1000, BASE_US);
    let mut velocities: Vec<(u32, f64)> = Vec::new();
    for _ in 0..8 {
        let before = exact_cwnd(&flow);
        flow.round(BASE_US);
        velocities.push((1 << flow.field("doublings"), exact_cwnd(&flow) - before));
    }
    for (index, pair) in velocities.windows(2).enumerate() {
        let [(earlier, _), (later, step)] = pair else { unreachable!() };
        let (grown, slower, faster) = (step / 2.0, f64::from(*earlier), f64::from(*later));
        assert!(later == earlier || *later == 2 * earlier, "round {index}: {velocities:?}");
        assert!((slower * 0.95..=faster * 1.05).contains(&grown), "round {index}: {velocities:?}");
    }
    let first = velocities.iter().position(|(velocity, _)| *velocity == 2);
    assert!((2..=4).contains(&first.unwrap()), "{velocities:?}");
    assert_eq!(velocities[7].0, 2 << (7 - first.unwrap()), "it doubles every round from then on");
}

#[test]
fn velocity_ends_with_the_round_in_which_the_rate_crosses_the_target() {
    let mut flow = steady(native::find(ID), 1000, BASE_US);
    (0..8).for_each(|_| flow.round(BASE_US));
    let (before, velocity) = (exact_cwnd(&flow), f64::from(1 << flow.field("doublings")));
    assert!(velocity >= 16.0);
    later_ack(&mut flow, 1, 80 * MS);
    assert!((before - exact_cwnd(&flow) - 2.0 * velocity / before).abs() < 1e-3, "it goes back as fast");
    flow.round(80 * MS);
    assert_eq!(flow.fields(["doublings", "same_rounds"]), [0, 0]);
}

/// 40 packets left in the round of the ACK; the window has 80 now.
#[test]
fn rate_is_that_of_the_packets_acknowledged() {
    for (settings, window) in [(vec!["empty_queue=0"], 40), (vec!["empty_queue=0", PRESENT], 80)] {
        // The rate equals the target of 2 packets at dq = 2 RTT / window.
        for (delay_us, grows) in [(2 * BASE_US / window * 9 / 10, true), (2 * BASE_US / window * 13 / 10, false)] {
            let mut flow = steady(native::tuned(ID, &settings), 40, BASE_US);
            (0..3).for_each(|_| flow.round(BASE_US));
            flow.tcp.snd_cwnd = 80;
            let before = exact_cwnd(&flow);
            later_ack(&mut flow, 1, BASE_US + delay_us);
            assert_eq!(exact_cwnd(&flow) > before, grows, "{settings:?}, {delay_us} us");
        }
    }
}

#[test]
fn slow_start_doubles_until_the_rate_exceeds_the_target() {
    let mut flow = Endpoint::of(ID, 10, INFINITE_SSTHRESH);
    for packets in [20, 40, 80] {
        flow.round(BASE_US);
        assert_eq!((flow.phase(), flow.windows()), ("slow_start", (packets, INFINITE_SSTHRESH)));
    }
    later_ack(&mut flow, 1, BASE_US + MS);
    assert_eq!(
        (flow.phase(), flow.windows()),
        ("slow_start", (81, INFINITE_SSTHRESH)),
        "81 packets / 41 ms < 2 / 1 ms"
    );
    later_ack(&mut flow, 1, BASE_US + 2 * MS);
    assert_eq!((flow.phase(), flow.windows()), ("default", (81, 81)), "81 packets / 42 ms > 2 / 2 ms");
}

/// Gap between packets at the bottleneck.
const GAP_US: u64 = 400;
/// RTT without a queue, and that gap: 100 packets fill the path.
const PATH: [u64; 2] = [40_000, GAP_US];

/// Section 3: the queue swings between 0 and 2.5 / delta packets, in 5 round trips. The model is that of the paper: a
/// packet every 1 / mu, and an ACK for each. Whole packets turn it up to a packet and a half earlier.
#[test]
fn queue_swings_between_nothing_and_five_packets_in_five_round_trips() {
    for queue in [2, 4] {
        let native = native::tuned(ID, &[&format!("queue_pkts={queue}")]);
        let mut flow = LoneFlow::new(native, 100, 2, PATH);
        flow.run_for(3_000_000);
        let mut windows = Vec::new();
        let mut rises = Vec::new();
        let mut is_up = true;
        let end_us = flow.now_us() + 4_000_000;
        while flow.now_us() < end_us {
            let before = exact_cwnd(&flow);
            let delivered = flow.tcp.delivered;
            flow.run_until_delivered(delivered + 1);
            let now = exact_cwnd(&flow);
            if now > before && !is_up {
                rises.push(flow.now_us());
            }
            is_up = now > before;
            windows.push(now);
            assert_eq!(flow.phase(), "default");
        }
        let (least, most) = windows.iter().fold((f64::MAX, 0.0_f64), |(low, high), &w| (low.min(w), high.max(w)));
        let swing = 2.5 * f64::from(queue);
        assert!((swing - 1.5..=swing + 0.5).contains(&(most - least)), "1/delta {queue}: from {least} to {most}");
        assert!((99.0..103.0).contains(&least), "1/delta {queue}: the queue keeps {least} - 100 packets");
        let rounds = (rises[rises.len() - 1] - rises[0]) as f64 / (rises.len() - 1) as f64 / PATH[0] as f64;
        assert!((4.0..=5.5).contains(&rounds), "1/delta {queue}: a period of {rounds} round trips");
    }
}

/// 2.2. RTTs of 100 ms on a path of 40 ms: the queue is never nearly empty.
fn competitive(native: &Native) -> Endpoint<'_> {
    let mut flow = steady(native, 20, BASE_US);
    flow.round(BASE_US);
    let mut rounds = 0;
    while flow.phase() == "default" {
        flow.round(100 * MS);
        rounds += 1;
        assert!(rounds < 20, "it stays in the default mode");
    }
    assert!((6..=8).contains(&rounds), "competitive after {rounds} round trips");
    flow
}

/// 1/delta, packets.
fn target(flow: &Endpoint) -> f64 {
    flow.field("target") as f64 / 1024.0
}

#[test]
fn full_queue_makes_delta_follow_reno_until_the_queue_is_nearly_empty() {
    let mut flow = competitive(native::find(ID));
    let begin = target(&flow);
    assert!((2.0..=3.0).contains(&begin), "{begin}");
    for packets in 1..=6 {
        flow.round(100 * MS);
        assert_eq!(target(&flow), begin + f64::from(packets));
    }
    let grown = target(&flow);
    flow.apply(Operation::Lose);
    assert_eq!(target(&flow), grown / 2.0);
    flow.undo();
    assert_eq!(target(&flow), grown);
    flow.leave();
    flow.apply(Operation::Mark);
    assert_eq!(target(&flow), grown / 2.0);
    flow.round(100 * MS);
    assert_eq!(target(&flow), grown / 2.0, "it does not grow in a reduction");
    flow.leave();
    flow.round(41 * MS);
    assert_eq!((flow.phase(), target(&flow)), ("default", 2.0));
}

#[test]
fn without_the_competitive_mode_delta_stays() {
    let mut flow = steady(native::tuned(ID, &["competitive_mode=0"]), 20, BASE_US);
    (0..20).for_each(|_| flow.round(100 * MS));
    assert_eq!((flow.phase(), target(&flow)), ("default", 2.0));
}

/// The paper's rule alone: 10 % of the range of RTTs. With whole packets, less than 1.5 of the flow's own count as none.
#[test]
fn queue_is_nearly_empty_below_a_tenth_of_the_range_or_a_packet_and_a_half() {
    // The largest RTT is 60 ms above the lowest. 4 packets in 66 ms: 1.5 of them are queued at 25 ms.
    for (cwnd, empty_queue, delay_ms, is_empty) in
        [(20, 0, 5, true), (20, 0, 7, false), (4, 1536, 20, true), (4, 1536, 30, false), (4, 0, 20, false)]
    {
        let native = native::tuned(ID, &[PRESENT, &format!("empty_queue={empty_queue}")]);
        let mut flow = steady(native, 20, BASE_US);
        (0..2).for_each(|_| flow.round(100 * MS));
        assert!(flow.field("full_rounds") > 0);
        flow.tcp.snd_cwnd = cwnd;
        later_ack(&mut flow, 1, BASE_US + delay_ms * MS);
        later_ack(&mut flow, 1, BASE_US + delay_ms * MS);
        assert_eq!(flow.field("full_rounds") == 0, is_empty, "{cwnd} packets, {delay_ms} ms, {empty_queue}");
    }
}

#[test]
fn losses_of_the_default_mode_leave_the_window() {
    let mut flow = steady(native::find(ID), 100, BASE_US);
    let before = exact_cwnd(&flow);
    flow.lose();
    assert_eq!(exact_cwnd(&flow), before);
    flow.apply(Operation::Lose);
    flow.ack(1, BASE_US);
    assert!(exact_cwnd(&flow) > before, "it also grows in a recovery");
}

/// A policer never shows a queue.
#[test]
fn window_does_not_grow_after_a_round_that_lost_more_than_a_tenth() {
    for (losses, grows) in [(5, true), (15, false)] {
        let mut flow = steady(native::find(ID), 100, BASE_US);
        flow.round(BASE_US);
        flow.tcp.lost += losses;
        flow.round(BASE_US);
        let before = exact_cwnd(&flow);
        flow.ack(1, BASE_US);
        assert_eq!(exact_cwnd(&flow) > before, grows, "{losses} of 100");
    }
}

#[test]
fn timeout_leads_to_slow_start_up_to_half_unless_it_was_spurious() {
    let mut flow = steady(native::find(ID), 100, BASE_US);
    flow.time_out();
    assert_eq!(flow.windows(), (1, 50));
    let mut spurious = steady(native::find(ID), 100, BASE_US);
    spurious.time_out();
    spurious.undo();
    assert!(spurious.cwnd() >= 100);
    flow.recover();
    for acked in 1..60 {
        flow.ack(1, BASE_US);
        let expected = if acked < 49 { ("slow_start", 1 + acked) } else { ("default", 50) };
        assert_eq!((flow.phase(), flow.cwnd()), expected);
    }
}

#[test]
fn window_that_does_not_limit_the_sender_shrinks_but_does_not_grow() {
    let mut flow = steady(native::tuned(ID, &[PRESENT]), 100, BASE_US);
    (flow.tcp.is_cwnd_limited, flow.tcp.max_packets_out) = (0, 1);
    let before = exact_cwnd(&flow);
    later_ack(&mut flow, 1, BASE_US);
    assert_eq!(exact_cwnd(&flow), before);
    later_ack(&mut flow, 1, 100 * MS);
    assert!(exact_cwnd(&flow) < before);
}
