//! Pure acknowledgements: which packets count as one, which make others redundant, and how they are held.

use super::*;
use shared::units::Share;

const TCP: u8 = 6;
const ACK: u8 = 0x10;

fn segment(number: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
    packet.extend([0, 80, 1, 2, 0, 0, 0, 9]);
    packet.extend(number.to_be_bytes());
    packet.extend([(5 + options.len() as u8 / 4) << 4, flags, 1, 1, 0, 0, 0, 0]);
    packet.extend(options.iter().chain(payload));
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet
}

fn timestamp() -> Vec<u8> {
    [&[1, 1, 8, 10][..], &[0; 8]].concat()
}

/// Whether a link that loses all pure acknowledgements loses this packet.
fn is_pure(packet: &[u8]) -> bool {
    let mut link = TestLink::new(&Direction { ack_loss: Share(1.0), ..Direction::default() });
    link.admit_packet(0, packet, false) == PacketVerdict::AckLost
}

/// Whether the second of two held acknowledgements replaces the first.
fn is_superseded(old: &[u8], new: &[u8]) -> bool {
    let mut bench = HoldBench::new("thinned:time=9ms");
    assert!(bench.enters(0, old) && bench.enters(0, new), "both are acknowledgements");
    bench.link.counters().acks_thinned_pkts == 1
}

#[test]
fn segments_without_payload_are_pure_unless_they_begin_or_end_a_connection() {
    for (flags, pure) in [
        (ACK, true),
        (ACK | 0x08, true),
        (ACK | 0x40, true),
        (ACK | 0x80, true),
        (ACK | 0x01, false),
        (ACK | 0x02, false),
        (ACK | 0x04, false),
        (0x04, false),
        (0x02, false),
        (0, false),
    ] {
        for options in [&[][..], &timestamp()] {
            assert_eq!(is_pure(&segment(1, flags, options, b"")), pure, "{flags:#x}");
        }
    }
    assert!(!is_pure(&segment(1, ACK, &timestamp(), b"x")), "data");
    for (at, byte) in [(9, 17), (6, 0x20)] {
        let mut other = segment(1, ACK, &[], b"");
        other[at] = byte;
        assert!(!is_pure(&other), "a datagram, a fragment");
    }
}

#[test]
fn newer_one_of_the_flow_supersedes_unless_there_is_more_than_a_number() {
    let plain = |number| segment(number, ACK, &timestamp(), b"");
    let sack = [&timestamp()[..], &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]].concat();
    let mut elsewhere = plain(9);
    elsewhere[15] = 7;
    for (old, new, expected, what) in [
        (plain(u32::MAX), plain(5), true, "numbers wrap around"),
        (plain(u32::MAX), segment(5, ACK | 0x40, &[], b""), true, "a mark on the newer one"),
        (plain(u32::MAX), plain(u32::MAX), false, "a duplicate"),
        (plain(u32::MAX), plain(u32::MAX - 1), false, "an older one"),
        (plain(u32::MAX), elsewhere, false, "another flow"),
        (segment(1, ACK, &sack, b""), plain(9), false, "SACK blocks"),
        (segment(1, ACK | 0x40, &timestamp(), b""), plain(9), false, "ECE"),
        (segment(1, ACK | 0x80, &[], b""), plain(9), false, "CWR"),
    ] {
        assert_eq!(is_superseded(&old, &new), expected, "{what}");
    }
}

#[test]
fn ipv6_is_read_too_and_whatever_is_cut_is_not() {
    let ipv4 = segment(3, ACK, &timestamp(), b"");
    let ipv6 = |number| {
        let header = [&[0x60, 0, 0, 0, 0, 32, TCP, 64][..], &[7; 32]].concat();
        [header, segment(number, ACK, &timestamp(), b"")[20..].to_vec()].concat()
    };
    assert!(is_pure(&ipv6(3)) && is_pure(&ipv4));
    assert!(is_superseded(&ipv6(3), &ipv6(4)) && !is_superseded(&ipv6(3), &ipv4));
    for packet in [&ipv6(3), &ipv4] {
        for length in 0..packet.len() {
            assert!(!is_pure(&packet[..length]), "{length}");
        }
    }
}

/// Packets are numbered 1, 2, … in the order of their arrival.
struct HoldBench {
    link: DirectionLink,
    came: u32,
}

impl HoldBench {
    fn new(hold: &str) -> Self {
        let link = new(&Direction { acks: Some(hold.parse().unwrap()), ..Direction::default() }, 64);
        HoldBench { link, came: 0 }
    }

