//! Start and end of each packet's serialisation, by a rate that may change or by the opportunities of a trace.

use proptest::prelude::*;

use super::*;
use crate::path::change::DirectionChange;
use crate::path::rate_trace::{OPPORTUNITY_BYTES, RateTrace};
use shared::units::{BitsPerSec, QueueSize};

/// Packets by arrival (ms) and bytes; returns when each has left, in ms.
fn leave(link: &mut TestLink, packets: &[(u64, u32)]) -> Vec<f64> {
    packets.iter().map(|(at, bytes)| left(link, at * MS, *bytes) as f64 / MS as f64).collect()
}

/// When a packet has left, nanoseconds.
fn left(link: &mut TestLink, at: u64, bytes: u32) -> u64 {
    match link.admit(at, bytes) {
        PacketVerdict::Due(due) => due,
        other => panic!("an endless queue: {other:?}"),
    }
}

/// Started at time 0, without a delay, and with room for all packets.
fn started(direction: Direction) -> TestLink {
    let mut link = TestLink::new(&Direction { queue: QueueSize::Packets(100_000), ..direction });
    link.link.start(0);
    link
}

fn traced(trace: RateTrace) -> TestLink {
    started(Direction { rate: Some(trace.mean()), trace: Some(trace), ..Direction::default() })
}

fn trace(times: &[u32]) -> RateTrace {
    RateTrace::new("x".into(), times.to_vec()).unwrap()
}

fn rates(first: u64, changes: impl Iterator<Item = (u64, u64)>) -> TestLink {
    let change = |(at, rate)| DirectionChange {
        at: Duration::from_nanos(at),
        rate: Some(BitsPerSec(rate)),
        ..DirectionChange::default()
    };
    let (rate, changes) = (Some(BitsPerSec(first)), changes.map(change).collect());
    started(Direction { rate, changes, ..Direction::default() })
}

#[test]
fn rate_that_changes_within_a_packet_sends_each_part_at_its_rate() {
    // 12 000 bits: 1 ms at 6 Mbit/s sends half, the rest takes 6 ms at 1 Mbit/s.
    let mut link = rates(6_000_000, [(MS, 1_000_000), (20 * MS, 12_000_000)].into_iter());
    assert_eq!(leave(&mut link, &[(0, 1500), (0, 1500)]), [7.0, 19.0]);
    // 1 ms at 1 Mbit/s, then the rest of 11 000 bits at 12 Mbit/s.
    assert_eq!(
        leave(&mut link, &[(19, 1500), (30, 1500)]),
        [20.0 + 11.0 / 12.0, 31.0].map(|ms| (ms * 1e6f64).floor() / 1e6)
    );
}

#[test]
fn packets_leave_at_the_opportunities_of_the_trace_round_after_round() {
    let mut link = traced(trace(&[2, 5, 5, 10]));
    let burst = [(0, 1500); 6];
    assert_eq!(leave(&mut link, &burst), [2.0, 5.0, 5.0, 10.0, 12.0, 15.0]);
    // Unused opportunities are lost.
    assert_eq!(leave(&mut link, &[(31, 1500), (999, 1500), (1000, 1500)]), [32.0, 1000.0, 1002.0]);
}

#[test]
fn small_packets_share_an_opportunity_that_comes_after_they_arrived() {
    let mut link = traced(trace(&[2, 5, 10]));
    assert_eq!(leave(&mut link, &[(0, 500), (1, 500), (2, 500), (2, 500)]), [2.0, 2.0, 2.0, 5.0]);
    // At 6 ms the rest of the opportunity at 5 ms is gone; a large packet needs one and a half.
    assert_eq!(leave(&mut link, &[(6, 2250), (6, 700), (6, 100)]), [12.0, 12.0, 15.0]);
}

/// The guest once ended each round at the last opportunity.
#[test]
fn outage_at_the_end_of_a_trace_is_part_of_each_round() {
    let mut link = traced(RateTrace { length_ms: 20, ..trace(&[2, 5]) });
    assert_eq!(leave(&mut link, &[(0, 1500); 5]), [2.0, 5.0, 22.0, 25.0, 42.0]);
    assert_eq!(leave(&mut link, &[(106, 1500), (140, 1500), (159, 1500)]), [122.0, 142.0, 162.0]);
}

proptest! {
    /// Whatever arrives: packets leave in order, never early, only at opportunities, and no opportunity is
    /// overused.
    #[test]
    fn any_arrivals_use_each_opportunity_once(
        packets in prop::collection::vec((0u64..40, 1u32..4000), 1..200),
        times in prop::collection::vec(0u32..60, 1..30),
    ) {
        let mut times = times;
        times.sort_unstable();
        times.push(60);
        let mut link = traced(trace(&times));
        let (mut now, mut last, mut bytes_sent) = (0, 0, 0u64);
        for (gap, bytes) in packets {
            now += gap * MS / 2;
            let left = left(&mut link, now, bytes);
            prop_assert!(left >= now && left >= last);
            let in_round = left / MS % 60;
            prop_assert!(left.is_multiple_of(MS) && (in_round == 0 || times.contains(&(in_round as u32))));
            bytes_sent += u64::from(bytes);
            last = left;
            let ms = left / MS;
            let rounds = (0..=ms / 60).flat_map(|round| times.iter().map(move |at| round * 60 + u64::from(*at)));
            let most = rounds.filter(|at| *at <= ms).count() as u64 * u64::from(OPPORTUNITY_BYTES);
            prop_assert!(bytes_sent <= most, "{bytes_sent} bytes by {ms} ms, at most {most}");
        }
    }

    /// A rate written as steps of one value is that rate.
    #[test]
    fn steps_of_equal_rates_change_nothing(
        packets in prop::collection::vec((0u64..4, 20u32..1500), 1..100),
        rate in 1_000u64..100_000_000,
    ) {
        let mut steady = rates(rate, std::iter::empty());
        let mut stepped = rates(rate, (1..50).map(|n| (n * 3 * MS + 7, rate)));
        let mut now = 0;
        for (gap, bytes) in packets {
            now += gap * MS;
            prop_assert_eq!(left(&mut steady, now, bytes), left(&mut stepped, now, bytes));
        }
    }
}
