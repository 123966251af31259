//! Links between nodes, and which of them lie on the way from one node to another.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::link::{Direction, LinkConfig};

/// A link of the path: which nodes it joins and what each direction does to packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    pub ends: [String; 2],
    /// From the first end to the second, and back. Seeds are 0 here; each run has its own.
    pub directions: [Direction; 2],
}

impl LinkSpec {
    /// The link's name in results: `s-r`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.ends[0], self.ends[1])
    }

    /// The link as a driver builds it.
    pub fn config(&self, mtu: u32) -> LinkConfig {
        LinkConfig { directions: self.directions.clone(), mtu }
    }
}

/// One link on the way, in the direction it is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link in the scenario.
    pub link: usize,
    /// The direction: 0 from the link's first end to its second, 1 back.
    pub side: usize,
}

impl Hop {
    /// What this hop does to packets.
    pub fn direction<'a>(&self, links: &'a [LinkSpec]) -> &'a Direction {
        &links[self.link].directions[self.side]
    }

    /// The node this hop leads to.
    pub fn towards<'a>(&self, links: &'a [LinkSpec]) -> &'a str {
        &links[self.link].ends[1 - self.side]
    }
}

/// The way with fewest links between two nodes; among equals the one whose links stand first in the scenario.
///
/// None: the nodes are not joined.
pub fn shortest_path(links: &[LinkSpec], from: &str, to: &str) -> Option<Vec<Hop>> {
    let mut ways: VecDeque<(&str, Vec<Hop>)> = VecDeque::from([(from, Vec::new())]);
    let mut seen = vec![from];
    while let Some((node, way)) = ways.pop_front() {
        if node == to {
            return Some(way);
        }
        for (link, spec) in links.iter().enumerate() {
            let Some(side) = spec.ends.iter().position(|end| end == node) else { continue };
            let hop = Hop { link, side };
            let next = hop.towards(links);
            if !seen.contains(&next) {
                seen.push(next);
                ways.push_back((next, way.iter().copied().chain([hop]).collect()));
            }
        }
    }
    None
}

/// The way of packets between two nodes and that of their answers, which may take other links of as short a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrip {
    /// From the first node to the second.
    pub there: Vec<Hop>,
    /// From the second to the first.
    pub back: Vec<Hop>,
}

impl RoundTrip {
    /// As [`shortest_path`], both ways.
    ///
    /// None: the nodes are not joined.
    pub fn between(links: &[LinkSpec], from: &str, to: &str) -> Option<RoundTrip> {
        Some(RoundTrip { there: shortest_path(links, from, to)?, back: shortest_path(links, to, from)? })
    }

    /// What its hops do to packets, one after the other.
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
    }

    #[test]
    fn answers_may_come_back_over_other_links() {
        let links = [link("a", "b"), link("c", "d"), link("a", "c"), link("b", "d")];
        let way = RoundTrip::between(&links, "a", "d").unwrap();
        assert_eq!(names(&links, "a", "d").as_deref(), Some("b d"));
        assert_eq!(way.back.iter().map(|hop| hop.towards(&links)).collect::<Vec<_>>(), ["c", "a"]);
        assert_eq!(way.directions(&links).count(), 4);
    }

    #[test]
    fn nodes_that_are_not_joined_have_no_path() {
        assert_eq!(shortest_path(&[link("a", "b"), link("c", "d")], "a", "d"), None);
    }
}
