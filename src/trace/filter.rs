//! Which sockets are wanted: by port, address, algorithm, cgroup and network namespace.
//!
//! Values of one kind are alternatives; kinds narrow each other. The kernel side decides once per socket.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::event::Event;
use crate::units::ParseError;

/// Longest name of an algorithm that the kernel knows, bytes.
pub const ALGORITHM_NAME_MAX: usize = 15;

/// The sockets that a tracer or a sweep shows; the default shows every socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Local or remote port is one of these.
    pub ports: BTreeSet<u16>,
    /// Local or remote address lies in one of these.
    pub addresses: BTreeSet<Prefix>,
    /// The algorithm's kernel name is one of these.
    pub algorithms: BTreeSet<String>,
    /// The socket's cgroup (v2 id), or one above it, is one of these.
    pub cgroups: BTreeSet<u64>,
    /// The network namespace (inode) is one of these; `Some` of an empty set passes nothing until
    /// [`super::live::Watcher::watch_netns`] adds one.
    pub netns: Option<BTreeSet<u32>>,
}

impl Filter {
    /// Whether a recorded event passes, as the kernel side decides it; a cgroup counts only as itself, because those
    /// above it are not recorded.
    pub fn passes(&self, event: &Event) -> bool {
        let is_either = |wanted: &dyn Fn(SocketAddr) -> bool| wanted(event.local) || wanted(event.remote);
        let has_port = || is_either(&|end| self.ports.contains(&end.port()));
        let has_address = || is_either(&|end| self.addresses.iter().any(|prefix| prefix.contains(end.ip())));
        (self.ports.is_empty() || has_port())
            && (self.addresses.is_empty() || has_address())
            && (self.algorithms.is_empty() || self.algorithms.contains(&event.algorithm))
            && (self.cgroups.is_empty() || self.cgroups.contains(&event.cgroup))
            && self.netns.as_ref().is_none_or(|netns| netns.contains(&event.netns))
    }
}

/// An address with the number of leading bits that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The address in its IPv6 form, IPv4 mapped, and the number of leading bits of that form.
    pub fn mapped(self) -> (Ipv6Addr, u32) {
        match self.address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), u32::from(self.bits) + 96),
            IpAddr::V6(address) => (address, self.bits.into()),
        }
    }

    /// Whether an address begins with it.
    pub fn contains(self, address: IpAddr) -> bool {
        let (own, bits) = self.mapped();
        let (other, _) = Prefix::from(address).mapped();
        let differing = own.to_bits() ^ other.to_bits();
        differing.leading_zeros() >= bits
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
        Prefix { address, bits: bits as u8 }
    }
}

impl FromStr for Prefix {
    type Err = ParseError;

    /// Reads `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`; bits after the prefix must be zero.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "an address such as 10.0.0.1, or a prefix such as 10.0.0.0/8 or fd00::/8";
        let refuse = |expected| ParseError::new(text, expected);
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let whole = Prefix::from(address.parse::<IpAddr>().map_err(|_| refuse(EXPECTED))?.to_canonical());
        let Some(bits) = bits else { return Ok(whole) };
        let bits: u8 = bits.parse().map_err(|_| refuse(EXPECTED))?;
        if bits > whole.bits {
            return Err(refuse("at most 32 bits of an IPv4 or 128 of an IPv6 address"));
        }
        let prefix = Prefix { address: whole.address, bits };
        let (address, bits) = prefix.mapped();
        if bits < 128 && address.to_bits() << bits != 0 {
            return Err(refuse("zeros after the prefix, such as 10.0.0.0/8"));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_survives_print_and_parse() {
        for text in ["10.0.0.1/32", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.1".parse::<Prefix>().unwrap().to_string(), "10.0.0.1/32");
        assert_eq!("::ffff:10.0.0.1".parse::<Prefix>().unwrap().to_string(), "10.0.0.1/32");
    }

    #[test]
    fn prefix_of_ipv4_is_matched_in_its_mapped_form() {
        let (address, bits) = "10.0.0.0/8".parse::<Prefix>().unwrap().mapped();
        assert_eq!((address.to_string().as_str(), bits), ("::ffff:10.0.0.0", 104));
    }

    #[test]
    fn recorded_events_pass_as_live_ones_do() {
        let event = crate::model::live::samples::sample(1, 0);
        let passes = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.passes(&event)
        };
        assert!(passes(|_| ()) && passes(|it| it.ports.extend([1, 5201])) && !passes(|it| it.ports.extend([1])));
        assert!(passes(|it| it.addresses.extend(["10.0.0.0/30".parse::<Prefix>().unwrap()])));
        assert!(!passes(|it| it.addresses.extend(["10.0.0.4/30".parse::<Prefix>().unwrap()])));
        assert!(passes(|it| it.addresses.extend(["::/0".parse::<Prefix>().unwrap()])));
        assert!(!passes(|it| it.algorithms.extend(["other".to_owned()])));
        assert!(!passes(|it| it.netns = Some(BTreeSet::new())));
    }

    #[test]
    fn prefix_that_cannot_match_is_refused() {
        for text in ["", "localhost", "10.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.1/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(text.parse::<Prefix>().is_err(), "{text} is accepted");
        }
    }
}
