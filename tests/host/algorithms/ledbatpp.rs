//! LEDBAT++ against the draft's formulas: `bpf/cc/ledbatpp.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "ledbatpp";
const MS: u32 = 1_000;
const TARGET_US: u32 = 60 * MS;
const STEADY: [&str; 1] = ["slowdown_gap=0"];

/// Opens a connection and then sets its window, which a new connection limits to 2 packets.
fn open(native: &Native, cwnd: u32, ssthresh: u32) -> Endpoint<'_> {
    let mut flow = Endpoint::over(native, cwnd, ssthresh);
    flow.tcp.snd_cwnd = cwnd;
    flow
}

/// In congestion avoidance without slowdowns, after a first round with this base delay.
fn steady(native: &Native, cwnd: u32, base_us: u32) -> Endpoint<'_> {
    let mut flow = open(native, cwnd, 2);
    flow.end_round(&[base_us]);
    assert_eq!((flow.cwnd(), flow.phase()), (cwnd, "avoidance"));
    flow
}

/// The window with its fraction, packets.
fn exact_cwnd(flow: &Endpoint) -> f64 {
    f64::from(flow.cwnd()) + flow.field("parts") as f64 / 2_f64.powi(20)
}

/// Section 4.2: GAIN = 1 / min(16, ceil(2 TARGET / base)).
#[test]
fn packets_of_growth_take_the_draft_s_round_trips() {
    let native = native::tuned(ID, &STEADY);
    for (base_ms, rounds) in
        [(1, 16), (7, 16), (8, 15), (10, 12), (40, 3), (60, 2), (61, 2), (119, 2), (120, 1), (600, 1)]
    {
        let mut flow = steady(native, 100, base_ms * MS);
        for packets in 1..=3 {
            flow.end_rounds(rounds - 1, &[base_ms * MS]);
            assert_eq!(flow.cwnd(), 100 + packets - 1, "{base_ms} ms");
            flow.end_round(&[base_ms * MS]);
            assert_eq!(flow.cwnd(), 100 + packets, "{base_ms} ms");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Section 4.3 in floating point: W += max(GAIN - Constant W (delay / target - 1), -W / 2), and never below 2.
    #[test]
    fn window_follows_the_draft_s_equations(
        cwnd in 2..100_000u32, base_us in 1..500_000u32, delay_us in 0..300_000u32, decrease in 64..=4096u32,
    ) {
        let native = native::borrowed(ID, &["slowdown_gap=0", &format!("decrease={decrease}")]);
        let mut flow = steady(&native, cwnd, base_us);
        let before = exact_cwnd(&flow);
        flow.end_round(&[base_us + delay_us; 4]);
        let gain = 1.0 / (2.0 * f64::from(TARGET_US) / f64::from(base_us)).ceil().min(16.0);
        let excess = (f64::from(delay_us) / f64::from(TARGET_US) - 1.0).max(0.0) * f64::from(decrease) / 1024.0;
        let expected = (before + (gain - before * excess).max(-before / 2.0)).max(2.0);
        let error = (exact_cwnd(&flow) - expected).abs();
        prop_assert!(error <= before * 2_f64.powi(-20) + 1e-6, "{} for {}", exact_cwnd(&flow), expected);
        prop_assert_eq!(flow.field("delay_us"), u64::from(delay_us));
        prop_assert!(flow.ssthresh() <= flow.cwnd());
    }
}

#[test]
fn delay_is_the_lowest_of_four_samples_beyond_the_base() {
    let mut flow = steady(native::tuned(ID, &STEADY), 100, 50 * MS);
    for (samples_ms, delay_ms) in
        [(vec![90, 80, 99, 98], 30), (vec![99], 30), (vec![99, 99], 48), (vec![40], 0), (vec![70; 4], 30)]
    {
        let samples: Vec<u32> = samples_ms.iter().map(|ms| ms * MS).collect();
        flow.end_round(&samples);
        assert_eq!(flow.field("delay_us"), delay_ms * 1000, "{samples_ms:?}");
    }
}

/// RFC 6817: ten intervals of a minute.
#[test]
fn base_is_forgotten_after_ten_minutes() {
    for (setting, minutes) in [("base_minutes=10", 10), ("base_minutes=2", 2)] {
        let mut flow = steady(native::tuned(ID, &[STEADY[0], setting]), 100, 40 * MS);
        for minute in 1..=minutes {
            let is_known = minute < minutes;
            flow.wait(60_000_000);
            flow.end_round(&[70 * MS; 4]);
            assert_eq!(flow.field("delay_us"), if is_known { 30_000 } else { 0 }, "minute {minute} of {minutes}");
        }
    }
}

/// Section 4.1: GAIN in slow start, and its end above 3/4 of the target.
#[test]
fn first_slow_start_grows_by_gain_and_ends_on_delay() {
    let flow_at = |delay_us: u32| {
        let mut flow = open(native::find(ID), 30, INFINITE_SSTHRESH);
        flow.sample(&[60 * MS]);
        flow.sample(&[60 * MS + delay_us; 4]);
        flow.call(|cc, tcp| cc.cong_avoid(tcp, 30));
        flow
    };
    assert_eq!(flow_at(0).windows(), (45, INFINITE_SSTHRESH), "GAIN is 1/2 at 60 ms");
    assert_eq!(flow_at(45 * MS).windows(), (45, INFINITE_SSTHRESH));
    assert_eq!(flow_at(45 * MS + 1).windows(), (30, 30));
}

#[test]
fn later_slow_starts_ignore_delay_and_stop_at_the_threshold() {
    let mut flow = open(native::find(ID), 30, 30);
    flow.time_out();
    flow.sample(&[60 * MS]);
    flow.sample(&[160 * MS; 4]);
    let threshold = flow.ssthresh();
    flow.call(|cc, tcp| cc.cong_avoid(tcp, 4));
    assert_eq!((flow.phase(), flow.cwnd(), flow.ssthresh()), ("slow_start", 3, threshold), "GAIN is 1/2");
    flow.call(|cc, tcp| cc.cong_avoid(tcp, 1000));
    assert_eq!(flow.windows(), (threshold, threshold));
}

/// Without a threshold nothing else bounds slow start.
#[test]
fn undone_loss_of_the_first_slow_start_leaves_the_exit_by_delay() {
    let mut flow = Endpoint::of(ID, 30, INFINITE_SSTHRESH).after(&[Operation::Lose, Operation::Undo]);
    assert_eq!(flow.ssthresh(), INFINITE_SSTHRESH);
    flow.sample(&[60 * MS]);
    flow.sample(&[106 * MS; 4]);
    flow.call(|cc, tcp| cc.cong_avoid(tcp, 1));
    assert_eq!(flow.ssthresh(), flow.cwnd());
}

#[test]
fn only_a_new_connection_begins_with_two_packets() {
    let begin = |delivered, packets_out| {
        let change = move |tcp: &mut Tcp| (tcp.snd_cwnd, tcp.delivered, tcp.packets_out) = (10, delivered, packets_out);
        Endpoint::of(ID, 10, INFINITE_SSTHRESH).switched(change).cwnd()
    };
    assert_eq!([begin(1, 0), begin(1, 3), begin(500, 0)], [2, 10, 10]);
}

const RTT_US: u64 = 40_000;
/// 100 packets fill the path.
const PATH: [u64; 2] = [RTT_US, 400];

fn lone(native: &Native) -> LoneFlow<'_> {
    let mut flow = LoneFlow::new(native, 120, 120, PATH);
    flow.tcp.snd_cwnd = 120;
    flow
}

/// From a window beyond the path's to the first slowdown.
fn slowing(native: &Native) -> LoneFlow<'_> {
    let mut flow = lone(native);
    flow.run_until(|flow| flow.phase() == "slowdown");
    flow
}

