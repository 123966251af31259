//! A scenario's nodes as network namespaces: settings, addresses, routes, and the links between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, anyhow};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};

use crate::experiment::net::path::shortest_path;
use crate::experiment::net::{Link, LinkConfig, LinkDriver, LinkEnd};
use crate::experiment::scenario::{LinkSpec, Profile};
use crate::kernel::netns::Netns;
use crate::kernel::{netlink, offload, sysctl};

/// What every namespace of an experiment gets, whatever the profile: IPv4 only (the kernel's own IPv6 packets would
/// meet the link's loss), and reno for control connections, because the host's default would leak in.
const SETTINGS: [(&str, &str); 4] = [
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.tcp_congestion_control", "reno"),
];

/// What the profile `paper` adds: the conditions of the papers' simulator, as far as a kernel has a setting for them.
const PAPER_SETTINGS: [(&str, &str); 11] = [
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_timestamps", "0"),    // 40 header bytes
    ("net.ipv4.tcp_recovery", "0"),      // three duplicate ACKs in kernels that still can; the newest have RACK alone
    ("net.ipv4.tcp_early_retrans", "0"), // no tail loss probe
    ("net.ipv4.tcp_frto", "0"),
    ("net.ipv4.tcp_dsack", "0"), // no undo
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"), // every run starts from nothing
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_rmem", "4096 16777216 67108864"), // never the receiver's window
    ("net.ipv4.tcp_wmem", "4096 4194304 67108864"),
];

/// Settings of every namespace under a profile, name to value.
pub fn settings(profile: Profile) -> Vec<(&'static str, &'static str)> {
    match profile {
        Profile::Paper => SETTINGS.iter().chain(&PAPER_SETTINGS).copied().collect(),
        Profile::Native => SETTINGS.to_vec(),
    }
}

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
    /// The nodes in the order in which links name them.
    pub nodes: Vec<Node>,
    /// The links in the scenario's order.
    pub links: Vec<Box<dyn Link>>,
    /// Settings that this kernel lacks.
    pub lacking: Vec<String>,
}

impl Topology {
    /// Builds the namespaces, links, addresses and routes of a scenario's path.
    ///
    /// Errors: not permitted; the driver cannot build a link; the kernel refuses an address or route.
    /// Side effects: namespaces and interfaces that live as long as the returned value.
    pub fn build(
        links: &[LinkSpec],
        configs: &[LinkConfig],
        profile: Profile,
        driver: &dyn LinkDriver,
    ) -> Result<Topology> {
        let mut names: Vec<&str> = Vec::new();
        for name in links.iter().flat_map(|link| &link.ends) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let mut lacking = Vec::new();
        let mut nodes = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let node = Node { name: (*name).to_owned(), netns: Netns::create()?, address: node_address(index) };
            lacking = sysctl::set_all(&node.netns, &settings(profile))?;
            netlink::set_up(&node.netns, "lo")?;
            netlink::add_address(&node.netns, "lo", node.address.into(), 32)?;
            nodes.push(node);
        }
        let mut topology = Topology { nodes, links: Vec::new(), lacking };
        for (index, (link, config)) in links.iter().zip(configs).enumerate() {
            let built = topology.connect(index, link, config, driver);
            topology.links.push(built.with_context(|| format!("build the link {}", link.name()))?);
        }
        topology.add_routes(links, profile)?;
        Ok(topology)
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
    pub fn offloads(&self, links: &[LinkSpec]) -> Result<String> {
        let mut on = BTreeSet::new();
        for (index, link) in links.iter().enumerate() {
            let [first, second] = &link.ends;
            for (own, other) in [(first, second), (second, first)] {
                let is = offload::offloads(&self.node(own)?.netns, &interface(index, other))?;
                let named = [(is.send_checksum, "checksum"), (is.tso, "TSO"), (is.gso, "GSO"), (is.gro, "GRO")];
                on.extend(named.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name));
            }
        }
        Ok(if on.is_empty() { "off".to_owned() } else { on.into_iter().collect::<Vec<_>>().join(", ") })
    }

    /// The node of that name.
    ///
    /// Errors: no link names it.
    pub fn node(&self, name: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| anyhow!("no node \"{name}\" in the network"))
    }

    fn connect(
        &self,
        index: usize,
        link: &LinkSpec,
        config: &LinkConfig,
        driver: &dyn LinkDriver,
    ) -> Result<Box<dyn Link>> {
        let [first, second] = &link.ends;
        let end = |own: &str, other: &str| -> Result<LinkEnd> {
            Ok(LinkEnd { netns: self.node(own)?.netns.try_clone()?, interface: interface(index, other) })
        };
        let built = driver.connect(config, [end(first, second)?, end(second, first)?])?;
        for (side, (own, other)) in [(first, second), (second, first)].into_iter().enumerate() {
            let address = link_address(index, side).into();
            netlink::add_address(&self.node(own)?.netns, &interface(index, other), address, LINK_PREFIX)?;
        }
        Ok(built)
    }

    /// One route from every node to every other node's own address.
    fn add_routes(&self, links: &[LinkSpec], profile: Profile) -> Result<()> {
        for from in &self.nodes {
            for to in self.nodes.iter().filter(|to| to.name != from.name) {
                let Some(way) = shortest_path(links, &from.name, &to.name) else { continue };
                let first = way.first().expect("two nodes have a link between them");
                let gateway = link_address(first.link, 1 - first.side);
                add_route(&from.netns, to.address, gateway, profile == Profile::Paper)?;
            }
        }
        Ok(())
    }
}

/// Each link is a network of its own: four addresses.
const LINK_PREFIX: u8 = 30;

/// Address of a link's end: 10.x.y.z with four addresses a link.
fn link_address(link: usize, side: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + 4 * link as u32 + 1 + side as u32)
}

/// A node's own address, from a range kept for tests of networks.
///
/// Source: RFC 2544 and RFC 6815, 198.18.0.0/15.
fn node_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)) + index as u32)
}

/// Name of an interface: which link, and where it leads.
fn interface(link: usize, to: &str) -> String {
    format!("l{link}-{to}")
}

/// A route to one node; with `quickack` its receivers acknowledge every segment at once, as the simulator's do.
fn add_route(netns: &Netns, to: Ipv4Addr, gateway: Ipv4Addr, quickack: bool) -> Result<()> {
    let mut builder = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(to, 32).gateway(gateway);
    if quickack {
        builder.get_mut().attributes.push(RouteAttribute::Metrics(vec![RouteMetric::QuickAck(1)]));
    }
    let message = builder.build();
    netlink::with_handle(netns, async |handle| Ok(handle.route().add(message).execute().await?))
        .with_context(|| format!("add a route to {} by {gateway}", IpAddr::from(to)))
}
