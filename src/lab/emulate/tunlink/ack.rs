//! Pure acknowledgements: TCP segments that carry nothing else.

use std::ops::Range;

const TCP: u8 = 6;
/// FIN, SYN, RST and ACK; a pure acknowledgement has only ACK of these.
const KIND_FLAGS: u8 = 0x17;
const ACK: u8 = 0x10;
/// The bits next to the header's length: reserved, and one of accurate ECN.
const RESERVED: u8 = 0x0f;
const PORTS: Range<usize> = 0..4;
const NUMBER: Range<usize> = 8..12;
const TCP_HEADER: usize = 20;
/// Two no-ops and a time stamp: the options of nearly every segment (RFC 7323, appendix A).
const TIMESTAMP_OPTION: [u8; 4] = [1, 1, 8, 10];
const TIMESTAMP_OPTION_LEN: usize = 12;
/// Two IPv6 addresses and two ports.
const FLOW_LEN: usize = 36;

/// The parts of a pure acknowledgement that a link compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    flow: [u8; FLOW_LEN],
    number: u32,
    is_plain: bool,
}

/// Byte offsets of a TCP header, its packet's end, and the addresses.
struct HeaderBounds {
    begin: usize,
    end: usize,
    addresses: Range<usize>,
}

impl Ack {
    /// `None` for any other packet: data, SYN, FIN, RST, a fragment, or not TCP.
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

    /// Whether a later acknowledgement makes this one redundant: it is of the same flow and acknowledges more, and this
    /// one has neither SACK blocks nor marks.
    pub fn is_superseded_by(&self, later: &Ack) -> bool {
        let ahead = later.number.wrapping_sub(self.number);
        self.is_plain && self.flow == later.flow && ahead != 0 && ahead < 1 << 31
    }
}

fn ipv4(packet: &[u8]) -> Option<HeaderBounds> {
    const HEADER: usize = 20;
    const FRAGMENT: u16 = 0x3fff;
    let word = |at: usize| packet.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let begin = usize::from(packet[0] & 0xf) * 4;
    let is_tcp = *packet.get(9)? == TCP && word(6)? & FRAGMENT == 0 && begin >= HEADER;
    is_tcp.then_some(HeaderBounds { begin, end: word(2)?.into(), addresses: 12..20 })
}

/// A packet with extension headers does not count as an acknowledgement.
fn ipv6(packet: &[u8]) -> Option<HeaderBounds> {
    const HEADER: usize = 40;
    let header = packet.get(..HEADER)?;
    let payload = u16::from_be_bytes([header[4], header[5]]);
    let segment = HeaderBounds { begin: HEADER, end: HEADER + usize::from(payload), addresses: 8..40 };
    (header[6] == TCP).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (flags, is_pure) in [
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
                assert_eq!(Ack::of(&segment(1, flags, options, b"")).is_some(), is_pure, "{flags:#x}");
            }
        }
        assert_eq!(Ack::of(&segment(1, ACK, &timestamp(), b"x")), None, "data");
        for (at, byte) in [(9, 17), (6, 0x20)] {
            let mut other = segment(1, ACK, &[], b"");
            other[at] = byte;
            assert_eq!(Ack::of(&other), None, "a datagram, a fragment");
        }
    }

    #[test]
    fn newer_one_of_the_flow_supersedes_unless_there_is_more_than_a_number() {
        let ack = |number, flags, options: &[u8]| Ack::of(&segment(number, flags, options, b"")).unwrap();
        let plain = |number| ack(number, ACK, &timestamp());
        let sack = [&timestamp()[..], &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]].concat();
        let mut elsewhere = segment(9, ACK, &timestamp(), b"");
        elsewhere[15] = 7;
        for (old, new, expected, what) in [
            (plain(u32::MAX), plain(5), true, "numbers wrap around"),
            (plain(u32::MAX), ack(5, ACK | 0x40, &[]), true, "a mark on the newer one"),
            (plain(u32::MAX), plain(u32::MAX), false, "a duplicate"),
            (plain(u32::MAX), plain(u32::MAX - 1), false, "an older one"),
            (plain(u32::MAX), Ack::of(&elsewhere).unwrap(), false, "another flow"),
            (ack(1, ACK, &sack), plain(9), false, "SACK blocks"),
            (ack(1, ACK | 0x40, &timestamp()), plain(9), false, "ECE"),
            (ack(1, ACK | 0x80, &[]), plain(9), false, "CWR"),
        ] {
            assert_eq!(old.is_superseded_by(&new), expected, "{what}");
        }
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