/// Section 4.4. The window is 2 for two round trips, regrows, and the next slowdown follows after 9 times that time.
#[test]
fn slowdowns_drain_the_queue_and_return_after_nine_durations() {
    let mut flow = lone(native::find(ID));
    flow.run_until(|flow| flow.phase() == "avoidance");
    let begin_us = flow.now_us();
    flow.run_until(|flow| flow.phase() == "slowdown");
    let wait = (flow.now_us() - begin_us) as f64 / (120.0 * 400.0);
    assert!((1.5..2.5).contains(&wait), "the first slowdown comes after {wait} round trips");
    for _ in 0..3 {
        let (start_us, goal) = (flow.now_us(), flow.ssthresh());
        assert_eq!(flow.cwnd(), 2);
        flow.run_until(|flow| flow.phase() != "slowdown" || flow.cwnd() != 2);
        assert_eq!(flow.phase(), "ramp_up");
        let held_us = flow.now_us() - start_us;
        assert!((2 * RTT_US..4 * RTT_US).contains(&held_us), "{held_us} us at 2 packets");
        assert!(flow.field("delay_us") <= PATH[1], "the queue is not empty");
        flow.run_until(|flow| flow.phase() == "avoidance");
        assert_eq!(flow.windows(), (goal, goal));
        let (end_us, next_us) = (flow.now_us(), flow.field("next_slowdown_us"));
        assert_eq!(next_us - end_us, 9 * (end_us - start_us));
        flow.run_until(|flow| flow.phase() == "slowdown");
        assert!((next_us..next_us + RTT_US).contains(&flow.now_us()));
    }
}

