//! Checks what a guest does not support, and reads its counters.

use zerocopy::IntoBytes as _;

use super::*;
use crate::path::Direction;
use crate::path::change::DirectionChange;
use crate::path::loss::LossPositions;
use crate::path::rate_trace::RateTrace;
use shared::units::BitsPerSec;

fn config(direction: Direction) -> LinkConfig {
    LinkConfig { directions: [direction, Direction::default()], mtu: 1500 }
}

#[test]
fn counters_of_several_directions_are_read_in_order() {
    let first = Counters { received_pkts: 9, lost_pkts: 2, loss_runs: 1, first_lost_count: 2, ..Counters::default() };
    let second = Counters { sent_bytes: 40, max_queue_pkts: 3, ..Counters::default() };
    let mut waits = [0u64; TIME_BUCKETS];
    let none = waits;
    waits[TIME_BUCKETS - 1] = 7;
    let ends: [(&[u8], &[u64], _); 2] = [(first.as_bytes(), &[5, 6], &none), (second.as_bytes(), &[], &waits)];
    let mut of_flow = [0u32; TIME_BUCKETS];
    of_flow[33] = 5;
    let flows = [[0u64.as_bytes(), &[]].concat(), [1u64.as_bytes(), 7u64.as_bytes(), of_flow.as_bytes()].concat()];
    let ends = ends.map(|(counters, lost, waits)| [counters, lost.as_bytes(), waits.as_bytes()].concat());
    let bytes = ends.into_iter().zip(flows).flat_map(|(end, flows)| end.into_iter().chain(flows)).collect::<Vec<_>>();
    let read = counters(&bytes).unwrap();
    assert!(read[0].flow_waits.is_empty() && read[1].flow_waits.len() == 1);
    let (number, waits) = read[1].flow_waits[0];
    assert!(number == 7 && waits.p50 == waits.max && (2.0..2.1).contains(&waits.mean), "{waits:?}");
    let read: Vec<LinkCounters> = read.into_iter().map(|it| it.counters).collect();
    assert_eq!((read.len(), read[0].received_pkts, &read[0].lost_positions[..]), (2, 9, &[5, 6][..]));
    assert_eq!((read[0].loss_runs, read[1].sent_bytes, read[1].max_queue_pkts), (Some(1), 40, Some(3)));
    assert!(read[0].wait_us.is_none() && read[1].wait_us.is_some_and(|wait| wait.p50 > 2_100e6));
    assert!(counters(&bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn what_a_guest_cannot_have_is_refused_by_field() {
    let refused = |direction: Direction| check(&config(direction)).unwrap_err().to_string();
    let many = LossPositions::new("trace:x".into(), (1..=3_000_000).collect()).unwrap();
    let loss = LossModel::Positions(many);
    let what = "loss: its numbers take 24000000 bytes, a guest of virtual time allows 16777216";
    assert_eq!(refused(Direction { loss: loss.clone(), ..Direction::default() }), what);
    let change = DirectionChange { loss: Some(loss), ..DirectionChange::default() };
    assert_eq!(refused(Direction { changes: vec![change], ..Direction::default() }), what);
    let trace = RateTrace::new("trace:x".into(), (0..5_000_000).collect()).unwrap();
    let what = refused(Direction { rate: Some(trace.mean()), trace: Some(trace), ..Direction::default() });
    assert!(what.starts_with("rate: its numbers take 20000000 bytes"), "{what}");
    let slow = Direction { rate: Some(BitsPerSec(1)), ..Direction::default() };
    assert!(refused(slow).contains("rate = "), "the ranges of every link hold too");
    assert!(check(&config(Direction::default())).is_ok());
}
