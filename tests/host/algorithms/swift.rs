//! Swift Start against its report: `bpf/cc/swift.bpf.c`, equations and numbered differences.

use tccc::catalog;

use crate::algorithms::bottleneck::{Flow, MSS_BYTES};
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, Socket, Tcp, state};
use crate::algorithms::operations::{self, Operation, Start};

const RTT_US: u64 = 100_000;
/// One packet of 1500 bytes at 12 Mbit/s.
const GAP_US: u64 = 1_000;
const PACED_BY_TCP: u32 = 1;

/// The report's window has no bound.
const UNBOUNDED: &str = "ack_window_max=1000000";

fn flow(native: &Native, gap_us: u64) -> Flow<'_> {
    Flow::new(native, 10, INFINITE_SSTHRESH, [RTT_US, gap_us])
}

/// The flow when its first two ACKs are in.
fn probed(native: &Native, gap_us: u64) -> Flow<'_> {
    let mut flow = flow(native, gap_us);
    flow.run_until(|flow| flow.kernel.tcp.delivered == 2);
    flow
}

fn pacing(socket: &mut Socket, tcp: &mut Tcp) -> (u32, u64) {
    socket.min_tso_segs(tcp);
    (socket.pacing_status(), socket.pacing_rate())
}

#[test]
fn connection_begins_with_the_kernel_s_burst_or_the_report_s_of_four() {
    for (settings, expected) in [(&[] as &[&str], 10), (&["initial_window=4"], 4)] {
        let native = native::tuned("swift", settings);
        let flow = flow(&native, GAP_US);
        assert_eq!((flow.cwnd(), flow.phase("swift")), (expected, "probe"));
    }
}

/// Its window stayed at four: a response of 5 to 10 packets took one more round trip for the rest of the connection.
#[test]
fn window_taken_is_given_back_without_an_estimate() {
    let native = native::tuned("swift", &["initial_window=4"]);
    let flow = probed(&native, 49);
    assert_eq!((flow.cwnd(), flow.phase("swift")), (11, "done"), "ten, and what the second ACK lets grow");
    // One ACK for the whole burst, as GRO makes it: there is no second to wait for.
    let start = Start { cwnd: 10, ssthresh: INFINITE_SSTHRESH, clamp: INFINITE_SSTHRESH };
    let mut kernel = operations::connect(native.socket(0xaa), start);
    operations::apply(&mut kernel, Operation::Ack { packets: 4, rtt_us: RTT_US as u32 }, RTT_US * 1000);
    let phase = catalog::find("swift").unwrap().layout.phase_name(&kernel.cc.private()).unwrap();
    assert_eq!((kernel.tcp.snd_cwnd, phase), (14, "done"));
}

/// A message of one packet arrives; the window was never the limit.
fn message(flow: &mut Flow) {
    let tcp = &mut flow.kernel.tcp;
    (tcp.is_cwnd_limited, tcp.max_packets_out) = (0, 1);
    tcp.delivered += 1;
    let acked = crate::algorithms::kernel::Acked { delivered: 1, in_order: 1, lost: 0, rtt_us: Some(RTT_US as u32) };
    flow.kernel.acked(acked);
    flow.kernel.control(acked);
}

#[test]
fn socket_that_never_fills_its_window_leaves_the_probe_with_the_kernel_s() {
    let native = native::tuned("swift", &["initial_window=4"]);
    let mut flow = flow(&native, GAP_US);
    flow.kernel.tcp.delivered = 1; // the handshake
    for _ in 0..11 {
        assert_eq!((flow.phase("swift"), flow.cwnd()), ("probe", 4));
        message(&mut flow);
    }
    assert_eq!((flow.phase("swift"), flow.cwnd()), ("done", 10));
}

/// Two ACKs that a queue on the way back released together opened a window of 1000 packets, whatever the path holds.
#[test]
fn window_from_compressed_acks_is_bounded() {
    for (settings, expected) in [(&[] as &[&str], 100), (&["ack_window_max=40"], 40), (&[UNBOUNDED], 1_000)] {
        let native = native::tuned("swift", settings);
        let flow = probed(&native, 50);
        assert_eq!((flow.cwnd(), flow.phase("swift")), (expected, "paced"), "{settings:?}");
        assert_eq!(flow.field("swift", "ack.est"), 2_000);
    }
}

#[test]
fn smaller_initial_window_of_the_kernel_stays() {
    let flow = Flow::new(native::find("swift"), 1, INFINITE_SSTHRESH, [RTT_US, GAP_US]);
    assert_eq!(flow.cwnd(), 1);
}

