//! One event of one socket: the protocol between the tracer and everything that consumes it.
//!
//! The only place in Rust that knows the byte layout of `bpf/include/trace_event.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

pub mod schema;

/// Version of the byte layout; equal to `TCCC_EVENT_VERSION`.
pub const EVENT_VERSION: u32 = 1;
/// Bytes of an algorithm's private state in a socket (`icsk_ca_priv`).
pub const PRIVATE_BYTES: usize = 104;
/// Size of one encoded event.
pub const EVENT_BYTES: usize = 272;

/// Why an event was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The connection was established.
    Open,
    /// The sampling interval passed.
    Sample,
    /// The congestion state changed.
    State,
    /// The lost or retransmitted count grew since the last of these; at most ten per sampling interval, counts cumulative.
    Loss,
    /// The connection ended.
    Close,
    /// One row of a sweep over all sockets.
    Snapshot,
}

/// The kernel's congestion state of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the kernel's own five words")]
pub enum CaState {
    Open,
    Disorder,
    #[serde(rename = "CWR")]
    Cwr,
    Recovery,
    Loss,
}

impl CaState {
    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => CaState::Open,
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            _ => CaState::Loss,
        }
    }

    /// The kernel's word for it.
    pub fn name(self) -> &'static str {
        match self {
            CaState::Open => "Open",
            CaState::Disorder => "Disorder",
            CaState::Cwr => "CWR",
            CaState::Recovery => "Recovery",
            CaState::Loss => "Loss",
        }
    }
}

/// What one socket looked like at one moment.
///
/// Shape: a stream is sorted by time per socket; a gap means that nothing was sampled or that events were dropped
/// (the stream's drop count says which).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Why this event was sent.
    pub kind: EventKind,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// Socket cookie, unique per boot; 0 where the kernel had assigned none.
    pub socket: u64,
    /// cgroup v2 id of the socket.
    pub cgroup: u64,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Owner of the socket.
    pub uid: u32,
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Kernel name of the congestion-control algorithm.
    pub algorithm: String,
    /// Congestion window, packets.
    pub cwnd_pkts: u32,
    /// Slow-start threshold, packets; none before the first reduction.
    pub ssthresh_pkts: Option<u32>,
    /// Smoothed RTT; none before the first sample.
    pub srtt_us: Option<u32>,
    /// Lowest RTT of the kernel's window (net.ipv4.tcp_min_rtt_wlen).
    pub min_rtt_us: Option<u32>,
    /// Latest RTT sample.
    pub rtt_us: Option<u32>,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Packets in flight.
    pub inflight_pkts: u32,
    /// Delivered so far.
    pub delivered_pkts: u32,
    /// Delivered with a congestion mark so far.
    pub delivered_ce_pkts: u32,
    /// Marked lost so far.
    pub lost_pkts: u32,
    /// Retransmitted so far.
    pub retrans_pkts: u32,
    /// Payload bytes acknowledged so far.
    pub bytes_acked: u64,
    /// Payload bytes received so far.
    pub bytes_received: u64,
    /// Sender's maximum segment size.
    pub mss_bytes: u32,
    /// Pacing rate, bits per second; none when unlimited.
    pub pacing_rate_bps: Option<u64>,
    /// Congestion state.
    pub ca_state: CaState,
    /// Congestion state before a `State` event.
    pub prior_ca_state: CaState,
    /// TCP state, the kernel's number (1 is ESTABLISHED); written by who writes the event: [`Recorded`] as it is,
    /// `tccc sockets` and `tccc trace` by its name.
    #[serde(skip_serializing)]
    pub tcp_state: u8,
    /// The sender had nothing to send.
    pub app_limited: bool,
    /// The algorithm's private state, decoded by name with the algorithm's own layout.
    #[serde(with = "hex_bytes")]
    pub private_state: [u8; PRIVATE_BYTES],
}

/// An event as a run records it, and as it is read back.
#[derive(Debug, Serialize)]
pub struct Recorded<'a> {
    #[serde(flatten)]
    event: &'a Event,
    tcp_state: u8,
}

impl<'a> From<&'a Event> for Recorded<'a> {
    fn from(event: &'a Event) -> Self {
        Recorded { event, tcp_state: event.tcp_state }
    }
}

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

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn address(family: u16, bytes: &[u8], port: u16) -> Result<SocketAddr, DecodeError> {
    let ip = match family {
        2 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        10 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..16]).expect("sixteen bytes"))),
        other => return Err(DecodeError::Unknown("address family", other.into())),
    };
    // An IPv6 socket that talks IPv4 shows the address its peer shows.
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

fn some_unless<T: PartialEq>(value: T, none: T) -> Option<T> {
    (value != none).then_some(value)
}

