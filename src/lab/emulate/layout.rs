//! The parts of a network: nodes with settings and routes, and links with addresses at their ends. A
//! [`Network`](super::Network) builds exactly this.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::path::LinkConfig;

/// Prefix length of a link's own network of four addresses.
pub const LINK_PREFIX: u8 = 30;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// In the order in which links name them.
    pub nodes: Vec<NodeLayout>,
    /// In the scenario's order.
    pub links: Vec<LinkLayout>,
}

/// A host or a router; both are built alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeLayout {
    pub name: String,
    /// Address of the loopback interface, reachable from every other node.
    pub address: Ipv4Addr,
    /// Sysctls of the namespace in the order in which they are set; the last one of a name wins.
    pub settings: Vec<(String, String)>,
    /// Routes to every other node that links lead to. A node with one link has one route for all.
    pub routes: Vec<RouteLayout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteLayout {
    /// The other node's loopback address, or the network of all loopback addresses.
    pub to: Ipv4Addr,
    pub prefix: u8,
    /// The far end of the first link on the path with the fewest links.
    pub gateway: Ipv4Addr,
    /// The near end's interface.
    pub interface: String,
    /// Whether receivers acknowledge every segment at once, as the simulator's do.
    pub quickack: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkLayout {
    /// The name in results, such as `s-r`.
    pub name: String,
    /// In the scenario's order.
    pub ends: [EndLayout; 2],
    /// What the link does to packets, with its seeds.
    pub config: LinkConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLayout {
    pub node: String,
    /// At most 15 characters.
    pub interface: String,
    /// In a network of [`LINK_PREFIX`] bits.
    pub address: Ipv4Addr,
}
