//! CUBIC and the CCT family against floating point, RFC 9406 and the specification's tables: `bpf/include/cubic.bpf.h`.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::compile;

/// Largest time on the curve: floor(cbrt(2^64 - 1)), 1/1024 s.
const TIME_MAX: u32 = 2_642_245;

/// The core's equations, compiled with named wrappers.
static EQUATIONS: LazyLock<Native> = LazyLock::new(|| native::load(&compile::in_tree("tests/host/cubic.c")));

fn cube_root(value: u64) -> u32 {
    // SAFETY: the signature of cubic.bpf.h.
    let function: extern "C" fn(u64) -> u32 = unsafe { EQUATIONS.function("cube_root") };
    function(value)
}

/// Calls a function of cubic.c.
fn equation<const N: usize>(name: &str, of: [u32; N]) -> u32 {
    // SAFETY: the signature of cubic.c.
    let function: extern "C" fn(*const u32) -> u32 = unsafe { EQUATIONS.function(name) };
    function(of.as_ptr())
}

fn check_cube_root(value: u64) {
    let root = u128::from(cube_root(value));
    let value = u128::from(value);
    assert!(root.pow(3) <= value && value < (root + 1).pow(3), "the cube root of {value} is not {root}");
}

#[test]
fn cube_root_is_the_floor_at_every_step_of_it() {
    let roots = (0..3_000).chain((3_000..u64::from(TIME_MAX)).step_by(101)).chain([u64::from(TIME_MAX)]);
    for cube in roots.map(|root| root.pow(3)) {
        (cube.saturating_sub(1)..=cube.saturating_add(1)).for_each(check_cube_root);
    }
    (0..64).for_each(|bit| check_cube_root(1 << bit));
    check_cube_root(u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cube_root_is_the_floor(value: u64, shift in 0..64u32) {
        check_cube_root(value >> shift);
    }

    /// K and the root of its quotient differ by less than one unit of 1/1024 s, up to where K saturates.
    #[test]
    fn time_to_origin_is_within_a_millisecond(missing in 0..=INFINITE_SSTHRESH, shift in 0..31u32, scale in 1..=10_240u32) {
        let missing = missing >> shift;
        let k = f64::from(equation("host_time_to_origin", [missing, scale]));
        let reference = (f64::from(missing) * 1024.0 / f64::from(scale)).cbrt() * 1024.0;
        let reference = reference.min(f64::from(TIME_MAX));
        prop_assert!((-0.01..=1.01).contains(&(reference - k)), "{k} for {reference}");
    }

    /// W(t) is less than one packet from the real number, towards the origin, and never wraps.
    #[test]
    fn window_is_within_a_packet(
        times in (0..=TIME_MAX, 0..=TIME_MAX), shift in 0..22u32, origin in 1..=INFINITE_SSTHRESH, scale in 1..=10_240u32,
    ) {
        let (t, k) = (times.0 >> shift, times.1 >> shift);
        let window = f64::from(equation("host_window_at", [t, k, origin, scale]));
        let seconds = (f64::from(t) - f64::from(k)) / 1024.0;
        let change = f64::from(scale) / 1024.0 * seconds.powi(3);
        let reference = (f64::from(origin) + change).clamp(0.0, f64::from(u32::MAX));
        let towards_origin = (reference - window) * change.signum();
        prop_assert!((-0.001 * change.abs().max(1.0)..1.01).contains(&towards_origin), "{window} for {reference}");
    }

    /// The average windows with C' and C have the ratio 1 - delta. RFC 9438, section 5.
    #[test]
    fn response_function_is_lowered_by_delta(give_up in 0..=512u32, cut in 102..=512u32, cut_in_use in 102..=512u32) {
        let scale = equation("host_response_scale", [410, give_up, cut, cut_in_use]);
        let b = |cut: u32| f64::from(cut) / 1024.0;
        let average = |scale: f64, cut: u32| (scale * (4.0 - b(cut)) / (4.0 * b(cut))).powf(0.25);
        let exact = 410.0 * (average(1.0, cut) / average(1.0, cut_in_use) * (1.0 - b(give_up))).powi(4);
        prop_assert!((f64::from(scale) - exact.max(1.0)).abs() <= 0.501, "{scale} for {exact}");
    }

    #[test]
    fn count_is_at_most_a_window_and_leads_to_the_target(target: u32, cwnd in 1..=INFINITE_SSTHRESH) {
        let count = equation("host_count_towards", [target, cwnd]);
        if target > cwnd {
            prop_assert_eq!(count, cwnd / (target - cwnd));
        } else {
            prop_assert_eq!(u64::from(count), (100 * u64::from(cwnd)).min(u32::MAX.into()));
        }
    }

    /// With all switches off the family is bpf_cubic.
    #[test]
    fn cct_without_its_parts_is_bpf_cubic(seed: u64, lost in 0..60u32, marked in 0..20u32, late in 0..20u32) {
        static OFF: LazyLock<&Native> = LazyLock::new(|| {
            native::tuned("cct", &["with_ss=0", "with_lo=0", "with_erfc=0", "hystart=1", "beta=717"])
        });
        let rounds = |socket: NativeSocket| {
            let mut rounds: Vec<Round> = Vec::new();
            SimulatedSender::new(socket, path::random(seed, [lost, marked, late])).run(|round, _| rounds.push(round.clone()));
            rounds
        };
        prop_assert_eq!(rounds(OFF.socket(0)), rounds(native::find("bpf_cubic").socket(0)));
    }
}

#[test]
fn response_scale_has_the_specification_s_numbers() {
    let check = |settings: &[&str], id: &str, expected: f64| {
        let flow = Endpoint::over(native::tuned(id, settings), 10, INFINITE_SSTHRESH);
        let scale = flow.field("scale") as f64 / 1024.0;
        assert!((scale - expected).abs() < 0.003, "{id}: {scale} for {expected}");
    };
    check(&[], "bpf_cubic", 0.4);
    check(&[], "cct_lo", 0.4);
    check(&[], "erfc", 0.209);
    check(&[], "cct", 0.380);
    // Werfc = (1 - delta) Wc. A cut of 0.35 alone lowers the average by 13.9 %, one of 0.5 by 22 %.
    check(&["delta=142", "beta_lo=358"], "cct", 0.4);
    check(&["delta=225", "beta_lo=512"], "cct", 0.4);
}

#[test]
fn friendly_scale_is_the_kernel_s() {
    for (kept, expected) in [(717, 15), (819, 23), (512, 8), (1, 2), (1023, 5458)] {
        assert_eq!(equation("host_friendly_scale", [kept]), expected, "{kept}");
    }
}

#[test]
fn cut_is_beta_in_every_phase_and_window() {
    let windows = (2..2000).chain([65_535, 1 << 20, INFINITE_SSTHRESH - 1]);
    let check = |id: &str, settings: &[&str], in_avoidance: u64, in_slow_start: u64| {
        let native = native::tuned(id, settings);
        for cwnd in windows.clone() {
            for (ssthresh, share) in [(2, in_avoidance), (INFINITE_SSTHRESH, in_slow_start)] {
                let kept = ((u64::from(cwnd) * share / 1024) as u32).max(2);
                let found = Endpoint::over(native, cwnd, ssthresh).reduce();
                assert_eq!(found, kept, "{id} {settings:?} at {cwnd} with threshold {ssthresh}");
            }
        }
    };
    check("bpf_cubic", &[], 717, 717);
    check("bpf_cubic", &["beta=819"], 819, 819);
    check("cct_lo", &[], 666, 666);
    // Before limits are known, a loss in slow start cuts as in avoidance. Without HyStart it cuts less.
    check("cct_ss", &[], 819, 819);
    check("erfc", &[], 819, 819);
    check("cct", &[], 666, 666);
    check("cct_ss", &["hystart=0"], 819, 896);
    check("cct", &["hystart=0"], 666, 896);
}

#[test]
fn fast_convergence_lowers_w_max_only_after_a_lower_loss() {
    let check = |settings: &[&str], second: u32, expected: u64| {
        let mut flow = Endpoint::over(native::tuned("bpf_cubic", settings), 1000, 2);
        flow.lose();
        flow.tcp.snd_cwnd = second;
        flow.lose();
        assert_eq!(flow.field("w_max"), expected, "{settings:?} {second}");
    };
    check(&[], 1000, 1000);
    check(&[], 1001, 1001);
    check(&[], 900, 900 * (1024 + 717) / 2048);
    check(&["beta=819"], 900, 900 * (1024 + 819) / 2048);
    check(&["fast_convergence=0"], 900, 900);
}

/// At small windows Reno with the same cut is faster: 3 (1 - beta) / (1 + beta) packets per round trip.
#[test]
fn small_windows_grow_as_reno_with_the_same_cut() {
    for (id, kept) in [("bpf_cubic", 717.0_f64), ("cct_lo", 666.0)] {
        let mut flow = LoneFlow::of(id, 40, 2, [10_000, 1]);
        flow.lose();
        let begin = f64::from(flow.ssthresh());
        let slope = 3.0 * (1024.0 - kept) / (1024.0 + kept);
        flow.run_for(500_000);
        let expected = begin + 50.0 * slope;
        assert!((f64::from(flow.cwnd()) - expected).abs() < 2.5, "{id}: {} for {expected}", flow.cwnd());
        assert_eq!(flow.phase(), "reno_friendly");
    }
}

/// The threshold at which slow start ends without losses; `None` if it does not end by 2000 packets.
fn exit_on(path: [u64; 2], native: &Native) -> Option<u32> {
    let mut flow = LoneFlow::new(native, 10, INFINITE_SSTHRESH, path);
    flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH || flow.cwnd() > 2000);
    Some(flow.ssthresh()).filter(|&ssthresh| ssthresh < INFINITE_SSTHRESH)
}

