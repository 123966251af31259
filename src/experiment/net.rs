//! What a scenario's path is made of, and the two traits behind which it is built: [`Network`] and [`Link`].

pub mod netns;
pub mod path;

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::kernel::netns::Netns;
use crate::model::run::LinkCounters;
use crate::units::{BitsPerSec, QueueSize, Share, duration_text};

/// One direction of a link: what a packet meets, in this order: loss, queue, serialisation, delay.
///
/// Rates count the whole IP packet (a 1500-byte MTU packet is 1500 bytes; there is no Ethernet header on the link).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Serialisation rate; none is unlimited.
    pub rate: Option<BitsPerSec>,
    /// One-way propagation delay.
    #[serde(with = "duration_text")]
    pub delay: Duration,
    /// Uniform random addition to the delay, 0 to this; packets are not reordered by it.
    #[serde(with = "duration_text")]
    pub jitter: Duration,
    /// Drop-tail queue in front of the serialiser.
    pub queue: QueueSize,
    /// Independent loss probability per packet, drawn before the queue.
    pub loss: Share,
    /// Seed of this direction's random numbers: the same seed drops the same packets, counted from the first.
    pub seed: u64,
}

/// A link between two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkConfig {
    /// From the first end to the second, and from the second to the first.
    pub directions: [Direction; 2],
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// Where one end of a link shall appear.
#[derive(Debug)]
pub struct LinkEnd {
    /// The namespace the interface is created in.
    pub netns: Netns,
    /// The interface's name, at most 15 characters.
    pub interface: String,
}

/// A way to build links: the kernel's netem, or the user-space emulator.
pub trait LinkDriver: Send + Sync {
    /// The driver's name as reports show it: `netem`, `tunlink`.
    fn name(&self) -> &'static str;

    /// Creates the two interfaces (up, no address, no route) and starts carrying packets between them.
    ///
    /// Errors: not permitted; an interface of that name exists; the host lacks what the driver needs.
    /// Side effects: two interfaces that live as long as the returned link.
    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>>;
}

/// A link that carries packets until it is dropped.
pub trait Link: Send {
    /// What each direction carried, dropped and how late it was, since the last call of [`Link::restart_counters`].
    fn counters(&self) -> [LinkCounters; 2];

    /// Starts the counters anew, so that calibration traffic does not count with the run.
    fn restart_counters(&self);

    /// Starts the random numbers anew from this seed pair, so that a run's first packet is the seed's first packet.
    fn reseed(&self, seeds: [u64; 2]);
}
