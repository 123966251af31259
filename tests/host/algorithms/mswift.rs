//! Modified Swift Start against Khalil's tables: `bpf/cc/mswift.bpf.c`.

use std::sync::LazyLock;

use super::*;

const T1: f64 = 1_544_000.0;
const OC1: f64 = 51_840_000.0;
const PACKET_BITS: f64 = 1500.0 * 8.0;
const PAPER_MSS: f64 = 1460.0;

/// RTT in seconds, first and second windows in bytes, in the paper's tables 2 and 3.
const RTT_2: [f64; 14] = [
    0.11674, 0.11381, 0.11481, 0.12281, 0.13281, 0.21281, 0.31281, 0.51281, 0.71281, 0.91281, 1.11281, 1.31336,
    1.51281, 1.71281,
];
const WINDOWS_2: [[u32; 14]; 2] = [
    [
        21_929, 21_379, 21_567, 23_070, 24_948, 39_977, 58_762, 96_333, 133_903, 171_474, 209_045, 246_719, 284_186,
        321_757,
    ],
    [
        24_849, 24_300, 24_488, 25_991, 27_869, 42_898, 61_683, 99_254, 136_824, 174_395, 211_966, 249_638, 287_107,
        324_678,
    ],
];
const RTT_3: [f64; 14] = [
    0.07327, 0.07407, 0.07507, 0.08307, 0.09307, 0.17307, 0.27307, 0.47307, 0.67307, 0.87307, 1.07307, 1.27307,
    1.47307, 1.67307,
];
const WINDOWS_3: [u32; 14] = [
    462_128, 467_174, 473_481, 523_939, 587_011, 1_091_587, 1_722_307, 2_983_747, 4_245_187, 5_506_627, 6_768_067,
    8_029_507, 9_290_947, 10_552_387,
];

/// The paper's initial window.
const FOUR: &str = "initial_window=4";

static PAPER: LazyLock<&Native> = LazyLock::new(|| native::tuned("mswift", &[FOUR]));

/// Offsets in `struct pair_exchange`.
const SECOND_END_AT: usize = 0;
const DT_AT: usize = 16;
const PAIRS_SENT_AT: usize = 23;

/// Acts as the companion program after it marked the first four packets as `pairs` pairs.
fn send_pairs(socket: &mut Socket, pairs: u8) {
    let ends = [2u32, 4].map(u32::to_ne_bytes).concat();
    socket.share(SECOND_END_AT, &ends);
    socket.share(PAIRS_SENT_AT, &[pairs]);
}

/// Acts as the companion program on a reply.
fn reply(socket: &mut Socket, dt_us: u32) {
    socket.share(DT_AT, &dt_us.to_ne_bytes());
}

/// A flow whose first four packets were marked as two pairs.
fn marked(native: &Native, path: [u64; 2]) -> LoneFlow<'_> {
    let mut flow = LoneFlow::new(native, 10, INFINITE_SSTHRESH, path);
    send_pairs(&mut flow.cc, 2);
    flow
}

/// Passes ACKs with this reply until `delivered` packets are delivered.
fn replied(flow: &mut LoneFlow, delivered: u32, dt_us: u32) {
    while flow.tcp.delivered < delivered {
        reply(&mut flow.cc, dt_us);
        let next = flow.tcp.delivered + 1;
        flow.run_until_delivered(next);
    }
}

/// The window after the first pair, if the RTT of its second packet is `rtt_us`.
fn first_window(native: &Native, rtt_us: u64, dt_us: u32) -> u32 {
    let mut flow = marked(native, [rtt_us - 1, 1]);
    replied(&mut flow, 2, dt_us);
    assert_eq!(flow.field("rtt_pair_us"), rtt_us);
    flow.cwnd()
}

