//! How the fields of an event lie in its bytes.

use std::net::{IpAddr, SocketAddr};

pub const EVENT_BYTES: usize = 272;
/// Bytes of an algorithm's private state in a socket (`icsk_ca_priv`).
pub const PRIVATE_BYTES: usize = 104;
/// First byte of the address family, which both endpoints share.
pub(super) const FAMILY: usize = 104;
const INET: u16 = 2;
const INET6: u16 = 10;
/// Bytes that are not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than one event has.
    #[error("event of {0} bytes: expected {EVENT_BYTES}")]
    Short(usize),
    /// A kind or address family that this version does not know.
    #[error("event with unknown {0} {1}")]
    Unknown(&'static str, u32),
}

type Bytes = [u8; EVENT_BYTES];

/// How a value of this type is written at a place of an event.
pub(super) trait ByteLayout<T> {
    /// Bytes it takes.
    const SIZE: usize;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<T, DecodeError>;

    fn write(&self, value: &T, bytes: &mut Bytes, at: usize);

    /// Writes that the value is not known, where that is not all zeros.
    fn clear(&self, _bytes: &mut Bytes, _at: usize) {}
}

/// Bytes that a value takes in this layout.
pub(super) const fn size_in<T, L: ByteLayout<T>>(_layout: &L) -> usize {
    L::SIZE
}

/// The value as it is.
pub(super) struct Plain;

impl<const N: usize> ByteLayout<[u8; N]> for Plain {
    const SIZE: usize = N;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<[u8; N], DecodeError> {
        Ok(std::array::from_fn(|place| bytes[at + place]))
    }

    fn write(&self, value: &[u8; N], bytes: &mut Bytes, at: usize) {
        bytes[at..at + N].copy_from_slice(value);
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl ByteLayout<$number> for Plain {
            const SIZE: usize = size_of::<$number>();

            fn read(&self, bytes: &Bytes, at: usize) -> Result<$number, DecodeError> {
                Ok(<$number>::from_ne_bytes(self.read(bytes, at)?))
            }

            fn write(&self, value: &$number, bytes: &mut Bytes, at: usize) {
                self.write(&value.to_ne_bytes(), bytes, at);
            }
        })+
    };
}
numbers!(u8, u16, u32, u64);

impl ByteLayout<bool> for Plain {
    const SIZE: usize = 1;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<bool, DecodeError> {
        Ok(bytes[at] != 0)
    }

    fn write(&self, value: &bool, bytes: &mut Bytes, at: usize) {
        bytes[at] = (*value).into();
    }
}

/// A value that is known unless it is zero, or as large as this.
pub(super) struct Unless<T>(pub T);

impl<T: PartialOrd + Default + Copy> ByteLayout<Option<T>> for Unless<T>
where
    Plain: ByteLayout<T>,
{
    const SIZE: usize = size_of::<T>();

    fn read(&self, bytes: &Bytes, at: usize) -> Result<Option<T>, DecodeError> {
        let is_known = |value: &T| if self.0 == T::default() { *value != self.0 } else { *value < self.0 };
        Ok(Some(Plain.read(bytes, at)?).filter(is_known))
    }

    fn write(&self, value: &Option<T>, bytes: &mut Bytes, at: usize) {
        Plain.write(&value.unwrap_or(self.0), bytes, at);
    }

    fn clear(&self, bytes: &mut Bytes, at: usize) {
        self.write(&None, bytes, at);
    }
}

/// Bits per second that the kernel counts in bytes; all ones is no limit.
pub(super) struct BytesPerSec;

impl ByteLayout<Option<u64>> for BytesPerSec {
    const SIZE: usize = 8;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<Option<u64>, DecodeError> {
        Ok(Unless(u64::MAX).read(bytes, at)?.map(|rate: u64| rate.saturating_mul(8)))
    }

    fn write(&self, value: &Option<u64>, bytes: &mut Bytes, at: usize) {
        Unless(u64::MAX).write(&value.map(|rate| rate / 8), bytes, at);
    }

    fn clear(&self, bytes: &mut Bytes, at: usize) {
        self.write(&None, bytes, at);
    }
}

/// Text that ends before the first zero.
pub(super) struct AlgorithmName;

impl ByteLayout<String> for AlgorithmName {
    const SIZE: usize = 16;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<String, DecodeError> {
        let name = bytes[at..at + Self::SIZE].split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn write(&self, value: &String, bytes: &mut Bytes, at: usize) {
        let length = value.len().min(Self::SIZE);
        bytes[at..at + length].copy_from_slice(&value.as_bytes()[..length]);
    }
}

/// An address of the family that the event says, and the first byte of its port.
pub(super) struct Endpoint(pub usize);

impl ByteLayout<SocketAddr> for Endpoint {
    const SIZE: usize = 16;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<SocketAddr, DecodeError> {
        let ip = match Plain.read(bytes, FAMILY)? {
            INET => IpAddr::from(ByteLayout::<[u8; 4]>::read(&Plain, bytes, at)?),
            INET6 => IpAddr::from(ByteLayout::<[u8; 16]>::read(&Plain, bytes, at)?),
            other => return Err(DecodeError::Unknown("address family", u16::into(other))),
        };
        // An IPv6 socket that talks IPv4 shows the address its peer shows.
        Ok(SocketAddr::new(ip.to_canonical(), Plain.read(bytes, self.0)?))
    }

    fn write(&self, value: &SocketAddr, bytes: &mut Bytes, at: usize) {
        Plain.write(&value.port(), bytes, self.0);
        match value.ip() {
            IpAddr::V4(ip) if Plain.read(bytes, FAMILY) == Ok(INET) => Plain.write(&ip.octets(), bytes, at),
            // One end alone can be written as IPv4 when the other is.
            IpAddr::V4(ip) => Plain.write(&ip.to_ipv6_mapped().octets(), bytes, at),
            IpAddr::V6(ip) => Plain.write(&ip.octets(), bytes, at),
        }
    }
}

/// Writes the family, which the endpoints need: IPv6 unless both are IPv4.
pub(super) fn write_family(ends: [SocketAddr; 2], bytes: &mut Bytes) {
    let family = if ends.iter().all(SocketAddr::is_ipv4) { INET } else { INET6 };
    Plain.write(&family, bytes, FAMILY);
}