#[test]
fn second_ack_opens_the_window_to_a_share_of_the_path() {
    for (divisor, expected) in [(1, 100), (2, 50), (3, 33), (4, 25), (5, 20), (6, 16), (7, 14), (8, 12)] {
        let native = native::tuned("swift", &[&format!("estimate_divisor={divisor}")]);
        let flow = probed(&native, GAP_US);
        assert_eq!((flow.cwnd(), flow.phase("swift")), (expected, "paced"), "over {divisor}");
        assert_eq!([flow.field("swift", "ack.est"), flow.field("swift", "ack.dt_us")], [100, GAP_US]);
    }
}

#[test]
fn estimate_below_the_window_leaves_slow_start_alone() {
    let flow = probed(native::find("swift"), 40_000);
    assert_eq!((flow.field("swift", "ack.est"), flow.cwnd(), flow.phase("swift")), (2, 12, "paced"));
}

#[test]
fn acks_closer_than_50_us_are_discarded() {
    let native = native::tuned("swift", &[UNBOUNDED]);
    let flow = probed(&native, 49);
    assert_eq!((flow.cwnd(), flow.phase("swift"), flow.kernel.cc.pacing_status()), (12, "done", 0));
    let flow = probed(&native, 50);
    assert_eq!((flow.cwnd(), flow.phase("swift")), (1_000, "paced"));
}

#[test]
fn report_counts_one_packet_of_the_second_ack() {
    for (setting, expected) in [("use_acked_bytes=0", 50), ("use_acked_bytes=1", 100)] {
        let native = native::tuned("swift", &[setting, "estimate_divisor=1"]);
        let start = Start { cwnd: 4, ssthresh: INFINITE_SSTHRESH, clamp: INFINITE_SSTHRESH };
        let mut kernel = operations::connect(native.socket(0xaa), start);
        let ack = Operation::Ack { packets: 2, rtt_us: RTT_US as u32 };
        operations::apply(&mut kernel, ack, RTT_US * 1000);
        operations::apply(&mut kernel, ack, (RTT_US + 2 * GAP_US) * 1000);
        assert_eq!(kernel.tcp.snd_cwnd, expected, "{setting}");
    }
}

#[test]
fn second_ack_for_later_data_is_no_pair() {
    let native = native::find("swift");
    let start = Start { cwnd: 4, ssthresh: INFINITE_SSTHRESH, clamp: INFINITE_SSTHRESH };
    let mut kernel = operations::connect(native.socket(0xaa), start);
    operations::apply(&mut kernel, Operation::Finish, RTT_US * 1000);
    assert_eq!(native::field(&kernel.cc, "swift", "ack.acks"), 1);
    // The ACK without a sample ends it at once, and so does one for the whole burst: the next is for data sent after it.
    let mut kernel = operations::connect(native.socket(0xaa), start);
    let ack = Operation::Ack { packets: 4, rtt_us: RTT_US as u32 };
    operations::apply(&mut kernel, ack, RTT_US * 1000);
    operations::apply(&mut kernel, ack, (RTT_US + GAP_US) * 1000);
    assert_eq!((kernel.tcp.snd_cwnd, native::field(&kernel.cc, "swift", "ack.est")), (12, 0));
}

#[test]
fn window_stays_within_clamp_and_known_threshold() {
    let check = |clamp: u32, ssthresh: u32, expected: (u32, &str)| {
        let native = native::tuned("swift", &["estimate_divisor=1"]);
        let mut flow = Flow::new(&native, 4, ssthresh, [RTT_US, GAP_US]);
        flow.kernel.tcp.snd_cwnd_clamp = clamp;
        flow.run_until(|flow| flow.kernel.tcp.delivered == 2);
        assert_eq!((flow.cwnd(), flow.phase("swift")), expected);
    };
    check(30, INFINITE_SSTHRESH, (30, "paced"));
    check(INFINITE_SSTHRESH, 40, (40, "done"));
}

#[test]
fn paced_at_one_window_per_rtt_while_the_window_grows() {
    let mut flow = probed(native::find("swift"), GAP_US);
    for _ in 0..200 {
        flow.run_until({
            let delivered = flow.kernel.tcp.delivered;
            move |flow| flow.kernel.tcp.delivered > delivered
        });
        let srtt_us = u64::from(flow.kernel.tcp.srtt_us / 8);
        let expected = u64::from(flow.cwnd()) * u64::from(MSS_BYTES) * 1_000_000 / srtt_us;
        assert_eq!(pacing(&mut flow.kernel.cc, &mut flow.kernel.tcp), (PACED_BY_TCP, expected));
    }
    assert!(flow.cwnd() > 200, "slow start goes on: {}", flow.cwnd());
}

