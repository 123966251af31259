//! Queue, delay and chance.

use proptest::prelude::*;

use super::*;
use crate::path::change::DirectionChange;
use crate::path::rate_trace::RateTrace;
use shared::units::{BitsPerSec, QueueSize, Share};

/// Serialisation of 1500 bytes at 10 Mbit/s, nanoseconds.
const FULL_PACKET: u64 = 1_200_000;

fn direction() -> Direction {
    Direction {
        rate: Some(BitsPerSec(10_000_000)),
        delay: Duration::from_millis(50),
        queue: QueueSize::Packets(3),
        seed: 7,
        ..Direction::default()
    }
}

/// Loses 1 % of the packets, without a rate.
fn lossy() -> Direction {
    Direction { rate: None, loss: Share(0.01).into(), ..direction() }
}

fn shape(direction: &Direction, packets: u32) -> TestLink {
    TestLink::new(&Direction { queue: QueueSize::Packets(packets), ..direction.clone() })
}

fn lost_packets(seed: u64, loss: f64, packets: u64) -> Vec<u64> {
    let mut shaper = shape(&Direction { loss: Share(loss).into(), seed, ..lossy() }, 1);
    (0..packets).filter(|&n| shaper.admit(n * MS, 1500) == PacketVerdict::Lost).collect()
}

#[test]
fn packet_into_an_idle_link_is_due_after_serialisation_and_delay() {
    let mut shaper = shape(&direction(), 3);
    assert_eq!(shaper.admit(5 * MS, 1500), PacketVerdict::Due(5 * MS + FULL_PACKET + 50 * MS));
    assert_eq!(shaper.admit(500 * MS, 750), PacketVerdict::Due(500 * MS + FULL_PACKET / 2 + 50 * MS));
    assert_eq!(shaper.longest_queue(), 0);
}

#[test]
fn burst_fills_the_queue_behind_the_packet_being_serialised() {
    let mut shaper = shape(&direction(), 3);
    for n in 1..=4 {
        assert_eq!(shaper.admit(MS, 1500), PacketVerdict::Due(MS + n * FULL_PACKET + 50 * MS));
    }
    assert_eq!(shaper.admit(MS, 1500), PacketVerdict::Overflow);
    assert_eq!(shaper.longest_queue(), 3);
    // The second packet enters the serialiser, so there is room for exactly one.
    assert_eq!(shaper.admit(MS + FULL_PACKET, 1500), PacketVerdict::Due(MS + 5 * FULL_PACKET + 50 * MS));
    assert_eq!(shaper.admit(MS + FULL_PACKET, 1500), PacketVerdict::Overflow);
}

/// A bucket of three packets, and 1 Mbit/s: 12 ms for each.
#[test]
fn policer_passes_its_burst_at_once_and_then_its_rate_and_drops_the_rest() {
    let policer = Some("rate=1mbit,burst=4500B".parse().unwrap());
    let mut shaper = TestLink::new(&Direction { policer, ..Direction::default() });
    assert!((0..5).all(|_| shaper.admit(0, 1500) == PacketVerdict::Due(0)), "calibration measures the link alone");
    shaper.link.start(0);
    let mut passes = |at: u64| match shaper.admit(at * MS, 1500) {
        PacketVerdict::Due(due) => due == at * MS,
        verdict => {
            assert_eq!(verdict, PacketVerdict::Policed);
            false
        }
    };
    assert_eq!([5; 4].map(&mut passes), [true, true, true, false], "the burst");
    assert_eq!([16, 17, 18, 29, 41].map(&mut passes), [false, true, false, true, true], "the rate");
    assert_eq!([300; 4].map(passes), [true, true, true, false], "full again after a pause");
    assert_eq!(shaper.link.counters().policed_pkts, 4);
}

