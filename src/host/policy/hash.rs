//! The hash that assigns a connection to a part of a split, as in `bpf/include/policy_rules.bpf.h`, bit for bit.

use std::net::{IpAddr, SocketAddr};

use super::rule::SplitBy;

/// One bucket is a hundredth of a percent, the resolution of a split.
pub const BUCKETS: u64 = 10_000;
/// Groups of peers by hash, for the guard's jackknife.
pub const FOLDS: usize = 32;
const FOLD_SALT: u64 = 0x666f_6c64;
const FOLD_SHIFT: u32 = 64 - FOLDS.trailing_zeros();
/// Bits below a /24, and below a /48 in the upper half of an address.
const PREFIX4_SHIFT: u32 = 8;
const PREFIX6_SHIFT: u32 = 16;

/// The bits of an IPv6 address, or of the IPv6 address that an IPv4 address maps to.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Makes splits of rules with different names independent of each other.
pub fn salt(rule: &str) -> u64 {
    rule.bytes().fold(0, |hash, byte| mixed(hash, byte.into()))
}

/// Result: below [`BUCKETS`].
pub fn bucket(local: SocketAddr, remote: SocketAddr, by: SplitBy, salt: u64) -> u64 {
    let (upper, lower) = halves(remote.ip());
    let hash = match by {
        SplitBy::Prefix if remote.ip().to_canonical().is_ipv4() => mixed(salt, lower >> PREFIX4_SHIFT),
        SplitBy::Prefix => mixed(salt, upper >> PREFIX6_SHIFT),
        SplitBy::Peer => mixed(mixed(salt, upper), lower),
        SplitBy::Connection => {
            let (local_upper, local_lower) = halves(local.ip());
            let hash = [upper, lower, local_upper, local_lower].into_iter().fold(salt, mixed);
            mixed(hash, u64::from(remote.port()) << 16 | u64::from(local.port()))
        }
    };
    ((hash >> 32) * BUCKETS) >> 32
}

/// Result: below [`FOLDS`].
pub fn fold(remote: IpAddr) -> usize {
    let (upper, lower) = halves(remote);
    (mixed(mixed(FOLD_SALT, upper), lower) >> FOLD_SHIFT) as usize
}

fn halves(address: IpAddr) -> (u64, u64) {
    let number = number(address);
    ((number >> 64) as u64, number as u64)
}

/// Source: finalizer of MurmurHash3, A. Appleby, public domain.
fn mixed(hash: u64, word: u64) -> u64 {
    let hash = hash ^ word;
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> (SocketAddr, SocketAddr) {
        (SocketAddr::from(([10, 0, 0, 1], 443)), SocketAddr::from(([192, 0, 2, 7], port)))
    }

    /// Share of 20,000 ports whose bucket is in the first `1/part` of every rule's split.
    fn share_of_first(rules: &[&str], part: u64) -> f64 {
        let is_first = |&port: &u16| {
            let (local, remote) = ends(port);
            rules.iter().all(|rule| bucket(local, remote, SplitBy::Connection, salt(rule)) < BUCKETS / part)
        };
        (1..=20_000).filter(is_first).count() as f64 / 20_000.0
    }

    #[test]
    fn buckets_are_spread_evenly_over_ports_and_independent_between_rules() {
        let share = share_of_first(&["web"], 10);
        let deviation = (0.1 * 0.9 / 20_000.0_f64).sqrt();
        assert!((share - 0.1).abs() < 3.0 * deviation, "{share}");
        let both = share_of_first(&["one", "two"], 2);
        assert!((both - 0.25).abs() < 0.01, "{both}");
    }

    #[test]
    fn peer_and_prefix_do_not_depend_on_ports() {
        let of = |port: u16, by| bucket(ends(port).0, ends(port).1, by, 7);
        assert_eq!(of(1000, SplitBy::Peer), of(2000, SplitBy::Peer));
        assert_ne!(of(1000, SplitBy::Connection), of(2000, SplitBy::Connection));
        let neighbour = SocketAddr::from(([192, 0, 2, 200], 1));
        assert_eq!(bucket(neighbour, neighbour, SplitBy::Prefix, 7), of(1000, SplitBy::Prefix));
    }

    #[test]
    fn mapped_address_is_in_the_bucket_of_the_address_itself() {
        let (local, remote) = ends(1000);
        let IpAddr::V4(address) = remote.ip() else { panic!("an IPv4 address") };
        let mapped = SocketAddr::new(IpAddr::V6(address.to_ipv6_mapped()), 1000);
        for by in [SplitBy::Connection, SplitBy::Peer, SplitBy::Prefix] {
            assert_eq!(bucket(local, remote, by, 7), bucket(local, mapped, by, 7));
        }
        assert_eq!(fold(remote.ip()), fold(mapped.ip()));
    }
}
