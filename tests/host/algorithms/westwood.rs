//! What twins cannot see of Westwood+: bandwidth in packets, RTTs in ticks, and windows that never grow at a loss.

use super::*;

/// Unit of bandwidths: 1/256 packet per second.
const PER_S: u64 = 256;

/// Acknowledges packets every 10 ms.
fn deliver(connection: &mut Endpoint, steps: u32, packets: u32, rtt_us: u32) {
    for _ in 0..steps {
        connection.wait(10_000);
        connection.ack(packets, rtt_us);
    }
}

/// 10 s of 1000 packets per second at an RTT of 80 ms, after which the incomplete first sample has no weight.
fn measured() -> Endpoint<'static> {
    let mut connection = Endpoint::of("bpf_westwood", 200, 100);
    deliver(&mut connection, 1000, 10, 80_000);
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
    assert_eq!(connection.ssthresh(), cwnd / 2, "during recovery");
    connection.recover();
    assert!((79..=80).contains(&connection.cwnd()), "{}", connection.cwnd());
    assert_eq!(connection.cwnd(), connection.ssthresh());
}

#[test]
fn rtts_are_rounded_up_to_whole_ticks() {
    for (tick, rtt_us, expected) in
        [(1, 40_700, 40_700), (4000, 40_700, 44_000), (4000, 44_000, 44_000), (10_000, 1, 10_000)]
    {
        let mut connection = Endpoint::over(native::tuned("bpf_westwood", &[&format!("rtt_tick_us={tick}")]), 200, 100);
        connection.ack(1, rtt_us);
        assert_eq!(connection.fields(["rtt_us", "min_rtt_us"]), [expected; 2]);
    }
}

/// The path holds 41 packets: 1000 per second at 41 ms. The kernel computes 44.
#[test]
fn window_after_a_loss_has_the_rtt_in_whole_ticks() {
    for (tick, window) in [("rtt_tick_us=1", 40..=41), ("rtt_tick_us=4000", 43..=44)] {
        let mut connection = Endpoint::over(native::tuned("bpf_westwood", &[tick]), 200, 100);
        deliver(&mut connection, 1000, 10, 41_000);
        connection.lose();
        assert!(window.contains(&connection.cwnd()), "{} with {tick}", connection.cwnd());
    }
}

#[test]
fn without_a_sample_a_loss_halves() {
    let [mut lost, mut timed_out] = [(); 2].map(|()| Endpoint::of("bpf_westwood", 40, 20));
    lost.lose();
    timed_out.time_out();
    assert_eq!((lost.cwnd(), timed_out.ssthresh()), (20, 20));
}

#[test]
fn window_after_a_loss_is_no_larger_than_before() {
    let mut connection = measured();
    connection.tcp.snd_cwnd = 50;
    connection.lose();
    assert!((79..=80).contains(&connection.ssthresh()), "{}", connection.ssthresh());
    assert_eq!(connection.cwnd(), 50);
}

#[test]
fn undone_reduction_stays_undone() {
    let mut connection = measured();
    let cwnd = connection.cwnd();
    connection = connection.after(&[Operation::Lose, Operation::Undo]);
    let flow = &mut connection;
    flow.call(|cc, tcp| cc.cwnd_event(tcp, event::COMPLETE_CWR));
    assert_eq!(connection.cwnd(), cwnd);
}
