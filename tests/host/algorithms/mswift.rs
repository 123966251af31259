//! Modified Swift Start against Khalil's tables: `bpf/cc/mswift.bpf.c`, equations and numbered differences.

use std::sync::OnceLock;

use crate::algorithms::bottleneck::{Flow, MSS_BYTES};
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, NativeSocket, state};

const T1: f64 = 1_544_000.0;
const OC1: f64 = 51_840_000.0;
const PACKET_BITS: f64 = 1500.0 * 8.0;
const PAPER_MSS: f64 = 1460.0;

/// RTT in seconds, first and second window in bytes: tables 2 and 3.
const TABLE_2: [(f64, u32, u32); 14] = [
    (0.11674, 21_929, 24_849),
    (0.11381, 21_379, 24_300),
    (0.11481, 21_567, 24_488),
    (0.12281, 23_070, 25_991),
    (0.13281, 24_948, 27_869),
    (0.21281, 39_977, 42_898),
    (0.31281, 58_762, 61_683),
    (0.51281, 96_333, 99_254),
    (0.71281, 133_903, 136_824),
    (0.91281, 171_474, 174_395),
    (1.11281, 209_045, 211_966),
    (1.31336, 246_719, 249_638),
    (1.51281, 284_186, 287_107),
    (1.71281, 321_757, 324_678),
];
const TABLE_3: [(f64, u32, u32); 14] = [
    (0.07327, 462_128, 539_251),
    (0.07407, 467_174, 545_091),
    (0.07507, 473_481, 552_391),
    (0.08307, 523_939, 610_791),
    (0.09307, 587_011, 683_791),
    (0.17307, 1_091_587, 1_267_791),
    (0.27307, 1_722_307, 1_997_791),
    (0.47307, 2_983_747, 3_457_791),
    (0.67307, 4_245_187, 4_917_791),
    (0.87307, 5_506_627, 6_377_791),
    (1.07307, 6_768_067, 7_837_791),
    (1.27307, 8_029_507, 9_297_791),
    (1.47307, 9_290_947, 10_757_791),
    (1.67307, 10_552_387, 12_217_791),
];

/// The paper's window at the start.
const FOUR: &str = "initial_window=4";

fn paper() -> &'static Native {
    static PAPER: OnceLock<&Native> = OnceLock::new();
    PAPER.get_or_init(|| native::tuned("mswift", &[FOUR]))
}

/// Places in `struct pair_exchange`.
const SECOND_END_AT: usize = 0;
const DT_AT: usize = 16;
const PAIRS_SENT_AT: usize = 23;

/// What the companion program does when it marked the first four packets: `pairs` of them as pairs.
fn send_pairs(socket: &mut NativeSocket, pairs: u8) {
    let ends = [2u32, 4].map(u32::to_ne_bytes).concat();
    socket.share(SECOND_END_AT, &ends);
    socket.share(PAIRS_SENT_AT, &[pairs]);
}

/// What it does with a reply.
fn reply(socket: &mut NativeSocket, dt_us: u32) {
    socket.share(DT_AT, &dt_us.to_ne_bytes());
}

/// A flow whose first four packets were marked as two pairs.
fn marked(native: &Native, path: [u64; 2]) -> Flow<'_> {
    let mut flow = Flow::new(native, 10, INFINITE_SSTHRESH, path);
    send_pairs(&mut flow.cc, 2);
    flow
}

/// Takes ACKs in until so many packets are delivered, each with this reply.
fn replied(flow: &mut Flow, delivered: u32, dt_us: u32) {
    while flow.tcp.delivered < delivered {
        reply(&mut flow.cc, dt_us);
        let next = flow.tcp.delivered + 1;
        flow.run_until_delivered(next);
    }
}

/// The window after the first pair of a path: the RTT of the Second is `rtt_us`.
fn first_window(native: &Native, rtt_us: u64, dt_us: u32) -> u32 {
    let mut flow = marked(native, [rtt_us - 1, 1]);
    replied(&mut flow, 2, dt_us);
    assert_eq!(flow.field("rtt_pair_us"), rtt_us);
    flow.cwnd()
}