#[test]
fn first_windows_of_the_tables_are_rtt_over_dt() {
    let native = *PAPER;
    for (rate, rtts, windows) in [(T1, RTT_2, WINDOWS_2[0]), (OC1, RTT_3, WINDOWS_3)] {
        let dt = PACKET_BITS / rate;
        for (rtt, bytes) in rtts.into_iter().zip(windows.map(f64::from)) {
            // The paper's equation. Its RTT has five digits.
            let exact = rtt / dt * PAPER_MSS;
            let digits = 0.000_005 / dt * PAPER_MSS;
            assert!((exact.floor() - bytes).abs() <= 1.0 + digits, "{rtt}: {exact} for {bytes}");
            // The algorithm has whole packets and a dt in whole microseconds.
            let packets = first_window(native, (rtt * 1e6).round() as u64, (dt * 1e6).round() as u32);
            let error = f64::from(packets) - bytes / PAPER_MSS;
            let from_dt = f64::from(packets) * 0.5 / (dt * 1e6);
            assert!(error.abs() <= 0.5 + from_dt + 0.01, "{rtt}: {packets} packets for {bytes} bytes");
            let is_close = error.abs() * PAPER_MSS / bytes < 0.02;
            assert!(is_close || packets == 15, "{rtt}: {packets} packets lie over 2 % from {bytes} bytes");
        }
    }
}

#[test]
fn second_windows_of_table_2_are_the_second_pairs() {
    let native = *PAPER;
    let dt_us = (PACKET_BITS / T1 * 1e6).round();
    for (rtt, bytes) in RTT_2.into_iter().zip(WINDOWS_2[1].map(f64::from)) {
        let second_rtt = rtt * 1e6 + 2.0 * dt_us; // behind the first pair at the bottleneck
        let gap = dt_us as u64;
        let mut flow = marked(native, [(rtt * 1e6) as u64 - gap, gap]);
        replied(&mut flow, 4, gap as u32);
        assert!((flow.field("rtt_pair_us") as f64 - second_rtt).abs() <= 2.0);
        let error = f64::from(flow.cwnd()) - bytes / PAPER_MSS;
        assert!(error.abs() <= 0.52, "{rtt}: {} packets for {bytes} bytes", flow.cwnd());
    }
}

#[test]
fn estimate_divisor_divides_the_window() {
    for (divisor, expected) in [(1, 100), (2, 50), (3, 33), (4, 25), (5, 20), (6, 17), (7, 14), (8, 13)] {
        let native = native::tuned("mswift", &[FOUR, &format!("estimate_divisor={divisor}")]);
        assert_eq!(first_window(native, 100_000, 1_000), expected, "over {divisor}");
    }
}

#[test]
fn window_is_paced_over_the_second_round_trip_and_then_grows() {
    const RTT_US: u64 = 100_000;
    const GAP_US: u64 = 1_000;
    let mut flow = marked(*PAPER, [RTT_US, GAP_US]);
    assert_eq!((flow.cwnd(), flow.phase()), (4, "probe"));
    replied(&mut flow, 2, GAP_US as u32);
    let pair_rtt_us = flow.field("rtt_pair_us");
    assert_eq!((flow.cwnd(), flow.phase(), pair_rtt_us), (101, "paced", RTT_US + GAP_US));
    let rate = 101 * u64::from(MSS_BYTES) * 1_000_000 / pair_rtt_us;
    let tso = flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    assert_eq!((tso, flow.cc.pacing_status(), flow.cc.pacing_rate()), (2, 1, rate));
    replied(&mut flow, 4, GAP_US as u32);
    let cwnd = flow.cwnd();
    assert_eq!((cwnd, flow.phase()), (103, "paced"), "the second pair's RTT is two packets longer");
    // Six packets were sent before the first interval arrived: four, and two for the first ACK.
    flow.run_until_delivered(6);
    assert_eq!((flow.cwnd(), flow.phase()), (cwnd, "paced"));
    flow.run_until_delivered(7);
    assert_eq!((flow.cwnd(), flow.phase(), flow.cc.pacing_status()), (cwnd + 1, "done", 0));
    flow.run_until_delivered(50);
    assert_eq!(flow.cwnd(), cwnd + 44, "slow start");
}

