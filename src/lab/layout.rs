//! Computes the network of a run from its plan: names, addresses, settings and routes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Result;

use super::plan::{Plan, PlannedRun};
use crate::emulate::layout::{EndLayout, Layout, LinkLayout, NodeLayout, RouteLayout};
use crate::emulate::topology::Topology;
use crate::path::route::{Hop, LinkSpec, Paths};
use crate::scenario::{Ecn, FlowSpec, Profile, Receiver};
use shared::kernel::sysctl;
use shared::units::Bytes;

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

/// Initial sizes of the buffers of senders and receivers in nodes whose largest sizes a flow sets, bytes: those of
/// `PAPER_SETTINGS` and of Linux.
const PAPER_INITIAL: [u64; 2] = [4 << 20, 16 << 20];
const LINUX_INITIAL: [u64; 2] = [16 << 10, 128 << 10];

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
            settings: settings(profile, &cell.flows, name),
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

/// Name and value of the settings of a node's namespace.
///
/// The node's flows decide SACK for what it sends, ECN for what it sends (1, requests; 3 and 4, accurate) or receives (2
/// and 5, accepts), and its largest buffers. The scenario's reader has checked that the flows agree.
fn settings(profile: Profile, flows: &[FlowSpec], node: &str) -> Vec<(String, String)> {
    let profiled = match profile {
        Profile::Paper => &PAPER_SETTINGS[..],
        Profile::Native => &[],
    };
    let mut settings = [&SETTINGS[..], profiled].concat();
    let sends: Vec<&FlowSpec> = flows.iter().filter(|flow| flow.is_tcp() && flow.from == node).collect();
    settings.extend(sends.first().map(|flow| ("net.ipv4.tcp_sack", if flow.tcp_sack { "1" } else { "0" })));
    let has_no_sack = |flow: &FlowSpec| flow.is_tcp() && flow.to == node && flow.receiver == Receiver::NoSack;
    settings.extend(flows.iter().any(has_no_sack).then_some(("net.ipv4.tcp_sack", "0")));
    let requested = sends.first().map_or(Ecn::Off, |flow| flow.ecn);
    let accepts = |ecn: Ecn| flows.iter().any(|flow| flow.is_tcp() && flow.ecn == ecn && flow.to == node);
    let ecn = match requested {
        Ecn::Accurate => Some("3"),
        Ecn::Classic => Some(if accepts(Ecn::Accurate) { "4" } else { "1" }),
        Ecn::Off if accepts(Ecn::Accurate) => Some("5"),
        Ecn::Off => accepts(Ecn::Classic).then_some("2"),
    };
    settings.extend(ecn.map(|value| ("net.ipv4.tcp_ecn", value)));
    let mut settings: Vec<(String, String)> =
        settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let receives = flows.iter().find(|flow| flow.is_tcp() && flow.to == node);
    let buffers = [
        ("net.ipv4.tcp_wmem", sends.first().and_then(|flow| flow.send_buffer)),
        ("net.ipv4.tcp_rmem", receives.and_then(|flow| flow.receive_buffer)),
    ];
    let initial = match profile {
        Profile::Paper => PAPER_INITIAL,
        Profile::Native => LINUX_INITIAL,
    };
    for ((name, largest), initial) in buffers.into_iter().zip(initial) {
        // Smallest, initial and largest size.
        let sizes = |Bytes(largest): Bytes| (name.to_owned(), format!("4096 {} {largest}", initial.min(largest)));
        settings.extend(largest.map(sizes));
    }
    settings
}

/// Routes from a node to every other node's loopback address. A node with a single link needs one route, so that the
/// work grows with the number of nodes and not with its square.
fn routes(links: &[LinkSpec], names: &[&str], from: &str, profile: Profile) -> Vec<RouteLayout> {
    let route = |first: &Hop, to, prefix| RouteLayout {
        to,
        prefix,
        gateway: link_address(first.link, 1 - first.side),
        interface: interface(first.link, first.towards(links)),
        quickack: profile == Profile::Paper,
    };
    if let [only] = outlets(links, from)[..] {
        return vec![route(&only, NODES, NODES_PREFIX)];
    }
    let paths = Paths::from(links, from);
    let others = names.iter().enumerate().filter(|(_, to)| **to != from);
    let routes = others.filter_map(|(index, to)| {
        let way = paths.to(to)?;
        Some(route(way.first().expect("two nodes have a link between them"), node_address(index), 32))
    });
    routes.collect()
}

/// The links that begin at a node.
fn outlets(links: &[LinkSpec], node: &str) -> Vec<Hop> {
    let ends = links.iter().enumerate();
    ends.filter_map(|(link, spec)| Some(Hop { link, side: spec.ends.iter().position(|end| end == node)? })).collect()
}