#[test]
fn ramp_grows_by_gain_or_doubles() {
    let rounds = |setting| {
        let mut flow = slowing(native::tuned(ID, &[setting]));
        flow.run_until(|flow| flow.phase() == "ramp_up");
        let begin_us = flow.now_us();
        flow.run_until(|flow| flow.cwnd() >= 32);
        (flow.now_us() - begin_us) as f64 / RTT_US as f64
    };
    // From 2 to 32 packets: 4 doublings; at GAIN = 1/3 log(16) / log(4/3) = 9.6 rounds.
    let (gain, doubling) = (rounds("ramp_gain=1"), rounds("ramp_gain=0"));
    assert!((8.0..13.0).contains(&gain) && (3.0..6.0).contains(&doubling), "{gain} and {doubling} rounds");
}

#[test]
fn loss_in_a_slowdown_halves_the_window_to_return_to_unless_undone() {
    for (is_spurious, expected) in [(false, 60), (true, 120)] {
        let mut flow = slowing(native::find(ID));
        let goal = flow.ssthresh();
        assert_eq!(flow.reduce(), 2);
        if is_spurious {
            flow.undo();
            flow.leave();
        } else {
            flow.recover();
        }
        let limit_us = flow.now_us() + 10_000_000;
        flow.run_until(|flow| flow.phase() == "avoidance" || flow.now_us() > limit_us);
        assert_eq!(flow.cwnd(), goal * expected / 120, "{is_spurious}");
    }
}

/// The next slowdown would come nine pauses later.
#[test]
fn pause_inside_a_slowdown_does_not_count_into_its_duration() {
    for resume in RESUMPTIONS {
        let mut flow = slowing(native::find(ID));
        flow.rest(3_600_000_000);
        resume(&mut flow);
        flow.run_until(|flow| flow.phase() == "avoidance");
        let wait_s = (flow.field("next_slowdown_us") - flow.now_us()) / 1_000_000;
        assert!((1..60).contains(&wait_s), "{wait_s} s");
    }
}

#[test]
fn window_that_does_not_limit_the_sender_does_not_grow() {
    let mut flow = steady(native::tuned(ID, &STEADY), 100, 200 * MS);
    (flow.tcp.is_cwnd_limited, flow.tcp.max_packets_out) = (0, 1);
    flow.end_rounds(5, &[200 * MS]);
    assert_eq!(flow.cwnd(), 100);
    flow.tcp.is_cwnd_limited = 1;
    flow.end_rounds(5, &[200 * MS]);
    assert_eq!(flow.cwnd(), 105);
}
