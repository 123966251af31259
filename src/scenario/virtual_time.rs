//! What virtual time adds to a scenario, so that flows which the clock would begin in step do not stay in step.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration_text;

/// `[virtual]`: seeded times that a real host has by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VirtualSpec {
    /// Each flow begins at a seeded moment up to this after its start.
    #[serde(with = "duration_text")]
    pub start_spread: Duration,
    /// Each packet leaves a node a seeded time up to this after the node has it, in order.
    ///
    /// Source: S. Floyd, V. Jacobson, "Traffic phase effects in packet-switched gateways", 1991: a processing time of
    /// up to one service time of the bottleneck removes them; ns-2 calls it `overhead_`.
    #[serde(with = "duration_text")]
    pub host_delay: Duration,
}

/// About what processes take to start, and what a host takes for a packet.
impl Default for VirtualSpec {
    fn default() -> Self {
        VirtualSpec { start_spread: Duration::from_millis(10), host_delay: Duration::from_micros(10) }
    }
}

/// Largest start spread and host delay.
pub const VIRTUAL_MAX: [Duration; 2] = [Duration::from_secs(10), Duration::from_millis(100)];
