//! Fast Start after a pause: window, marks, pacing, and how it is given up: `bpf/cc/faststart.bpf.c`.

use crate::algorithms::bottleneck::MSS_BYTES;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, Socket, state};
use crate::algorithms::operations::{self, Operation, Start};

const ID: &str = "faststart";
const RTT_US: u32 = 40_000;
/// Nobody marks packets so by chance.
const OWN_MARK: i32 = 0x48;
const LOW: i32 = 0x20;
const MS: u64 = 1_000_000;

/// A connection that was heard of at 1 s, with nothing in flight since.
fn silent(native: &Native, cwnd: u32, ssthresh: u32) -> Kernel<Socket<'_>> {
    let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
    let mut kernel = operations::connect(native.socket(0xaa), start);
    kernel.cc.set_priority(OWN_MARK);
    kernel.cc.set_clock(1000 * MS);
    kernel.tcp.delivered = 500;
    (kernel.tcp.packets_out, kernel.tcp.snd_una) = (0, kernel.tcp.snd_nxt);
    (kernel.tcp.srtt_us, kernel.tcp.rttvar_us) = (8 * RTT_US, 200_000);
    kernel.tcp.mss_cache = MSS_BYTES;
    kernel.cc.pkts_acked(&mut kernel.tcp, 1, Some(RTT_US));
    kernel
}

/// The pause ends after this long: the kernel tells what it tells while the first packet is sent.
fn resume(kernel: &mut Kernel<Socket>, pause_ms: u64) {
    kernel.cc.set_clock((1000 + pause_ms) * MS);
    send(kernel);
}

/// One packet is sent; the mark that it carries.
fn send(kernel: &mut Kernel<Socket>) -> i32 {
    kernel.cc.min_tso_segs(&mut kernel.tcp);
    if kernel.tcp.packets_out == 0 {
        kernel.start_transmission();
    }
    let mark = kernel.cc.priority();
    kernel.tcp.packets_out += 1;
    kernel.tcp.snd_nxt += 1;
    mark
}

fn acknowledge(kernel: &mut Kernel<Socket>) {
    operations::apply(kernel, Operation::Ack { packets: 1, rtt_us: RTT_US }, 1300 * MS);
}

fn phase(kernel: &Kernel<Socket>) -> &'static str {
    tccc::catalog::find(ID).unwrap().layout.phase_name(&kernel.cc.private()).unwrap()
}

#[test]
fn window_is_halved_after_slow_start_and_one_less_after_avoidance() {
    for (cwnd, ssthresh, expected) in [(60, INFINITE_SSTHRESH, 30), (60, 61, 30), (60, 60, 59), (60, 20, 59)] {
        let mut kernel = silent(native::find(ID), cwnd, ssthresh);
        resume(&mut kernel, 300);
        assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (expected, ssthresh));
        assert_eq!(phase(&kernel), "fast_start");
    }
}

#[test]
fn window_is_no_smaller_than_what_slow_start_may_send() {
    for (cwnd, expected) in [(2, 2), (9, 9), (12, 10), (19, 10), (24, 12)] {
        let mut kernel = silent(native::find(ID), cwnd, INFINITE_SSTHRESH);
        resume(&mut kernel, 300);
        assert_eq!(kernel.tcp.snd_cwnd, expected, "from {cwnd}");
    }
}

/// The kernel's own restart has shrunk the window and raised the threshold before.
#[test]
fn kernel_s_restart_is_taken_back() {
    let mut kernel = silent(native::find(ID), 60, 20);
    kernel.cc.set_clock(2000 * MS);
    kernel.restart_after_idle(3, 10);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (10, 45));
    kernel.start_transmission();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (59, 20));
}

#[test]
fn pause_shorter_than_the_timeout_changes_nothing() {
    let mut kernel = silent(native::find(ID), 60, 20);
    resume(&mut kernel, 240);
    assert_eq!((kernel.tcp.snd_cwnd, phase(&kernel)), (60, "avoidance"));
    assert_eq!(send(&mut kernel), OWN_MARK);
    let mut kernel = silent(native::find(ID), 60, 20);
    resume(&mut kernel, 241);
    assert_eq!(kernel.tcp.snd_cwnd, 59);
}

#[test]
fn second_packet_to_the_last_of_the_window_are_marked() {
    let mut kernel = silent(native::find(ID), 31, 20);
    resume(&mut kernel, 300);
    let marks: Vec<i32> = (1..30).map(|_| send(&mut kernel)).collect();
    assert!(marks.iter().all(|mark| *mark == LOW), "{marks:?}");
    assert_eq!(send(&mut kernel), OWN_MARK, "beyond the window");
}

