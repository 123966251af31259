//! One event of one socket: the interface between the tracer and its consumers.
//!
//! The table of fields below says how each one is in the kernel's event, whose type is generated from
//! `bpf/include/trace_event.h`. The decoder, the encoder, the schema of recordings and the columns of every output derive
//! from it.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, FromZeros};

mod bytes;
mod field;
pub mod schema;

use bytes::{AddressAndPort, AlgorithmName, BytesPerSec, Encoding, Same, Unless};
pub use bytes::{DecodeError, EVENT_BYTES, EVENT_VERSION, PRIVATE_BYTES, RawEvent, RawLimited};
pub use field::{ColumnPlace, FieldType, FieldValue, Show, column, private_digits, with_room};

/// The kernel's "infinite" threshold.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// Declares an enum that is a number in the kernel and a word in every output. `$unknown` decodes any other number.
macro_rules! words {
    (
        $(#[$note:meta])* $name:ident, $byte:ident $unknown:expr,
        { $($(#[$item_note:meta])* $item:ident = $number:literal $word:literal,)+ }
    ) => {
        $(#[$note])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$item_note])* #[serde(rename = $word)] $item = $number,)+
        }

        impl $name {
            /// In the order of the numbers.
            pub const ALL: &'static [$name] = &[$($name::$item,)+];

            /// The word in every output.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$item => $word,)+
                }
            }
        }

        impl Encoding<$name, u8> for Same {
            fn read(&self, field: u8, _raw: &RawEvent) -> Result<$name, DecodeError> {
                match field {
                    $($number => Ok($name::$item),)+
                    $byte => $unknown,
                }
            }

            fn write(&self, value: &$name, _raw: &RawEvent) -> u8 {
                *value as u8
            }
        }

        impl Show for $name {
            const TYPE: FieldType = FieldType::Text;

            fn show(&self) -> Option<FieldValue<'_>> {
                Some(self.name().into())
            }
        }
    };
}

words! {
    /// The reason for an event.
    EventKind, byte Err(DecodeError::Unknown("kind", byte.into())), {
        Open = 1 "open",
        /// The sampling interval passed.
        Sample = 2 "sample",
        /// The congestion state changed.
        State = 3 "state",
        /// The lost or retransmitted count grew. At most ten per sampling interval.
        Loss = 4 "loss",
        Close = 5 "close",
        /// One row of a sweep over all sockets.
        Snapshot = 6 "snapshot",
    }
}

words! {
    /// The kernel's congestion state.
    #[derive(Default)]
    CaState, _byte Ok(CaState::Loss), {
        #[default]
        Open = 0 "Open",
        Disorder = 1 "Disorder",
        Cwr = 2 "CWR",
        Recovery = 3 "Recovery",
        Loss = 4 "Loss",
    }
}

pub struct EventField {
    /// The name in Rust, JSON, CSV and Parquet, with the unit.
    pub name: &'static str,
    /// `,"name":`, for writing JSON.
    pub key: &'static str,
    pub kind: FieldType,
    pub shown: ColumnPlace,
    pub value: for<'a> fn(&'a Event) -> Option<FieldValue<'a>>,
    /// The field of [`RawEvent`], its first byte, and its number of bytes; for an endpoint, those of its address.
    pub raw: (&'static str, usize, usize),
}

/// Declares the fields of an event: name and type, field of [`RawEvent`] and encoding in it, and column.
macro_rules! event {
    ($($(#[$note:meta])* $name:ident: $type:ty = $field:ident $encoding:expr, $shown:expr;)+) => {
        /// The state of one socket at one moment. Counts are cumulative.
        ///
        /// Shape: a stream is sorted by time per socket. A gap means that nothing was sampled, or that events were
        /// dropped. The stream counts dropped events.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct Event {
            $($(#[$note])* pub $name: $type,)+
        }

        impl Event {
            /// In the order of JSON.
            pub const FIELDS: &'static [EventField] = &[$(EventField {
                name: stringify!($name),
                key: concat!(",\"", stringify!($name), "\":"),
                kind: <$type as Show>::TYPE,
                shown: $shown,
                value: |event| Show::show(&event.$name),
                raw: (
                    stringify!($field),
                    std::mem::offset_of!(RawEvent, $field),
                    bytes::size_in(|raw| &raw.$field),
                ),
            },)+];

            /// Decodes one event of the kernel program.
            ///
            /// # Errors
            /// An unknown kind or address family.
            pub fn of_raw(raw: &RawEvent) -> Result<Event, DecodeError> {
                Ok(Event { $($name: Encoding::<$type, _>::read(&$encoding, raw.$field, raw)?,)+ })
            }

            /// The inverse of [`Event::of_raw`].
            pub fn to_raw(&self) -> RawEvent {
                let mut raw = RawEvent::of_ends([self.local, self.remote]);
                $(raw.$field = $encoding.write(&self.$name, &raw);)+
                raw
            }

            /// An event without any known field.
            fn unknown() -> RawEvent {
                let mut raw = RawEvent::new_zeroed();
                $(raw.$field = Encoding::<$type, _>::unknown(&$encoding);)+
                raw
            }
        }
    };
}

event! {
    /// Why the event was written.
    kind: EventKind = kind Same, column(1, 0, 8);
    /// CLOCK_MONOTONIC, nanoseconds.
    time_ns: u64 = time_ns Same, column(3, ColumnPlace::MACHINE, 0);
    /// Socket cookie, unique per boot. 0: the kernel had assigned none.
    socket: u64 = socket Same, column(4, ColumnPlace::MACHINE, 0);
    /// cgroup v2 id.
    cgroup: u64 = cgroup Same, column(5, ColumnPlace::MACHINE, 0);
    /// Inode of the network namespace.
    netns: u32 = netns Same, column(29, 3, 10);
    /// User id of the socket.
    uid: u32 = uid Same, column(6, ColumnPlace::MACHINE, 0);
    /// Address and port of the sender.
    local: SocketAddr = local_addr AddressAndPort(|raw| raw.local_port), column(7, 0, 21);
    /// Address and port of the receiver.
    remote: SocketAddr = remote_addr AddressAndPort(|raw| raw.remote_port), column(8, 0, 21);
    /// Kernel name of the congestion control algorithm.
    algorithm: String = algorithm AlgorithmName, column(9, 0, 0);
    /// Congestion window.
    cwnd_pkts: u32 = cwnd_pkts Same, column(11, 0, 0);
    /// Slow-start threshold. `None` before the first reduction.
    ssthresh_pkts: Option<u32> = ssthresh_pkts Unless(NO_SSTHRESH), column(12, 2, 0);
    /// Smoothed RTT. `None` before the first sample.
    srtt_us: Option<u32> = srtt_us Unless(0), column(13, 0, 8);
    /// Lowest RTT of the kernel's window (net.ipv4.tcp_min_rtt_wlen).
    min_rtt_us: Option<u32> = min_rtt_us Unless(u32::MAX), column(14, 3, 0);
    /// Latest RTT sample.
    rtt_us: Option<u32> = rtt_us Unless(0), column(21, 3, 8);
    /// Retransmission timeout.
    rto_us: u32 = rto_us Same, column(22, 3, 8);
    /// Packets sent and neither acknowledged nor marked lost.
    inflight_pkts: u32 = inflight_pkts Same, column(15, 1, 0);
    /// Packets that the receiver acknowledged.
    delivered_pkts: u32 = delivered_pkts Same, column(16, 2, 0);
    /// Packets delivered with a congestion mark.
    delivered_ce_pkts: u32 = delivered_ce_pkts Same, column(24, 4, 0);
    /// Packets that the sender marked lost.
    lost_pkts: u32 = lost_pkts Same, column(18, 3, 0);
    /// Retransmitted packets.
    retrans_pkts: u32 = retrans_pkts Same, column(17, 2, 0);
    /// Payload bytes that the receiver acknowledged.
    bytes_acked: u64 = bytes_acked Same, column(25, 4, 12);
    /// Payload bytes that the sender's end received.
    bytes_received: u64 = bytes_received Same, column(26, 4, 0);
    /// Payload of a full packet.
    mss_bytes: u32 = mss_bytes Same, column(23, 3, 0);
    /// Pacing rate. `None`: unlimited.
    pacing_rate_bps: Option<u64> = pacing_rate BytesPerSec, column(20, 3, 0);
    /// Congestion state.
    ca_state: CaState = ca_state Same, column(19, 1, 0);
    /// Congestion state before a `State` event.
    prior_ca_state: CaState = prior_ca_state Same, ColumnPlace::NOWHERE;
    /// Whether the sender had nothing to send.
    app_limited: bool = app_limited Same, column(27, 4, 0);
    /// Private state of the algorithm as hexadecimal bytes without trailing zeros.
    #[serde(with = "field::hexadecimal")]
    #[schemars(with = "String")]
    private_state: [u8; PRIVATE_BYTES] = private_state Same, ColumnPlace::NOWHERE;
    /// The kernel's number (1 is ESTABLISHED). Outputs show its name, result directories the number.
    tcp_state: u8 = tcp_state Same, column(28, 3, 11);
}

impl Event {
    /// As [`Event::of_raw`], from the first bytes.
    ///
    /// # Errors
    /// Too few bytes, or an unknown kind or address family.
    pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        let (raw, _) = RawEvent::read_from_prefix(bytes).map_err(|_| DecodeError::Short(bytes.len()))?;
        Event::of_raw(&raw)
    }

    /// The inverse of [`Event::decode`].
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        zerocopy::transmute!(self.to_raw())
    }
}
