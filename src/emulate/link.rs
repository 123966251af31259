//! Links and what builds them: the traits [`LinkDriver`] and [`Link`].

use anyhow::Result;
use derive_more::Display;

use crate::kernel::netns::Netns;
use crate::model::run::LinkCounters;
use crate::path::LinkConfig;

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
pub trait Link: Send + Sync {
    /// What each direction carried, dropped and how late it was, since the last call of [`Link::restart_counters`].
    fn counters(&self) -> [LinkCounters; 2];

    /// Starts the counters anew, so that calibration traffic does not count with the run.
    fn restart_counters(&self);

    /// Starts the random numbers anew from this seed pair, so that a run's first packet is the seed's first packet; what
    /// changes by time is as before [`Link::start`].
    fn reseed(&self, seeds: [u64; 2]);

    /// Begins what changes by time: the moment of this call is 0 of every rate trace and every change.
    fn start(&self);

    /// What a reader of the link's numbers has to know.
    ///
    /// Shape: in the order they arose; empty for a link that works as it should.
    fn notices(&self) -> Vec<LinkNotice>;
}

/// What a reader of a link's numbers has to know: one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub enum LinkNotice {
    /// It works less well than it should: no real-time priority, no seed.
    Lacking(String),
    /// It carries nothing any more: an interface was taken away.
    #[display("the link stopped: {_0}")]
    Stopped(String),
}
