//! The narrowest link of a cell: pure.

use super::{Cell, FlowSpec};
use crate::experiment::net::path::{Hop, shortest_path};
use crate::model::metrics::view::Bottleneck;

impl Cell {
    /// The link direction that limits these flows, and every flow that crosses it.
    ///
    /// Of several equally narrow ones the first on the way.
    ///
    /// None: no flow of these names, flows that are limited at different links, or a way without a rate.
    pub fn bottleneck(&self, flows: &[&str]) -> Option<Bottleneck> {
        let mut narrowest = self.flows.iter().filter(|flow| flows.contains(&flow.name.as_str())).map(|flow| {
            let rate = |hop: &Hop| hop.direction(&self.links).mean_rate(self.duration);
            let rated = self.way(flow).into_iter().filter_map(|hop| Some((rate(&hop)?, hop)));
            rated.min_by(|(one, _), (other, _)| one.total_cmp(other))
        });
        let first = narrowest.next()?;
        let (rate, hop) = first.filter(|_| narrowest.all(|other| other == first))?;
        let crossing = self.flows.iter().filter(|flow| self.way(flow).contains(&hop));
        Some(Bottleneck {
            rate_bps: rate,
            packet_bytes: self.mtu,
            flows: crossing.map(|flow| flow.name.clone()).collect(),
        })
    }

    fn way(&self, flow: &FlowSpec) -> Vec<Hop> {
        shortest_path(&self.links, &flow.from, &flow.to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;

    #[test]
    fn bottleneck_is_the_narrowest_link_of_the_flows_with_all_that_cross_it() {
        let flow = |name: &str, from: &str, to: &str| {
            format!("[[flow]]\nname=\"{name}\"\nfrom=\"{from}\"\nto=\"{to}\"\nalgorithm=\"reno\"\n")
        };
        let link = |ends: &str, rest: &str| format!("[[link]]\nends=[{ends}]\n{rest}\n");
        let text = format!(
            "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"1s\"\nruns=1\nseed=1\n{}{}{}{}{}{}",
            link("\"a\",\"b\"", "rate=\"100mbit\""),
            link("\"b\",\"c\"", "rate=\"20mbit\"\nreverse={rate=\"1mbit\"}"),
            link("\"c\",\"d\"", ""),
            flow("long", "a", "c"),
            flow("short", "b", "c"),
            flow("back", "c", "b") + &flow("free", "c", "d"),
        );
        let cell = Scenario::parse("t.toml", &text).unwrap().cells.remove(0);
        let narrow = cell.bottleneck(&["long"]).unwrap();
        assert_eq!((narrow.rate_bps, narrow.packet_bytes), (20e6, 1500));
        assert_eq!(narrow.flows, ["long", "short"]);
        assert_eq!(cell.bottleneck(&["long", "short"]), Some(narrow));
        assert_eq!(cell.bottleneck(&["back"]).unwrap().rate_bps, 1e6);
        assert_eq!(cell.bottleneck(&["long", "back"]), None, "limited at different places");
        assert_eq!(cell.bottleneck(&["free"]), None);
        assert_eq!(cell.bottleneck(&[]), None);
    }
}