#[test]
fn packets_of_low_priority_find_the_queue_full_earlier() {
    let mut shaper = shape(&Direction { queue_low: Some(1), ..direction() }, 3);
    // One is in the serialiser and one waits: no room is left for a third of low priority.
    for _ in 0..2 {
        assert!(matches!(shaper.admit_low(MS, 1500), PacketVerdict::Due(_)));
    }
    assert_eq!(shaper.admit_low(MS, 1500), PacketVerdict::Overflow);
    for n in 3..=4 {
        assert_eq!(shaper.admit(MS, 1500), PacketVerdict::Due(MS + n * FULL_PACKET + 50 * MS));
    }
    assert_eq!(shaper.admit(MS, 1500), PacketVerdict::Overflow);
}

#[test]
fn byte_queue_counts_bytes() {
    let mut shaper = TestLink::new(&Direction { queue: QueueSize::Bytes(2_000), ..direction() });
    for (bytes, fits) in [(1500, true), (1500, true), (501, false), (500, true), (1, false)] {
        assert_eq!(shaper.admit(0, bytes) != PacketVerdict::Overflow, fits, "{bytes} bytes");
    }
}

#[test]
fn rate_does_not_drift_when_a_packet_takes_no_whole_number_of_nanoseconds() {
    let rate = BitsPerSec(7_000_001);
    let mut shaper = shape(&Direction { rate: Some(rate), delay: Duration::ZERO, ..direction() }, 100_000);
    let last = (0..50_000).map(|_| shaper.admit(0, 1500)).last().unwrap();
    let exact = 50_000u128 * 1500 * 8 * NANOS_PER_SEC / u128::from(rate.0);
    assert_eq!(last, PacketVerdict::Due(exact as u64));
}

#[test]
fn losses_depend_on_the_seed_alone_and_a_larger_loss_includes_those_of_a_smaller() {
    assert_eq!(lost_packets(7, 0.01, 20_000), lost_packets(7, 0.01, 20_000));
    assert_ne!(lost_packets(7, 0.01, 20_000), lost_packets(8, 0.01, 20_000));
    let (few, many) = (lost_packets(3, 0.001, 50_000), lost_packets(3, 0.01, 50_000));
    assert!(!few.is_empty() && few.iter().all(|packet| many.contains(packet)));
    // A seed's losses must never change, because published results are repeated by seed.
    assert_eq!(lost_packets(1, 0.01, 1_000), [158, 220, 223, 245, 299, 404, 444, 592, 828, 840]);
}

#[test]
fn reseed_restarts_the_pattern() {
    let mut shaper = shape(&lossy(), 1);
    for n in 0..777 {
        shaper.admit(n * MS, 100);
    }
    shaper.link.reseed(9);
    let lost: Vec<u64> = (0..5_000).filter(|&n| shaper.admit((n + 777) * MS, 100) == PacketVerdict::Lost).collect();
    assert_eq!(lost, lost_packets(9, 0.01, 5_000));
}

#[test]
fn jitter_neither_reorders_nor_changes_the_loss() {
    let mut shaper = shape(&Direction { jitter: Duration::from_millis(5).into(), ..lossy() }, 1);
    let (mut last, mut lost, mut delays) = (0, Vec::new(), Vec::new());
    for n in 0..10_000u64 {
        match shaper.admit(n * 10 * MS, 1500) {
            PacketVerdict::Due(due) => {
                assert!(due >= last);
                last = due;
                delays.push(due - n * 10 * MS);
            }
            PacketVerdict::Lost => lost.push(n),
            other => panic!("no rate, no queue: {other:?}"),
        }
    }
    assert_eq!(lost, lost_packets(7, 0.01, 10_000));
    assert!(delays.iter().all(|delay| (50 * MS..=55 * MS).contains(delay)));
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!((mean as i64 - 52_500_000).abs() < 100_000, "mean delay {mean} ns");
}

/// A fixed seed's share of 100 000 packets is within 3.5 standard deviations.
fn assert_share(what: &str, drawn: usize, share: f64) {
    let (expected, deviation) = (100_000.0 * share, (100_000.0 * share * (1.0 - share)).sqrt());
    assert!((drawn as f64 - expected).abs() < 3.5 * deviation, "{what}: {drawn} for {expected}");
}

