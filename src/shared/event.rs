//! One event of one socket: the interface between the tracer and its consumers.
//!
//! The table of fields below is the only Rust copy of the byte layout in `bpf/include/trace_event.h`. The decoder, the
//! encoder, the schema of recordings and the columns of every output derive from it.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod bytes;
mod field;
pub mod schema;

use bytes::{AddressAndPort, AlgorithmName, AsIs, ByteLayout, BytesPerSec, Unless};
pub use bytes::{DecodeError, EVENT_BYTES, PRIVATE_BYTES};
pub use field::{ColumnPlace, FieldType, FieldValue, Show, column, private_digits, with_room};

/// Version of the byte layout: `TCCC_EVENT_VERSION`.
pub const EVENT_VERSION: u32 = 1;
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

        impl ByteLayout<$name> for AsIs {
            const SIZE: usize = 1;

            fn read(&self, bytes: &[u8; EVENT_BYTES], at: usize) -> Result<$name, DecodeError> {
                match bytes[at] {
                    $($number => Ok($name::$item),)+
                    $byte => $unknown,
                }
            }

            fn write(&self, value: &$name, bytes: &mut [u8; EVENT_BYTES], at: usize) {
                bytes[at] = *value as u8;
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
    /// First byte and number of bytes; for an endpoint, those of its address.
    pub place: [usize; 2],
}

/// Declares the fields of an event: name and type, first byte and encoding, and column.
macro_rules! event {
    ($($(#[$note:meta])* $name:ident: $type:ty = $at:literal $layout:expr, $shown:expr;)+) => {
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
                place: [$at, bytes::size_in::<$type, _>(&$layout)],
            },)+];

            fn read(bytes: &[u8; EVENT_BYTES]) -> Result<Event, DecodeError> {
                Ok(Event { $($name: ByteLayout::<$type>::read(&$layout, bytes, $at)?,)+ })
            }

            fn write(&self, bytes: &mut [u8; EVENT_BYTES]) {
                $($layout.write(&self.$name, bytes, $at);)+
            }

            /// The bytes of an event without any known field.
            fn blank() -> [u8; EVENT_BYTES] {
                let mut bytes = [0; EVENT_BYTES];
                $(ByteLayout::<$type>::clear(&$layout, &mut bytes, $at);)+
                bytes
            }
        }

        /// Offset of each field in `struct tccc_event`; for an endpoint, the offset of its address.
        #[allow(non_upper_case_globals, reason = "the names are those of the fields")]
        pub mod offset {
            $(pub const $name: usize = $at;)+
            pub const family: usize = super::bytes::FAMILY;
            pub const local_port: usize = 106;
            pub const remote_port: usize = 108;
        }
    };
}

event! {
    /// Why the event was written.
    kind: EventKind = 110 AsIs, column(1, 0, 8);
    /// CLOCK_MONOTONIC, nanoseconds.
    time_ns: u64 = 0 AsIs, column(3, ColumnPlace::MACHINE, 0);
    /// Socket cookie, unique per boot. 0: the kernel had assigned none.
    socket: u64 = 8 AsIs, column(4, ColumnPlace::MACHINE, 0);
    /// cgroup v2 id.
    cgroup: u64 = 16 AsIs, column(5, ColumnPlace::MACHINE, 0);
    /// Inode of the network namespace.
    netns: u32 = 48 AsIs, column(29, 3, 10);
    /// User id of the socket.
    uid: u32 = 100 AsIs, column(6, ColumnPlace::MACHINE, 0);
    /// Address and port of the sender.
    local: SocketAddr = 120 AddressAndPort(offset::local_port), column(7, 0, 21);
    /// Address and port of the receiver.
    remote: SocketAddr = 136 AddressAndPort(offset::remote_port), column(8, 0, 21);
    /// Kernel name of the congestion control algorithm.
    algorithm: String = 152 AlgorithmName, column(9, 0, 0);
    /// Congestion window.
    cwnd_pkts: u32 = 52 AsIs, column(11, 0, 0);
    /// Slow-start threshold. `None` before the first reduction.
    ssthresh_pkts: Option<u32> = 56 Unless(NO_SSTHRESH), column(12, 2, 0);
    /// Smoothed RTT. `None` before the first sample.
    srtt_us: Option<u32> = 60 Unless(0), column(13, 0, 8);
    /// Lowest RTT of the kernel's window (net.ipv4.tcp_min_rtt_wlen).
    min_rtt_us: Option<u32> = 64 Unless(u32::MAX), column(14, 3, 0);
    /// Latest RTT sample.
    rtt_us: Option<u32> = 68 Unless(0), column(21, 3, 8);
    /// Retransmission timeout.
    rto_us: u32 = 72 AsIs, column(22, 3, 8);
    /// Packets sent and neither acknowledged nor marked lost.
    inflight_pkts: u32 = 76 AsIs, column(15, 1, 0);
    /// Packets that the receiver acknowledged.
    delivered_pkts: u32 = 80 AsIs, column(16, 2, 0);
    /// Packets delivered with a congestion mark.
    delivered_ce_pkts: u32 = 84 AsIs, column(24, 4, 0);
    /// Packets that the sender marked lost.
    lost_pkts: u32 = 88 AsIs, column(18, 3, 0);
    /// Retransmitted packets.
    retrans_pkts: u32 = 92 AsIs, column(17, 2, 0);
    /// Payload bytes that the receiver acknowledged.
    bytes_acked: u64 = 32 AsIs, column(25, 4, 12);
    /// Payload bytes that the sender's end received.
    bytes_received: u64 = 40 AsIs, column(26, 4, 0);
    /// Payload of a full packet.
    mss_bytes: u32 = 96 AsIs, column(23, 3, 0);
    /// Pacing rate. `None`: unlimited.
    pacing_rate_bps: Option<u64> = 24 BytesPerSec, column(20, 3, 0);
    /// Congestion state.
    ca_state: CaState = 111 AsIs, column(19, 1, 0);
    /// Congestion state before a `State` event.
    prior_ca_state: CaState = 112 AsIs, ColumnPlace::NOWHERE;
    /// Whether the sender had nothing to send.
    app_limited: bool = 114 AsIs, column(27, 4, 0);
    /// Private state of the algorithm as hexadecimal bytes without trailing zeros.
    #[serde(with = "field::hexadecimal")]
    #[schemars(with = "String")]
    private_state: [u8; PRIVATE_BYTES] = 168 AsIs, ColumnPlace::NOWHERE;
    /// The kernel's number (1 is ESTABLISHED). Outputs show its name, result directories the number.
    tcp_state: u8 = 113 AsIs, column(28, 3, 11);
}

impl Event {
    /// Decodes one event of the kernel program.
    ///
    /// Errors: too few bytes, or an unknown kind or address family.
    pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        Event::read(bytes.first_chunk().ok_or(DecodeError::Short(bytes.len()))?)
    }

    /// The inverse of [`Event::decode`].
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes::write_family([self.local, self.remote], &mut bytes);
        self.write(&mut bytes);
        bytes
    }
}
