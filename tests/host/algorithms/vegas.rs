//! Vegas against the paper's decisions: `bpf/cc/bpf_vegas.bpf.c`, with the kernel's constants and with those of ns-2.

use super::*;

const BASE_US: u32 = 100_000;
const NS2: [&str; 8] = [
    "alpha=1",
    "beta=3",
    "gamma=1",
    "diff_over_rtt=1",
    "use_mean_rtt=1",
    "slow_start_rounds=2",
    "exit_cut=128",
    "keep=768",
];

/// In congestion avoidance with a known base RTT.
fn settled<'n>(mut connection: Endpoint<'n>, cwnd: u32) -> Endpoint<'n> {
    connection.round(BASE_US);
    connection.round(BASE_US);
    connection.tcp.snd_cwnd = cwnd;
    connection.round(BASE_US);
    connection.tcp.snd_cwnd = cwnd;
    connection
}

/// The change of a window of 20 after a round at this RTT. The next round's first ACK decides.
fn change(connection: &mut Endpoint, rtt_us: u32) -> i64 {
    connection.round(rtt_us);
    connection.tcp.snd_cwnd = 20;
    connection.ack(1, rtt_us);
    i64::from(connection.cwnd()) - 20
}

#[test]
fn window_moves_by_one_packet_towards_alpha_to_beta_queued() {
    // Diff = 20 (RTT - 100) / 100 packets, as in the kernel.
    for (rtt_ms, expected) in [(100, 1), (105, 1), (109, 1), (110, 0), (120, 0), (124, 0), (125, -1), (200, -1)] {
        let mut connection = settled(Endpoint::of("bpf_vegas", 20, 10), 20);
        assert_eq!(change(&mut connection, rtt_ms * 1000), expected, "{rtt_ms} ms");
        assert_eq!(connection.field("diff"), u64::from(20 * (rtt_ms - 100) / 100));
    }
    // The paper's Diff = 20 (RTT - 100) / RTT packets is rounded to the nearest: 1.5 from 108.2 ms on, 4.5 from 129.1 ms.
    let paper = native::tuned("bpf_vegas", &["diff_over_rtt=1"]);
    for (rtt_ms, expected) in [(108, 1), (109, 0), (129, 0), (130, -1)] {
        let mut connection = settled(Endpoint::over(paper, 20, 10), 20);
        assert_eq!(change(&mut connection, rtt_ms * 1000), expected, "{rtt_ms} ms");
    }
}

#[test]
fn slow_start_ends_at_the_window_of_the_actual_rate() {
    let mut connection = Endpoint::of("bpf_vegas", 10, INFINITE_SSTHRESH);
    connection.round(BASE_US);
    connection.round(BASE_US);
    let doubled = connection.cwnd();
    assert!((38..=40).contains(&doubled), "two rounds of slow start lead to {doubled}");
    connection.round(2 * BASE_US);
    let before = connection.cwnd();
    connection.ack(1, 2 * BASE_US);
    assert_eq!((connection.cwnd(), connection.ssthresh()), (before / 2 + 1, before / 2 + 1));
}

#[test]
fn ns2_grows_every_other_round_and_leaves_an_eighth_lower() {
    let native = native::tuned("bpf_vegas", &NS2);
    let mut connection = Endpoint::over(native, 10, INFINITE_SSTHRESH);
    let windows = [(); 4].map(|()| {
        connection.round(BASE_US);
        connection.cwnd()
    });
    assert!(windows[0] > 10 && windows[1] - windows[0] <= 1 && windows[3] - windows[2] <= 1, "{windows:?}");
    assert!(windows[2] > windows[1] + windows[1] / 2, "{windows:?}");
    let before = connection.cwnd();
    while connection.ssthresh() == INFINITE_SSTHRESH || connection.tcp.in_slow_start() {
        connection.ack(1, 4 * BASE_US);
        assert!(connection.now_us() < 100_000_000);
        connection.wait(1);
    }
    let cut = connection.cwnd();
    assert!(cut >= before - before / 8 && cut < 2 * before, "from {before} or its double to {cut}");
}

#[test]
fn loss_halves_and_ns2_keeps_three_quarters_but_not_at_a_timeout() {
    let native = native::tuned("bpf_vegas", &NS2);
    let cut = |native, operation| Endpoint::over(native, 40, 20).after(&[operation]).ssthresh();
    assert_eq!([native::find("bpf_vegas"), native].map(|native| cut(native, Operation::Lose)), [20, 30]);
    assert_eq!([native::find("bpf_vegas"), native].map(|native| cut(native, Operation::TimeOut)), [20, 20]);
}

#[test]
fn rounds_with_few_samples_grow_as_reno() {
    let mut connection = Endpoint::of("bpf_vegas", 10, 5);
    for _ in 0..8 {
        connection.ack(10, BASE_US);
        connection.wait(u64::from(BASE_US));
    }
    // With one ACK per round, a window is acknowledged in every other round.
    assert!((13..=18).contains(&connection.cwnd()), "{}", connection.cwnd());
    assert_eq!(connection.field("diff"), 0);
}

#[test]
fn base_rtt_is_forgotten_after_nothing_was_in_flight_and_not_at_other_events() {
    const NONE: u64 = 0xffff_ffff;
    let after =
        |step: EndpointStep| settled(Endpoint::of("bpf_vegas", 20, 10), 20).through(&[step]).field("base_rtt_us");
    assert_eq!(RESUMPTIONS.map(after), [NONE; 2]);
    assert_eq!(after(|flow| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::CWND_RESTART))), NONE);
    assert_eq!(after(|flow| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::COMPLETE_CWR))), 100_000);
}
