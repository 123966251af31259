//! A built network: its nodes and its links.

use std::any::Any;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};

use super::layout::{EndLayout, Layout, LinkLayout, NodeLayout};
use crate::emulate::{Link, LinkEnd};
use shared::kernel::netns::Netns;
use shared::kernel::{offload, sysctl};

#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub netns: Netns,
    /// Loopback address, reachable from every other node.
    pub address: Ipv4Addr,
}

impl Node {
    /// Applies a node's settings to its namespace; also returns the settings that this kernel lacks.
    ///
    /// # Errors
    /// The kernel refuses a setting.
    pub(super) fn settled(layout: &NodeLayout, netns: Netns) -> Result<(Node, Vec<String>)> {
        let settings: Vec<(&str, &str)> = layout.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let lacking = sysctl::set_all(&netns, &settings)?;
        Ok((Node { name: layout.name.clone(), netns, address: layout.address }, lacking))
    }

    /// # Errors
    /// No node has that name.
    pub(super) fn find<'a>(nodes: &'a [Node], name: &str) -> Result<&'a Node> {
        nodes.iter().find(|node| node.name == name).ok_or_else(|| anyhow!("no node \"{name}\" in the network"))
    }

    /// Where the two ends of a link are to be created.
    ///
    /// # Errors
    /// No such node; its namespace cannot be shared.
    pub(super) fn ends(nodes: &[Node], link: &LinkLayout) -> Result<[LinkEnd; 2]> {
        let end = |end: &EndLayout| -> Result<LinkEnd> {
            Ok(LinkEnd { netns: Node::find(nodes, &end.node)?.netns.try_clone()?, interface: end.interface.clone() })
        };
        Ok([end(&link.ends[0])?, end(&link.ends[1])?])
    }
}

/// A built network. Everything in it disappears when it is dropped or the process ends.
pub struct Topology<L = Box<dyn Link>> {
    pub layout: Layout,
    pub nodes: Vec<Node>,
    pub links: Vec<L>,
    /// Settings that this kernel lacks.
    pub lacking: Vec<String>,
    /// A process that holds the network, if any.
    pub keeper: Option<Box<dyn Any + Send + Sync>>,
}

impl Topology {
    /// # Errors
    /// No node has that name.
    pub fn node(&self, name: &str) -> Result<&Node> {
        Node::find(&self.nodes, name)
    }

    /// The offloads that are on at any end of a link, such as `GRO, TSO`; `off` if none is.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn offloads(&self) -> Result<String> {
        let mut on = BTreeSet::new();
        for end in self.layout.links.iter().flat_map(|link| &link.ends) {
            let is = offload::offloads(&self.node(&end.node)?.netns, &end.interface)?;
            let named = [(is.send_checksum, "checksum"), (is.tso, "TSO"), (is.gso, "GSO"), (is.gro, "GRO")];
            on.extend(named.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name));
        }
        Ok(if on.is_empty() { "off".to_owned() } else { on.into_iter().collect::<Vec<_>>().join(", ") })
    }
}
