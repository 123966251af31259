//! How the fields of an event lie in its bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::schema::Place;
use super::{CaState, EVENT_BYTES, Event, EventKind, PRIVATE_BYTES};

/// First byte of the address family, which both endpoints share.
pub(super) const FAMILY: usize = 104;
const INET: u16 = 2;
const INET6: u16 = 10;
/// Bytes of an algorithm's name.
const NAME_BYTES: usize = 16;
/// Bytes of an address.
const ADDRESS_BYTES: usize = 16;

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

/// How a value of this type is written at a place of an event.
pub(super) trait Layout<T> {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<T, DecodeError>;

    fn write(&self, value: &T, bytes: &mut Bytes, at: usize);

    /// Writes that the value is not known, where that is not all zeros.
    fn clear(&self, _bytes: &mut Bytes, _at: usize) {}

    /// The fields of the C struct that it takes.
    fn places(&self, name: &str, at: usize) -> Vec<Place>;
}

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
                let mut raw = [0; Self::SIZE];
                raw.copy_from_slice(bytes);
                Ok(<$number>::from_ne_bytes(raw))
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        })+
    };
}
numbers!(u8, u16, u32, u64);

impl Raw for bool {
    const SIZE: usize = 1;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(bytes[0] != 0)
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = (*self).into();
    }
}

impl Raw for EventKind {
    const SIZE: usize = 1;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        EventKind::from_byte(bytes[0]).ok_or(DecodeError::Unknown("kind", bytes[0].into()))
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = *self as u8;
    }
}

impl Raw for CaState {
    const SIZE: usize = 1;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(CaState::from_byte(bytes[0]).unwrap_or(CaState::Loss))
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = *self as u8;
    }
}

impl Raw for [u8; PRIVATE_BYTES] {
    const SIZE: usize = PRIVATE_BYTES;

    fn get(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut state = [0; PRIVATE_BYTES];
        state.copy_from_slice(bytes);
        Ok(state)
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

fn place(name: &str, offset: usize, size: usize) -> Place {
    Place { name: name.to_owned(), offset, size }
}

/// The value as it is.
pub(super) struct Plain;

impl<T: Raw> Layout<T> for Plain {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<T, DecodeError> {
        T::get(&bytes[at..at + T::SIZE])
    }

    fn write(&self, value: &T, bytes: &mut Bytes, at: usize) {
        value.put(&mut bytes[at..at + T::SIZE]);
    }

    fn places(&self, name: &str, at: usize) -> Vec<Place> {
        vec![place(name, at, T::SIZE)]
    }
}

/// A value that is known unless it is this one.
pub(super) struct Unless<T>(pub T);

impl<T: Raw + PartialEq + Copy> Layout<Option<T>> for Unless<T> {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<Option<T>, DecodeError> {
        Ok(Some(Plain.read(bytes, at)?).filter(|value| *value != self.0))
    }

    fn write(&self, value: &Option<T>, bytes: &mut Bytes, at: usize) {
        Plain.write(&value.unwrap_or(self.0), bytes, at);
    }

    fn clear(&self, bytes: &mut Bytes, at: usize) {
        self.write(&None, bytes, at);
    }

    fn places(&self, name: &str, at: usize) -> Vec<Place> {
        Layout::<T>::places(&Plain, name, at)
    }
}

/// A value that is known when it is less than this one.
pub(super) struct Below(pub u32);

impl Layout<Option<u32>> for Below {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<Option<u32>, DecodeError> {
        Ok(Some(Plain.read(bytes, at)?).filter(|value| *value < self.0))
    }

    fn write(&self, value: &Option<u32>, bytes: &mut Bytes, at: usize) {
        Unless(self.0).write(value, bytes, at);
    }

    fn clear(&self, bytes: &mut Bytes, at: usize) {
        Unless(self.0).clear(bytes, at);
    }

    fn places(&self, name: &str, at: usize) -> Vec<Place> {
        Unless(self.0).places(name, at)
    }
}

/// Bits per second that the kernel counts in bytes, under another name; all ones is no limit.
pub(super) struct BytesPerSec(pub &'static str);

impl Layout<Option<u64>> for BytesPerSec {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<Option<u64>, DecodeError> {
        Ok(Unless(u64::MAX).read(bytes, at)?.map(|rate: u64| rate.saturating_mul(8)))
    }

    fn write(&self, value: &Option<u64>, bytes: &mut Bytes, at: usize) {
        Unless(u64::MAX).write(&value.map(|rate| rate / 8), bytes, at);
    }

    fn clear(&self, bytes: &mut Bytes, at: usize) {
        self.write(&None, bytes, at);
    }

    fn places(&self, _name: &str, at: usize) -> Vec<Place> {
        Unless(u64::MAX).places(self.0, at)
    }
}

/// Text that ends before the first zero.
pub(super) struct AlgorithmName;

impl Layout<String> for AlgorithmName {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<String, DecodeError> {
        let name = &bytes[at..at + NAME_BYTES];
        let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES)];
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn write(&self, value: &String, bytes: &mut Bytes, at: usize) {
        let name = value.as_bytes();
        let length = name.len().min(NAME_BYTES);
        bytes[at..at + length].copy_from_slice(&name[..length]);
    }

    fn places(&self, name: &str, at: usize) -> Vec<Place> {
        vec![place(name, at, NAME_BYTES)]
    }
}

/// An address and its port, of the family that the event says.
pub(super) struct End {
    pub port: usize,
    /// What the C struct calls the address and the port.
    pub names: [&'static str; 2],
}

impl Layout<SocketAddr> for End {
    fn read(&self, bytes: &Bytes, at: usize) -> Result<SocketAddr, DecodeError> {
        let mut octets = [0; ADDRESS_BYTES];
        octets.copy_from_slice(&bytes[at..at + ADDRESS_BYTES]);
        let [a, b, c, d, ..] = octets;
        let ip = match Plain.read(bytes, FAMILY)? {
            INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            INET6 => IpAddr::V6(Ipv6Addr::from(octets)),
            other => return Err(DecodeError::Unknown("address family", other.into())),
        };
        // An IPv6 socket that talks IPv4 shows the address its peer shows.
        Ok(SocketAddr::new(ip.to_canonical(), Plain.read(bytes, self.port)?))
    }

    fn write(&self, value: &SocketAddr, bytes: &mut Bytes, at: usize) {
        Plain.write(&value.port(), bytes, self.port);
        let is_inet = Plain.read(bytes, FAMILY) == Ok(INET);
        match value.ip() {
            IpAddr::V4(ip) if is_inet => bytes[at..at + 4].copy_from_slice(&ip.octets()),
            // One end alone can be written as IPv4 when the other is.
            IpAddr::V4(ip) => bytes[at..at + ADDRESS_BYTES].copy_from_slice(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => bytes[at..at + ADDRESS_BYTES].copy_from_slice(&ip.octets()),
        }
    }

    fn places(&self, _name: &str, at: usize) -> Vec<Place> {
        vec![place(self.names[0], at, ADDRESS_BYTES), place(self.names[1], self.port, u16::SIZE)]
    }
}

/// Writes the family before the endpoints: IPv6 unless both are IPv4.
pub(super) fn write_family(event: &Event, bytes: &mut Bytes) {
    let family = if event.local.is_ipv4() && event.remote.is_ipv4() { INET } else { INET6 };
    Plain.write(&family, bytes, FAMILY);
}

/// The field of the family.
pub(super) fn family() -> Place {
    place("family", FAMILY, u16::SIZE)
}
