//! What a network consists of: nodes with settings and routes, links with addresses at their ends. Whatever builds the
//! network ([`super::Network`]) adds nothing to it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::path::LinkConfig;

/// Each link is a network of its own: four addresses.
pub const LINK_PREFIX: u8 = 30;

/// A network, ready to be built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The nodes in the order in which links name them.
    pub nodes: Vec<NodeLayout>,
    /// The links in the scenario's order.
    pub links: Vec<LinkLayout>,
}

/// A node: a host or a router, there is no difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeLayout {
    pub name: String,
    /// Its own address, on its loopback interface, reachable from every other node.
    pub address: Ipv4Addr,
    /// Sysctls of its namespace, in the order in which they are set; a later one of the same name holds.
    pub settings: Vec<(String, String)>,
    /// One route to every other node that links lead to.
    pub routes: Vec<RouteLayout>,
}

/// How a node reaches another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteLayout {
    /// The other node's own address.
    pub to: Ipv4Addr,
    /// The far end of the first link on the way with fewest links.
    pub gateway: Ipv4Addr,
    /// The near end's interface.
    pub interface: String,
    /// Whether receivers acknowledge every segment at once, as the simulator's do.
    pub quickack: bool,
}

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkLayout {
    /// Its name in results: `s-r`.
    pub name: String,
    /// The two ends in the scenario's order.
    pub ends: [EndLayout; 2],
    /// What it does to packets, seeds included.
    pub config: LinkConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLayout {
    pub node: String,
    /// The interface's name there, at most 15 characters.
    pub interface: String,
    /// The interface's address, in a network of [`LINK_PREFIX`] bits.
    pub address: Ipv4Addr,
}
