//! TCP-FIT's N, its growth and its cut: `bpf/cc/tcpfit.bpf.c`.

use super::*;

const ID: &str = "tcpfit";
const BASE_US: u32 = 40_000;

fn n(flow: &Endpoint) -> f64 {
    flow.field("n") as f64 / 1024.0
}

fn tcpfit() -> Endpoint<'static> {
    Endpoint::avoiding(ID, 1000)
}

/// Runs update periods at this RTT and returns N.
fn pass(flow: &mut Endpoint, periods: usize, rtt_us: u32) -> f64 {
    for _ in 0..periods {
        flow.wait(500_000);
        flow.end_round(&[rtt_us; 4]);
    }
    n(flow)
}

/// A loss cuts 2 / (3 N + 1) of the window: 1/2, 2/7, 1/8 and 2/31.
#[test]
fn loss_cuts_as_the_claims_have_it() {
    for (periods, expected) in [(0, 500), (1, 714), (4, 875), (9, 935)] {
        let mut flow = tcpfit();
        assert_eq!(pass(&mut flow, periods, BASE_US), periods as f64 + 1.0);
        flow.tcp.snd_cwnd = 1000;
        assert_eq!(flow.reduce(), expected, "N = {}", periods + 1);
    }
    for cwnd in 1..=4 {
        assert_eq!(Endpoint::avoiding(ID, cwnd).reduce(), 2, "of {cwnd}");
    }
}

/// N (avgRTT - baseRTT) / avgRTT converges to a from below and from above.
#[test]
fn n_rests_where_each_keeps_its_share_queued() {
    for rtt_us in [41_000, 42_000, 44_000, 45_000] {
        let mut flow = tcpfit();
        pass(&mut flow, 12, BASE_US);
        let (n, expected) = (pass(&mut flow, 120, rtt_us), 0.125 * f64::from(rtt_us) / f64::from(rtt_us - BASE_US));
        assert!((n - expected).abs() < 0.02, "{n} for {expected}");
    }
}

#[test]
fn long_queue_leaves_one_connection() {
    let mut flow = tcpfit();
    pass(&mut flow, 5, BASE_US);
    assert_eq!(pass(&mut flow, 1, 4 * BASE_US), 1.0);
}

#[test]
fn steps_of_the_claims_are_whole() {
    let mut flow = Endpoint::over(native::tuned(ID, &["update_rule=1"]), 1000, 2);
    assert_eq!([(); 5].map(|()| pass(&mut flow, 1, BASE_US)), [2.0, 3.0, 4.0, 5.0, 6.0]);
    // N times a tenth of the RTT exceeds an eighth down to N = 2.
    assert_eq!([(); 8].map(|()| pass(&mut flow, 1, 44_445)), [5.0, 4.0, 3.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn n_changes_once_in_a_period() {
    let mut flow = tcpfit();
    pass(&mut flow, 1, BASE_US);
    for _ in 0..3 {
        flow.wait(100_000);
        flow.end_round(&[BASE_US]);
    }
    assert_eq!(n(&flow), 2.0);
    // An RTT longer than half a second is one period.
    flow.tcp.srtt_us = 8 * 2_000_000;
    assert_eq!(pass(&mut flow, 1, BASE_US), 2.0);
    assert_eq!(pass(&mut flow, 3, BASE_US), 3.0);
}

/// The period's samples once counted for the next one.
#[test]
fn period_that_the_application_ends_leaves_n_alone() {
    let mut flow = tcpfit();
    for (is_limited, rtt_us, n) in [(1, BASE_US, 2.0), (0, 4 * BASE_US, 2.0), (1, BASE_US, 3.0)] {
        flow.tcp.is_cwnd_limited = is_limited;
        assert_eq!(pass(&mut flow, 1, rtt_us), n);
    }
}

#[test]
fn growth_is_n_packets_a_round() {
    let mut flow = LoneFlow::of(ID, 500, 2, [BASE_US.into(), 0]);
    flow.run_until(|flow| n(flow) == 5.0);
    let begin = flow.cwnd();
    flow.run_for(10 * u64::from(BASE_US));
    assert!((flow.cwnd() - begin).abs_diff(50) <= 3, "{} packets in 10 round trips", flow.cwnd() - begin);
}

#[test]
fn base_is_measured_anew_with_one_connection() {
    let mut flow = Endpoint::over(native::tuned(ID, &["refresh_periods=3"]), 1000, 2);
    pass(&mut flow, 1, BASE_US);
    for (periods, rtt_us, n, base_us) in [(2, 41_000, 1.0, 40_000), (1, 48_000, 1.0, 41_000), (1, 41_000, 2.0, 41_000)]
    {
        assert_eq!((pass(&mut flow, periods, rtt_us), flow.field("base_rtt_us")), (n, base_us), "{rtt_us} us");
    }
    let mut never = tcpfit();
    assert_eq!((pass(&mut never, 50, BASE_US), never.field("base_rtt_us")), (51.0, BASE_US.into()), "off by default");
}
