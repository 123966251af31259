//! A layout as network namespaces of our own: settings, addresses, routes, and the links between them.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, anyhow};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric};

use crate::experiment::net::layout::{LINK_PREFIX, Layout, LinkLayout, RouteLayout};
use crate::experiment::net::topology::{Node, Topology};
use crate::experiment::net::{Link, LinkDriver, LinkEnd, Network};
use crate::kernel::netns::Netns;
use crate::kernel::{netlink, sysctl};

/// Networks of namespaces that no one else sees, joined by the links of a driver.
pub struct Namespaces {
    driver: Box<dyn LinkDriver>,
}

impl Namespaces {
    /// Networks whose links the driver builds.
    pub fn new(driver: Box<dyn LinkDriver>) -> Self {
        Namespaces { driver }
    }

    fn connect(&self, nodes: &[Node], link: &LinkLayout) -> Result<Box<dyn Link>> {
        let netns = |number: usize| -> Result<&Netns> {
            let name = &link.ends[number].node;
            let node = nodes.iter().find(|node| node.name == *name);
            Ok(&node.ok_or_else(|| anyhow!("no node \"{name}\" in the network"))?.netns)
        };
        let end = |number: usize| -> Result<LinkEnd> {
            Ok(LinkEnd { netns: netns(number)?.try_clone()?, interface: link.ends[number].interface.clone() })
        };
        let built = self.driver.connect(&link.config, [end(0)?, end(1)?])?;
        for (number, end) in link.ends.iter().enumerate() {
            netlink::add_address(netns(number)?, &end.interface, end.address.into(), LINK_PREFIX)?;
        }
        Ok(built)
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
        let mut nodes = Vec::new();
        let mut lacking = Vec::new();
        for node in &layout.nodes {
            let built = Node { name: node.name.clone(), netns: Netns::create()?, address: node.address };
            let settings: Vec<(&str, &str)> = node.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            lacking = sysctl::set_all(&built.netns, &settings)?;
            netlink::set_up(&built.netns, "lo")?;
            netlink::add_address(&built.netns, "lo", built.address.into(), 32)?;
            nodes.push(built);
        }
        let mut links = Vec::new();
        for link in &layout.links {
            links.push(self.connect(&nodes, link).with_context(|| format!("build the link {}", link.name))?);
        }
        for (node, planned) in nodes.iter().zip(&layout.nodes) {
            planned.routes.iter().try_for_each(|route| add_route(&node.netns, route))?;
        }
        Ok(Topology { layout: layout.clone(), nodes, links, lacking, keeper: None })
    }
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
