//! Westwood+ against its filter: `bpf/cc/bpf_westwood.bpf.c`.

use crate::connection::Connection;
use crate::native::{CongestionControl, event};
use crate::operations::Operation;

/// The unit of bandwidths.
const PER_S: u64 = 256;

/// Acknowledges packets in steps of 10 ms, so many each, all with the same RTT.
fn deliver(connection: &mut Connection, steps: u32, packets: u32, rtt_us: u32) {
    for _ in 0..steps {
        connection.wait(10_000);
        connection.ack(packets, rtt_us);
    }
}

/// 1000 packets a second over an RTT of 80 ms.
fn measured() -> Connection<'static> {
    let mut connection = Connection::of("bpf_westwood", 200, 100);
    deliver(&mut connection, 100, 10, 80_000);
    connection
}

fn near(value: u64, expected: u64) -> bool {
    value.abs_diff(expected) * 100 <= expected
}

#[test]
fn bandwidth_is_packets_over_time_and_the_window_its_product_with_the_lowest_rtt() {
    let mut connection = measured();
    assert_eq!(connection.field("min_rtt_us"), 80_000);
    assert!(near(connection.field("bw"), 1000 * PER_S), "{}", connection.field("bw"));
    let cwnd = connection.cwnd();
    connection.apply(Operation::Lose);
    assert_eq!(connection.ssthresh(), cwnd / 2, "what the recovery leads to");
    connection.recover();
    assert!((79..=80).contains(&connection.cwnd()), "{}", connection.cwnd());
    assert_eq!(connection.cwnd(), connection.ssthresh());
}

#[test]
fn a_sample_counts_an_eighth_in_each_of_two_filters() {
    let mut connection = measured();
    let (once, twice) = (connection.field("bw_once"), connection.field("bw"));
    // Twice the rate for one interval, that is beyond 80 ms.
    let before = connection.field("delivered_mark");
    while connection.field("delivered_mark") == before {
        deliver(&mut connection, 1, 10, 80_000);
    }
    deliver(&mut connection, 9, 20, 80_000);
    let expected = (once * 7 + 2000 * PER_S) / 8;
    assert!(near(connection.field("bw_once"), expected), "{} for {expected}", connection.field("bw_once"));
    let expected = (twice * 7 + expected) / 8;
    assert!(near(connection.field("bw"), expected), "{} for {expected}", connection.field("bw"));
}

#[test]
fn timeout_sets_the_threshold_and_measures_the_lowest_rtt_anew() {
    let mut connection = measured();
    connection.apply(Operation::TimeOut);
    assert!((79..=80).contains(&connection.ssthresh()), "{}", connection.ssthresh());
    assert_eq!(connection.cwnd(), 1);
    connection.ack(1, 120_000);
    assert_eq!(connection.field("min_rtt_us"), 120_000);
}

#[test]
fn without_a_sample_a_loss_halves() {
    let mut connection = Connection::of("bpf_westwood", 40, 20);
    connection.lose();
    assert_eq!(connection.cwnd(), 20);
    let mut connection = Connection::of("bpf_westwood", 40, 20);
    connection.apply(Operation::TimeOut);
    assert_eq!(connection.ssthresh(), 20);
}

#[test]
fn window_after_a_loss_is_no_larger_than_before() {
    let mut connection = measured();
    connection.kernel.tcp.snd_cwnd = 50;
    connection.lose();
    assert!((79..=80).contains(&connection.ssthresh()), "{}", connection.ssthresh());
    assert_eq!(connection.cwnd(), 50);
}

#[test]
fn undone_reduction_stays_undone() {
    let mut connection = measured();
    let cwnd = connection.cwnd();
    connection.apply(Operation::Lose);
    connection.apply(Operation::Undo);
    let kernel = &mut connection.kernel;
    kernel.cc.cwnd_event(&mut kernel.tcp, event::COMPLETE_CWR);
    assert_eq!(connection.cwnd(), cwnd);
}
