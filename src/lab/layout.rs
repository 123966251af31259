//! Computes the network of a run from its plan: names, addresses, settings and routes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Result;

use super::plan::{Plan, PlannedRun};
use crate::emulate::layout::{EndLayout, Layout, LinkLayout, NodeLayout, RouteLayout};
use crate::emulate::topology::Topology;
use crate::kernel::sysctl;
use crate::path::route::{LinkSpec, shortest_path};
use crate::scenario::{FlowSpec, Profile};

/// Settings of every node under any profile. IPv6 is off, because the kernel's own IPv6 packets would take part in the
/// link's loss. Control connections use reno, because the host's default would leak in.
const SETTINGS: [(&str, &str); 4] = [
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.tcp_congestion_control", "reno"),
];

/// Settings that the profile `paper` adds: the conditions of the papers' simulator, as far as the kernel can set them.
const PAPER_SETTINGS: [(&str, &str); 11] = [
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_timestamps", "0"),    // 40 header bytes
    ("net.ipv4.tcp_recovery", "0"), // three duplicate ACKs, in kernels that still support it; the newest only have RACK
    ("net.ipv4.tcp_early_retrans", "0"), // no tail loss probe
    ("net.ipv4.tcp_frto", "0"),
    ("net.ipv4.tcp_dsack", "0"), // no undo
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"), // no run inherits state
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_rmem", "4096 16777216 67108864"), // the receiver's window is no limit
    ("net.ipv4.tcp_wmem", "4096 4194304 67108864"),
];

/// Settings that the host decides and that change TCP's behaviour; they are recorded, but not set.
const RECORDED: [&str; 4] =
    ["net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_adv_win_scale", "net.ipv4.tcp_moderate_rcvbuf"];

impl Plan {
    /// The network of a run with the seeds of its links.
    pub fn layout(&self, run: &PlannedRun) -> Layout {
        let (cell, profile) = (&self.cells[run.cell], self.profile);
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
        let links =
            cell.links.iter().zip(self.link_configs(run)).enumerate().map(|(index, (link, config))| LinkLayout {
                name: link.name(),
                ends: [0, 1].map(|side| EndLayout {
                    node: link.ends[side].clone(),
                    interface: interface(index, &link.ends[1 - side]),
                    address: link_address(index, side),
                }),
                config,
            });
        Layout { nodes: nodes.collect(), links: links.collect() }
    }
}

/// Name and value of the settings of every namespace under a profile.
fn settings(profile: Profile) -> impl Iterator<Item = (String, String)> {
    let profiled = match profile {
        Profile::Paper => &PAPER_SETTINGS[..],
        Profile::Native => &[],
    };
    SETTINGS.iter().chain(profiled).map(|(name, value)| (name.to_string(), value.to_string()))
}

/// Settings of a node's namespace that its flows decide: SACK for what it sends, and ECN for what it sends (1, requests)
/// or receives (2, accepts). The scenario's reader has checked that the flows agree.
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

/// One route from a node to every other node's loopback address.
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

/// 10.x.y.z, with four addresses for each link.
fn link_address(link: usize, side: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + 4 * link as u32 + 1 + side as u32)
}

/// A node's loopback address, from a range reserved for network tests.
///
/// Source: RFC 2544 and RFC 6815, 198.18.0.0/15.
fn node_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)) + index as u32)
}

/// Names an interface by its link and the node to which it leads.
fn interface(link: usize, to: &str) -> String {
    format!("l{link}-{to}")
}

/// Name and value of the first node's settings, set or inherited, without those that this kernel lacks.
///
/// Errors: a setting cannot be read.
pub fn settings_in_force(topology: &Topology) -> Result<BTreeMap<String, String>> {
    let Some(node) = topology.nodes.first() else { return Ok(BTreeMap::new()) };
    let mut values = BTreeMap::new();
    for name in SETTINGS.iter().chain(&PAPER_SETTINGS).map(|(name, _)| *name).chain(RECORDED) {
        if let Some(value) = sysctl::read(&node.netns, name)? {
            values.insert(name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plan::Choices;
    use crate::scenario::tests::{RENO, flow, link, scenario};

    fn layout(profile: Profile) -> Layout {
        let links = [["a", "b"], ["c", "b"], ["b", "d"]].map(|ends| link(ends, ""));
        let scenario = scenario(1, &(links.concat() + &flow("f", ["a", "d"], RENO)));
        let choices = Choices { profile: Some(profile), ..Choices::default() };
        let plan = Plan::new(&scenario, &choices).unwrap();
        plan.layout(&plan.runs[0])
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
        let flow = |name: &str, ends: [&str; 2], rest: &str| flow(name, ends, &format!("{RENO}\n{rest}"));
        let flows = flow("one", ["s1", "r1"], "tcp_sack=0") + &flow("two", ["s2", "r2"], "ecn=1");
        let scenario = scenario(1, &format!("[dumbbell]\npairs=2\n{flows}"));
        let plan = Plan::new(&scenario, &Default::default()).unwrap();
        let layout = plan.layout(&plan.runs[0]);
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