    /// Returns whether the packet is held.
    fn enters(&mut self, ms: u64, packet: &[u8]) -> bool {
        self.came += 1;
        let held_before = self.link.counters().acks_held_pkts;
        let entered = self.link.enter(Arrival { sent: ms * MS, packet, slot: Slot::of(self.came), is_low: false });
        assert!(entered.is_due());
        let dropped = std::iter::from_fn(|| self.link.take_dropped()).count();
        assert_eq!(dropped > 0, entered.has_dropped);
        self.link.counters().acks_held_pkts > held_before
    }

    /// Each packet has an arrival (ms) and, if it is an acknowledgement, a number.
    fn with(mut self, packets: &[(u64, Option<u32>)]) -> Self {
        for (ms, ack) in packets {
            let packet = segment(ack.unwrap_or(0), ACK, &[], if ack.is_some() { b"" } else { b"data" });
            assert_eq!(self.enters(*ms, &packet), ack.is_some());
        }
        self
    }

    /// Number and departure (ms) of the next packets that leave.
    fn leaving(&mut self, most: usize) -> Vec<(u32, u64)> {
        let mut departures = vec![Departure::default(); most];
        let count = self.link.take_due(NEVER - 1, &mut departures);
        departures[..count].iter().map(|packet| (packet.slot, packet.due_ns / MS)).collect()
    }

    #[track_caller]
    fn check(&mut self, leaving: &[(u32, u64)], thinned: u64) {
        assert_eq!((self.leaving(99), self.link.counters().acks_thinned_pkts), (leaving.to_vec(), thinned));
    }
}

fn bench(hold: &str, packets: &[(u64, Option<u32>)]) -> HoldBench {
    HoldBench::new(hold).with(packets)
}

#[test]
fn batch_leaves_after_its_time_with_its_last_acknowledgement_or_before_another_packet() {
    let acks = [(10, Some(1)), (12, Some(2)), (14, Some(3)), (15, Some(4)), (19, Some(5))];
    bench("aggregated:time=5ms", &acks).check(&[(1, 15), (2, 15), (3, 15), (4, 20), (5, 20)], 0);
    let acks = [(10, Some(1)), (11, Some(2)), (12, Some(3)), (13, Some(4)), (16, None)];
    bench("aggregated:time=9ms,pkts=3", &acks).check(&[(1, 12), (2, 12), (3, 12), (4, 16), (5, 16)], 0);
}

/// Data waits like an ACK, and releases no one.
#[test]
fn batch_of_all_packets_leaves_after_its_time_or_with_its_last_packet() {
    let departures = |hold: &str, arrivals: &[u64]| {
        let hold = Some(hold.parse().unwrap());
        let link = new(&Direction { hold, ..Direction::default() }, 64);
        let mut bench = HoldBench { link, came: 0 };
        for (number, ms) in (0..).zip(arrivals) {
            let data: &[u8] = if number % 3 == 0 { b"" } else { b"data" };
            assert!(!bench.enters(*ms, &segment(number, ACK, &[], data)), "it does not count as an acknowledgement");
        }
        let counters = bench.link.counters();
        assert_eq!((counters.held_pkts, counters.acks_held_pkts), (arrivals.len() as u64, 0));
        bench.leaving(99).into_iter().map(|(_, ms)| ms).collect::<Vec<u64>>()
    };
    assert_eq!(departures("aggregated:time=5ms", &[10, 12, 14, 15, 19]), [15, 15, 15, 20, 20]);
    assert_eq!(departures("aggregated:time=9ms,pkts=3", &[10, 11, 12, 13, 16]), [12, 12, 12, 22, 22]);
}

#[test]
fn thinning_lets_the_newest_leave_and_every_duplicate() {
    let acks = [(10, Some(1)), (11, Some(2)), (12, Some(3)), (13, Some(3)), (18, Some(3))];
    let bench = bench("thinned:time=9ms,pkts=5", &acks);
    bench.with(&[(20, Some(4)), (21, Some(9))]).check(&[(3, 18), (4, 18), (5, 18), (7, 29)], 3);
}

/// The engine may look late: part of the batch has left before it enters an ACK that arrived on time.
#[test]
fn acknowledgement_that_is_seen_late_joins_what_is_left_of_its_batch() {
    let mut late = bench("thinned:time=9ms", &[(10, Some(1)), (11, Some(1)), (12, Some(1))]);
    assert_eq!(late.leaving(2), [(1, 19), (2, 19)]);
    let mut late = late.with(&[(13, Some(2))]);
    late.check(&[(4, 19)], 1);
    late.with(&[(14, Some(3)), (30, None)]).check(&[(5, 19), (6, 30)], 1);
}
