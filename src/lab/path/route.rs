//! Links between nodes, and the shortest path between two nodes.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::link::{Direction, LinkConfig};

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    pub ends: [String; 2],
    /// From the first end to the second, and back. The seeds are 0, because each run has its own.
    pub directions: [Direction; 2],
}

impl LinkSpec {
    /// The name in results, such as `s-r`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.ends[0], self.ends[1])
    }

    pub fn config(&self, mtu: u32) -> LinkConfig {
        LinkConfig { directions: self.directions.clone(), mtu }
    }
}

/// One link of a path, in the direction of travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// Index in the links of the scenario.
    pub link: usize,
    /// 0 from the first end to the second, 1 back.
    pub side: usize,
}

impl Hop {
    pub fn direction<'a>(&self, links: &'a [LinkSpec]) -> &'a Direction {
        &links[self.link].directions[self.side]
    }

    /// The node that the hop leads to.
    pub fn towards<'a>(&self, links: &'a [LinkSpec]) -> &'a str {
        &links[self.link].ends[1 - self.side]
    }
}

/// The paths with the fewest links from one node to every other. Among equals, the links that come first in the
/// scenario are taken.
#[derive(Debug)]
pub struct Paths<'a> {
    links: &'a [LinkSpec],
    from: &'a str,
    /// The last hop of the path to each node that is reached.
    last_hops: HashMap<&'a str, Hop>,
}

#[cfg(test)]
thread_local! {
    static SEARCHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often this thread has searched for [`Paths`].
#[cfg(test)]
pub(crate) fn searches() -> usize {
    SEARCHES.get()
}

impl<'a> Paths<'a> {
    pub fn from(links: &'a [LinkSpec], from: &'a str) -> Paths<'a> {
        #[cfg(test)]
        SEARCHES.set(SEARCHES.get() + 1);
        let mut outlets: HashMap<&str, Vec<Hop>> = HashMap::new();
        for (link, spec) in links.iter().enumerate() {
            for (side, end) in spec.ends.iter().enumerate() {
                outlets.entry(end.as_str()).or_default().push(Hop { link, side });
            }
        }
        let mut last_hops = HashMap::new();
        let mut reached = VecDeque::from([from]);
        while let Some(node) = reached.pop_front() {
            for hop in outlets.get(node).into_iter().flatten() {
                let next = hop.towards(links);
                if next != from && !last_hops.contains_key(next) {
                    last_hops.insert(next, *hop);
                    reached.push_back(next);
                }
            }
        }
        Paths { links, from, last_hops }
    }

    /// The links to a node, in order. None: the nodes are not joined.
    pub fn to(&self, node: &str) -> Option<Vec<Hop>> {
        let mut way = Vec::new();
        let mut at = node;
        while at != self.from {
            let hop = *self.last_hops.get(at)?;
            way.push(hop);
            at = &self.links[hop.link].ends[hop.side];
        }
        way.reverse();
        Some(way)
    }
}

/// The path with the fewest links between two nodes; see [`Paths`].
///
/// None: the nodes are not joined.
pub fn shortest_path(links: &[LinkSpec], from: &str, to: &str) -> Option<Vec<Hop>> {
    Paths::from(links, from).to(to)
}

/// The path from one node to another, and the path back, which may use other links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrip {
    pub there: Vec<Hop>,
    pub back: Vec<Hop>,
}

impl RoundTrip {
    /// None: the nodes are not joined.
    pub fn between(links: &[LinkSpec], from: &str, to: &str) -> Option<RoundTrip> {
        Some(RoundTrip { there: shortest_path(links, from, to)?, back: shortest_path(links, to, from)? })
    }

    /// The direction of each hop, in order.
    pub fn directions<'a>(&self, links: &'a [LinkSpec]) -> impl Iterator<Item = &'a Direction> {
        self.there.iter().chain(&self.back).map(move |hop| hop.direction(links))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(from: &str, to: &str) -> LinkSpec {
        LinkSpec { ends: [from.into(), to.into()], directions: Default::default() }
    }

    fn names(links: &[LinkSpec], from: &str, to: &str) -> Option<String> {
        let way = shortest_path(links, from, to)?;
        Some(way.iter().map(|hop| hop.towards(links)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn shortest_path_crosses_the_fewest_links_in_either_direction() {
        let links = [link("a", "b"), link("c", "b"), link("c", "d"), link("a", "x"), link("x", "d")];
        assert_eq!(names(&links, "a", "d").as_deref(), Some("x d"));
        assert_eq!(names(&links, "a", "c").as_deref(), Some("b c"));
        assert_eq!(shortest_path(&links, "b", "c"), Some(vec![Hop { link: 1, side: 1 }]));
        assert_eq!(shortest_path(&links, "a", "a"), Some(Vec::new()));
        assert_eq!(shortest_path(&links[..2], "a", "d"), None, "they are not joined");
    }

    #[test]
    fn answers_may_come_back_over_other_links() {
        let links = [link("a", "b"), link("c", "d"), link("a", "c"), link("b", "d")];
        let way = RoundTrip::between(&links, "a", "d").unwrap();
        assert_eq!(names(&links, "a", "d").as_deref(), Some("b d"));
        assert_eq!(way.back.iter().map(|hop| hop.towards(&links)).collect::<Vec<_>>(), ["c", "a"]);
        assert_eq!(way.directions(&links).count(), 4);
    }
}