#[test]
fn first_windows_of_the_tables_are_rtt_over_dt() {
    let native = paper();
    for (rate, rows) in [(T1, TABLE_2), (OC1, TABLE_3)] {
        let dt = PACKET_BITS / rate;
        for (rtt, bytes, _) in rows {
            // The equation, as the paper's examples compute it; its RTT has five digits, hence the second byte.
            let exact = rtt / dt * PAPER_MSS;
            let digits = 0.000_005 / dt * PAPER_MSS;
            assert!((exact.floor() - f64::from(bytes)).abs() <= 1.0 + digits, "{rtt}: {exact} for {bytes}");
            // The algorithm: whole packets from a dt in whole microseconds.
            let packets = first_window(native, (rtt * 1e6).round() as u64, (dt * 1e6).round() as u32);
            let error = f64::from(packets) - f64::from(bytes) / PAPER_MSS;
            let from_dt = f64::from(packets) * 0.5 / (dt * 1e6);
            assert!(error.abs() <= 0.5 + from_dt + 0.01, "{rtt}: {packets} packets for {bytes} bytes");
            let is_close = error.abs() * PAPER_MSS / f64::from(bytes) < 0.02;
            assert!(is_close || packets == 15, "{rtt}: {packets} packets lie over 2 % from {bytes} bytes");
        }
    }
}

