//! The priority in a packet's header (RFC 2474).

/// Class selector 1: packets that may be dropped first (RFC 3662).
const LOW: u8 = 8;
/// The two lowest bits are for congestion marks.
const CONGESTION_BITS: u32 = 2;

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
