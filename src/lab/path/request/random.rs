//! Random links and packets, within what a scenario allows, for tests.

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use crate::path::change::DirectionChange;
use crate::path::hold::{Hold, HoldKind, PacketHold};
use crate::path::jitter::Jitter;
use crate::path::loss::{Bursts, Gilbert, LossModel, LossPositions};
use crate::path::policer::Policer;
use crate::path::rate_trace::RateTrace;
use crate::path::reorder::Reorder;
use crate::path::{Direction, LinkConfig};
use shared::units::{BitsPerSec, Bytes, QueueSize, Share};

/// An action on the link before a packet arrives.
#[derive(Debug, Clone, Copy, Default)]
pub enum Deed {
    #[default]
    Nothing,
    Start,
    Reseed,
    RestartCounters,
}

#[derive(Debug, Clone, Default)]
pub struct TestPacket {
    /// Nanoseconds since the packet before.
    pub gap: u64,
    pub bytes: u32,
    pub is_low: bool,
    pub header: Vec<u8>,
    pub deed: Deed,
}

/// Numbers whose lengths in bits are equally likely.
fn any_size(bits: Range<f64>) -> impl Strategy<Value = u64> {
    bits.prop_map(|bits| bits.exp2() as u64)
}

fn any_time() -> impl Strategy<Value = Duration> {
    let some = any_size(0.0..33.2).prop_map(Duration::from_nanos);
    prop_oneof![Just(Duration::ZERO), some]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let wifi = (1_000u64..=91_000).prop_map(|mean| Jitter::Wifi(Duration::from_micros(mean)));
    prop_oneof![3 => any_time().prop_map(Jitter::from), 1 => wifi]
}

fn any_share() -> impl Strategy<Value = Share> {
    prop_oneof![Just(0.0), 0.0..0.01, 0.0..1.0, Just(1.0)].prop_map(Share)
}

fn any_rate() -> impl Strategy<Value = BitsPerSec> {
    prop_oneof![any_size(10.0..33.0), Just(1_000), Just(10_000_000_000)].prop_map(BitsPerSec)
}

fn any_positions() -> impl Strategy<Value = LossPositions> {
    prop::collection::btree_set(1u64..600, 1..40)
        .prop_map(|positions| LossPositions::new("positions:x".into(), positions.into_iter().collect()).unwrap())
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    let gilbert = (any_share(), any_share(), any_share(), any_share());
    prop_oneof![
        any_share().prop_map(LossModel::Independent),
        gilbert.prop_map(|(to_bad, to_good, bad_loss, good_loss)| {
            LossModel::Gilbert(Gilbert { to_bad, to_good, bad_loss, good_loss })
        }),
        (0.0..0.5, 1.0..50.0).prop_map(|(loss, mean_pkts)| LossModel::Bursts(Bursts { loss: Share(loss), mean_pkts })),
        any_positions().prop_map(LossModel::Positions),
    ]
}

fn any_queue() -> impl Strategy<Value = QueueSize> {
    prop_oneof![
        (0u32..20).prop_map(QueueSize::Packets),
        (0u32..700).prop_map(QueueSize::Packets),
        (0u64..300_000).prop_map(QueueSize::Bytes),
        (0.01..3.0).prop_map(QueueSize::Bdp),
    ]
}

fn any_trace() -> impl Strategy<Value = RateTrace> {
    (prop::collection::vec(0u32..200, 0..50), 1u32..250).prop_map(|(mut times, last)| {
        times.retain(|time| *time <= last);
        times.sort_unstable();
        times.push(last);
        RateTrace::new("x".into(), times).unwrap()
    })
}

fn any_changes() -> impl Strategy<Value = Vec<DirectionChange>> {
    let change = (
        any_size(10.0..30.0),
        prop::option::of(any_rate()),
        prop::option::of(any_time()),
        prop::option::weighted(0.3, any_jitter()),
        prop::option::weighted(0.3, any_queue()),
        prop::option::of(any_loss()),
        prop::option::weighted(0.3, any::<bool>()),
    );
    prop::collection::vec(change, 0..8).prop_map(|changes| {
        let mut at = Duration::ZERO;
        let change = |(gap, rate, delay, jitter, queue, loss, up)| {
            at += Duration::from_nanos(gap);
            DirectionChange { at, rate, delay, jitter, queue, discipline: None, loss, up }
        };
        changes.into_iter().map(change).collect()
    })
}

fn any_hold() -> impl Strategy<Value = Hold> {
    let kind = prop::sample::select(vec![HoldKind::Aggregated, HoldKind::Thinned, HoldKind::Compressed]);
    (kind, any_size(0.0..33.2), 2u32..60, any_share()).prop_map(|(kind, time, pkts, share)| Hold {
        kind,
        time: Duration::from_nanos(time),
        pkts,
        share: if kind == HoldKind::Compressed { share } else { Share(1.0) },
    })
}

