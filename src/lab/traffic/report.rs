//! What comes of a flow, whoever sent it.

use std::time::Duration;

/// What the two ends of a flow say about it.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Bulk(TransferReport),
    /// Of transfers of a size, and of messages: each that was begun, in the order of their starts.
    Transfers(Vec<Transferred>),
    Datagrams(Datagrams),
}

/// What the two iperf3 processes of a flow say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferReport {
    pub algorithm: String,
    /// Payload bytes that reached the receiver in the flow's length, by the receiver's count and clock: what was still
    /// queued then, or written by a sender that was blocked, comes too late.
    pub received_bytes: u64,
    /// Time over which it counted them, seconds: the flow's length to the receiver's nearest interval.
    pub receiver_s: f64,
    /// Segments the sender retransmitted.
    pub retrans_pkts: u64,
    /// Segment size the sender reports, bytes.
    pub mss_bytes: u32,
}

/// One transfer of a size, or one message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transferred {
    /// Local port of its sender.
    pub port: u16,
    /// When it began to connect, on the host's monotonic clock, nanoseconds.
    pub begun_ns: u64,
    /// When the last that arrived of it did; none when nothing did.
    pub last_ns: Option<u64>,
    /// The same when that was all of it.
    pub done_ns: Option<u64>,
    /// Payload that arrived.
    pub received_bytes: u64,
}

/// A flow of datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datagrams {
    /// Longest that its sender let one leave after its time: a burst followed.
    pub latest: Duration,
    /// Packets that never arrived, not even late.
    pub lost_pkts: u64,
    /// Packets that arrived within the flow's length of the first, each once.
    pub received_pkts: u64,
    /// Their payload.
    pub received_bytes: u64,
    /// From the first of them to the last, seconds.
    pub active_s: f64,
}
