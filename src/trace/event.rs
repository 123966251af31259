//! One event of one socket: the protocol between the tracer and everything that consumes it.
//!
//! The table of fields below is the only place in Rust that knows the byte layout of `bpf/include/trace_event.h`. The
//! decoder, the encoder, the schema of a recording and the columns of every output follow from it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

mod bytes;
mod field;
pub mod schema;

use bytes::{AlgorithmName, ByteLayout, BytesPerSec, Endpoint, Plain, Unless};
pub use bytes::{DecodeError, EVENT_BYTES, PRIVATE_BYTES};
pub(crate) use field::{ColumnPlace, FieldType, FieldValue, Show, column, private_digits, with_room};

/// Version of the byte layout; equal to `TCCC_EVENT_VERSION`.
pub const EVENT_VERSION: u32 = 1;
/// The kernel's "infinite" threshold.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// An enumeration that the kernel writes as a number, and every output as a word; and what another number is.
macro_rules! words {
    (
        $(#[$note:meta])* $name:ident, $byte:ident $unknown:expr,
        { $($(#[$item_note:meta])* $item:ident = $number:literal $word:literal,)+ }
    ) => {
        $(#[$note])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$item_note])* #[serde(rename = $word)] $item = $number,)+
        }

        impl $name {
            /// Every one, by its number.
            pub const ALL: &'static [$name] = &[$($name::$item,)+];

            /// The word that every output shows.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$item => $word,)+
                }
            }
        }

        impl ByteLayout<$name> for Plain {
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
    /// Why an event was sent.
    EventKind, byte Err(DecodeError::Unknown("kind", byte.into())), {
        /// The connection was established.
        Open = 1 "open",
        /// The sampling interval passed.
        Sample = 2 "sample",
        /// The congestion state changed.
        State = 3 "state",
        /// The lost or retransmitted count grew since the last of these; at most ten per sampling interval, counts
        /// cumulative.
        Loss = 4 "loss",
        /// The connection ended.
        Close = 5 "close",
        /// One row of a sweep over all sockets.
        Snapshot = 6 "snapshot",
    }
}

words! {
    /// The kernel's congestion state of a socket, in the kernel's own five words.
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

/// One field of an event, declared in the table below.
pub(crate) struct EventField {
    /// Its name in Rust, JSON, CSV and Parquet, with the unit.
    pub name: &'static str,
    /// `,"name":`, as it stands within a JSON object.
    pub key: &'static str,
    pub kind: FieldType,
    pub shown: ColumnPlace,
    /// Its value; none when it is not known.
    pub value: for<'a> fn(&'a Event) -> Option<FieldValue<'a>>,
    /// Its first byte and its bytes, of an endpoint those of the address.
    pub place: [usize; 2],
}

/// Declares the fields of an event: name and type, first byte and encoding, and the column that shows it.
macro_rules! event {
    ($($(#[$note:meta])* $name:ident: $type:ty = $at:literal $layout:expr, $shown:expr;)+) => {
        /// What one socket looked like at one moment.
        ///
        /// Shape: a stream is sorted by time per socket; a gap means that nothing was sampled or that events were
        /// dropped (the stream's drop count says which).
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct Event {
            $($(#[$note])* pub $name: $type,)+
        }

        impl Event {
            /// Every field, in the order of JSON.
            pub(crate) const FIELDS: &'static [EventField] = &[$(EventField {
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

            /// The bytes of an event of which nothing is known.
            fn blank() -> [u8; EVENT_BYTES] {
                let mut bytes = [0; EVENT_BYTES];
                $(ByteLayout::<$type>::clear(&$layout, &mut bytes, $at);)+
                bytes
            }
        }

        /// First byte of each field in `struct tccc_event`, of an endpoint that of its address.
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
    /// Why this event was sent.
    kind: EventKind = 110 Plain, column(1, 0, 8);
    /// CLOCK_MONOTONIC, nanoseconds.
    time_ns: u64 = 0 Plain, column(3, ColumnPlace::MACHINE, 0);
    /// Socket cookie, unique per boot; 0 where the kernel had assigned none.
    socket: u64 = 8 Plain, column(4, ColumnPlace::MACHINE, 0);
    /// cgroup v2 id of the socket.
    cgroup: u64 = 16 Plain, column(5, ColumnPlace::MACHINE, 0);
    /// Inode of the network namespace.
    netns: u32 = 48 Plain, column(29, 3, 10);
    /// Owner of the socket.
    uid: u32 = 100 Plain, column(6, ColumnPlace::MACHINE, 0);
    /// Local address and port.
    local: SocketAddr = 120 Endpoint(offset::local_port), column(7, 0, 21);
    /// Remote address and port.
    remote: SocketAddr = 136 Endpoint(offset::remote_port), column(8, 0, 21);
    /// Kernel name of the congestion-control algorithm.
    algorithm: String = 152 AlgorithmName, column(9, 0, 0);
    /// Congestion window, packets.
    cwnd_pkts: u32 = 52 Plain, column(11, 0, 0);
    /// Slow-start threshold, packets; none before the first reduction.
    ssthresh_pkts: Option<u32> = 56 Unless(NO_SSTHRESH), column(12, 2, 0);
    /// Smoothed RTT; none before the first sample.
    srtt_us: Option<u32> = 60 Unless(0), column(13, 0, 8);
    /// Lowest RTT of the kernel's window (net.ipv4.tcp_min_rtt_wlen).
    min_rtt_us: Option<u32> = 64 Unless(u32::MAX), column(14, 3, 0);
    /// Latest RTT sample.
    rtt_us: Option<u32> = 68 Unless(0), column(21, 3, 8);
    /// Retransmission timeout.
    rto_us: u32 = 72 Plain, column(22, 3, 8);
    /// Packets in flight.
    inflight_pkts: u32 = 76 Plain, column(15, 1, 0);
    /// Delivered so far.
    delivered_pkts: u32 = 80 Plain, column(16, 2, 0);
    /// Delivered with a congestion mark so far.
    delivered_ce_pkts: u32 = 84 Plain, column(24, 4, 0);
    /// Marked lost so far.
    lost_pkts: u32 = 88 Plain, column(18, 3, 0);
    /// Retransmitted so far.
    retrans_pkts: u32 = 92 Plain, column(17, 2, 0);
    /// Payload bytes acknowledged so far.
    bytes_acked: u64 = 32 Plain, column(25, 4, 12);
    /// Payload bytes received so far.
    bytes_received: u64 = 40 Plain, column(26, 4, 0);
    /// Sender's maximum segment size.
    mss_bytes: u32 = 96 Plain, column(23, 3, 0);
    /// Pacing rate, bits per second; none when unlimited.
    pacing_rate_bps: Option<u64> = 24 BytesPerSec, column(20, 3, 0);
    /// Congestion state.
    ca_state: CaState = 111 Plain, column(19, 1, 0);
    /// Congestion state before a `State` event.
    prior_ca_state: CaState = 112 Plain, ColumnPlace::NOWHERE;
    /// The sender had nothing to send.
    app_limited: bool = 114 Plain, column(27, 4, 0);
    /// The algorithm's private state, decoded by name with the algorithm's own layout.
    #[serde(with = "field::hexadecimal")]
    private_state: [u8; PRIVATE_BYTES] = 168 Plain, ColumnPlace::NOWHERE;
    /// TCP state, the kernel's number (1 is ESTABLISHED); outputs show its name, a result directory the number.
    tcp_state: u8 = 113 Plain, column(28, 3, 11);
}

impl Event {
    /// Decodes one event as the kernel side wrote it.
    ///
    /// Errors: too few bytes, or a kind or address family this version does not know.
    pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        Event::read(bytes.first_chunk().ok_or(DecodeError::Short(bytes.len()))?)
    }

    /// Encodes an event as the kernel side writes it; [`Event::decode`] gives it back.
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes::write_family([self.local, self.remote], &mut bytes);
        self.write(&mut bytes);
        bytes
    }
}