impl Event {
    /// Decodes one event as the kernel side wrote it.
    ///
    /// Errors: too few bytes, or a kind or address family this version does not know.
    pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
        if bytes.len() < EVENT_BYTES {
            return Err(DecodeError::Short(bytes.len()));
        }
        let kind = match bytes[offset::KIND] {
            1 => EventKind::Open,
            2 => EventKind::Sample,
            3 => EventKind::State,
            4 => EventKind::Loss,
            5 => EventKind::Close,
            6 => EventKind::Snapshot,
            other => return Err(DecodeError::Unknown("kind", other.into())),
        };
        let family = u16_at(bytes, offset::FAMILY);
        let name = &bytes[offset::ALGORITHM..offset::ALGORITHM + 16];
        let name = &name[..name.iter().position(|&b| b == 0).unwrap_or(name.len())];
        let private = &bytes[offset::PRIVATE_STATE..offset::PRIVATE_STATE + PRIVATE_BYTES];
        Ok(Event {
            kind,
            time_ns: u64_at(bytes, offset::TIME_NS),
            socket: u64_at(bytes, offset::SOCKET),
            cgroup: u64_at(bytes, offset::CGROUP),
            netns: u32_at(bytes, offset::NETNS),
            uid: u32_at(bytes, offset::UID),
            local: address(family, &bytes[offset::LOCAL_ADDR..], u16_at(bytes, offset::LOCAL_PORT))?,
            remote: address(family, &bytes[offset::REMOTE_ADDR..], u16_at(bytes, offset::REMOTE_PORT))?,
            algorithm: String::from_utf8_lossy(name).into_owned(),
            cwnd_pkts: u32_at(bytes, offset::CWND_PKTS),
            ssthresh_pkts: Some(u32_at(bytes, offset::SSTHRESH_PKTS)).filter(|&s| s < 0x7fff_ffff),
            srtt_us: some_unless(u32_at(bytes, offset::SRTT_US), 0),
            min_rtt_us: some_unless(u32_at(bytes, offset::MIN_RTT_US), u32::MAX),
            rtt_us: some_unless(u32_at(bytes, offset::RTT_US), 0),
            rto_us: u32_at(bytes, offset::RTO_US),
            inflight_pkts: u32_at(bytes, offset::INFLIGHT_PKTS),
            delivered_pkts: u32_at(bytes, offset::DELIVERED_PKTS),
            delivered_ce_pkts: u32_at(bytes, offset::DELIVERED_CE_PKTS),
            lost_pkts: u32_at(bytes, offset::LOST_PKTS),
            retrans_pkts: u32_at(bytes, offset::RETRANS_PKTS),
            bytes_acked: u64_at(bytes, offset::BYTES_ACKED),
            bytes_received: u64_at(bytes, offset::BYTES_RECEIVED),
            mss_bytes: u32_at(bytes, offset::MSS_BYTES),
            pacing_rate_bps: some_unless(u64_at(bytes, offset::PACING_RATE), u64::MAX).map(|r| r.saturating_mul(8)),
            ca_state: CaState::from_byte(bytes[offset::CA_STATE]),
            prior_ca_state: CaState::from_byte(bytes[offset::PRIOR_CA_STATE]),
            tcp_state: bytes[offset::TCP_STATE],
            app_limited: bytes[offset::APP_LIMITED] != 0,
            private_state: private.try_into().expect("private state has its size"),
        })
    }
}

/// Byte offsets of `struct tccc_event`; `tests/event_layout.rs` compares them with the C header.
pub mod offset {
    #![allow(missing_docs, reason = "the names are the fields of the C struct")]
    pub const TIME_NS: usize = 0;
    pub const SOCKET: usize = 8;
    pub const CGROUP: usize = 16;
    pub const PACING_RATE: usize = 24;
    pub const BYTES_ACKED: usize = 32;
    pub const BYTES_RECEIVED: usize = 40;
    pub const NETNS: usize = 48;
    pub const CWND_PKTS: usize = 52;
    pub const SSTHRESH_PKTS: usize = 56;
    pub const SRTT_US: usize = 60;
    pub const MIN_RTT_US: usize = 64;
    pub const RTT_US: usize = 68;
    pub const RTO_US: usize = 72;
    pub const INFLIGHT_PKTS: usize = 76;
    pub const DELIVERED_PKTS: usize = 80;
    pub const DELIVERED_CE_PKTS: usize = 84;
    pub const LOST_PKTS: usize = 88;
    pub const RETRANS_PKTS: usize = 92;
    pub const MSS_BYTES: usize = 96;
    pub const UID: usize = 100;
    pub const FAMILY: usize = 104;
    pub const LOCAL_PORT: usize = 106;
    pub const REMOTE_PORT: usize = 108;
    pub const KIND: usize = 110;
    pub const CA_STATE: usize = 111;
    pub const PRIOR_CA_STATE: usize = 112;
    pub const TCP_STATE: usize = 113;
    pub const APP_LIMITED: usize = 114;
    pub const LOCAL_ADDR: usize = 120;
    pub const REMOTE_ADDR: usize = 136;
    pub const ALGORITHM: usize = 152;
    pub const PRIVATE_STATE: usize = 168;
}

/// The private state as hexadecimal text in JSON.
mod hex_bytes {
    use super::PRIVATE_BYTES;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8; PRIVATE_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
        let used = bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
        let digit = |value: u8| char::from_digit(value.into(), 16).expect("half a byte is a digit");
        let text: String = bytes[..used].iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; PRIVATE_BYTES], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; PRIVATE_BYTES];
        if text.len() % 2 != 0 || text.len() / 2 > PRIVATE_BYTES || !text.is_ascii() {
            return Err(serde::de::Error::custom("private state is not up to 104 bytes of hexadecimal"));
        }
        for (index, byte) in bytes.iter_mut().enumerate().take(text.len() / 2) {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(serde::de::Error::custom)?;
        }
        Ok(bytes)
    }
}
