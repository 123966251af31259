//! Links of any kind account for every packet, and refuse wrong requests.

use proptest::prelude::*;

use super::*;
use crate::path::hold::{Hold, PacketHold};
use crate::path::request::random::{Deed, TestPacket, any_config, any_packets, any_word};

const SLOTS: u32 = 1_024;

/// A direction, its free slots, and the packets that it has.
struct AnyLink {
    link: DirectionLink,
    free: Vec<Slot>,
    /// When each packet on its way was said to be due, by its slot. `None`: it is not on its way.
    due: Vec<Option<u64>>,
    /// When the last packet left.
    left_at: u64,
    sent: u64,
}

impl AnyLink {
    fn new(link: DirectionLink) -> Self {
        let free = (0..SLOTS).map(Slot::of).collect();
        AnyLink { link, free, due: vec![None; SLOTS as usize], left_at: 0, sent: 0 }
    }

    fn note(&mut self, slot: Slot, entered: Entered) {
        match entered.verdict {
            PacketVerdict::Due(due) => self.due[slot.number() as usize] = Some(due),
            _ => self.free.push(slot),
        }
        let dropped: Vec<Slot> = std::iter::from_fn(|| self.link.take_dropped()).collect();
        assert_eq!(dropped.is_empty(), !entered.has_dropped);
        dropped.into_iter().for_each(|slot| self.frees(slot));
    }

    fn frees(&mut self, slot: Slot) {
        assert!(self.due[slot.number() as usize].take().is_some(), "{slot:?} is on its way");
        self.free.push(slot);
    }

    /// Packets leave in order, and not before they are due.
    fn leave(&mut self, now: u64) {
        let mut batch = [Departure::default(); 7];
        loop {
            let count = self.link.take_due(now, &mut batch);
            for packet in &batch[..count] {
                assert!(packet.due_ns <= now && packet.due_ns >= self.left_at);
                assert!(self.due[packet.slot as usize].is_some_and(|due| packet.due_ns >= due));
                self.left_at = packet.due_ns;
                self.frees(packet.slot());
            }
            self.sent += count as u64;
            if count < batch.len() {
                return;
            }
        }
    }

    fn carry(&mut self, packet: &TestPacket, now: u64) {
        let (Some(slot), Some(copy)) = (self.free.pop(), self.free.pop()) else { panic!("there are slots for all") };
        let bytes =
            [&packet.header[..], &ZEROES[..(packet.bytes as usize).saturating_sub(packet.header.len())]].concat();
        let entered = self.link.enter(Arrival { sent: now, packet: &bytes, slot, is_low: packet.is_low });
        self.note(slot, entered);
        if entered.has_copy {
            let entered = self.link.enter_copy(Some(copy));
            self.note(copy, entered);
        } else {
            self.free.push(copy);
        }
    }
}

/// A packet that is no acknowledgement makes none redundant. Such a request once read one that was not there.
#[test]
fn request_that_thins_all_packets_is_refused() {
    let thinned: Hold = "thinned:time=5ms,pkts=4".parse().unwrap();
    let direction = Direction { hold: Some(PacketHold(thinned)), ..Direction::default() };
    let config = LinkConfig { directions: [direction, Direction::default()], mtu: 1500 };
    let request = DirectionRequest {
        device: None,
        config: &config,
        direction: 0,
        host_delay: Duration::ZERO,
        sample: Duration::ZERO,
    };
    assert!(DirectionLink::read(&request.bytes().unwrap(), SLOTS).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4_000 }))]

    #[test]
    fn every_packet_is_dropped_once_or_leaves_once(config in any_config(), packets in any_packets(1..500)) {
        let direction = &config.directions[0];
        let request = DirectionRequest {
            device: None,
            config: &config,
            direction: 0,
            host_delay: direction.host_delay,
            sample: Duration::ZERO,
        };
        let mut any = AnyLink::new(DirectionLink::new(&request, SLOTS).unwrap());
        any.link.sample_every(700_000, 300);
        let mut now = 0;
        for packet in &packets {
            now += packet.gap;
            match packet.deed {
                Deed::Nothing => {}
                Deed::Start => any.link.start(now),
                Deed::Reseed => any.link.reseed(direction.seed),
                Deed::RestartCounters => {}
            }
            any.leave(now);
            any.carry(packet, now);
        }
        let samples = any.link.samples(now);
        prop_assert!(samples.len() <= 300 && samples.is_sorted_by_key(|sample| sample.time_ns));
        any.leave(NEVER - 1);
        prop_assert_eq!(any.link.next_due(), None);
        let counters = any.link.counters();
        let dropped = counters.lost_pkts + counters.acks_lost_pkts + counters.down_pkts + counters.overflow_pkts + counters.policed_pkts;
        let entered = counters.received_pkts + counters.duplicated_pkts;
        prop_assert_eq!(entered, packets.len() as u64 + counters.duplicated_pkts);
        prop_assert_eq!(entered - dropped - counters.acks_thinned_pkts, any.sent);
        prop_assert_eq!((any.free.len(), counters.failed_pkts), (SLOTS as usize, 0));
    }

    /// A request of any bytes is refused, or works without undefined behaviour.
    #[test]
    fn request_of_other_bytes_is_refused_or_harmless(
        config in any_config(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), any_word()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        packets in any_packets(1..40),
    ) {
        let request = DirectionRequest {
            device: Some("d"),
            config: &config,
            direction: 0,
            host_delay: Duration::ZERO,
            sample: Duration::ZERO,
        };
        let mut request = request.bytes().unwrap();
        let words = request.len() / 8;
        for (place, word) in &patches {
            let at = 8 * place.index(words);
            request[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(cut) = cut {
            request.truncate(cut.index(request.len()));
        }
        let mut now = 1 << 40;
        if let Some(link) = DirectionLink::read(&request, 128) {
            let mut any = AnyLink { free: (0..128).map(Slot::of).collect(), ..AnyLink::new(link) };
            any.link.start(now);
            for packet in &packets {
                now += packet.gap;
                any.carry(packet, now);
            }
            while any.link.take_due(NEVER - 1, &mut [Departure::default(); 9]) > 0 {}
        }
    }

    /// Each overtaken packet counts once, and equal times leave in the order of arrival.
    #[test]
    fn packets_that_others_overtake_count_once(
        gaps in prop::collection::vec(0u64..4, 1..200),
        (by, jitter) in (1u64..12, 0u64..3),
        seed: u64,
    ) {
        let reorder = Some(format!("share=30%,by={by}ms").parse().unwrap());
        let direction = Direction { reorder, jitter: Duration::from_millis(jitter).into(), seed, ..Direction::default() };
        let mut link = new(&direction, 256);
        let (mut now, mut due) = (0, Vec::new());
        for (number, gap) in (0..).zip(gaps) {
            now += gap * MS / 2;
            let entered = link.enter(Arrival { sent: now, packet: &[0; 40], slot: Slot::of(number), is_low: false });
            let PacketVerdict::Due(at) = entered.verdict else { panic!("a link without loss") };
            due.push((at, number));
        }
        let is_overtaken = |(index, (at, _)): &(usize, &(u64, u32))| due[index + 1..].iter().any(|(later, _)| later < at);
        let overtaken = due.iter().enumerate().filter(is_overtaken).count();
        prop_assert_eq!(link.counters().reordered_pkts, Some(overtaken as u64));
        let mut departures = vec![Departure::default(); due.len() + 1];
        let count = link.take_due(NEVER - 1, &mut departures);
        due.sort_unstable();
        prop_assert!(departures[..count].iter().map(|packet| (packet.due_ns, packet.slot)).eq(due));
    }
}
