//! The bytes of tbf's TCA_OPTIONS, as in linux/pkt_sched.h: a token bucket that passes the packets of a queue discipline
//! at the link's rate.

use crate::path::discipline::Discipline;
use shared::kernel::netlink::push_attribute as push;
use shared::units::BitsPerSec;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// `struct tc_tbf_qopt`: two rates of 12 bytes each, limit, buffer, MTU.
const PARMS_LEN: usize = 36;
/// Place of the rate in its `struct tc_ratespec`.
const RATE_AT: usize = 8;
/// TC_LINKLAYER_ETHERNET. Without it, the kernel looks for a table of the rate.
const LINKLAYER: (usize, u8) = (1, 1);
/// The kernel's packet lengths include the Ethernet header; a link's rate does not.
pub const ETHERNET_OVERHEAD: i32 = -14;
/// How late the kernel's timer may be without lost time, nanoseconds. A burst of this length passes the discipline early.
const LATE_NS: u64 = 1_000_000;
const NS_PER_SEC: u64 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// A discipline below a shaper.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapedDiscipline {
    pub rate: BitsPerSec,
    pub mtu: u32,
    pub discipline: Discipline,
    /// The discipline's options, as the kernel reads them.
    pub options: Vec<u8>,
}

impl ShapedDiscipline {
    /// The bucket holds a packet of full size and what the rate sends in [`LATE_NS`].
    fn burst_bytes(&self) -> u32 {
        let late = u128::from(self.rate.0) * u128::from(LATE_NS) / u128::from(BITS_PER_BYTE * NS_PER_SEC);
        u32::try_from(late).unwrap_or(u32::MAX).saturating_add(self.mtu + ETHERNET_OVERHEAD.unsigned_abs())
    }

    /// The value of the shaper's TCA_OPTIONS.
    ///
    /// The limit is 0, because it is that of a queue that tbf makes itself if it gets no other child.
    pub fn bytes(&self) -> Vec<u8> {
        let rate = self.rate.0 / BITS_PER_BYTE;
        let short = u32::try_from(rate).unwrap_or(u32::MAX);
        let mut fixed = [0; PARMS_LEN];
        fixed[LINKLAYER.0] = LINKLAYER.1;
        fixed[RATE_AT..RATE_AT + 4].copy_from_slice(&short.to_ne_bytes());
        let mut bytes = Vec::new();
        push(&mut bytes, TCA_TBF_PARMS, &fixed);
        if rate > u64::from(u32::MAX) {
            push(&mut bytes, TCA_TBF_RATE64, &rate.to_ne_bytes());
        }
        push(&mut bytes, TCA_TBF_BURST, &self.burst_bytes().to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(rate: u64) -> ShapedDiscipline {
        let discipline = "codel".parse().unwrap();
        ShapedDiscipline { rate: BitsPerSec(rate), mtu: 1500, discipline, options: Vec::new() }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn shaper_has_the_rate_and_a_bucket_of_one_packet_and_what_a_late_timer_costs() {
        // 20 Mbit/s = 2 500 000 bytes/s = 0x2625a0, and 2500 bytes in 1 ms.
        let parms = [&[40, 0, 1, 0, 0, 1][..], &[0; 6], &[0xa0, 0x25, 0x26, 0], &[0; 24]].concat();
        let burst = |bytes: u32| [&[8, 0, 6, 0][..], &bytes.to_le_bytes()].concat();
        assert_eq!(shaped(20_000_000).bytes(), [parms, burst(1514 + 2500)].concat());
        let long = shaped(40_000_000_000).bytes();
        assert_eq!(long[12..16], [0xff; 4]);
        assert_eq!(long[40..52], [12, 0, 4, 0, 0, 0xf2, 5, 0x2a, 1, 0, 0, 0], "5 000 000 000 bytes/s");
        assert_eq!(shaped(1_000).burst_bytes(), 1514, "a packet of full size at least");
    }
}
