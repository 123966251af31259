//! The byte encodings of the fields of an event.

use std::net::{IpAddr, SocketAddr};

pub const EVENT_BYTES: usize = 272;
/// Size of an algorithm's private state in a socket (`icsk_ca_priv`).
pub const PRIVATE_BYTES: usize = 104;
/// Offset of the address family, which both endpoints share.
pub(super) const FAMILY: usize = 104;
const INET: u16 = 2;
const INET6: u16 = 10;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("event of {0} bytes: expected {EVENT_BYTES}")]
    Short(usize),
    /// An unknown kind or address family.
    #[error("event with unknown {0} {1}")]
    Unknown(&'static str, u32),
}

type EventBytes = [u8; EVENT_BYTES];

/// An encoding of values of type `T` at a given offset.
pub(super) trait ByteLayout<T> {
    const SIZE: usize;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<T, DecodeError>;

    fn write(&self, value: &T, bytes: &mut EventBytes, at: usize);

    /// Writes the encoding of an unknown value, if that is not all zeros.
    fn clear(&self, _bytes: &mut EventBytes, _at: usize) {}
}

pub(super) const fn size_in<T, L: ByteLayout<T>>(_layout: &L) -> usize {
    L::SIZE
}

/// The value in native byte order.
pub(super) struct AsIs;

impl<const N: usize> ByteLayout<[u8; N]> for AsIs {
    const SIZE: usize = N;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<[u8; N], DecodeError> {
        Ok(std::array::from_fn(|place| bytes[at + place]))
    }

    fn write(&self, value: &[u8; N], bytes: &mut EventBytes, at: usize) {
        bytes[at..at + N].copy_from_slice(value);
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl ByteLayout<$number> for AsIs {
            const SIZE: usize = size_of::<$number>();

            fn read(&self, bytes: &EventBytes, at: usize) -> Result<$number, DecodeError> {
                Ok(<$number>::from_ne_bytes(self.read(bytes, at)?))
            }

            fn write(&self, value: &$number, bytes: &mut EventBytes, at: usize) {
                self.write(&value.to_ne_bytes(), bytes, at);
            }
        })+
    };
}
numbers!(u8, u16, u32, u64);

impl ByteLayout<bool> for AsIs {
    const SIZE: usize = 1;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<bool, DecodeError> {
        Ok(bytes[at] != 0)
    }

    fn write(&self, value: &bool, bytes: &mut EventBytes, at: usize) {
        bytes[at] = (*value).into();
    }
}

/// An optional value. `None` is 0 for `Unless(0)`, else this number or a larger one.
pub(super) struct Unless<T>(pub T);

impl<T: PartialOrd + Default + Copy> ByteLayout<Option<T>> for Unless<T>
where
    AsIs: ByteLayout<T>,
{
    const SIZE: usize = size_of::<T>();

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<Option<T>, DecodeError> {
        let is_known = |value: &T| if self.0 == T::default() { *value != self.0 } else { *value < self.0 };
        Ok(Some(AsIs.read(bytes, at)?).filter(is_known))
    }

    fn write(&self, value: &Option<T>, bytes: &mut EventBytes, at: usize) {
        AsIs.write(&value.unwrap_or(self.0), bytes, at);
    }

    fn clear(&self, bytes: &mut EventBytes, at: usize) {
        self.write(&None, bytes, at);
    }
}

/// A rate in bits per second that the kernel stores in bytes per second. All ones: no limit.
pub(super) struct BytesPerSec;

impl ByteLayout<Option<u64>> for BytesPerSec {
    const SIZE: usize = 8;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<Option<u64>, DecodeError> {
        Ok(Unless(u64::MAX).read(bytes, at)?.map(|rate: u64| rate.saturating_mul(8)))
    }

    fn write(&self, value: &Option<u64>, bytes: &mut EventBytes, at: usize) {
        Unless(u64::MAX).write(&value.map(|rate| rate / 8), bytes, at);
    }

    fn clear(&self, bytes: &mut EventBytes, at: usize) {
        self.write(&None, bytes, at);
    }
}

/// Zero-terminated text.
pub(super) struct AlgorithmName;

impl ByteLayout<String> for AlgorithmName {
    const SIZE: usize = 16;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<String, DecodeError> {
        let name = bytes[at..at + Self::SIZE].split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn write(&self, value: &String, bytes: &mut EventBytes, at: usize) {
        let length = value.len().min(Self::SIZE);
        bytes[at..at + length].copy_from_slice(&value.as_bytes()[..length]);
    }
}

/// An address of the event's family, and the offset of its port.
pub(super) struct AddressAndPort(pub usize);

impl ByteLayout<SocketAddr> for AddressAndPort {
    const SIZE: usize = 16;

    fn read(&self, bytes: &EventBytes, at: usize) -> Result<SocketAddr, DecodeError> {
        let ip = match AsIs.read(bytes, FAMILY)? {
            INET => IpAddr::from(ByteLayout::<[u8; 4]>::read(&AsIs, bytes, at)?),
            INET6 => IpAddr::from(ByteLayout::<[u8; 16]>::read(&AsIs, bytes, at)?),
            other => return Err(DecodeError::Unknown("address family", u16::into(other))),
        };
        // An IPv6 socket that speaks IPv4 shows its IPv4 address, as its peer does.
        Ok(SocketAddr::new(ip.to_canonical(), AsIs.read(bytes, self.0)?))
    }

    fn write(&self, value: &SocketAddr, bytes: &mut EventBytes, at: usize) {
        AsIs.write(&value.port(), bytes, self.0);
        match value.ip() {
            IpAddr::V4(ip) if AsIs.read(bytes, FAMILY) == Ok(INET) => AsIs.write(&ip.octets(), bytes, at),
            // The other endpoint is IPv6.
            IpAddr::V4(ip) => AsIs.write(&ip.to_ipv6_mapped().octets(), bytes, at),
            IpAddr::V6(ip) => AsIs.write(&ip.octets(), bytes, at),
        }
    }
}

/// Writes the family for both endpoints: IPv6 unless both are IPv4.
pub(super) fn write_family(ends: [SocketAddr; 2], bytes: &mut EventBytes) {
    let family = if ends.iter().all(SocketAddr::is_ipv4) { INET } else { INET6 };
    AsIs.write(&family, bytes, FAMILY);
}
