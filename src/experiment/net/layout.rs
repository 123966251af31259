//! What a network consists of, computed once and plain: nodes with settings and routes, links with addresses at their
//! ends. Whatever builds the network ([`super::Network`]) adds nothing to it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::experiment::net::route::shortest_path;
use crate::experiment::scenario::{Cell, FlowSpec, LinkSpec, Profile};
use crate::path::LinkConfig;

/// What every node of an experiment gets, whatever the profile: IPv4 only (the kernel's own IPv6 packets would
/// meet the link's loss), and reno for control connections, because the host's default would leak in.
pub const SETTINGS: [(&str, &str); 4] = [
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.tcp_congestion_control", "reno"),
];

/// What the profile `paper` adds: the conditions of the papers' simulator, as far as a kernel has a setting for them.
pub const PAPER_SETTINGS: [(&str, &str); 11] = [
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
    /// Its name in the scenario.
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

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndLayout {
    /// The node's name.
    pub node: String,
    /// The interface's name there, at most 15 characters.
    pub interface: String,
    /// The interface's address, in a network of [`LINK_PREFIX`] bits.
    pub address: Ipv4Addr,
}

impl Layout {
    /// The network of a cell; `configs` are its links with the seeds of a run, in the scenario's order.
    pub fn new(cell: &Cell, configs: &[LinkConfig], profile: Profile) -> Layout {
        let mut names: Vec<&str> = Vec::new();
        for name in cell.links.iter().flat_map(|link| &link.ends) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let nodes = names.iter().enumerate().map(|(index, name)| NodeLayout {
            name: (*name).to_owned(),
            address: node_address(index),
            settings: settings(profile).chain(asked_by_flows(&cell.flows, name)).collect(),
            routes: routes(&cell.links, &names, name, profile),
        });
        let links = cell.links.iter().zip(configs).enumerate().map(|(index, (link, config))| LinkLayout {
            name: link.name(),
            ends: [0, 1].map(|side| EndLayout {
                node: link.ends[side].clone(),
                interface: interface(index, &link.ends[1 - side]),
                address: link_address(index, side),
            }),
            config: config.clone(),
        });
        Layout { nodes: nodes.collect(), links: links.collect() }
    }
}

/// Settings of every namespace under a profile, name to value.
fn settings(profile: Profile) -> impl Iterator<Item = (String, String)> {
    let profiled = match profile {
        Profile::Paper => &PAPER_SETTINGS[..],
        Profile::Native => &[],
    };
    SETTINGS.iter().chain(profiled).map(|(name, value)| (name.to_string(), value.to_string()))
}

/// What the flows ask of a node that its namespace decides: selective acknowledgements of what it sends, and ECN of
/// what it sends (1: asks for it) or receives (2: grants it). The scenario's reader made sure that they agree.
fn asked_by_flows(flows: &[FlowSpec], node: &str) -> Vec<(String, String)> {
    let sends: Vec<&FlowSpec> = flows.iter().filter(|flow| flow.is_tcp() && flow.from == node).collect();
    let sack = sends.first().map(|flow| ("net.ipv4.tcp_sack", if flow.tcp_sack { "1" } else { "0" }));
    let ecn = match (sends.iter().any(|flow| flow.ecn), flows.iter().any(|flow| flow.ecn && flow.to == node)) {
        (true, _) => Some(("net.ipv4.tcp_ecn", "1")),
        (false, true) => Some(("net.ipv4.tcp_ecn", "2")),
        (false, false) => None,
    };
    sack.into_iter().chain(ecn).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// One route from a node to every other node's own address.
fn routes(links: &[LinkSpec], names: &[&str], from: &str, profile: Profile) -> Vec<RouteLayout> {
    let others = names.iter().enumerate().filter(|(_, to)| **to != from);
    let routes = others.filter_map(|(index, to)| {
        let way = shortest_path(links, from, to)?;
        let first = way.first().expect("two nodes have a link between them");
        Some(RouteLayout {
            to: node_address(index),
            gateway: link_address(first.link, 1 - first.side),
            interface: interface(first.link, first.towards(links)),
            quickack: profile == Profile::Paper,
        })
    });
    routes.collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plan::Plan;
    use crate::experiment::scenario::Scenario;

    fn layout(profile: Profile) -> Layout {
        let head = "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"1s\"\nruns=1\nseed=1\n";
        let links =
            [["a", "b"], ["c", "b"], ["b", "d"]].map(|[one, two]| format!("[[link]]\nends=[\"{one}\",\"{two}\"]\n"));
        let flow = "[[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"d\"\nalgorithm=\"reno\"\n";
        let scenario = Scenario::parse("t.toml", &format!("{head}{}{flow}", links.concat())).unwrap();
        let plan = Plan::new(&scenario, &Default::default()).unwrap();
        Layout::new(&plan.cells[0], &plan.link_configs(&plan.runs[0]), profile)
    }

    #[test]
    fn every_node_reaches_every_other_by_the_far_end_of_its_first_link() {
        let layout = layout(Profile::Paper);
        let names: Vec<&str> = layout.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        for node in &layout.nodes {
            assert_eq!(node.routes.len(), 3, "{node:?}");
            for route in &node.routes {
                let link = layout.links.iter().find(|link| link.ends.iter().any(|end| end.address == route.gateway));
                let ends = &link.unwrap().ends;
                let near = ends.iter().find(|end| end.node == node.name).unwrap();
                assert_ne!(near.address, route.gateway);
                assert_eq!(near.interface, route.interface);
            }
        }
        let c = &layout.nodes[2];
        assert_eq!(c.routes[2].to, layout.nodes[3].address);
        assert_eq!((c.routes[2].interface.as_str(), c.routes[2].gateway), ("l1-b", layout.links[1].ends[1].address));
    }

    #[test]
    fn flows_decide_what_their_nodes_ask_for() {
        let flow = |name: &str, from: &str, to: &str, rest: &str| {
            format!("[[flow]]\nname=\"{name}\"\nfrom=\"{from}\"\nto=\"{to}\"\nalgorithm=\"reno\"\n{rest}\n")
        };
        let text = format!(
            "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"1s\"\nruns=1\nseed=1\n[dumbbell]\npairs=2\n{}{}",
            flow("one", "s1", "r1", "tcp_sack=0"),
            flow("two", "s2", "r2", "ecn=1")
        );
        let plan = Plan::new(&Scenario::parse("t.toml", &text).unwrap(), &Default::default()).unwrap();
        let layout = Layout::new(&plan.cells[0], &plan.link_configs(&plan.runs[0]), Profile::Paper);
        let in_force = |node: &str, name: &str| {
            let node = layout.nodes.iter().find(|one| one.name == node).unwrap();
            node.settings.iter().rfind(|(set, _)| set == name).unwrap().1.clone()
        };
        let sack = ["s1", "r1", "s2"].map(|node| in_force(node, "net.ipv4.tcp_sack"));
        assert_eq!(sack, ["0", "1", "1"]);
        let ecn = ["s1", "s2", "r2", "r1"].map(|node| in_force(node, "net.ipv4.tcp_ecn"));
        assert_eq!(ecn, ["0", "1", "2", "0"]);
    }

    #[test]
    fn profile_decides_settings_and_acknowledgements() {
        let (paper, native) = (layout(Profile::Paper), layout(Profile::Native));
        assert!(paper.nodes[0].routes[0].quickack && !native.nodes[0].routes[0].quickack);
        let sets = |layout: &Layout, wanted: &str| layout.nodes[1].settings.iter().any(|(name, _)| name == wanted);
        assert!(sets(&paper, "net.ipv4.tcp_timestamps") && !sets(&native, "net.ipv4.tcp_timestamps"));
        assert!(sets(&native, "net.ipv4.ip_forward"));
    }
}
