//! A layout as network namespaces of our own: settings, addresses, routes, and the links between them.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};

use crate::emulate::layout::{LINK_PREFIX, Layout, LinkLayout, RouteLayout};
use crate::emulate::topology::{Node, Topology};
use crate::emulate::{LinkDriver, LinkEnd, Network, plain};
use crate::kernel::netlink;
use crate::kernel::netns::Netns;

/// Networks of namespaces that no one else sees, joined by the links of a driver.
pub struct Namespaces {
    driver: Box<dyn LinkDriver>,
}

impl Namespaces {
    /// Networks whose links the driver builds.
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
        let Built { nodes, links, lacking } =
            build(layout, &mut |link, ends| plain::join(&*self.driver, &link.config, ends))?;
        Ok(Topology { layout: layout.clone(), nodes, links, lacking, keeper: None })
    }
}

/// Namespaces joined by links of some kind.
#[derive(Debug)]
pub struct Built<L> {
    pub nodes: Vec<Node>,
    pub links: Vec<L>,
    /// Settings that this kernel lacks.
    pub lacking: Vec<String>,
}

/// Builds a layout of namespaces; `connect` makes a link's two interfaces, up and without an address.
///
/// Errors: not permitted; the kernel refuses a setting, an address or a route; those of `connect`.
/// Side effects: namespaces and interfaces that live as long as the returned value.
pub fn build<L>(layout: &Layout, connect: &mut dyn FnMut(&LinkLayout, [LinkEnd; 2]) -> Result<L>) -> Result<Built<L>> {
    let mut built = Built { nodes: Vec::new(), links: Vec::new(), lacking: Vec::new() };
    for node in &layout.nodes {
        let (made, lacking) = Node::settled(node, Netns::create()?)?;
        built.lacking = lacking;
        netlink::set_up(&made.netns, "lo")?;
        netlink::add_address(&made.netns, "lo", made.address.into(), 32)?;
        built.nodes.push(made);
    }
    for link in &layout.links {
        let joined = join(&built.nodes, link, connect);
        built.links.push(joined.with_context(|| format!("build the link {}", link.name))?);
    }
    for (node, planned) in built.nodes.iter().zip(&layout.nodes) {
        planned.routes.iter().try_for_each(|route| add_route(&node.netns, route))?;
    }
    Ok(built)
}

fn join<L>(
    nodes: &[Node],
    link: &LinkLayout,
    connect: &mut dyn FnMut(&LinkLayout, [LinkEnd; 2]) -> Result<L>,
) -> Result<L> {
    let joined = connect(link, Node::ends(nodes, link)?)?;
    for end in &link.ends {
        let node = Node::find(nodes, &end.node)?;
        netlink::add_address(&node.netns, &end.interface, end.address.into(), LINK_PREFIX)?;
    }
    Ok(joined)
}

fn add_route(netns: &Netns, route: &RouteLayout) -> Result<()> {
    let mut builder = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(route.to, 32).gateway(route.gateway);
    if route.quickack {
        builder.get_mut().attributes.push(RouteAttribute::Metrics(vec![RouteMetric::QuickAck(1)]));
    }
    let message = builder.build();
    netlink::with_handle(netns, async |handle| Ok(handle.route().add(message).execute().await?))
        .with_context(|| format!("add a route to {} by {}", route.to, route.gateway))
}