/// A direction whose fields may contradict each other.
fn any_direction() -> impl Strategy<Value = Direction> {
    let pace = (prop::option::weighted(0.8, any_rate()), prop::option::weighted(0.2, any_trace()), any_changes());
    let policer = (any_rate(), 0u64..200_000).prop_map(|(rate, burst)| Policer { rate, burst: Bytes(burst) });
    let policer = prop::option::weighted(0.2, policer);
    let queue = (any_queue(), prop::option::of(any_queue()), prop::option::weighted(0.3, 0u32..20), policer);
    let reorder = (any_share(), any_time()).prop_map(|(share, by)| Reorder { share, by });
    let chances = (any_jitter(), prop::option::of(reorder), any_share(), any_loss(), any::<u64>());
    let acks = (prop::option::of(any_hold()), any_share(), any::<bool>());
    let host_delay = prop_oneof![2 => Just(0), 1 => 1u64..50_000].prop_map(Duration::from_nanos);
    let times = (host_delay, any_time());
    (pace, times, queue, chances, acks).prop_map(|(pace, times, queue, chances, (acks, ack_loss, holds_all))| {
        let hold = acks.filter(|acks| holds_all && acks.kind != HoldKind::Thinned).map(PacketHold);
        let (host_delay, delay) = times;
        let ((rate, trace, changes), (queue, mark, queue_low, policer)) = (pace, queue);
        let (jitter, reorder, duplicate, loss, seed) = chances;
        Direction {
            host_delay,
            rate,
            delay,
            jitter,
            queue,
            mark,
            queue_low,
            remark: None, // outside the C that is tested with this
            policer,
            discipline: None, // the kernel's own
            loss,
            trace,
            changes,
            reorder: reorder.filter(|_| acks.is_none()),
            duplicate,
            hold,
            acks: acks.filter(|_| hold.is_none()),
            ack_loss,
            seed,
        }
    })
}

/// A valid link. Its second direction only adds delay.
pub fn any_config() -> impl Strategy<Value = LinkConfig> {
    (any_direction(), any_time()).prop_map(|(mut direction, delay)| {
        if let Some(trace) = &direction.trace {
            direction.rate = Some(trace.mean());
            direction.changes.iter_mut().for_each(|change| change.rate = None);
        }
        let back = Direction { delay, ..Direction::default() };
        let mut config = LinkConfig { directions: [direction, back], mtu: 1500 };
        let repairs: [fn(&mut Direction); 6] = [
            |direction| direction.changes.iter_mut().for_each(|change| change.queue = None),
            |direction| direction.policer = None,
            |direction| direction.mark = None,
            |direction| direction.queue_low = None,
            |direction| direction.queue = QueueSize::Packets(7),
            |direction| (direction.rate, direction.trace) = (Some(BitsPerSec(5_000_000)), None),
        ];
        for repair in repairs {
            if config.check().is_err() {
                repair(&mut config.directions[0]);
            }
        }
        config
    })
}

/// A TCP segment without payload, with this sequence number and these flags.
fn segment(flow: u8, number: u32, flags: u8, has_timestamp: bool) -> Vec<u8> {
    let options: &[u8] = if has_timestamp { &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2] } else { &[] };
    let length = 40 + options.len() as u8;
    let mut packet = vec![0x45, 0, 0, length, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, flow];
    packet.extend([0, 80, 1, 2, 0, 0, 0, 9]);
    packet.extend(number.to_be_bytes());
    packet.extend([(5 + options.len() as u8 / 4) << 4, flags, 1, 1, 0, 0, 0, 0]);
    packet.extend(options);
    packet
}

/// Headers of ACKs, some with a changed byte or cut short, and random bytes.
fn any_header() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![8 => Just(0x10u8), 1 => any::<u8>()];
    let number = prop_oneof![0u32..20, any::<u32>()];
    let segment = (0u8..3, number, flags, any::<bool>())
        .prop_map(|(flow, number, flags, has_timestamp)| segment(flow, number, flags, has_timestamp));
    let spoilt = (segment.clone(), any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    prop_oneof![
        6 => segment,
        2 => spoilt.prop_map(|(mut packet, place, byte, is_cut)| {
            let place = place.index(packet.len());
            packet[place] = byte;
            packet.truncate(if is_cut { place } else { packet.len() });
            packet
        }),
        2 => prop::collection::vec(any::<u8>(), 0..80),
    ]
}

/// Bursts and pauses of packets, from small ones to the largest of IP.
pub fn any_packets(count: Range<usize>) -> impl Strategy<Value = Vec<TestPacket>> {
    let gap = prop_oneof![4 => Just(0), 2 => any_size(0.0..20.0), 1 => any_size(20.0..31.0)];
    let bytes = prop_oneof![4 => Just(1500), 2 => 20u32..1600, 1 => 20u32..=65_535];
    let deed = prop_oneof![
        100 => Just(Deed::Nothing),
        4 => Just(Deed::Start),
        1 => Just(Deed::Reseed),
        1 => Just(Deed::RestartCounters),
    ];
    let packet = (gap, bytes, prop::bool::weighted(0.3), any_header(), deed);
    let packet = packet.prop_map(|(gap, bytes, is_low, header, deed)| TestPacket { gap, bytes, is_low, header, deed });
    prop::collection::vec(packet, count).prop_map(|mut packets| {
        packets[0].gap += 1_000_000;
        packets
    })
}

/// A word of a request: small, near a power of two, or anything.
pub fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..10,
        (0u32..64, -1i64..2).prop_map(|(bit, near)| (1u64 << bit).wrapping_add_signed(near)),
        any::<u64>()
    ]
}
