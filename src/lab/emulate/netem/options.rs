//! The bytes of netem's TCA_OPTIONS, as in linux/pkt_sched.h: a `tc_netem_qopt`, then attributes.

use rtnetlink::packet_core::NlasIterator;

use crate::path::loss::Gilbert;
use shared::kernel::netlink::push_attribute as push;

/// Attributes after the fixed part.
const TCA_NETEM_REORDER: u16 = 3;
const TCA_NETEM_LOSS: u16 = 5;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const TCA_NETEM_PRNG_SEED: u16 = 14;
/// Inside TCA_NETEM_LOSS.
const NETEM_LOSS_GE: u16 = 2;
/// `struct tc_netem_qopt`: latency, limit, loss, gap, duplicate, jitter.
const FIXED_LEN: usize = 24;
/// The kernel's packet lengths include the Ethernet header; a link's rate does not.
const ETHERNET_OVERHEAD: i32 = -14;

/// A probability in netem's unit: 2^32 - 1 is certain.
fn share(probability: f64) -> u32 {
    (probability * f64::from(u32::MAX)).round() as u32
}

/// The parameters of one netem qdisc; the default lets everything pass at once, but has no room for packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NetemOptions {
    pub limit_pkts: u32,
    pub loss: f64,
    /// Loss model with two states, instead of the probability.
    pub states: Option<Gilbert>,
    /// Probability of a copy, which enters right behind its packet.
    pub duplicate: f64,
    /// Probability that the delay applies to a packet; the others pass at once. `None` delays all.
    pub held_back: Option<f64>,
    /// Middle of the delay.
    pub delay_nanos: i64,
    /// Deviation from the middle to either side.
    pub jitter_nanos: i64,
    /// Serialisation rate; `None` is unlimited.
    pub bytes_per_sec: Option<u64>,
    /// Seed of its random numbers, if the kernel takes one (6.6 and newer).
    pub seed: Option<u64>,
}

impl NetemOptions {
    /// Lets everything pass at once, with room for this many packets.
    pub fn passing(limit_pkts: u32) -> Self {
        NetemOptions { limit_pkts, ..NetemOptions::default() }
    }

    /// The value of TCA_OPTIONS.
    pub fn bytes(&self) -> Vec<u8> {
        // Latency and jitter are 64-bit nanoseconds below, because the fixed fields count ticks of another unit.
        // With a gap of 1, netem draws for every packet whether it passes at once.
        let gap = u32::from(self.held_back.is_some());
        let fixed: [u32; FIXED_LEN / 4] = [0, self.limit_pkts, share(self.loss), gap, share(self.duplicate), 0];
        let mut bytes: Vec<u8> = fixed.iter().flat_map(|field| field.to_ne_bytes()).collect();
        push(&mut bytes, TCA_NETEM_LATENCY64, &self.delay_nanos.to_ne_bytes());
        push(&mut bytes, TCA_NETEM_JITTER64, &self.jitter_nanos.to_ne_bytes());
        if let Some(held_back) = self.held_back {
            // `struct tc_netem_reorder`: probability of passing at once, correlation.
            push(&mut bytes, TCA_NETEM_REORDER, [share(1.0 - held_back).to_ne_bytes(), [0; 4]].as_flattened());
        }
        if let Some(rate) = self.bytes_per_sec {
            // `struct tc_netem_rate`: rate, packet_overhead, cell_size, cell_overhead. A rate of 2^32 or more has its
            // own attribute.
            let short = u32::try_from(rate).unwrap_or(u32::MAX);
            let fields = [short.to_ne_bytes(), ETHERNET_OVERHEAD.to_ne_bytes(), [0; 4], [0; 4]];
            push(&mut bytes, TCA_NETEM_RATE, fields.as_flattened());
            if rate > u64::from(u32::MAX) {
                push(&mut bytes, TCA_NETEM_RATE64, &rate.to_ne_bytes());
            }
        }
        if let Some(Gilbert { to_bad, to_good, bad_loss, good_loss }) = self.states {
            // `struct tc_netem_gemodel`: p, r, h, k1. The kernel's h is the share that passes in the bad state.
            let fields = [to_bad.0, to_good.0, 1.0 - bad_loss.0, good_loss.0].map(|value| share(value).to_ne_bytes());
            let mut nested = Vec::new();
            push(&mut nested, NETEM_LOSS_GE, fields.as_flattened());
            push(&mut bytes, TCA_NETEM_LOSS, &nested);
        }
        if let Some(seed) = self.seed {
            push(&mut bytes, TCA_NETEM_PRNG_SEED, &seed.to_ne_bytes());
        }
        bytes
    }
}

