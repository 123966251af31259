//! A built network, whoever built it: nodes one can send from and links one can ask.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};

use crate::experiment::net::Link;
use crate::experiment::net::layout::{Layout, PAPER_SETTINGS, SETTINGS};
use crate::kernel::netns::Netns;
use crate::kernel::{offload, sysctl};

/// Settings that decide how TCP behaves whether they were set or come with the host: recorded as the namespaces have
/// them.
const RECORDED: [&str; 4] =
    ["net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_adv_win_scale", "net.ipv4.tcp_moderate_rcvbuf"];

/// A node of the scenario.
#[derive(Debug)]
pub struct Node {
    /// Its name in the scenario.
    pub name: String,
    /// Where it lives.
    pub netns: Netns,
    /// Its own address, reachable from every other node.
    pub address: Ipv4Addr,
}

/// A built network; everything vanishes when it is dropped, also with the process.
pub struct Topology {
    /// What was built.
    pub layout: Layout,
    /// The nodes in the layout's order.
    pub nodes: Vec<Node>,
    /// The links in the layout's order.
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
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| anyhow!("no node \"{name}\" in the network"))
    }

    /// The settings of the first node as they are, set or inherited, name to value; those this kernel lacks are absent.
    ///
    /// Errors: a setting cannot be read.
    pub fn settings_in_force(&self) -> Result<BTreeMap<String, String>> {
        let Some(node) = self.nodes.first() else { return Ok(BTreeMap::new()) };
        let mut values = BTreeMap::new();
        for name in SETTINGS.iter().chain(&PAPER_SETTINGS).map(|(name, _)| *name).chain(RECORDED) {
            if let Some(value) = sysctl::read(&node.netns, name)? {
                values.insert(name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
        Ok(values)
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
