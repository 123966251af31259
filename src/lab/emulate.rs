//! Builds a scenario's network: the traits [`Network`], [`LinkDriver`] and [`Link`] and their implementations.

pub(crate) mod layout;
pub mod mininet;
pub mod netem;
pub mod netns;
mod plain;
pub mod topology;
pub mod tunlink;
pub(crate) mod wires;

use std::time::Duration;

use anyhow::Result;
use derive_more::Display;

use self::layout::Layout;
use self::topology::Topology;
use crate::path::{Direction, LinkConfig};
use shared::failure::Failure;
use shared::kernel::netns::Netns;
use shared::model::queue::QueueState;
use shared::model::run::LinkCounters;

/// A way to build networks: our own namespaces, or Mininet.
pub trait Network: Send + Sync {
    /// The name in reports: `netns`, `mininet`.
    fn name(&self) -> &'static str;

    /// The name of the link driver in reports: `netem`, `tunlink`.
    fn link_driver(&self) -> &'static str;

    /// Builds a layout: namespaces with their settings, links up, addresses and routes in place.
    ///
    /// Side effects: namespaces and interfaces that live as long as the returned value.
    ///
    /// # Errors
    /// Not permitted; a link cannot be built; the kernel refuses a setting, an address or a route.
    fn build(&self, layout: &Layout) -> Result<Topology>;
}

/// Where a driver creates one end of a link.
#[derive(Debug)]
pub struct LinkEnd {
    pub netns: Netns,
    /// At most 15 characters.
    pub interface: String,
}

/// A way to build links: the kernel's netem, or the user-space emulator.
pub trait LinkDriver: Send + Sync {
    /// The name in reports: `netem`, `tunlink`.
    fn name(&self) -> &'static str;

    /// Whether its links delay packets by [`Direction::host_delay`](crate::path::Direction::host_delay).
    fn delays_hosts(&self) -> bool {
        false
    }

    /// Creates the two interfaces (up, no address, no route) and starts to carry packets between them.
    ///
    /// Side effects: two interfaces that live as long as the returned link.
    ///
    /// # Errors
    /// Not permitted; an interface of that name exists; the host lacks what the driver needs.
    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>>;
}

/// A link that carries packets until it is dropped.
pub trait Link: Send + Sync {
    /// Counts of each direction since the last call of [`Link::restart_counters`].
    fn counters(&self) -> [LinkCounters; 2];

    /// Sets the counters to zero, so that calibration traffic does not count with the run.
    fn restart_counters(&self);

    /// Restarts the random numbers from these seeds, so that a run's first packet is the seed's first packet. Timed
    /// changes are off until [`Link::start`]. Does nothing on a link without randomness.
    fn reseed(&self, _seeds: [u64; 2]) {}

    /// Whether it delays packets by [`Direction::host_delay`](crate::path::Direction::host_delay).
    fn delays_hosts(&self) -> bool {
        false
    }

    /// Samples the queues at this interval from the next [`Link::start`] on, for this long. Does nothing on a link
    /// whose queues cannot be seen over time.
    fn sample(&self, _interval: Duration, _length: Duration) {}

    /// The samples of each direction since the last start. Empty without [`Link::sample`], and for a direction without
    /// a rate.
    fn queues(&self) -> [Vec<QueueState>; 2] {
        Default::default()
    }

    /// Starts timed changes: now is time 0 of every rate trace and every change. Does nothing on a link without them.
    fn start(&self) {}

    /// Notices for a reader of the link's numbers, in the order in which they arose; empty for a link that works.
    fn notices(&self) -> Vec<LinkNotice>;
}

/// # Errors
/// A direction has a queue discipline, and this driver's links have drop-tail queues.
pub fn check_drop_tail(directions: &[Direction; 2]) -> Result<(), Failure> {
    let Some(discipline) = directions.iter().find_map(|one| one.discipline.as_ref()) else { return Ok(()) };
    let what =
        format!("cannot emulate discipline \"{discipline}\" by the user-space link, which has drop-tail queues only");
    Err(Failure::unmet(what).hint("use `--link netem`, or `--engine virtual`, which needs neither netem nor rights"))
}

/// The way out for links that no driver of this host can emulate.
pub const OTHER_ENGINE: &str = "`--engine virtual` has the kernel's queue disciplines, and needs no rights";

/// One sentence for a reader of a link's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub enum LinkNotice {
    /// The link works less well than it should: it has no real-time priority, or no seed.
    Lacking(String),
    /// The link carries no more packets, because an interface was deleted.
    #[display("the link stopped: {_0}")]
    Stopped(String),
}
