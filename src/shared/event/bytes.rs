//! The events of the kernel program, and how each field of an event is in them.

use std::net::{IpAddr, SocketAddr};

use zerocopy::FromZeros;

use crate::c_text;

include!(concat!(env!("OUT_DIR"), "/event.types.rs"));
pub use types::{tccc_event as RawEvent, tccc_limited as RawLimited};

/// Version of the byte layout.
pub const EVENT_VERSION: u32 = types::tccc_event_layout::TCCC_EVENT_VERSION.0;
pub const EVENT_BYTES: usize = size_of::<RawEvent>();
/// Size of an algorithm's private state in a socket (`icsk_ca_priv`).
pub const PRIVATE_BYTES: usize = size_in(|raw| &raw.private_state);
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

/// Bytes of a field.
pub(super) const fn size_in<C>(_field: fn(&RawEvent) -> &C) -> usize {
    size_of::<C>()
}

/// An encoding of values of type `T` in a field of type `C`.
pub(super) trait Encoding<T, C> {
    fn read(&self, field: C, raw: &RawEvent) -> Result<T, DecodeError>;

    fn write(&self, value: &T, raw: &RawEvent) -> C;

    /// The encoding of an unknown value.
    fn unknown(&self) -> C
    where
        C: FromZeros,
    {
        C::new_zeroed()
    }
}

/// The same value, or the kernel's number for it.
pub(super) struct Same;

impl<T: Copy> Encoding<T, T> for Same {
    fn read(&self, field: T, _raw: &RawEvent) -> Result<T, DecodeError> {
        Ok(field)
    }

    fn write(&self, value: &T, _raw: &RawEvent) -> T {
        *value
    }
}

impl Encoding<bool, u8> for Same {
    fn read(&self, field: u8, _raw: &RawEvent) -> Result<bool, DecodeError> {
        Ok(field != 0)
    }

    fn write(&self, value: &bool, _raw: &RawEvent) -> u8 {
        (*value).into()
    }
}

/// An optional value. `None` is 0 for `Unless(0)`, else this number or a larger one.
pub(super) struct Unless<T>(pub T);

impl<T: PartialOrd + Default + Copy> Encoding<Option<T>, T> for Unless<T> {
    fn read(&self, field: T, _raw: &RawEvent) -> Result<Option<T>, DecodeError> {
        let is_known = if self.0 == T::default() { field != self.0 } else { field < self.0 };
        Ok(is_known.then_some(field))
    }

    fn write(&self, value: &Option<T>, _raw: &RawEvent) -> T {
        value.unwrap_or(self.0)
    }

    fn unknown(&self) -> T {
        self.0
    }
}

/// A rate in bits per second that the kernel stores in bytes per second. All ones: no limit.
pub(super) struct BytesPerSec;

impl Encoding<Option<u64>, u64> for BytesPerSec {
    fn read(&self, field: u64, raw: &RawEvent) -> Result<Option<u64>, DecodeError> {
        Ok(Unless(u64::MAX).read(field, raw)?.map(|rate| rate.saturating_mul(8)))
    }

    fn write(&self, value: &Option<u64>, raw: &RawEvent) -> u64 {
        Unless(u64::MAX).write(&value.map(|rate| rate / 8), raw)
    }

    fn unknown(&self) -> u64 {
        u64::MAX
    }
}

/// Zero-terminated text.
pub(super) struct AlgorithmName;

impl<const N: usize> Encoding<String, [i8; N]> for AlgorithmName {
    fn read(&self, field: [i8; N], _raw: &RawEvent) -> Result<String, DecodeError> {
        Ok(c_text::text(&field))
    }

    fn write(&self, value: &String, _raw: &RawEvent) -> [i8; N] {
        c_text::padded(value)
    }
}

/// An address of the event's family, and the field of its port, which [`RawEvent::of_ends`] writes.
pub(super) struct AddressAndPort(pub fn(&RawEvent) -> u16);

impl Encoding<SocketAddr, [u8; 16]> for AddressAndPort {
    fn read(&self, field: [u8; 16], raw: &RawEvent) -> Result<SocketAddr, DecodeError> {
        let ip = match raw.family {
            INET => {
                let [a, b, c, d, ..] = field;
                IpAddr::from([a, b, c, d])
            }
            INET6 => IpAddr::from(field),
            other => return Err(DecodeError::Unknown("address family", other.into())),
        };
        // An IPv6 socket that speaks IPv4 shows its IPv4 address, as its peer does.
        Ok(SocketAddr::new(ip.to_canonical(), (self.0)(raw)))
    }

    fn write(&self, value: &SocketAddr, raw: &RawEvent) -> [u8; 16] {
        match value.ip() {
            IpAddr::V4(ip) if raw.family == INET => {
                let [a, b, c, d] = ip.octets();
                [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            }
            // The other endpoint is IPv6.
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }
}

impl RawEvent {
    /// An event with the ports of its endpoints and their family: IPv6 unless both are IPv4.
    pub(super) fn of_ends([local, remote]: [SocketAddr; 2]) -> RawEvent {
        let family = if local.is_ipv4() && remote.is_ipv4() { INET } else { INET6 };
        RawEvent { family, local_port: local.port(), remote_port: remote.port(), ..RawEvent::new_zeroed() }
    }
}
