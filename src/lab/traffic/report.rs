//! What both ends of a flow report together, whichever program sent it.

use std::time::Duration;

use shared::model::run::{Delays, Frames};

#[derive(Debug, Clone, PartialEq)]
pub enum TrafficReport {
    Bulk(TransferReport),
    /// Transfers of a size, or messages: each one that began, in the order of their starts.
    Transfers(Vec<Transferred>),
    Datagrams(Datagrams),
}

/// The report of a bulk flow.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferReport {
    /// Payload bytes that reached the receiver within the flow's length, by the receiver's count and clock. Bytes that
    /// were still queued at its end, or that a blocked sender wrote, do not count.
    pub received_bytes: u64,
    /// Seconds over which the receiver counted: the flow's length, to the nearest interval of iperf3.
    pub receiver_s: f64,
    /// When the flow's time began, on the clock of the events; `None` if it begins with the first data.
    pub begun_ns: Option<u64>,
}

/// One transfer of a size, or one message. Times are nanoseconds of the host's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transferred {
    /// Local port of its sender.
    pub port: u16,
    /// Port of its receiver.
    pub to_port: u16,
    /// When it began to connect; of a later message over the same connection, when it began.
    pub opened_ns: u64,
    /// When its request was sent; without requests the same as `opened_ns`.
    pub begun_ns: u64,
    /// When its last byte so far arrived; `None` if none did.
    pub last_ns: Option<u64>,
    /// Like `last_ns`, but only if all bytes arrived.
    pub done_ns: Option<u64>,
    /// Payload that arrived.
    pub received_bytes: u64,
    /// Payload that was to arrive.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datagrams {
    /// The longest time by which the sender sent a packet late; a burst followed.
    pub latest: Duration,
    /// Packets that never arrived, not even late.
    pub lost_pkts: u64,
    /// Packets that arrived within the flow's length of the first, without duplicates.
    pub received_pkts: u64,
    /// Payload of these packets.
    pub received_bytes: u64,
    /// Seconds from the first of these packets to the last.
    pub active_s: f64,
    /// How long those that arrived were on their way. `None` if none arrived, or if they are too short for a time.
    pub delay_us: Option<Delays>,
    /// `None`: they are too short for a time.
    pub frames: Option<Frames>,
}
