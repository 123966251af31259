//! Address prefixes: `10.0.0.0/8`, `fd00::/8`, or a single address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use derive_more::Display;

use super::ParseError;

/// Matches addresses with the same leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display)]
#[display("{address}/{bits}")]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// As IPv6: an IPv4 address is mapped, and the number of bits counts from the mapped address.
    pub fn mapped(self) -> (Ipv6Addr, u32) {
        match self.address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), u32::from(self.bits) + 96),
            IpAddr::V6(address) => (address, self.bits.into()),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_survives_print_and_parse() {
        for text in ["10.0.0.1/32", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1", "::ffff:10.0.0.1"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), "10.0.0.1/32");
        }
        let mapped = "10.0.0.0/8".parse::<Prefix>().unwrap().mapped();
        assert_eq!(mapped, ("::ffff:10.0.0.0".parse().unwrap(), 104));
    }

    #[test]
    fn prefix_that_cannot_match_is_refused() {
        for text in ["", "localhost", "10.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.1/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(text.parse::<Prefix>().is_err(), "{text} is accepted");
        }
    }
}
