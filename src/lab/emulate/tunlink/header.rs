//! Congestion marks (RFC 3168) and priority (RFC 2474) in IP headers.

/// Class selector 1: packets that may be dropped first (RFC 3662).
const LOW: u8 = 8;
/// The two lowest bits are for congestion marks.
const CONGESTION_BITS: u32 = 2;
/// In IPv4's second byte; in IPv6, four bits higher.
const ECN_BITS: u8 = 0b11;
const CHECKSUM: std::ops::Range<usize> = 10..12;
const IPV4_HEADER: usize = 20;

/// Marks an ECN-capable packet; returns whether it is marked now. Any other packet stays as it is.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    match packet {
        [first, ..] if *first >> 4 == 4 && packet.len() >= IPV4_HEADER => mark_ipv4(packet),
        [first, second, ..] if *first >> 4 == 6 => {
            let is_capable = *second >> 4 & ECN_BITS != 0;
            *second |= if is_capable { ECN_BITS << 4 } else { 0 };
            is_capable
        }
        _ => false,
    }
}

/// Changes the byte of DSCP and ECN.
pub fn remark(packet: &mut [u8], after: impl Fn(u8) -> u8) {
    match packet {
        [first, ..] if *first >> 4 == 4 && packet.len() >= IPV4_HEADER => set_ipv4_service(packet, after(packet[1])),
        [first, second, ..] if *first >> 4 == 6 => {
            let service = after(*first << 4 | *second >> 4);
            *first = 6 << 4 | service >> 4;
            *second = service << 4 | *second & 0xf;
        }
        _ => {}
    }
}

fn mark_ipv4(packet: &mut [u8]) -> bool {
    let is_capable = packet[1] & ECN_BITS != 0;
    if is_capable {
        set_ipv4_service(packet, packet[1] | ECN_BITS);
    }
    is_capable
}

fn set_ipv4_service(packet: &mut [u8], service: u8) {
    let old = std::mem::replace(&mut packet[1], service);
    // HC' = ~(~HC + ~m + m')  RFC 1624, 3; only the low byte of the first word changes
    let checksum = u16::from_be_bytes([packet[CHECKSUM.start], packet[CHECKSUM.start + 1]]);
    let word = |low: u8| u32::from(u16::from_be_bytes([packet[0], low]));
    let sum = u32::from(!checksum) + (0xffff - word(old)) + word(packet[1]);
    packet[CHECKSUM].copy_from_slice(&(!fold(sum)).to_be_bytes());
}

fn fold(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

pub fn is_low(packet: &[u8]) -> bool {
    let [first, second, ..] = packet else { return false };
    let service = match first >> 4 {
        4 => *second,
        6 => first << 4 | second >> 4,
        _ => return false,
    };
    service >> CONGESTION_BITS == LOW
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of all words of a header with a correct checksum is all ones.
    fn ipv4(service: u8, identification: u16) -> Vec<u8> {
        let mut header = vec![0x45, service, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        let checksum = !sum(&header);
        header[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn sum(header: &[u8]) -> u16 {
        fold(header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum())
    }

    #[test]
    fn capable_packets_are_marked_with_a_right_checksum_and_others_stay() {
        for (service, identification) in (0..=255_u8).flat_map(|service| [0, 1, 0x1234, 0xffff].map(|id| (service, id)))
        {
            let before = ipv4(service, identification);
            let mut packet = before.clone();
            let is_capable = service & 0b11 != 0;
            assert_eq!(mark_congestion(&mut packet), is_capable);
            assert_eq!(sum(&packet), 0xffff, "{service:#x} {identification:#x}");
            assert_eq!(packet[1], if is_capable { service | 0b11 } else { service });
            assert!(is_capable || packet == before);
        }
    }

    #[test]
    fn remarked_header_has_a_right_checksum_in_either_family() {
        for (before, after) in [(0xb9, 0xb8), (0xbb, 0), (0, 0xff), (0xba, 0xba)] {
            let mut packet = ipv4(before, 0x1234);
            remark(&mut packet, |service| if service == before { after } else { 1 });
            assert_eq!((packet[1], sum(&packet)), (after, 0xffff), "{before:#x}");
            let of_ipv6 = |service: u8| [6 << 4 | service >> 4, service << 4 | 7, 1, 2];
            let mut packet = of_ipv6(before);
            remark(&mut packet, |service| if service == before { after } else { 1 });
            assert_eq!(packet, of_ipv6(after), "{before:#x}");
        }
    }

    #[test]
    fn ipv6_has_the_bits_elsewhere_and_anything_else_stays() {
        for (before, after) in [
            (&[0x60, 0x2f, 1, 2][..], &[0x60, 0x3f, 1, 2][..]),
            (&[0x60, 0x0f, 1, 2], &[0x60, 0x0f, 1, 2]),
            (&[0x45, 0x02], &[0x45, 0x02]), // cut off
            (&[], &[]),
        ] {
            let mut packet = before.to_vec();
            assert_eq!((mark_congestion(&mut packet), packet.as_slice()), (before != after, after));
        }
    }

    #[test]
    fn class_selector_1_is_low_with_any_congestion_mark() {
        for mark in 0..4 {
            assert!(is_low(&[0x45, 0x20 | mark, 0]));
            assert!(is_low(&[0x62, mark << 4, 0]));
        }
        for other in [&[0x45, 0x00][..], &[0x45, 0x28], &[0x60, 0x20], &[0x55, 0x20], &[0x45], &[]] {
            assert!(!is_low(other), "{other:?}");
        }
    }
}