#[test]
fn hystart_ends_slow_start_by_each_detector() {
    // 200 packets in a round trip.
    let exit = |settings: &[&str]| exit_on([40_000, 200], native::tuned("bpf_cubic", settings));
    // In the round that began with 160 packets, the 102nd ACK arrives more than half a round trip after the first.
    assert_eq!(exit(&["hystart_detect=1"]), Some(160 + 101));
    assert_eq!(exit(&[]), Some(160 + 101));
    // The first packets of the round of 640 were sent when 320 were in flight, 120 more than the path holds.
    assert_eq!(exit(&["hystart_detect=2"]), Some(640 + 8));
    for off in ["hystart_detect=0", "hystart=0", "hystart_low_window=65535"] {
        assert_eq!(exit(&[off]), None, "{off}");
    }
    assert!((500..600).contains(&exit(&["hystart_low_window=500"]).unwrap()));
    assert_eq!(exit(&["hystart_detect=1", "hystart_ack_delta_us=100"]), None, "no gap is that short");
}

/// The members of the family, with HyStart++.
fn with_hystart_plus() -> Vec<&'static Native> {
    ["bpf_cubic", "cct_lo", "erfc", "cct_ss", "cct"].map(|id| native::tuned(id, &["hystart=2"])).into()
}

/// Begins the next round, and passes one ACK of a packet for each RTT.
fn pass_round(flow: &mut Endpoint, rtts_us: &[u32]) {
    flow.tcp.snd_una = flow.tcp.snd_nxt + 1;
    flow.tcp.snd_nxt += 100;
    rtts_us.iter().for_each(|&rtt_us| flow.acknowledge(1, Some(rtt_us)));
}

