//! YeAH's two modes, its decongestion and its cut: `bpf/cc/bpf_yeah.bpf.c`.

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, Socket, event};
use crate::algorithms::rounds::{connection, round, samples};

const ID: &str = "bpf_yeah";
const BASE_US: u32 = 40_000;

fn known(kernel: &Kernel<Socket>, name: &str) -> u64 {
    native::field(&kernel.cc, ID, name)
}

/// A round in which this share of the RTT was spent in queues, and three samples were taken.
fn queued(kernel: &mut Kernel<Socket>, permille: u32) {
    let rtt_us = (BASE_US * 1000).div_ceil(1000 - permille);
    round(kernel, &[rtt_us; 3]);
}

/// A connection that knows its base RTT.
fn with_base(cwnd: u32) -> Kernel<Socket<'static>> {
    let mut kernel = connection(native::find(ID), cwnd);
    queued(&mut kernel, 0);
    kernel.tcp.snd_cwnd = cwnd;
    kernel
}

fn cut(kernel: &mut Kernel<Socket>) -> u32 {
    let cwnd = kernel.tcp.snd_cwnd;
    kernel.enter_recovery();
    cwnd - kernel.tcp.snd_ssthresh
}

#[test]
fn empty_path_grows_by_a_percent_a_round() {
    let mut flow = Flow::new(native::find(ID), 1000, 2, [BASE_US.into(), 1]);
    flow.run_for(BASE_US.into());
    let begin = f64::from(flow.cwnd());
    flow.run_for(30 * u64::from(BASE_US));
    let expected = begin * 1.01_f64.powi(30);
    assert!((f64::from(flow.cwnd()) / expected - 1.0).abs() < 0.01, "{} for {expected}", flow.cwnd());
    assert_eq!(flow.phase(ID), "fast");
}

#[test]
fn mode_is_slow_above_an_eighth_of_delay_or_eighty_packets() {
    for (cwnd, permille, is_slow) in [(100, 110, 0), (100, 112, 1), (700, 110, 0), (1000, 75, 0), (1000, 85, 1)] {
        let mut kernel = with_base(cwnd);
        queued(&mut kernel, permille);
        assert_eq!(known(&kernel, "slow_rounds"), is_slow, "{cwnd} packets, {permille} permille of the RTT in queues");
    }
}

#[test]
fn decongestion_gives_the_queue_back_and_not_more_than_half() {
    for (cwnd, permille, expected) in [(1000, 100, 900), (1000, 300, 700), (1000, 700, 500)] {
        let mut kernel = with_base(cwnd);
        queued(&mut kernel, permille);
        assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (expected, expected), "{permille} permille");
        assert_eq!(known(&kernel, "w_reno"), u64::from(expected / 2));
    }
}

#[test]
fn decongestion_never_undercuts_a_reno_flow() {
    let mut kernel = with_base(1000);
    queued(&mut kernel, 700);
    assert_eq!(known(&kernel, "w_reno"), 250);
    kernel.tcp.snd_cwnd = 300;
    queued(&mut kernel, 700);
    assert_eq!((kernel.tcp.snd_cwnd, known(&kernel, "w_reno")), (250, 251));
    queued(&mut kernel, 700);
    assert_eq!((kernel.tcp.snd_cwnd, known(&kernel, "w_reno")), (250, 252), "it grows with Reno's estimate only");
}

/// A queue that the flow makes alone is drained before it can cost a packet.
#[test]
fn queue_of_a_lonely_flow_stays_short() {
    let mut flow = Flow::new(native::find(ID), 300, 2, [BASE_US.into(), 100]);
    let mut longest = 0;
    for _ in 0..300 {
        flow.run_for(50_000);
        longest = longest.max(flow.cwnd());
    }
    assert!((450..=510).contains(&longest), "the path holds 400 packets, the window was {longest}");
}

#[test]
fn loss_cuts_the_queue_and_at_least_an_eighth() {
    for (cwnd, permille, expected) in [(400, 0, 50), (400, 100, 50), (400, 190, 76), (100, 450, 45)] {
        let mut kernel = with_base(cwnd);
        queued(&mut kernel, permille);
        kernel.tcp.snd_cwnd = cwnd;
        assert_eq!(cut(&mut kernel), expected, "{cwnd} packets, {permille} permille of the RTT in queues");
    }
}

#[test]
fn competition_cuts_half() {
    let mut kernel = with_base(400);
    for rounds in 1..=16 {
        queued(&mut kernel, 150);
        assert_eq!(known(&kernel, "slow_rounds"), rounds);
    }
    kernel.tcp.snd_cwnd = 400;
    assert_eq!(cut(&mut kernel), 200);
}

#[test]
fn loss_halves_the_estimate_of_reno_s_window() {
    let mut kernel = with_base(400);
    queued(&mut kernel, 150);
    assert_eq!(known(&kernel, "w_reno"), 200);
    kernel.enter_recovery();
    assert_eq!(known(&kernel, "w_reno"), 100);
}

#[test]
fn fifty_one_fast_rounds_forget_the_competitor() {
    let mut kernel = with_base(400);
    queued(&mut kernel, 150);
    let fast = known(&kernel, "fast_rounds");
    for _ in fast..50 {
        queued(&mut kernel, 0);
    }
    assert_eq!(known(&kernel, "w_reno"), 200);
    queued(&mut kernel, 0);
    assert_eq!((known(&kernel, "w_reno"), known(&kernel, "fast_rounds")), (2, 0));
}

#[test]
fn two_samples_decide_nothing() {
    let mut kernel = with_base(1000);
    round(&mut kernel, &[2 * BASE_US; 2]);
    assert_eq!((kernel.tcp.snd_cwnd, known(&kernel, "slow_rounds")), (1000, 0));
}

#[test]
fn base_is_measured_anew_after_idle_time() {
    type Resume = fn(&mut Kernel<Socket>);
    let by_event: Resume = |kernel| kernel.cc.cwnd_event(&mut kernel.tcp, event::CWND_RESTART);
    let by_callback: Resume = |kernel| kernel.cc.cwnd_event_tx_start(&mut kernel.tcp);
    for resume in [by_event, by_callback] {
        let mut kernel = with_base(1000);
        resume(&mut kernel);
        samples(&mut kernel, &[3 * BASE_US]);
        assert_eq!(known(&kernel, "delay.base_rtt_us"), u64::from(3 * BASE_US));
    }
}