#[test]
fn packets_held_back_are_the_asked_share_and_the_same_for_equal_seeds() {
    let reorder = Some("share=2%,by=7ms".parse().unwrap());
    let held = |seed| {
        let mut shaper = shape(&Direction { reorder, seed, ..lossy() }, 1);
        let is_held = |n: &u64| match shaper.admit(n * MS, 1500) {
            PacketVerdict::Due(due) => {
                assert!([50, 57].map(|delay| (n + delay) * MS).contains(&due));
                due == (n + 57) * MS
            }
            _ => false,
        };
        (0..100_000).filter(is_held).collect::<Vec<u64>>()
    };
    // 1 % is lost before it can be held back.
    assert_share("held back", held(3).len(), 0.02 * 0.99);
    assert_eq!(held(3), held(3));
    assert_ne!(held(3), held(4));
}

#[test]
fn copies_are_the_asked_share_follow_their_packet_and_need_a_place() {
    let direction = Direction { duplicate: Share(0.03), ..direction() };
    let mut shaper = shape(&direction, 3);
    let mut copies = 0;
    for n in 0..100_000 {
        let PacketVerdict::Due(due) = shaper.admit(n * 10 * MS, 1500) else { panic!("an idle link") };
        if let Some(copy) = shaper.admit_copy() {
            assert_eq!(copy, PacketVerdict::Due(due + FULL_PACKET));
            copies += 1;
        }
    }
    assert_share("copies", copies, 0.03);
    let always = Direction { duplicate: Share(1.0), ..direction };
    let mut shaper = shape(&always, 1);
    shaper.admit(0, 1500);
    assert!(matches!(shaper.admit_copy(), Some(PacketVerdict::Due(_))));
    assert_eq!(shaper.admit(0, 1500), PacketVerdict::Overflow);
}

#[test]
fn copy_of_a_packet_of_low_priority_finds_its_share_of_the_queue() {
    let direction = Direction { duplicate: Share(1.0), queue_low: Some(2), ..direction() };
    let mut shaper = shape(&direction, 9);
    // One is in the serialiser and one waits; then two wait.
    for overflows in [[false, false], [false, true]] {
        let both = [Some(shaper.admit_low(0, 1500)), shaper.admit_copy()];
        assert_eq!(both.map(|one| one == Some(PacketVerdict::Overflow)), overflows);
    }
    assert!(matches!(shaper.admit(0, 1500), PacketVerdict::Due(_)), "there is more room for others");
}

/// Generators once advanced only for packets that passed, so a drop changed the fate of all packets behind it.
#[test]
fn what_happens_to_a_packet_by_chance_depends_on_its_number_alone() {
    let reorder = Some("share=5%,by=7ms".parse().unwrap());
    let random = Direction {
        rate: None,
        jitter: Duration::from_millis(2).into(),
        reorder,
        duplicate: Share(0.05),
        ..direction()
    };
    let verdicts = |loss: f64| -> Vec<_> {
        let mut shaper = shape(&Direction { loss: Share(loss).into(), ..random.clone() }, 1);
        (0..5_000).map(|n| [Some(shaper.admit(n * 20 * MS, 1500)), shaper.admit_copy()]).collect()
    };
    let (without, with) = (verdicts(0.0), verdicts(0.1));
    let lost: Vec<u64> = (0..5_000).filter(|n| with[*n as usize][0] == Some(PacketVerdict::Lost)).collect();
    assert_eq!(lost, lost_packets(7, 0.1, 5_000), "reordering and copies do not change the losses");
    let same = without.iter().zip(&with).filter(|(one, other)| one == other).count();
    assert!(lost.len() > 300 && same == 5_000 - lost.len(), "{} lost, {same} the same", lost.len());
}

