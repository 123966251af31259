//! Swift Start against its report: `bpf/cc/swift.bpf.c`.

use super::*;

const RTT_US: u64 = 100_000;
/// One packet of 1500 bytes at 12 Mbit/s.
const GAP_US: u64 = 1_000;
const PACED_BY_TCP: u32 = 1;

/// The report's window has no bound.
const UNBOUNDED: &str = "ack_window_max=1000000";

fn flow(native: &Native, gap_us: u64) -> LoneFlow<'_> {
    LoneFlow::new(native, 10, INFINITE_SSTHRESH, [RTT_US, gap_us])
}

/// A flow after its first two ACKs.
fn probed(native: &Native, gap_us: u64) -> LoneFlow<'_> {
    let mut flow = flow(native, gap_us);
    flow.run_until_delivered(2);
    flow
}

fn pacing(flow: &mut LoneFlow) -> (u32, u64) {
    flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    (flow.cc.pacing_status(), flow.cc.pacing_rate())
}

#[test]
fn connection_begins_with_the_kernel_s_burst_or_the_report_s_of_four() {
    for (kernel_s, settings, expected) in [(10, &[] as &[&str], 10), (10, &["initial_window=4"], 4), (1, &[], 1)] {
        let native = native::tuned("swift", settings);
        let flow = LoneFlow::new(native, kernel_s, INFINITE_SSTHRESH, [RTT_US, GAP_US]);
        assert_eq!((flow.cwnd(), flow.phase()), (expected, "probe"));
    }
}

/// The window once stayed at four, which cost responses of 5 to 10 packets a round trip.
#[test]
fn window_taken_is_given_back_without_an_estimate() {
    let native = native::tuned("swift", &["initial_window=4"]);
    let flow = probed(native, 49);
    assert_eq!((flow.cwnd(), flow.phase()), (11, "done"), "ten, and the growth of the second ACK");
    // With GRO one ACK may acknowledge the whole burst.
    let mut flow = Endpoint::over(native, 10, INFINITE_SSTHRESH);
    ack_at(&mut flow, RTT_US, 4);
    assert_eq!((flow.cwnd(), flow.phase()), (14, "done"));
}

/// Passes an ACK of `packets` at this time after the start.
fn ack_at(flow: &mut Endpoint, time_us: u64, packets: u32) {
    let wait_us = time_us - flow.now_us();
    flow.wait(wait_us);
    flow.ack(packets, RTT_US as u32);
}

#[test]
fn second_ack_opens_the_window_to_a_bounded_share_of_the_path() {
    let check = |setting: &[&str], gap_us: u64, expected: (u64, u32, &str)| {
        let flow = probed(native::tuned("swift", setting), gap_us);
        assert_eq!((flow.field("ack.est"), flow.cwnd(), flow.phase()), expected, "{setting:?}, {gap_us} us");
        assert_eq!(flow.cc.pacing_status() == PACED_BY_TCP, flow.phase() == "paced");
        if flow.phase() == "paced" {
            assert_eq!(flow.field("ack.dt_us"), gap_us);
        }
    };
    for (divisor, cwnd) in [(1, 100), (2, 50), (3, 33), (4, 25), (5, 20), (6, 16), (7, 14), (8, 12)] {
        check(&[&format!("estimate_divisor={divisor}")], GAP_US, (100, cwnd, "paced"));
    }
    check(&[], 40_000, (2, 12, "paced")); // less than slow start has
    // ACKs that a queue on the way back released together once opened a window of 1000 packets.
    check(&[], 50, (2_000, 100, "paced"));
    check(&["ack_window_max=40"], 50, (2_000, 40, "paced"));
    check(&[UNBOUNDED], 50, (2_000, 1_000, "paced"));
    check(&[UNBOUNDED], 49, (0, 12, "done")); // too close
}

#[test]
fn report_counts_one_packet_of_the_second_ack() {
    for (setting, expected) in [("use_acked_bytes=0", 50), ("use_acked_bytes=1", 100)] {
        let native = native::tuned("swift", &[setting, "estimate_divisor=1"]);
        let mut flow = Endpoint::over(native, 4, INFINITE_SSTHRESH);
        ack_at(&mut flow, RTT_US, 2);
        ack_at(&mut flow, RTT_US + 2 * GAP_US, 2);
        assert_eq!(flow.cwnd(), expected, "{setting}");
    }
}

#[test]
fn second_ack_for_later_data_is_no_pair() {
    let mut flow = Endpoint::of("swift", 4, INFINITE_SSTHRESH);
    flow.wait(RTT_US);
    flow.apply(Operation::Finish);
    assert_eq!(flow.field("acks"), 1);
    // An ACK for the whole burst ends the probe too: the next ACK is for later data.
    let mut flow = Endpoint::of("swift", 4, INFINITE_SSTHRESH);
    ack_at(&mut flow, RTT_US, 4);
    ack_at(&mut flow, RTT_US + GAP_US, 4);
    assert_eq!((flow.cwnd(), flow.field("ack.est")), (12, 0));
}

