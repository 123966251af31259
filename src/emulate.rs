//! Builds a scenario's network: the traits [`Network`], [`LinkDriver`] and [`Link`] and their implementations.

pub(crate) mod layout;
mod link;
pub mod mininet;
pub mod netem;
pub mod netns;
mod plain;
pub mod topology;
pub mod tunlink;
pub(crate) mod wires;

use anyhow::Result;

use self::layout::Layout;
use self::topology::Topology;

pub use self::link::{Link, LinkDriver, LinkEnd, LinkNotice};

/// A way to build networks: our own namespaces, or Mininet.
pub trait Network: Send + Sync {
    /// The name in reports: `netns`, `mininet`.
    fn name(&self) -> &'static str;

    /// The name of the link driver in reports: `netem`, `tunlink`.
    fn link_driver(&self) -> &'static str;

    /// Builds a layout: namespaces with their settings, links up, addresses and routes in place.
    ///
    /// Errors: not permitted; a link cannot be built; the kernel refuses a setting, an address or a route.
    /// Side effects: namespaces and interfaces that live as long as the returned value.
    fn build(&self, layout: &Layout) -> Result<Topology>;
}