#[test]
fn second_windows_of_table_2_are_the_second_pairs() {
    let native = paper();
    let dt_us = (PACKET_BITS / T1 * 1e6).round();
    for (rtt, _, bytes) in TABLE_2 {
        let second_rtt = rtt * 1e6 + 2.0 * dt_us; // behind the first pair at the bottleneck
        let gap = dt_us as u64;
        let mut flow = marked(native, [(rtt * 1e6) as u64 - gap, gap]);
        replied(&mut flow, 4, gap as u32);
        assert!((flow.field("rtt_pair_us") as f64 - second_rtt).abs() <= 2.0);
        let error = f64::from(flow.cwnd()) - f64::from(bytes) / PAPER_MSS;
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
    let mut flow = marked(paper(), [RTT_US, GAP_US]);
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
    // Six packets were sent before the first interval came: four, and two for the ACK of the First.
    flow.run_until_delivered(6);
    assert_eq!((flow.cwnd(), flow.phase()), (cwnd, "paced"));
    flow.run_until_delivered(7);
    assert_eq!((flow.cwnd(), flow.phase(), flow.cc.pacing_status()), (cwnd + 1, "done", 0));
    flow.run_until_delivered(50);
    assert_eq!(flow.cwnd(), cwnd + 44, "slow start");
}

#[test]
fn second_interval_replaces_the_first_also_downwards() {
    let mut flow = marked(paper(), [100_000, 100]);
    replied(&mut flow, 2, 500);
    assert_eq!(flow.cwnd(), 200);
    replied(&mut flow, 4, 1_000);
    assert_eq!((flow.cwnd(), flow.field("est"), flow.phase()), (100, 100, "paced"));
}

#[test]
fn estimate_below_slow_start_keeps_its_window() {
    let mut flow = marked(paper(), [100_000, 30_000]);
    replied(&mut flow, 2, 30_000);
    assert_eq!((flow.field("est"), flow.cwnd(), flow.phase()), (4, 5, "paced"));
}

#[test]
fn window_stays_within_clamp_and_known_threshold() {
    for (clamp, ssthresh) in [(30, INFINITE_SSTHRESH), (INFINITE_SSTHRESH, 30)] {
        let mut flow = Flow::new(paper(), 4, ssthresh, [100_000, 1_000]);
        flow.tcp.snd_cwnd_clamp = clamp;
        send_pairs(&mut flow.cc, 2);
        replied(&mut flow, 2, 1_000);
        assert_eq!((flow.cwnd(), flow.phase()), (30, "paced"));
    }
}

#[test]
fn peer_without_the_option_leaves_slow_start_within_two_rtt() {
    const RTT_US: u64 = 100_000;
    let mut flow = marked(paper(), [RTT_US, 1_000]);
    let started_us = flow.now_us();
    flow.run_until(|flow| flow.phase() != "probe");
    // The kernel's ten are given back, and the fourth ACK lets one more grow; it was 8 that slow start had.
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
    let check = |what: &str, delivered: u32, phase: &str, end: fn(&mut Flow)| {
        let mut flow = marked(paper(), [100_000, 1_000]);
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
    let mut flow = marked(paper(), [100_000, 1_000]);
    replied(&mut flow, 1, 1_000);
    flow.lose();
    replied(&mut flow, 4, 10);
    assert_eq!((flow.phase(), flow.field("est")), ("done", 0));
    assert_eq!(flow.tcp.ca_state, state::OPEN);
}

/// Whatever a peer returns: the window is slow start's, or at most `est_max`.
#[test]
fn nonsense_intervals_harm_nothing() {
    const RTT_US: u64 = 100_000;
    for dt_us in [0, 1, 9, 200_000, 1 << 24, 1 << 31, u32::MAX] {
        let mut flow = marked(paper(), [RTT_US, 1_000]);
        replied(&mut flow, 4, dt_us);
        assert_eq!((flow.cwnd(), flow.phase()), (11, "fallback"), "{dt_us}: plain slow start");
    }
    let mut flow = marked(paper(), [RTT_US, 1_000]);
    replied(&mut flow, 2, 10);
    assert_eq!((flow.cwnd(), flow.phase()), (8192, "paced"), "as short as can be measured: est_max");
}

#[test]
fn interval_for_a_pair_never_sent_is_ignored() {
    for (pairs, delivered, phase) in [(0, 4, "fallback"), (1, 1, "probe")] {
        let mut flow = Flow::new(paper(), 10, INFINITE_SSTHRESH, [100_000, 1_000]);
        send_pairs(&mut flow.cc, pairs);
        replied(&mut flow, delivered, 1_000);
        assert_eq!((flow.phase(), flow.field("est")), (phase, 0));
    }
}

#[test]
fn replayed_interval_counts_once_a_pair() {
    let mut flow = marked(paper(), [100_000, 1_000]);
    replied(&mut flow, 4, 1_000);
    assert_eq!(flow.field("pairs_used"), 2);
    let cwnd = flow.cwnd();
    replied(&mut flow, 20, 10);
    assert_eq!(flow.fields(["pairs_used", "dt_us"]), [2, 1_000]);
    assert!(flow.cwnd() < cwnd + 20, "slow start alone: {}", flow.cwnd());
}

/// What TCP hands down at once for a pacing rate: tcp_tso_autosize at the usual sk_pacing_shift of 10.
fn handed_down(socket: &NativeSocket) -> u64 {
    socket.pacing_rate() >> 10
}

/// The rate was 1 byte/s. Where pacing began before the next ACK, the send clock moved by 1448 s for each packet.
#[test]
fn packets_go_down_one_by_one_while_pairs_are_sent() {
    // The kernel's own rate on the shorter path hands down two packets at once.
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

#[test]
fn burst_is_the_kernel_s_unless_limited() {
    for (native, expected) in [(native::find("mswift"), 10), (paper(), 4)] {
        let flow = marked(native, [100_000, 1_000]);
        assert_eq!((flow.cwnd(), flow.phase()), (expected, "probe"));
    }
    let mut flow = marked(native::find("mswift"), [100_000, 1_000]);
    replied(&mut flow, 2, 1_000);
    assert_eq!((flow.cwnd(), flow.phase()), (101, "paced"), "the first pair of ten packets");
}

/// It stayed in the probe for life: four packets of window, and one packet at a time.
#[test]
fn socket_that_never_fills_its_window_leaves_the_probe_with_the_kernel_s() {
    let mut flow = marked(paper(), [100_000, 1_000]);
    flow.tcp.delivered = 1; // the handshake
    for _ in 0..11 {
        assert_eq!((flow.phase(), flow.cwnd()), ("probe", 4));
        assert_eq!(flow.call(|cc, tcp| cc.min_tso_segs(tcp)), 1);
        flow.deliver_message();
    }
    assert_eq!((flow.phase(), flow.cwnd()), ("done", 10));
    assert_eq!(flow.call(|cc, tcp| cc.min_tso_segs(tcp)), 2);
}