#[test]
fn first_packet_and_repeated_ones_are_not_marked() {
    let mut kernel = silent(native::find(ID), 31, 20);
    kernel.cc.set_clock(1300 * MS);
    assert_eq!(send(&mut kernel), OWN_MARK);
    assert_eq!(send(&mut kernel), LOW);
    kernel.tcp.ca_state = state::RECOVERY;
    assert_eq!(send(&mut kernel), OWN_MARK);
}

#[test]
fn marks_can_be_switched_off() {
    let native = native::tuned(ID, &["mark=0"]);
    let mut kernel = silent(&native, 31, 20);
    resume(&mut kernel, 300);
    assert_eq!((kernel.tcp.snd_cwnd, send(&mut kernel)), (30, OWN_MARK));
}

/// W / srtt: 30 packets of 1448 bytes in 40 ms.
#[test]
fn window_is_paced_over_a_round_trip_until_the_first_ack() {
    let mut kernel = silent(native::find(ID), 31, 20);
    assert_eq!(kernel.cc.pacing_status(), 0);
    resume(&mut kernel, 300);
    kernel.cc.min_tso_segs(&mut kernel.tcp);
    assert_eq!((kernel.cc.pacing_status(), kernel.cc.pacing_rate()), (1, 30 * u64::from(MSS_BYTES) * 25));
    kernel.cc.pkts_acked(&mut kernel.tcp, 1, Some(RTT_US));
    assert_eq!(kernel.cc.pacing_status(), 0);
}

#[test]
fn pacing_of_others_stays() {
    let mut kernel = silent(native::find(ID), 31, 20);
    kernel.cc.set_pacing_status(2);
    resume(&mut kernel, 300);
    kernel.cc.pkts_acked(&mut kernel.tcp, 1, Some(RTT_US));
    assert_eq!(kernel.cc.pacing_status(), 2);
}

/// A fast start of 30 packets, all of them in flight.
fn under_way(native: &Native) -> Kernel<Socket<'_>> {
    let mut kernel = silent(native, 31, 20);
    resume(&mut kernel, 300);
    for _ in 1..30 {
        send(&mut kernel);
    }
    kernel
}

#[test]
fn fast_start_ends_when_its_window_has_arrived() {
    let mut kernel = under_way(native::find(ID));
    for _ in 0..29 {
        acknowledge(&mut kernel);
        assert_ne!(native::field(&kernel.cc, ID, "window"), 0);
    }
    acknowledge(&mut kernel);
    assert_eq!((native::field(&kernel.cc, ID, "window"), phase(&kernel)), (0, "avoidance"));
    assert_eq!(send(&mut kernel), OWN_MARK);
}

#[test]
fn timeout_gives_up_as_if_nothing_had_been_tried() {
    let mut kernel = under_way(native::find(ID));
    acknowledge(&mut kernel);
    operations::apply(&mut kernel, Operation::TimeOut, 1500 * MS);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (10, 20));
    assert_eq!(native::field(&kernel.cc, ID, "window"), 0);
}

/// Not even the packet that slow start would have sent arrived.
#[test]
fn timeout_of_the_first_packet_is_an_ordinary_one() {
    let mut kernel = under_way(native::find(ID));
    operations::apply(&mut kernel, Operation::TimeOut, 1500 * MS);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (1, 15));
}

#[test]
fn second_loss_gives_up_and_one_loss_does_not() {
    let mut kernel = under_way(native::find(ID));
    acknowledge(&mut kernel);
    operations::apply(&mut kernel, Operation::Lose, 1300 * MS);
    assert_eq!(kernel.tcp.snd_ssthresh, 15);
    acknowledge(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, native::field(&kernel.cc, ID, "window")), (10, 0));
    kernel.undo_retrans = 9;
    kernel.leave();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (10, 15));
    let mut kernel = under_way(native::find(ID));
    acknowledge(&mut kernel);
    operations::apply(&mut kernel, Operation::Lose, 1300 * MS);
    kernel.undo_retrans = 9;
    kernel.leave();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (15, 15));
}

/// From 7.1 on the kernel has a callback of its own for the first transmission.
#[test]
fn newer_kernels_resume_by_their_own_callback() {
    let mut kernel = silent(native::find(ID), 60, 20);
    kernel.cc.set_clock(1300 * MS);
    let Kernel { cc, tcp, .. } = &mut kernel;
    cc.cwnd_event_tx_start(tcp);
    assert_eq!(kernel.tcp.snd_cwnd, 59);
}