#[test]
fn pacing_ends_with_the_first_slow_start() {
    let check = |what: &str, end: fn(&mut Flow)| {
        let mut flow = probed(native::find("swift"), GAP_US);
        assert_eq!(flow.kernel.cc.pacing_status(), PACED_BY_TCP);
        end(&mut flow);
        assert_eq!((flow.phase("swift"), flow.kernel.cc.pacing_status()), ("done", 0), "{what}");
        let (_, rate) = pacing(&mut flow.kernel.cc, &mut flow.kernel.tcp);
        let window = u64::from(flow.cwnd()) * u64::from(MSS_BYTES);
        assert!(rate > window * 1_000_000 / u64::from(flow.kernel.tcp.srtt_us / 8), "{what}: the kernel's own rate");
    };
    check("loss", |flow| flow.lose());
    check("timeout", |flow| flow.time_out());
    check("mark", |flow| flow.kernel.enter_cwr());
    check("threshold", |flow| {
        flow.kernel.tcp.snd_ssthresh = flow.cwnd() + 10;
        flow.run_until(|flow| flow.kernel.tcp.delivered == 20);
    });
}

#[test]
fn loss_while_probing_leaves_reno() {
    let mut flow = flow(native::find("swift"), GAP_US);
    flow.kernel.enter_recovery();
    assert_eq!(
        (flow.phase("swift"), flow.kernel.tcp.snd_ssthresh, flow.kernel.tcp.ca_state),
        ("done", 5, state::RECOVERY)
    );
}

#[test]
fn loss_in_the_paced_window_halves_it() {
    let mut flow = probed(native::find("swift"), GAP_US);
    flow.lose();
    assert_eq!((flow.cwnd(), flow.kernel.tcp.snd_ssthresh), (25, 25));
}

#[test]
fn pacing_of_others_is_left_to_them() {
    for status in [1, 2] {
        let native = native::find("swift");
        let mut flow = flow(native, GAP_US);
        flow.kernel.cc.set_pacing_status(status);
        flow.run_until(|flow| flow.kernel.tcp.delivered == 2);
        assert_eq!((flow.phase("swift"), flow.kernel.cc.pacing_status()), ("paced", status));
        flow.lose();
        assert_eq!((flow.phase("swift"), flow.kernel.cc.pacing_status()), ("done", status));
    }
}

#[test]
fn small_message_before_the_burst_is_no_part_of_it() {
    let native = native::tuned("swift", &["estimate_divisor=1"]);
    let mut flow = flow(&native, GAP_US);
    message(&mut flow);
    assert_eq!((flow.phase("swift"), flow.field("swift", "ack.acks"), flow.cwnd()), ("probe", 0, 10));
    flow.kernel.tcp.is_cwnd_limited = 1;
    flow.run_until(|flow| flow.kernel.tcp.delivered == 3);
    assert_eq!((flow.phase("swift"), flow.cwnd()), ("paced", 100));
}

#[test]
fn socket_switched_to_it_after_a_message_still_probes() {
    let tcp =
        Tcp { snd_cwnd: 10, snd_ssthresh: INFINITE_SSTHRESH, snd_cwnd_clamp: 1_000, delivered: 2, ..Tcp::default() };
    let check = |max_packets_out, expected| {
        let tcp = Tcp { max_packets_out, ..tcp.clone() };
        let kernel = Kernel::new(native::find("swift").socket(0xaa), tcp);
        let phase = catalog::find("swift").unwrap().layout.phase_name(&kernel.cc.private()).unwrap();
        assert_eq!((kernel.tcp.snd_cwnd, phase), expected, "{max_packets_out} packets were in flight");
    };
    check(1, (10, "probe"));
    check(6, (10, "done"));
}

#[test]
fn socket_switched_to_it_later_keeps_its_window() {
    let tcp = Tcp { snd_cwnd: 40, snd_ssthresh: 30, snd_cwnd_clamp: 1_000, delivered: 500, ..Tcp::default() };
    let kernel = Kernel::new(native::find("swift").socket(0xaa), tcp);
    let phase = catalog::find("swift").unwrap().layout.phase_name(&kernel.cc.private()).unwrap();
    assert_eq!((kernel.tcp.snd_cwnd, phase), (40, "done"));
}
