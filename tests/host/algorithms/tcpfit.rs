//! TCP-FIT's N, its growth and its cut: `bpf/cc/tcpfit.bpf.c`.

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, Native, Socket};
use crate::algorithms::rounds::{connection, round};

const ID: &str = "tcpfit";
const BASE_US: u32 = 40_000;

/// A connection and its clock.
struct Periods<'n> {
    kernel: Kernel<Socket<'n>>,
    now_ms: u64,
}

impl<'n> Periods<'n> {
    fn new(native: &'n Native) -> Self {
        Periods { kernel: connection(native, 1000), now_ms: 0 }
    }

    fn n(&self) -> f64 {
        native::field(&self.kernel.cc, ID, "n") as f64 / 1024.0
    }

    /// One update period of this RTT.
    fn pass(&mut self, rtt_us: u32) {
        self.now_ms += 500;
        self.kernel.cc.set_clock(self.now_ms * 1_000_000);
        round(&mut self.kernel, &[rtt_us; 4]);
    }

    fn base_us(&self) -> u64 {
        native::field(&self.kernel.cc, ID, "delay.base_rtt_us")
    }
}

/// cwnd - 2 / (3 N + 1) cwnd: a half, 2/7, 1/8 and 2/31 of the window.
#[test]
fn loss_cuts_as_the_claims_have_it() {
    for (periods, expected) in [(0, 500), (1, 714), (4, 875), (9, 935)] {
        let mut path = Periods::new(native::find(ID));
        for _ in 0..periods {
            path.pass(BASE_US);
        }
        assert_eq!(path.n(), f64::from(periods + 1));
        path.kernel.tcp.snd_cwnd = 1000;
        path.kernel.enter_recovery();
        assert_eq!(path.kernel.tcp.snd_ssthresh, expected, "N = {}", path.n());
    }
}

#[test]
fn small_windows_keep_two_packets() {
    for cwnd in 1..=4 {
        let mut kernel = connection(native::find(ID), cwnd);
        kernel.enter_recovery();
        assert_eq!(kernel.tcp.snd_ssthresh, 2);
    }
}

/// N (avgRTT - baseRTT) / avgRTT comes to rest at a, from below and from above.
#[test]
fn n_rests_where_each_keeps_its_share_queued() {
    for rtt_us in [41_000, 42_000, 44_000, 45_000] {
        let mut path = Periods::new(native::find(ID));
        for _ in 0..12 {
            path.pass(BASE_US);
        }
        for _ in 0..120 {
            path.pass(rtt_us);
        }
        let expected = 0.125 * f64::from(rtt_us) / f64::from(rtt_us - BASE_US);
        assert!((path.n() - expected).abs() < 0.02, "{} for {expected}", path.n());
    }
}

#[test]
fn long_queue_leaves_one_connection() {
    let mut path = Periods::new(native::find(ID));
    for _ in 0..5 {
        path.pass(BASE_US);
    }
    path.pass(4 * BASE_US);
    assert_eq!(path.n(), 1.0);
}

#[test]
fn steps_of_the_claims_are_whole() {
    let native = native::tuned(ID, &["update_rule=1"]);
    let mut path = Periods::new(&native);
    for n in 2..=6 {
        path.pass(BASE_US);
        assert_eq!(path.n(), f64::from(n));
    }
    // N times a tenth of the RTT is more than an eighth down to N = 2, and less at N = 1.
    let passed: Vec<f64> = (0..8)
        .map(|_| {
            path.pass(44_445);
            path.n()
        })
        .collect();
    assert_eq!(passed, [5.0, 4.0, 3.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn n_changes_once_in_a_period() {
    let mut path = Periods::new(native::find(ID));
    path.pass(BASE_US);
    for _ in 0..3 {
        path.now_ms += 100;
        path.kernel.cc.set_clock(path.now_ms * 1_000_000);
        round(&mut path.kernel, &[BASE_US]);
    }
    assert_eq!(path.n(), 2.0);
    // A round trip longer than half a second is a period of its own.
    path.kernel.tcp.srtt_us = 8 * 2_000_000;
    path.pass(BASE_US);
    assert_eq!(path.n(), 2.0);
    path.pass(BASE_US);
    path.pass(BASE_US);
    path.pass(BASE_US);
    assert_eq!(path.n(), 3.0);
}

/// Nor do its samples count for the next one, as they once did.
#[test]
fn period_that_the_application_ends_leaves_n_alone() {
    let mut path = Periods::new(native::find(ID));
    path.pass(BASE_US);
    path.kernel.tcp.is_cwnd_limited = 0;
    path.pass(4 * BASE_US);
    assert_eq!(path.n(), 2.0);
    path.kernel.tcp.is_cwnd_limited = 1;
    path.pass(BASE_US);
    assert_eq!(path.n(), 3.0);
}

#[test]
fn growth_is_n_packets_a_round() {
    let mut flow = Flow::new(native::find(ID), 500, 2, [BASE_US.into(), 0]);
    flow.run_until(|flow| flow.field(ID, "n") == 5 * 1024);
    let begin = flow.cwnd();
    flow.run_for(10 * u64::from(BASE_US));
    assert!((flow.cwnd() - begin).abs_diff(50) <= 3, "{} packets in 10 round trips", flow.cwnd() - begin);
}

#[test]
fn base_is_measured_anew_with_one_connection() {
    let native = native::tuned(ID, &["refresh_periods=3"]);
    let mut path = Periods::new(&native);
    path.pass(BASE_US);
    path.pass(BASE_US + 1_000);
    path.pass(BASE_US + 1_000);
    assert_eq!(path.n(), 1.0);
    path.pass(BASE_US + 8_000);
    assert_eq!((path.base_us(), path.n()), (41_000, 1.0));
    path.pass(41_000);
    assert_eq!(path.n(), 2.0);
}

#[test]
fn refreshing_is_off_by_default() {
    let mut path = Periods::new(native::find(ID));
    for _ in 0..50 {
        path.pass(BASE_US);
    }
    assert_eq!((path.n(), path.base_us()), (51.0, u64::from(BASE_US)));
}
