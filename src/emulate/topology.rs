//! A built network, whoever built it: nodes one can send from and links one can ask.

use std::any::Any;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};

use super::layout::{EndLayout, Layout, LinkLayout, NodeLayout};
use super::link::{Link, LinkEnd};
use crate::kernel::netns::Netns;
use crate::kernel::{offload, sysctl};

#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub netns: Netns,
    /// Its own address, reachable from every other node.
    pub address: Ipv4Addr,
}

impl Node {
    /// A node of a layout in its namespace, with its settings; beside it those that this kernel lacks.
    ///
    /// Errors: a setting is refused.
    pub(super) fn settled(layout: &NodeLayout, netns: Netns) -> Result<(Node, Vec<String>)> {
        let settings: Vec<(&str, &str)> = layout.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let lacking = sysctl::set_all(&netns, &settings)?;
        Ok((Node { name: layout.name.clone(), netns, address: layout.address }, lacking))
    }

    /// The node of that name.
    ///
    /// Errors: there is none.
    pub(super) fn find<'a>(nodes: &'a [Node], name: &str) -> Result<&'a Node> {
        nodes.iter().find(|node| node.name == name).ok_or_else(|| anyhow!("no node \"{name}\" in the network"))
    }

    /// Where the two ends of a link shall appear.
    ///
    /// Errors: there is no such node; its namespace cannot be shared.
    pub(super) fn ends(nodes: &[Node], link: &LinkLayout) -> Result<[LinkEnd; 2]> {
        let end = |end: &EndLayout| -> Result<LinkEnd> {
            Ok(LinkEnd { netns: Node::find(nodes, &end.node)?.netns.try_clone()?, interface: end.interface.clone() })
        };
        Ok([end(&link.ends[0])?, end(&link.ends[1])?])
    }
}

/// A built network; everything vanishes when it is dropped, also with the process.
pub struct Topology {
    pub layout: Layout,
    pub nodes: Vec<Node>,
    pub links: Vec<Box<dyn Link>>,
    /// Settings that this kernel lacks.
    pub lacking: Vec<String>,
    /// What else must live as long as the network: a process that holds it.
    pub keeper: Option<Box<dyn Any + Send + Sync>>,
}

impl Topology {
    /// The node of that name.
    ///
    /// Errors: no link names it.
    pub fn node(&self, name: &str) -> Result<&Node> {
        Node::find(&self.nodes, name)
    }

    /// The offloads that are on at any end of a link, as one phrase; "off" when none is.
    ///
    /// Errors: an interface is gone.
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