#[test]
fn window_follows_the_latest_sound_reply() {
    let default = native::find("mswift");
    let check = |what: &str, (native, path): (&Native, [u64; 2]), replies: &[(u32, u32)], expected: (u32, &str)| {
        let mut flow = marked(native, path);
        replies.iter().for_each(|&(delivered, dt_us)| replied(&mut flow, delivered, dt_us));
        assert_eq!((flow.cwnd(), flow.phase()), expected, "{what}");
    };
    check("no reply yet", (*PAPER, [100_000, 1_000]), &[], (4, "probe"));
    check("the kernel's burst", (default, [100_000, 1_000]), &[], (10, "probe"));
    check("the first pair of ten packets", (default, [100_000, 1_000]), &[(2, 1_000)], (101, "paced"));
    check("one pair", (*PAPER, [100_000, 100]), &[(2, 500)], (200, "paced"));
    check("a lower second pair", (*PAPER, [100_000, 100]), &[(2, 500), (4, 1_000)], (100, "paced"));
    check("less than slow start has", (*PAPER, [100_000, 30_000]), &[(2, 30_000)], (5, "paced"));
    check("est_max", (*PAPER, [100_000, 1_000]), &[(2, 10)], (8192, "paced"));
    for dt_us in [0, 1, 9, 200_000, 1 << 24, 1 << 31, u32::MAX] {
        check("nonsense leaves slow start", (*PAPER, [100_000, 1_000]), &[(4, dt_us)], (11, "fallback"));
    }
    for (clamp, ssthresh) in [(30, INFINITE_SSTHRESH), (INFINITE_SSTHRESH, 30)] {
        let mut flow = LoneFlow::new(*PAPER, 4, ssthresh, [100_000, 1_000]);
        flow.tcp.snd_cwnd_clamp = clamp;
        send_pairs(&mut flow.cc, 2);
        replied(&mut flow, 2, 1_000);
        assert_eq!((flow.cwnd(), flow.phase()), (30, "paced"));
    }
}

#[test]
fn peer_without_the_option_leaves_slow_start_within_two_rtt() {
    const RTT_US: u64 = 100_000;
    let mut flow = marked(*PAPER, [RTT_US, 1_000]);
    let started_us = flow.now_us();
    flow.run_until(|flow| flow.phase() != "probe");
    // The kernel's ten packets are restored, and the fourth ACK adds one.
    assert_eq!((flow.phase(), flow.cwnd(), flow.tcp.delivered), ("fallback", 11, 4));
    assert!(flow.now_us() - started_us <= 2 * RTT_US);
    flow.run_until_delivered(40);
    assert_eq!((flow.cwnd(), flow.cc.pacing_status()), (47, 0));
    flow.tcp.snd_ssthresh = 50;
    flow.run_until_delivered(60);
    assert_eq!(flow.phase(), "done");
}

#[test]
fn fallback_to_swift_takes_the_spacing_of_the_acks() {
    let native = native::tuned("mswift", &[FOUR, "fallback=1", "fallback_divisor=2"]);
    let mut flow = marked(native, [100_000, 1_000]);
    flow.run_until(|flow| flow.phase() != "probe");
    let expected = ("fallback", 51, 1); // half of the path's 100, and the growth of this ACK
    assert_eq!((flow.phase(), flow.cwnd(), flow.cc.pacing_status()), expected);
    flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    let srtt_us = u64::from(flow.tcp.srtt_us / 8);
    assert_eq!(flow.cc.pacing_rate(), 51 * u64::from(MSS_BYTES) * 1_000_000 / srtt_us);
    flow.lose();
    assert_eq!((flow.phase(), flow.cc.pacing_status()), ("done", 0));
}

#[test]
fn fallback_to_swift_is_bounded_as_swift_is() {
    let native = native::tuned("mswift", &["fallback=1"]);
    let mut flow = marked(native, [100_000, 50]);
    flow.run_until(|flow| flow.phase() != "probe");
    assert_eq!((flow.field("ack.est"), flow.cwnd()), (2_000, 101), "100, and the growth of this ACK");
}

#[test]
fn loss_or_timeout_ends_every_phase() {
    let check = |what: &str, delivered: u32, phase: &str, end: fn(&mut LoneFlow)| {
        let mut flow = marked(*PAPER, [100_000, 1_000]);
        replied(&mut flow, delivered, 1_000);
        assert_eq!(flow.phase(), phase, "{what}");
        let cwnd = flow.cwnd();
        end(&mut flow);
        assert_eq!((flow.phase(), flow.cc.pacing_status()), ("done", 0), "{what}");
        assert_eq!(flow.ssthresh(), (cwnd / 2).max(2), "{what}");
    };
    check("loss while probing", 1, "probe", |flow| flow.enter_recovery());
    check("timeout while probing", 1, "probe", |flow| flow.time_out());
    check("loss while paced", 3, "paced", |flow| flow.lose());
    check("timeout while paced", 3, "paced", |flow| flow.time_out());
    check("mark while paced", 3, "paced", |flow| flow.enter_cwr());
}