#[test]
fn packets_behind_as_many_as_asked_are_marked_and_no_others() {
    let marks = |mark| {
        let mut shaper = TestLink::new(&Direction { mark: Some(mark), ..direction() });
        let mut admit = |at: u64| {
            shaper.admit(at, 1500);
            shaper.last.is_marked
        };
        // One is serialised, then one, two and three wait; later the queue is empty again.
        [admit(MS), admit(MS), admit(MS), admit(MS), admit(500 * MS)]
    };
    assert_eq!(marks(QueueSize::Packets(2)), [false, false, false, true, false]);
    assert_eq!(marks(QueueSize::Packets(1)), [false, false, true, true, false]);
    assert_eq!(marks(QueueSize::Bytes(3000)), [false, false, false, true, false]);
}

#[test]
fn changes_come_at_their_moments_after_the_start_and_not_before() {
    let change = |at, change: DirectionChange| DirectionChange { at: Duration::from_secs(at), ..change };
    let changes = vec![
        change(1, DirectionChange { rate: Some(BitsPerSec(1_000_000)), ..DirectionChange::default() }),
        change(2, DirectionChange { delay: Some(Duration::from_millis(5)), ..DirectionChange::default() }),
        change(3, DirectionChange { up: Some(false), ..DirectionChange::default() }),
        change(4, DirectionChange { up: Some(true), loss: Some(Share(1.0).into()), ..DirectionChange::default() }),
    ];
    let mut shaper = shape(&Direction { changes, ..direction() }, 3);
    let not_started = shaper.admit(5_000 * MS, 1500);
    assert_eq!(not_started, PacketVerdict::Due(5_000 * MS + FULL_PACKET + 50 * MS));
    let begin = 10_000;
    shaper.link.start(begin * MS);
    // 10 of 12 kbit in the last millisecond at 10 Mbit/s, 2 ms for the others.
    for (ms, took) in [
        (999, 3 * MS + 50 * MS),
        (1_500, 12 * MS + 50 * MS),
        (1_995, 12 * MS + 5 * MS), // it leaves after the change
        (2_500, 12 * MS + 5 * MS),
    ] {
        assert_eq!(shaper.admit((begin + ms) * MS, 1500), PacketVerdict::Due((begin + ms) * MS + took), "{ms}");
    }
    assert_eq!(shaper.admit((begin + 3_000) * MS, 1500), PacketVerdict::Down);
    assert_eq!(shaper.admit((begin + 4_000) * MS, 1500), PacketVerdict::Lost);
    shaper.link.reseed(7);
    assert_eq!(shaper.admit(20_000 * MS, 1500), PacketVerdict::Due(20_000 * MS + FULL_PACKET + 50 * MS));
}

#[test]
fn queue_and_jitter_change_for_packets_that_arrive_later() {
    let at = |at| DirectionChange { at: Duration::from_secs(at), ..DirectionChange::default() };
    let changes = vec![
        DirectionChange { queue: Some(QueueSize::Packets(1)), ..at(1) },
        DirectionChange { queue: Some(QueueSize::Bytes(4_500)), ..at(2) },
        DirectionChange { jitter: Some(Duration::from_millis(20).into()), ..at(3) },
        DirectionChange { jitter: Some(Duration::ZERO.into()), ..at(4) },
    ];
    let mut shaper = shape(&Direction { changes, ..direction() }, 2);
    shaper.link.start(0);
    let due = |at: u64, number: u64| PacketVerdict::Due(at + number * FULL_PACKET + 50 * MS);
    let mut burst = |at: u64| [(); 5].map(|()| shaper.admit(at, 1500));
    let drop = PacketVerdict::Overflow;
    let before = 1_000 * MS - 1;
    assert_eq!(burst(before), [due(before, 1), due(before, 2), due(before, 3), drop, drop]);
    // Two packets wait in a queue for one, and stay.
    assert_eq!(burst(1_000 * MS), [drop; 5]);
    let still_one = 1_000 * MS + 3 * FULL_PACKET;
    assert_eq!(burst(still_one)[..3], [due(still_one, 1), due(still_one, 2), drop]);
    assert_eq!(burst(2_000 * MS)[2..], [due(2_000 * MS, 3), due(2_000 * MS, 4), drop], "three in bytes");
    let late = |shaper: &mut TestLink, from: u64| -> Vec<u64> {
        let one = |n: u64| match shaper.admit((from + 100 * n) * MS, 1500) {
            PacketVerdict::Due(due) => due - (from + 100 * n) * MS - FULL_PACKET - 50 * MS,
            other => panic!("{other:?}"),
        };
        (0..10).map(one).collect()
    };
    let spread = late(&mut shaper, 3_000);
    assert!(spread.iter().all(|late| *late <= 20 * MS) && spread.iter().any(|late| *late > 10 * MS), "{spread:?}");
    assert_eq!(late(&mut shaper, 4_000), [0; 10]);
}

