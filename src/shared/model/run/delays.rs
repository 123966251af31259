//! How long packets wait and are on their way, and the frames that they carry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How times are distributed, microseconds, each within 2 %. Times below 1 us count as none, and those above 36 minutes
/// as 36 minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest, within 2 %.
    pub max: f64,
}

/// How long the packets of a flow waited in the queue of one direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkWait {
    /// The node that sends into the link.
    pub from: String,
    /// The node that the link leads to.
    pub to: String,
    /// Their waits, until the first bit of a packet was sent.
    pub us: Delays,
}

/// Frames of a flow of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frames {
    /// Frames of which at least one datagram was sent.
    pub sent: u64,
    /// Frames all of whose datagrams arrived within the flow's deadline.
    pub in_time: u64,
}
