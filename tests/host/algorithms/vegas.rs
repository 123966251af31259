//! What twins cannot see of Vegas: the constants of the paper and of ns-2.

use super::*;

const BASE_US: u32 = 100_000;
const NS2: &str = "alpha=1 beta=3 gamma=1 diff_over_rtt=1 use_mean_rtt=1 slow_start_rounds=2 exit_cut=128 keep=768";

fn ns2() -> &'static Native {
    native::tuned("bpf_vegas", &NS2.split(' ').collect::<Vec<_>>())
}

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
    // The paper's Diff = 20 (RTT - 100) / RTT packets is rounded to the nearest: 1.5 from 108.2 ms on, 4.5 from 129.1 ms.
    let paper = native::tuned("bpf_vegas", &["diff_over_rtt=1"]);
    for (rtt_ms, expected) in [(108, 1), (109, 0), (129, 0), (130, -1)] {
        let mut connection = settled(Endpoint::over(paper, 20, 10), 20);
        assert_eq!(change(&mut connection, rtt_ms * 1000), expected, "{rtt_ms} ms");
    }
}

#[test]
fn ns2_grows_every_other_round_and_leaves_an_eighth_lower() {
    let mut connection = Endpoint::over(ns2(), 10, INFINITE_SSTHRESH);
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
    let both = [native::find("bpf_vegas"), ns2()];
    let cut = |operation| both.map(|native| Endpoint::over(native, 40, 20).after(&[operation]).ssthresh());
    assert_eq!([Operation::Lose, Operation::TimeOut].map(cut), [[20, 30], [20, 20]]);
}