#[test]
fn trace_takes_the_place_of_its_mean_when_the_link_is_started() {
    let trace = RateTrace::new("x".into(), vec![10, 10, 30]).unwrap();
    let direction = Direction { rate: Some(trace.mean()), trace: Some(trace), ..direction() };
    let mut shaper = shape(&direction, 3);
    assert_eq!(shaper.admit(0, 1500), PacketVerdict::Due(10 * MS + 50 * MS), "three packets in 30 ms");
    shaper.link.start(100 * MS);
    let due = |ms: u64| PacketVerdict::Due((100 + ms + 50) * MS);
    let burst: Vec<PacketVerdict> = (0..4).map(|_| shaper.admit(100 * MS, 1500)).collect();
    assert_eq!(burst, [due(10), due(10), due(30), PacketVerdict::Overflow]);
    assert_eq!(shaper.admit(109 * MS, 1500), PacketVerdict::Overflow, "all wait for an opportunity");
    assert_eq!(shaper.admit(110 * MS, 1500), due(40));
    assert_eq!(shaper.longest_queue(), 3);
}

proptest! {
    /// Packets keep their order, none is early, the rate is kept, and exactly those that do not fit are dropped.
    #[test]
    fn any_arrivals_keep_order_bound_and_rate(
        packets in prop::collection::vec((0u64..3 * MS, 20u32..1500), 1..400),
        rate in 100_000u64..1_000_000_000,
        queue in prop_oneof![(1u32..20).prop_map(QueueSize::Packets), (0u64..20_000).prop_map(QueueSize::Bytes)],
        jitter in prop_oneof![Just(0), 1u64..5],
    ) {
        let direction = Direction { rate: Some(BitsPerSec(rate)), jitter: Duration::from_millis(jitter).into(), queue, ..direction() };
        let mut shaper = TestLink::new(&direction);
        let (mut now, mut last_due, mut carried_bits, mut first) = (0, 0, 0u128, None);
        // Without jitter: when the serialiser is free, and the packets that wait for it.
        let (mut free_at, mut waiting) = (0, Vec::<(u64, u32)>::new());
        for (gap, bytes) in packets {
            now += gap;
            waiting.retain(|(from, _)| *from > now);
            let fits = match queue {
                QueueSize::Packets(most) => waiting.len() < most as usize,
                QueueSize::Bytes(most) => u64::from(waiting.iter().map(|(_, bytes)| bytes).sum::<u32>() + bytes) <= most,
                QueueSize::Bdp(_) => unreachable!("not drawn"),
            };
            let verdict = shaper.admit(now, bytes);
            if jitter == 0 {
                prop_assert_eq!(verdict == PacketVerdict::Overflow, free_at > now && !fits);
            }
            let PacketVerdict::Due(due) = verdict else { continue };
            first.get_or_insert(now);
            carried_bits += u128::from(bytes) * 8;
            prop_assert!(due >= last_due);
            let own_time = u128::from(bytes) * 8 * NANOS_PER_SEC / u128::from(rate);
            prop_assert!(due >= now + 50 * MS + own_time as u64);
            if free_at > now {
                waiting.push((free_at, bytes));
            }
            free_at = due - 50 * MS;
            let busy = u128::from(free_at - first.unwrap() + 1);
            prop_assert!(carried_bits * NANOS_PER_SEC <= busy * u128::from(rate));
            last_due = due;
        }
        if jitter == 0 && let QueueSize::Packets(most) = queue {
            prop_assert!(shaper.longest_queue() <= most.into());
        }
    }
}
