//! Packets through one direction on a virtual clock. The C traps undefined behaviour in builds for tests.

use std::time::Duration;

use super::super::pool::Slot;
use super::*;
use crate::path::{Direction, LinkConfig};

mod accounting;
mod acknowledgements;
mod jitter;
mod losses;
mod pace;
mod queue;

const MS: u64 = 1_000_000;
const NANOS_PER_SEC: u128 = 1_000_000_000;
/// The longest packet of a test.
const PACKET_MAX: usize = 65_535;
static ZEROES: [u8; PACKET_MAX] = [0; PACKET_MAX];

fn new(direction: &Direction, slots: u32) -> DirectionLink {
    let config = LinkConfig { directions: [direction.clone(), Direction::default()], mtu: 1500 };
    let (host_delay, sample) = (direction.host_delay, Duration::ZERO);
    let request = DirectionRequest { device: None, config: &config, direction: 0, host_delay, sample };
    DirectionLink::new(&request, slots).unwrap()
}

/// A link that packets leave as soon as their verdict is known.
struct TestLink {
    link: DirectionLink,
    last: Entered,
}

impl TestLink {
    fn new(direction: &Direction) -> Self {
        let last = Entered { verdict: PacketVerdict::Lost, is_marked: false, has_dropped: false, has_copy: false };
        TestLink { link: new(direction, 2), last }
    }

    fn note(&mut self, entered: Entered) -> PacketVerdict {
        while self.link.take_due(NEVER - 1, &mut [Departure::default()]) > 0 {}
        self.last = entered;
        entered.verdict
    }

    fn admit_packet(&mut self, sent: u64, packet: &[u8], is_low: bool) -> PacketVerdict {
        let entered = self.link.enter(Arrival { sent, packet, slot: Slot::of(0), is_low });
        self.note(entered)
    }

    fn admit(&mut self, sent: u64, bytes: u32) -> PacketVerdict {
        self.admit_packet(sent, &ZEROES[..bytes as usize], false)
    }

    fn admit_low(&mut self, sent: u64, bytes: u32) -> PacketVerdict {
        self.admit_packet(sent, &ZEROES[..bytes as usize], true)
    }

    fn admit_copy(&mut self) -> Option<PacketVerdict> {
        self.last.has_copy.then(|| {
            let entered = self.link.enter_copy(Some(Slot::of(1)));
            self.note(entered)
        })
    }

    fn longest_queue(&self) -> u64 {
        self.link.counters().max_queue_pkts.unwrap()
    }
}

#[test]
fn direction_without_memory_or_with_a_wrong_request_is_refused() {
    assert!(DirectionLink::read(&[0; 8], 2).is_none());
    let config = LinkConfig { directions: [Direction::default(), Direction::default()], mtu: 1500 };
    let request = DirectionRequest {
        device: None,
        config: &config,
        direction: 1,
        host_delay: Duration::ZERO,
        sample: Duration::ZERO,
    };
    let bytes = request.bytes().unwrap();
    assert!(DirectionLink::read(&bytes, 2).is_some() && DirectionLink::read(&bytes[1..], 2).is_none());
}

#[test]
#[should_panic = "is not one of 2"]
fn slot_that_the_link_does_not_have_is_refused() {
    new(&Direction::default(), 2).enter(Arrival { sent: 1, packet: &[], slot: Slot::of(2), is_low: false });
}

#[test]
fn copy_without_a_slot_fails_and_counts() {
    let mut link = new(&Direction { duplicate: shared::units::Share(1.0), ..Direction::default() }, 1);
    assert!(link.enter(Arrival { sent: 1, packet: &[0; 40], slot: Slot::of(0), is_low: false }).has_copy);
    assert_eq!(link.enter_copy(None).verdict, PacketVerdict::Failed);
    let counters = link.counters();
    assert_eq!((counters.received_pkts, counters.duplicated_pkts, counters.failed_pkts), (1, 1, 1));
}