/// 10.x.y.z, with four addresses for each link.
fn link_address(link: usize, side: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + 4 * link as u32 + 1 + side as u32)
}

/// The network of the loopback addresses: the range reserved for network tests.
///
/// Source: RFC 2544 and RFC 6815.
const NODES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NODES_PREFIX: u8 = 15;

/// A node's loopback address.
fn node_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(NODES) + 1 + index as u32)
}

/// Names an interface by its link and the node to which it leads.
fn interface(link: usize, to: &str) -> String {
    format!("l{link}-{to}")
}

/// Name and value of the first node's settings, set or inherited, without those that this kernel lacks.
///
/// # Errors
/// A setting cannot be read.
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
    use crate::plan::Choices;
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
        assert!(layout.nodes.iter().map(|node| node.name.as_str()).eq(["a", "b", "c", "d"]));
        for node in &layout.nodes {
            assert_eq!(node.routes.len(), if node.name == "b" { 3 } else { 1 }, "{node:?}");
            for route in &node.routes {
                let link = layout.links.iter().find(|link| link.ends.iter().any(|end| end.address == route.gateway));
                let near = link.unwrap().ends.iter().find(|end| end.node == node.name).unwrap();
                assert!(near.address != route.gateway && near.interface == route.interface, "{route:?}");
            }
        }
        let to_d = &layout.nodes[1].routes[2];
        assert_eq!((to_d.to, to_d.prefix, to_d.interface.as_str()), (layout.nodes[3].address, 32, "l2-d"));
        assert_eq!(to_d.gateway, layout.links[2].ends[1].address);
        let RouteLayout { to, prefix, .. } = layout.nodes[0].routes[0];
        let is_inside = |node: &NodeLayout| (u32::from(node.address) ^ u32::from(to)).leading_zeros() >= prefix.into();
        assert!(layout.nodes.iter().all(is_inside), "{layout:?}");
    }

    #[test]
    fn profile_and_flows_decide_the_settings_of_a_node() {
        let flow = |name: &str, ends: [&str; 2], rest: &str| flow(name, ends, &format!("{RENO}\n{rest}"));
        let buffers = "send_buffer=\"8MiB\"\nreceive_buffer=\"64kB\"";
        let flows = flow("one", ["s1", "r1"], &format!("tcp_sack=0\n{buffers}")) + &flow("two", ["s2", "r2"], "ecn=1");
        let accurate = flow("one", ["s1", "r1"], "ecn=\"accurate\"") + &flow("back", ["r1", "s1"], "ecn=1");
        let flows = &scenario(1, &format!("[dumbbell]\npairs=2\n{flows}")).cells[0].flows;
        let in_force = |profile, node: &str, name: &str| {
            settings(profile, flows, node).into_iter().rfind(|(set, _)| set == name).map(|(_, value)| value)
        };
        for (profile, node, name, value) in [
            (Profile::Paper, "s1", "tcp_sack", Some("0")),
            (Profile::Paper, "r1", "tcp_sack", Some("1")),
            (Profile::Paper, "s2", "tcp_sack", Some("1")),
            (Profile::Paper, "s1", "tcp_ecn", Some("0")),
            (Profile::Paper, "s2", "tcp_ecn", Some("1")),
            (Profile::Paper, "r2", "tcp_ecn", Some("2")),
            (Profile::Paper, "r1", "tcp_timestamps", Some("0")),
            (Profile::Paper, "s1", "tcp_wmem", Some("4096 4194304 8388608")),
            (Profile::Native, "s1", "tcp_wmem", Some("4096 16384 8388608")),
            (Profile::Paper, "r1", "tcp_rmem", Some("4096 64000 64000")),
            (Profile::Native, "s1", "tcp_rmem", None),
            (Profile::Native, "r1", "tcp_timestamps", None),
            (Profile::Native, "r1", "ip_forward", Some("1")),
        ] {
            assert_eq!(in_force(profile, node, &format!("net.ipv4.{name}")).as_deref(), value, "{node} {name}");
        }
        let flows = &scenario(1, &format!("[dumbbell]\npairs=1\n{accurate}")).cells[0].flows;
        let ecn = |node: &str| settings(Profile::Native, flows, node).into_iter().rfind(|it| it.0.ends_with("tcp_ecn"));
        assert_eq!(["s1", "r1"].map(|node| ecn(node).unwrap().1), ["3", "4"], "requests one kind, accepts the other");
        assert!(
            [Profile::Paper, Profile::Native].map(|profile| layout(profile).nodes[0].routes[0].quickack)
                == [true, false]
        );
    }
}