/// Whether options that the kernel sent back contain a seed; kernels before 6.6 have none.
pub fn has_seed(options: &[u8]) -> bool {
    let attributes = NlasIterator::new(options.get(FIXED_LEN..).unwrap_or_default());
    attributes.flatten().any(|attribute| attribute.kind() == TCA_NETEM_PRNG_SEED)
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    const NO_DELAY: [u8; 24] = [12, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Fixed part: time 0, limit 50, loss, gap, copies, jitter 0; then the attributes.
    #[track_caller]
    fn check(options: NetemOptions, [loss, gap, copies]: [u32; 3], attributes: &[&[u8]]) {
        let fixed = [0, 50, loss, gap, copies, 0].map(u32::to_le_bytes);
        assert_eq!(options.bytes(), [fixed.as_flattened(), &attributes.concat()].concat());
    }

    #[test]
    fn passing_qdisc_is_its_limit_and_no_delay() {
        check(NetemOptions::passing(50), [0; 3], &[&NO_DELAY]);
    }

    #[test]
    fn loss_is_a_share_of_32_bits_and_the_seed_comes_last() {
        let seeded = NetemOptions { loss: 0.01, seed: Some(0x0102_0304_0506_0708), ..NetemOptions::passing(50) };
        // 0.01 * (2^32 - 1) = 42949672.95
        check(seeded, [42_949_673, 0, 0], &[&NO_DELAY, &[12, 0, 14, 0, 8, 7, 6, 5, 4, 3, 2, 1]]);
        check(NetemOptions { loss: 1.0, ..NetemOptions::passing(50) }, [u32::MAX, 0, 0], &[&NO_DELAY]);
    }

    #[test]
    fn states_of_losses_are_a_nested_attribute() {
        use shared::units::Share;
        let [to_bad, to_good, bad_loss, good_loss] = [0.0, 1.0, 1.0, 0.0].map(Share);
        let states = Some(Gilbert { to_bad, to_good, bad_loss, good_loss });
        let nested: [&[u8]; 4] = [&NO_DELAY, &[24, 0, 5, 0, 20, 0, 2, 0], &[0, 0, 0, 0, 255, 255, 255, 255], &[0; 8]];
        check(NetemOptions { states, ..NetemOptions::passing(50) }, [0; 3], &nested);
    }

    #[test]
    fn packets_held_back_are_those_that_netem_does_not_let_pass_at_once() {
        let held = NetemOptions { held_back: Some(0.25), ..NetemOptions::passing(50) };
        // 0.75 * (2^32 - 1)
        check(held, [0, 1, 0], &[&NO_DELAY, &[12, 0, 3, 0, 0xff, 0xff, 0xff, 0xbf, 0, 0, 0, 0]]);
        check(NetemOptions { duplicate: 1.0, ..NetemOptions::passing(50) }, [0, 0, u32::MAX], &[&NO_DELAY]);
    }

    #[test]
    fn delay_and_jitter_are_64_bit_nanoseconds() {
        let delayed = NetemOptions { delay_nanos: 50_000_000, jitter_nanos: 1_000, ..NetemOptions::passing(50) };
        let delay = [12, 0, 10, 0, 0x80, 0xf0, 0xfa, 0x02, 0, 0, 0, 0];
        check(delayed, [0; 3], &[&delay, &[12, 0, 11, 0, 0xe8, 0x03, 0, 0, 0, 0, 0, 0]]);
    }

    #[test]
    fn rate_leaves_the_ethernet_header_out_and_grows_to_64_bits() {
        let rated = |rate| NetemOptions { bytes_per_sec: Some(rate), ..NetemOptions::passing(50) };
        let overhead = [0xf2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        // 100 Mbit/s = 12 500 000 bytes/s = 0xbebc20
        check(rated(12_500_000), [0; 3], &[&NO_DELAY, &[20, 0, 6, 0, 0x20, 0xbc, 0xbe, 0], &overhead]);
        let long: [&[u8]; 4] =
            [&NO_DELAY, &[20, 0, 6, 0, 255, 255, 255, 255], &overhead, &[12, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0]];
        check(rated(1 << 32), [0; 3], &long);
    }

    #[test]
    fn seed_is_found_in_what_the_kernel_sends_back() {
        assert!(has_seed(&NetemOptions { seed: Some(1), bytes_per_sec: Some(1), ..NetemOptions::passing(1) }.bytes()));
        assert!(!has_seed(&NetemOptions::passing(1).bytes()));
        assert!(!has_seed(&[]));
        assert!(!has_seed(&[0; 27]), "an attribute that is cut off");
    }
}