/// In CSS, which the last of 8 samples has begun.
fn in_css(native: &Native) -> Endpoint<'_> {
    let mut flow = Endpoint::over(native, 10, INFINITE_SSTHRESH);
    pass_round(&mut flow, &[40_000; 10]);
    pass_round(&mut flow, &[45_000; 8]);
    assert_eq!((flow.cwnd(), flow.field("css_round")), (28, 1), "slow start until then");
    flow
}

/// RFC 9406, 4.2: at a rise of an eighth, 4 to 16 ms, in a round of 8 samples and more.
#[test]
fn hystart_plus_begins_css_when_the_lowest_rtt_of_a_round_rises() {
    for native in with_hystart_plus() {
        for (before_us, rise_us) in [(1_000, 4_000), (20_000, 4_000), (80_000, 10_000), (200_000, 16_000)] {
            let has_risen = |rise_us: u32, samples: usize| {
                let mut flow = Endpoint::over(native, 10, INFINITE_SSTHRESH);
                pass_round(&mut flow, &[before_us + 50_000, before_us]);
                pass_round(&mut flow, &vec![before_us + rise_us; samples]);
                flow.field("css_round") == 1
            };
            assert!(has_risen(rise_us, 8), "{}: {rise_us} us above {before_us}", native.id);
            assert!(!has_risen(rise_us - 1, 80), "{}: less than {rise_us} us above {before_us}", native.id);
            assert!(!has_risen(rise_us, 7), "{}: 7 samples", native.id);
        }
        let mut first = Endpoint::over(native, 10, INFINITE_SSTHRESH);
        pass_round(&mut first, &[900_000; 80]);
        assert_eq!(first.field("css_round"), 0, "{}: no round before", native.id);
    }
}