#[test]
fn window_stays_within_clamp_and_known_threshold() {
    let check = |clamp: u32, ssthresh: u32, expected: (u32, &str)| {
        let mut flow = LoneFlow::new(native::tuned("swift", &["estimate_divisor=1"]), 4, ssthresh, [RTT_US, GAP_US]);
        flow.tcp.snd_cwnd_clamp = clamp;
        flow.run_until_delivered(2);
        assert_eq!((flow.cwnd(), flow.phase()), expected);
    };
    check(30, INFINITE_SSTHRESH, (30, "paced"));
    check(INFINITE_SSTHRESH, 40, (40, "done"));
}

#[test]
fn paced_at_one_window_per_rtt_while_the_window_grows() {
    let mut flow = probed(native::find("swift"), GAP_US);
    for _ in 0..200 {
        let delivered = flow.tcp.delivered;
        flow.run_until_delivered(delivered + 1);
        let srtt_us = u64::from(flow.tcp.srtt_us / 8);
        let expected = u64::from(flow.cwnd()) * u64::from(MSS_BYTES) * 1_000_000 / srtt_us;
        assert_eq!(pacing(&mut flow), (PACED_BY_TCP, expected));
    }
    assert!(flow.cwnd() > 200, "slow start goes on: {}", flow.cwnd());
}

#[test]
fn pacing_ends_with_the_first_slow_start() {
    let check = |what: &str, end: fn(&mut LoneFlow)| {
        let mut flow = probed(native::find("swift"), GAP_US);
        assert_eq!(flow.cc.pacing_status(), PACED_BY_TCP);
        end(&mut flow);
        assert_eq!((flow.phase(), flow.cc.pacing_status()), ("done", 0), "{what}");
        let (_, rate) = pacing(&mut flow);
        let window = u64::from(flow.cwnd()) * u64::from(MSS_BYTES);
        assert!(rate > window * 1_000_000 / u64::from(flow.tcp.srtt_us / 8), "{what}: the kernel's own rate");
    };
    check("loss", |flow| flow.lose());
    check("timeout", |flow| flow.time_out());
    check("mark", |flow| flow.enter_cwr());
    check("threshold", |flow| {
        flow.tcp.snd_ssthresh = flow.cwnd() + 10;
        flow.run_until_delivered(20);
    });
}

#[test]
fn loss_halves_the_window_of_the_probe_and_the_paced_one() {
    let mut probing = flow(native::find("swift"), GAP_US);
    probing.enter_recovery();
    assert_eq!((probing.phase(), probing.ssthresh(), probing.tcp.ca_state), ("done", 5, state::RECOVERY));
    let mut paced = probed(native::find("swift"), GAP_US);
    paced.lose();
    assert_eq!(paced.windows(), (25, 25));
}

#[test]
fn pacing_of_others_is_left_to_them() {
    for status in [1, 2] {
        let mut flow = flow(native::find("swift"), GAP_US);
        flow.cc.set_pacing_status(status);
        flow.run_until_delivered(2);
        assert_eq!((flow.phase(), flow.cc.pacing_status()), ("paced", status));
        flow.lose();
        assert_eq!((flow.phase(), flow.cc.pacing_status()), ("done", status));
    }
}

#[test]
fn small_message_before_the_burst_is_no_part_of_it() {
    let mut flow = flow(native::tuned("swift", &["estimate_divisor=1"]), GAP_US);
    flow.deliver_message();
    assert_eq!((flow.phase(), flow.field("ack.acks"), flow.cwnd()), ("probe", 0, 10));
    flow.tcp.is_cwnd_limited = 1;
    flow.run_until_delivered(3);
    assert_eq!((flow.phase(), flow.cwnd()), ("paced", 100));
}

#[test]
fn socket_switched_to_it_probes_unless_it_has_sent_more_than_a_message() {
    let check = |native, max_packets_out, delivered, windows, phase| {
        let flow = Endpoint::over(native, 10, INFINITE_SSTHRESH).switched(|tcp| {
            (tcp.snd_cwnd, tcp.snd_ssthresh) = windows;
            (tcp.max_packets_out, tcp.delivered) = (max_packets_out, delivered);
        });
        let what = format!("{delivered} packets delivered, {max_packets_out} in flight");
        assert_eq!((flow.windows(), flow.phase()), (windows, phase), "{}: {what}", native.id);
    };
    check(native::find("swift"), 1, 2, (10, INFINITE_SSTHRESH), "probe");
    check(native::find("swift"), 6, 2, (10, INFINITE_SSTHRESH), "done");
    check(native::find("swift"), 0, 500, (40, 30), "done");
    check(native::tuned("mswift", &["initial_window=4"]), 0, 500, (40, 30), "done");
}

#[test]
fn socket_that_never_fills_its_window_leaves_the_probe_with_the_kernel_s() {
    let mut flow = flow(native::tuned("swift", &["initial_window=4"]), GAP_US);
    flow.tcp.delivered = 1; // the handshake
    for _ in 0..11 {
        assert_eq!((flow.phase(), flow.cwnd()), ("probe", 4));
        flow.deliver_message();
    }
    assert_eq!((flow.phase(), flow.cwnd()), ("done", 10));
}
