//! How the fields of an event lie in its bytes.

use std::net::{IpAddr, SocketAddr};

/// Size of one encoded event.
pub const EVENT_BYTES: usize = 272;
/// Bytes of an algorithm's private state in a socket (`icsk_ca_priv`).
pub const PRIVATE_BYTES: usize = 104;
/// First byte of the address family, which both endpoints share.
pub(super) const FAMILY: usize = 104;
const INET: u16 = 2;
const INET6: u16 = 10;
/// Bytes that are not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer bytes than one event has.
    Short(usize),
    /// A kind or address family that this version does not know.
    Unknown(&'static str, u32),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Short(got) => write!(f, "event of {got} bytes: expected {EVENT_BYTES}"),
            DecodeError::Unknown(what, value) => write!(f, "event with unknown {what} {value}"),
        }
    }
}

impl std::error::Error for DecodeError {}

type Bytes = [u8; EVENT_BYTES];

/// A value of a fixed number of bytes.
pub(super) trait Raw: Sized {
    const SIZE: usize;

    /// Takes a slice of this size.
    fn get(bytes: &[u8]) -> Result<Self, DecodeError>;

    fn put(&self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Raw for $number {
            const SIZE: usize = size_of::<$number>();

            fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
                Ok(<$number>::from_ne_bytes(Raw::get(bytes)?))
            }

            fn put(&self, bytes: &mut [u8]) {
                self.to_ne_bytes().put(bytes);
            }
        })+
    };
}
numbers!(u8, u16, u32, u64);

impl<const N: usize> Raw for [u8; N] {
    const SIZE: usize = N;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut raw = [0; N];
        raw.copy_from_slice(bytes);
        Ok(raw)
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

impl Raw for bool {
    const SIZE: usize = 1;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(bytes[0] != 0)
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = (*self).into();
    }
}

/// How a value of this type is written at a place of an event.
pub(super) trait Layout<T> {
    /// Bytes it takes.
    const SIZE: usize;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<T, DecodeError>;

    fn write(&self, value: &T, bytes: &mut Bytes, at: usize);

    /// Writes that the value is not known, where that is not all zeros.
    fn clear(&self, _bytes: &mut Bytes, _at: usize) {}
}

/// Bytes that a value takes in this layout.
pub(super) const fn size_in<T, L: Layout<T>>(_layout: &L) -> usize {
    L::SIZE
}

/// The value as it is.
pub(super) struct Plain;

impl<T: Raw> Layout<T> for Plain {
    const SIZE: usize = T::SIZE;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<T, DecodeError> {
        T::get(&bytes[at..at + T::SIZE])
    }

    fn write(&self, value: &T, bytes: &mut Bytes, at: usize) {
        value.put(&mut bytes[at..at + T::SIZE]);
    }
}

/// A value that is known unless it is zero, or as large as this.
pub(super) struct Unless<T>(pub T);

impl<T: Raw + PartialOrd + Default + Copy> Layout<Option<T>> for Unless<T> {
    const SIZE: usize = T::SIZE;

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

impl Layout<Option<u64>> for BytesPerSec {
    const SIZE: usize = u64::SIZE;

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

impl Layout<String> for AlgorithmName {
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
pub(super) struct End(pub usize);

impl Layout<SocketAddr> for End {
    const SIZE: usize = 16;

    fn read(&self, bytes: &Bytes, at: usize) -> Result<SocketAddr, DecodeError> {
        let ip = match Plain.read(bytes, FAMILY)? {
            INET => IpAddr::from(<[u8; 4]>::get(&bytes[at..at + 4])?),
            INET6 => IpAddr::from(<[u8; 16]>::get(&bytes[at..at + Self::SIZE])?),
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
