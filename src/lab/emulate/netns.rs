//! Builds a layout from our own network namespaces: settings, addresses, routes, and the links between them.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};

use crate::emulate::layout::{EndLayout, LINK_PREFIX, Layout, LinkLayout, RouteLayout};
use crate::emulate::topology::{Node, Topology};
use crate::emulate::{LinkDriver, LinkEnd, Network, plain};
use shared::kernel::netlink;
use shared::kernel::netns::Netns;

/// Networks of anonymous namespaces, joined by the links of a driver.
pub struct Namespaces {
    driver: Box<dyn LinkDriver>,
}

impl Namespaces {
    pub fn new(driver: Box<dyn LinkDriver>) -> Self {
        Namespaces { driver }
    }
}

impl Network for Namespaces {
    fn name(&self) -> &'static str {
        "netns"
    }

    fn link_driver(&self) -> &'static str {
        self.driver.name()
    }

    fn build(&self, layout: &Layout) -> Result<Topology> {
        build(layout, &mut |link, ends| plain::join(&*self.driver, &link.config, ends))
    }
}

/// Builds a layout of namespaces; `connect` creates a link's two interfaces, up and without an address.
///
/// Side effects: namespaces and interfaces that live as long as the returned value.
///
/// # Errors
/// Not permitted; the kernel refuses a setting, an address or a route; those of `connect`.
pub fn build<L>(
    layout: &Layout,
    connect: &mut dyn FnMut(&LinkLayout, [LinkEnd; 2]) -> Result<L>,
) -> Result<Topology<L>> {
    let mut lacking = Vec::new();
    let mut nodes = Vec::new();
    for node in &layout.nodes {
        let (made, missing) = Node::settled(node, Netns::create()?)?;
        lacking = missing; // the same for every node
        netlink::set_up(&made.netns, "lo")?;
        netlink::add_address(&made.netns, "lo", made.address.into(), 32)?;
        nodes.push(made);
    }
    let mut links = Vec::new();
    for link in &layout.links {
        let mut join = || {
            let joined = connect(link, Node::ends(&nodes, link)?)?;
            for EndLayout { node, interface, address } in &link.ends {
                let netns = &Node::find(&nodes, node)?.netns;
                netlink::add_address(netns, interface, (*address).into(), LINK_PREFIX)?;
            }
            anyhow::Ok(joined)
        };
        links.push(join().with_context(|| format!("build the link {}", link.name))?);
    }
    for (node, planned) in nodes.iter().zip(&layout.nodes) {
        planned.routes.iter().try_for_each(|route| add_route(&node.netns, route))?;
    }
    Ok(Topology { layout: layout.clone(), nodes, links, lacking, keeper: None })
}

fn add_route(netns: &Netns, route: &RouteLayout) -> Result<()> {
    let mut builder =
        RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(route.to, route.prefix).gateway(route.gateway);
    if route.quickack {
        builder.get_mut().attributes.push(RouteAttribute::Metrics(vec![RouteMetric::QuickAck(1)]));
    }
    let message = builder.build();
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    netns
        .run(|| netlink::ask(RouteNetlinkMessage::NewRoute(message), flags))
        .map(drop)
        .with_context(|| format!("add a route to {}/{} by {}", route.to, route.prefix, route.gateway))
}
