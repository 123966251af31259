//! Congestion marks in IP headers (RFC 3168): ECN-capable becomes congestion experienced.

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

fn mark_ipv4(packet: &mut [u8]) -> bool {
    let old = packet[1];
    if old & ECN_BITS == 0 {
        return false;
    }
    packet[1] |= ECN_BITS;
    // HC' = ~(~HC + ~m + m')  RFC 1624, 3; only the low byte of the first word changes
    let checksum = u16::from_be_bytes([packet[CHECKSUM.start], packet[CHECKSUM.start + 1]]);
    let word = |low: u8| u32::from(u16::from_be_bytes([packet[0], low]));
    let sum = u32::from(!checksum) + (0xffff - word(old)) + word(packet[1]);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[CHECKSUM].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    true
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
        let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
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
    fn ipv6_has_the_bits_elsewhere_and_anything_else_stays() {
        let mut capable = [0x60, 0x2f, 1, 2];
        assert!(mark_congestion(&mut capable));
        assert_eq!(capable, [0x60, 0x3f, 1, 2]);
        let mut other = [0x60, 0x0f, 1, 2];
        assert!(!mark_congestion(&mut other));
        assert_eq!(other, [0x60, 0x0f, 1, 2]);
        assert!(!mark_congestion(&mut [0x45, 0x02]), "cut off");
        assert!(!mark_congestion(&mut []));
    }
}
