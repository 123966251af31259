//! Pure acknowledgements: the TCP segments that carry nothing else.

use std::ops::Range;

const TCP: u8 = 6;
/// FIN, SYN, RST and ACK; a pure acknowledgement has the last one alone of these.
const KIND_FLAGS: u8 = 0x17;
const ACK: u8 = 0x10;
/// The bits beside the header's length: reserved, and one of accurate ECN.
const RESERVED: u8 = 0x0f;
const PORTS: Range<usize> = 0..4;
const NUMBER: Range<usize> = 8..12;
const TCP_HEADER: usize = 20;
/// Two no-ops and a time stamp: the options of nearly every segment (RFC 7323, appendix A).
const TIMESTAMP_OPTION: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMP_OPTION_LEN: usize = 12;
/// Two IPv6 addresses and two ports.
const FLOW_LEN: usize = 36;

/// A pure acknowledgement, as far as a link compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    flow: [u8; FLOW_LEN],
    number: u32,
    is_plain: bool,
}

/// Where a TCP header begins, where its packet ends, and where the addresses are.
struct Segment {
    begin: usize,
    end: usize,
    addresses: Range<usize>,
}

impl Ack {
    /// None: the packet is anything else, such as data, SYN, FIN, RST, a fragment, or not TCP.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let segment = match packet.first()? >> 4 {
            4 => ipv4(packet)?,
            6 => ipv6(packet)?,
            _ => return None,
        };
        let header = packet.get(segment.begin..segment.end).filter(|header| header.len() >= TCP_HEADER)?;
        let (length, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
        if length != header.len() || flags & KIND_FLAGS != ACK {
            return None;
        }
        let mut flow = [0; FLOW_LEN];
        let (ports, addresses) = flow.split_at_mut(PORTS.len());
        ports.copy_from_slice(&header[PORTS]);
        addresses[..segment.addresses.len()].copy_from_slice(&packet[segment.addresses]);
        let options = &header[TCP_HEADER..];
        let has_plain_options =
            options.is_empty() || options.len() == TIMESTAMP_OPTION_LEN && options.starts_with(&TIMESTAMP_OPTION);
        Some(Ack {
            flow,
            number: u32::from_be_bytes(header[NUMBER].try_into().ok()?),
            is_plain: flags == ACK && header[12] & RESERVED == 0 && has_plain_options,
        })
    }

    /// Whether a later acknowledgement tells all that this one does: it is of the same flow and acknowledges more, and
    /// this one carries neither SACK blocks nor marks.
    pub fn is_told_by(&self, later: &Ack) -> bool {
        let ahead = later.number.wrapping_sub(self.number);
        self.is_plain && self.flow == later.flow && ahead != 0 && ahead < 1 << 31
    }
}

fn ipv4(packet: &[u8]) -> Option<Segment> {
    const HEADER: usize = 20;
    const FRAGMENT: u16 = 0x3fff;
    let word = |at: usize| packet.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let begin = usize::from(packet[0] & 0xf) * 4;
    let is_tcp = *packet.get(9)? == TCP && word(6)? & FRAGMENT == 0 && begin >= HEADER;
    is_tcp.then_some(Segment { begin, end: word(2)?.into(), addresses: 12..20 })
}

/// A header followed by extensions is not taken for an acknowledgement's.
fn ipv6(packet: &[u8]) -> Option<Segment> {
    const HEADER: usize = 40;
    let header = packet.get(..HEADER)?;
    let payload = u16::from_be_bytes([header[4], header[5]]);
    let segment = Segment { begin: HEADER, end: HEADER + usize::from(payload), addresses: 8..40 };
    (header[6] == TCP).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of a flow, with this number, these flags, options and payload.
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
        [&TIMESTAMP_OPTION[..], &[0; 8]].concat()
    }

    #[test]
    fn segments_without_payload_are_pure_unless_they_begin_or_end_a_connection() {
        for flags in [ACK, ACK | 0x08, ACK | 0x40, ACK | 0x80] {
            assert!(Ack::of(&segment(1, flags, &timestamp(), b"")).is_some(), "{flags:#x}");
            assert!(Ack::of(&segment(1, flags, &[], b"")).is_some(), "{flags:#x}");
        }
        for flags in [ACK | 0x01, ACK | 0x02, ACK | 0x04, 0x04, 0x02, 0] {
            assert_eq!(Ack::of(&segment(1, flags, &[], b"")), None, "{flags:#x}");
        }
        assert_eq!(Ack::of(&segment(1, ACK, &timestamp(), b"x")), None, "data");
        let mut other = segment(1, ACK, &[], b"");
        other[9] = 17;
        assert_eq!(Ack::of(&other), None, "a datagram");
        other[9] = TCP;
        other[6] = 0x20;
        assert_eq!(Ack::of(&other), None, "a fragment");
    }

    #[test]
    fn newer_one_of_the_flow_tells_all_unless_there_is_more_than_a_number() {
        let ack = |number, flags, options: &[u8]| Ack::of(&segment(number, flags, options, b"")).unwrap();
        let old = ack(u32::MAX, ACK, &timestamp());
        assert!(old.is_told_by(&ack(5, ACK, &timestamp())), "numbers begin anew");
        assert!(old.is_told_by(&ack(5, ACK | 0x40, &[])));
        assert!(!old.is_told_by(&ack(u32::MAX, ACK, &timestamp())), "a duplicate");
        assert!(!old.is_told_by(&ack(u32::MAX - 1, ACK, &timestamp())), "an older one");
        let sack = [&timestamp()[..], &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]].concat();
        let newest = ack(9, ACK, &timestamp());
        for kept in [ack(1, ACK, &sack), ack(1, ACK | 0x40, &timestamp()), ack(1, ACK | 0x80, &[])] {
            assert!(!kept.is_told_by(&newest), "{kept:?}");
        }
        let mut elsewhere = segment(9, ACK, &timestamp(), b"");
        elsewhere[15] = 7;
        assert!(!old.is_told_by(&Ack::of(&elsewhere).unwrap()), "another flow");
    }

    #[test]
    fn ipv6_is_read_too_and_whatever_is_cut_is_not() {
        let ipv4 = segment(3, ACK, &timestamp(), b"");
        let mut packet = vec![0x60, 0, 0, 0, 0, 32, TCP, 64];
        packet.extend([7; 32]);
        packet.extend(&ipv4[20..]);
        assert_eq!(Ack::of(&packet).unwrap().number, 3);
        for (packet, length) in
            [&packet, &ipv4].into_iter().flat_map(|packet| (0..packet.len()).map(move |n| (packet, n)))
        {
            assert_eq!(Ack::of(&packet[..length]), None, "{length}");
        }
    }
}