/// RFC 9406, 4.2 and 4.3: min(N, L), L = 8 without pacing and infinite with it; in CSS a quarter.
#[test]
fn hystart_plus_grows_by_a_quarter_in_css() {
    for native in with_hystart_plus() {
        for (pacing, packets, in_slow_start, in_css_of_four) in [(0, 7, 7, 7), (0, 20, 8, 8), (1, 20, 20, 20)] {
            let mut flow = Endpoint::over(native, 10, INFINITE_SSTHRESH);
            flow.cc.set_pacing_status(pacing);
            flow.acknowledge(packets, Some(40_000));
            assert_eq!(flow.cwnd(), 10 + in_slow_start, "{}: {packets} packets, pacing {pacing}", native.id);
            let mut flow = in_css(native);
            flow.cc.set_pacing_status(pacing);
            (0..4).for_each(|_| flow.acknowledge(packets, Some(45_000)));
            assert_eq!(flow.cwnd(), 28 + in_css_of_four, "{}: 4 ACKs of {packets} in CSS", native.id);
            assert_eq!(flow.phase(), "css");
        }
    }
}

/// The round in which CSS begins counts.
#[test]
fn hystart_plus_leaves_css_after_five_rounds() {
    for native in with_hystart_plus() {
        let mut flow = in_css(native);
        for round in 2..=5 {
            pass_round(&mut flow, &[45_000; 8]);
            assert_eq!((flow.field("css_round"), flow.ssthresh()), (round, INFINITE_SSTHRESH), "{}", native.id);
        }
        assert_eq!(flow.cwnd(), 28 + 4 * 2, "{}", native.id);
        pass_round(&mut flow, &[45_000]);
        assert_eq!(flow.ssthresh(), 36, "{}", native.id);
        pass_round(&mut flow, &[90_000; 80]);
        assert_ne!(flow.phase(), "css", "{}", native.id);
    }
}

#[test]
fn hystart_plus_returns_to_slow_start_when_the_rtt_falls() {
    for native in with_hystart_plus() {
        let mut flow = in_css(native);
        pass_round(&mut flow, &[45_000; 8]);
        pass_round(&mut flow, &[44_999; 7]);
        assert_eq!(flow.field("css_round"), 3, "{}: neither an equal RTT nor 7 samples", native.id);
        flow.acknowledge(1, Some(60_000));
        assert_eq!(flow.field("css_round"), 0, "{}", native.id);
        let cwnd = flow.cwnd();
        flow.acknowledge(8, Some(60_000));
        assert_eq!((flow.cwnd(), flow.phase()), (cwnd + 8, "slow_start"), "{}", native.id);
        pass_round(&mut flow, &[51_000; 8]);
        assert_eq!(flow.field("css_round"), 1, "{}: the next rise is judged again", native.id);
    }
}

/// RFC 9406, 4.3: a threshold has been found.
#[test]
fn hystart_plus_leaves_later_slow_starts_alone() {
    for native in with_hystart_plus() {
        let mut flow = in_css(native);
        flow.lose();
        flow.tcp.snd_cwnd = 2;
        pass_round(&mut flow, &[40_000; 8]);
        flow.acknowledge(2, Some(80_000));
        assert_eq!((flow.cwnd(), flow.phase()), (12, "slow_start"), "{}", native.id);
    }
}

/// The first flight that leaves a queue of an eighth has fewer than 2.25 paths, and the next one finds the queue. In an
/// infinite queue, CSS then lasts five rounds.
#[test]
fn hystart_plus_ends_slow_start_on_a_path() {
    for path in [[40_000, 200], [100_000, 100], [30_000, 1_000]] {
        let holds = (path[0] / path[1]) as u32;
        let mut flow = LoneFlow::new(native::tuned("bpf_cubic", &["hystart=2"]), 10, INFINITE_SSTHRESH, path);
        flow.run_until(|flow| flow.field("css_round") > 0 || flow.cwnd() > 10 * holds);
        let begin = flow.cwnd();
        assert!((2 * holds..5 * holds).contains(&begin), "CSS begins with {begin} packets where {holds} fit");
        flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH || flow.cwnd() > 20 * holds);
        let growth = f64::from(flow.ssthresh()) / f64::from(begin);
        assert!((growth / 1.25_f64.powi(5) - 1.0).abs() < 0.1, "CSS multiplied the window by {growth}");
    }
}

#[test]
fn cct_ss_leaves_slow_start_between_its_limits() {
    for (rtt_us, gap_us) in [(40_000, 200), (100_000, 100), (20_000, 1_000), (200_000, 1_500), (5_000, 50)] {
        let mut flow = LoneFlow::of("cct_ss", 10, INFINITE_SSTHRESH, [rtt_us, gap_us]);
        flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH || flow.cwnd() > 20_000);
        let [upper, buffer] = flow.fields(["u", "s_hat"]);
        let (lower, exit) = (upper * 896 / 1024, u64::from(flow.ssthresh()));
        assert!((lower..=upper).contains(&exit), "left at {exit}, limits {lower} and {upper}");
        let path = rtt_us / gap_us;
        assert!(upper.abs_diff(path + buffer) <= 1 + path / 50, "U {upper} for {path} and S-hat {buffer}");
        assert!(buffer <= path, "S-hat is {buffer} of a path of {path}");
    }
}