#[test]
fn interval_after_a_loss_is_not_used() {
    let mut flow = marked(*PAPER, [100_000, 1_000]);
    replied(&mut flow, 1, 1_000);
    flow.lose();
    replied(&mut flow, 4, 10);
    assert_eq!((flow.phase(), flow.field("est")), ("done", 0));
    assert_eq!(flow.tcp.ca_state, state::OPEN);
}

#[test]
fn interval_for_a_pair_never_sent_is_ignored() {
    for (pairs, delivered, phase) in [(0, 4, "fallback"), (1, 1, "probe")] {
        let mut flow = LoneFlow::new(*PAPER, 10, INFINITE_SSTHRESH, [100_000, 1_000]);
        send_pairs(&mut flow.cc, pairs);
        replied(&mut flow, delivered, 1_000);
        assert_eq!((flow.phase(), flow.field("est")), (phase, 0));
    }
}

#[test]
fn replayed_interval_counts_once_a_pair() {
    let mut flow = marked(*PAPER, [100_000, 1_000]);
    replied(&mut flow, 4, 1_000);
    assert_eq!(flow.field("pairs_used"), 2);
    let cwnd = flow.cwnd();
    replied(&mut flow, 20, 10);
    assert_eq!(flow.fields(["pairs_used", "dt_us"]), [2, 1_000]);
    assert!(flow.cwnd() < cwnd + 20, "slow start alone: {}", flow.cwnd());
}

/// Bytes that TCP sends at once at a pacing rate: tcp_tso_autosize at the usual sk_pacing_shift of 10.
fn handed_down(socket: &Socket) -> u64 {
    socket.pacing_rate() >> 10
}

/// The rate was once 1 byte/s. If pacing began before the next ACK, the send clock moved by 1448 s per packet.
#[test]
fn packets_go_down_one_by_one_while_pairs_are_sent() {
    // At the kernel's own rate on the shorter path TCP would send two packets at once.
    for rtt_us in [100_000, 4_000] {
        let mut flow = marked(native::find("mswift"), [rtt_us, 10]);
        flow.tcp.srtt_us = 8 * rtt_us as u32;
        assert_eq!(flow.call(|cc, tcp| cc.min_tso_segs(tcp)), 1);
        assert_eq!((flow.cc.pacing_status(), flow.phase()), (0, "probe"));
        assert!(handed_down(&flow.cc) < u64::from(MSS_BYTES), "{rtt_us}");
        let packet_us = u64::from(MSS_BYTES) * 1_000_000 / flow.cc.pacing_rate();
        assert!(packet_us < 10_000, "{packet_us} us for a packet once it is paced");
    }
}

#[test]
fn rate_of_others_is_left_to_them_while_pairs_are_sent() {
    let mut flow = marked(native::find("mswift"), [4_000, 10]);
    flow.tcp.srtt_us = 8 * 4_000;
    flow.cc.set_pacing_status(1);
    flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    assert!(handed_down(&flow.cc) > u64::from(MSS_BYTES), "the kernel's own");
}

/// The flow once stayed in the probe forever, with a window of four packets and one packet at a time.
#[test]
fn socket_that_never_fills_its_window_leaves_the_probe_with_the_kernel_s() {
    let mut flow = marked(*PAPER, [100_000, 1_000]);
    flow.tcp.delivered = 1; // the handshake
    for _ in 0..11 {
        assert_eq!((flow.phase(), flow.cwnd()), ("probe", 4));
        assert_eq!(flow.call(|cc, tcp| cc.min_tso_segs(tcp)), 1);
        flow.deliver_message();
    }
    assert_eq!((flow.phase(), flow.cwnd()), ("done", 10));
    assert_eq!(flow.call(|cc, tcp| cc.min_tso_segs(tcp)), 2);
}