/// ACKs every 2.4 ms, at 5 Mbit/s, form no train. Slow start once continued there until a loss.
#[test]
fn cct_without_limits_leaves_slow_start_as_hystart_does() {
    const PATHS: [[u64; 2]; 3] = [[80_000, 2_400], [60_000, 6_000], [100_000, 2_100]];
    let exits = |id: &str, settings: &[&str]| {
        let native = native::tuned(id, settings);
        PATHS.map(|path| exit_on(path, native))
    };
    let hystart = exits("bpf_cubic", &["beta=819"]);
    assert!(hystart.iter().all(|exit| exit.is_some_and(|exit| exit < 200)), "{hystart:?}");
    for id in ["cct_ss", "cct"] {
        assert_eq!(exits(id, &[]), hystart, "{id}");
        for off in ["hystart=0", "hystart_detect=1", "hystart_low_window=65535"] {
            assert_eq!(exits(id, &[off]), [None; 3], "{id} {off}");
        }
    }
}

/// Correct limits are reached before HyStart ends slow start.
#[test]
fn cct_with_limits_leaves_slow_start_by_them() {
    let alone = native::tuned("cct_ss", &["hystart=0"]);
    for path in [[40_000, 200], [100_000, 100], [200_000, 1_500]] {
        let exit = exit_on(path, native::find("cct_ss"));
        assert!(exit.is_some(), "{path:?}");
        assert_eq!(exit, exit_on(path, alone), "{path:?}");
    }
}

/// In slow start, with limits that are not reached.
fn with_limits() -> LoneFlow<'static> {
    let mut flow = LoneFlow::of("cct_ss", 10, INFINITE_SSTHRESH, [40_000, 200]);
    flow.run_until(|flow| flow.field("u") > 0);
    assert!(flow.tcp.in_slow_start() && u64::from(flow.cwnd()) < flow.field("u") * 896 / 1024);
    flow
}

/// If a window below the limits overflows the path, the limits are too large.
#[test]
fn cct_ss_cuts_by_beta_below_the_lower_limit_and_keeps_no_more_than_the_upper() {
    let flow = with_limits();
    let (cwnd, upper) = (flow.cwnd(), flow.field("u") as u32);
    let lower = upper * 896 / 1024;
    for (cwnd, kept) in [(cwnd, cwnd * 819 / 1024), (lower, lower * 896 / 1024), (5 * upper, upper)] {
        let mut flow = with_limits();
        flow.tcp.snd_cwnd = cwnd;
        assert_eq!(flow.reduce(), kept, "{cwnd} packets, limits {lower} and {upper}");
    }
}

#[test]
fn cct_ss_forgets_all_but_the_lowest_rtt_at_a_timeout() {
    let mut flow = with_limits();
    let (cwnd, upper) = (flow.cwnd(), flow.field("u"));
    flow.time_out();
    assert_eq!(flow.ssthresh(), cwnd * 819 / 1024, "a timeout is an ordinary one");
    assert_eq!(flow.fields(["b_hat", "s_hat", "u"]), [0; 3]);
    assert_eq!(flow.field("min_rtt_us"), 40_000);
    flow.undo();
    assert_eq!(flow.field("u"), upper);
}

#[test]
fn undo_restores_w_max_with_cct_lo_only() {
    for (id, expected) in [("bpf_cubic", 40), ("cct_lo", 0)] {
        let mut flow = Endpoint::avoiding(id, 40);
        flow.enter_recovery();
        assert_eq!(flow.field("w_max"), 40);
        flow.undo();
        assert_eq!((flow.cwnd(), flow.field("w_max")), (40, expected));
    }
}

/// After idle time the curve continues where it was.
#[test]
fn cubic_after_idle_does_not_jump() {
    for resume in RESUMPTIONS {
        let mut flow = LoneFlow::of("bpf_cubic", 200, 2, [50_000, 1]);
        flow.run_for(300_000);
        flow.lose();
        flow.run_for(2_000_000);
        let (epoch, cwnd) = (flow.field("epoch_us"), flow.cwnd());
        flow.rest(30_000_000);
        resume(&mut flow);
        let shift = flow.field("epoch_us") - epoch;
        assert!((30_000_000..30_200_000).contains(&shift), "shifted by {shift} us");
        flow.run_for(100_000);
        assert!(flow.cwnd() <= cwnd + 4, "{} after {cwnd}", flow.cwnd());
    }
}
