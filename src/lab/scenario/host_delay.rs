//! Random delays in nodes, against phase effects.

use std::collections::BTreeMap;
use std::time::Duration;

use super::spec::{Cell, FlowSpec, VIRTUAL_MAX};
use crate::path::route::{Hop, RoundTrip};

impl Cell {
    /// Sets the random delay of each direction of a link to [`Cell::host_delays`].
    pub(super) fn with_host_delays(mut self) -> Cell {
        for (hop, delay) in self.host_delays() {
            self.links[hop.link].directions[hop.side].host_delay = delay;
        }
        self
    }

    /// Sets the random delay of every direction, if the scenario fixes it.
    pub(super) fn with_fixed_host_delay(mut self, fixed: Option<Duration>) -> Cell {
        if let Some(delay) = fixed {
            let directions = self.links.iter_mut().flat_map(|link| &mut link.directions);
            directions.for_each(|direction| direction.host_delay = delay);
        }
        self
    }

    /// The longest random delay of a packet in the node that sends it into a link, by direction.
    ///
    /// It is the time that the slowest link on a flow's path takes for a packet of the MTU. Without it, flows whose
    /// round trips are multiples of that time meet a full drop-tail queue always or never. Only flows that share a link
    /// with a rate need it. Every node that they pass has it, both ways. In the sender alone it keeps the order of the
    /// packets of all flows, so the phase still decides who finds the queue full: the share of CUBIC beside Reno then
    /// varied by 20 % with the period of the service time. If several flows pass a link, the shortest time counts, so
    /// that a flow to a slow link does not hold up the others.
    ///
    /// Source: S. Floyd, V. Jacobson, "Traffic phase effects in packet-switched gateways", 1991: a random processing
    /// time of up to one service time of the bottleneck removes these effects. ns-2 has it in senders (`overhead_`).
    fn host_delays(&self) -> BTreeMap<Hop, Duration> {
        let ways = self.flows.iter().map(|flow| RoundTrip::between(&self.links, &flow.from, &flow.to));
        let flows: Vec<(&FlowSpec, RoundTrip)> =
            self.flows.iter().zip(ways).filter_map(|(flow, way)| Some((flow, way?))).collect();
        let mut connections: BTreeMap<Hop, u32> = BTreeMap::new();
        for (flow, way) in &flows {
            for hop in way.there.iter().chain(&way.back) {
                let sharing = connections.entry(*hop).or_default();
                *sharing = sharing.saturating_add(flow.connections(self.duration));
            }
        }
        let mut delays = BTreeMap::new();
        for (_, way) in &flows {
            let is_shared = |hop: &Hop| connections[hop] > 1 && hop.direction(&self.links).has_queue();
            let shares = way.there.iter().chain(&way.back).any(is_shared);
            let Some(delay) = self.service_time(&way.there).filter(|_| shares) else { continue };
            for hop in way.there.iter().chain(&way.back) {
                let shortest = delays.entry(*hop).or_insert(delay);
                *shortest = delay.min(*shortest);
            }
        }
        delays
    }

    /// How long the slowest of these links takes for a packet of the MTU at its lowest rate; `None` without a rate.
    fn service_time(&self, way: &[Hop]) -> Option<Duration> {
        let slowest = way.iter().filter_map(|hop| hop.direction(&self.links).slowest_rate()).min()?;
        let nanos = 8_000_000_000 * u64::from(self.mtu) / slowest.0.max(1);
        Some(Duration::from_nanos(nanos).min(VIRTUAL_MAX[1]))
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::tests::{RENO, cell, flow, link};

    /// Name and delay in microseconds of each direction that has one.
    fn delays(text: &str) -> Vec<(String, u128)> {
        let cell = cell(text);
        let named = cell.links.iter().flat_map(|link| {
            let of = |side: usize| (link.ends[side].clone(), link.directions[side].host_delay.as_micros());
            [of(0), of(1)]
        });
        named.filter(|(_, delay)| *delay > 0).collect()
    }

    const PATH: [[&str; 2]; 3] = [["a", "m"], ["b", "m"], ["m", "z"]];

    fn path(narrow: &str) -> String {
        let [first, second, shared] = PATH;
        link(first, "rate=\"100mbit\"") + &link(second, "") + &link(shared, narrow)
    }

    #[test]
    fn packets_of_flows_that_share_a_link_wait_up_to_a_service_time_in_each_node() {
        let path = path("rate=\"20mbit\"");
        let [one, two] = ["a", "b"].map(|from| flow(from, [from, "z"], RENO));
        let all = [("a", 600), ("m", 600), ("b", 600), ("m", 600), ("m", 600), ("z", 600)];
        let all = all.map(|(node, delay)| (node.to_owned(), delay));
        assert_eq!(delays(&(path.clone() + &one + &two)), all);
        assert_eq!(delays(&(path.clone() + &one)), [], "a flow alone has no phase");
        let back = flow("back", ["z", "b"], RENO);
        assert_eq!(delays(&(path.clone() + &one + &back)), all, "its ACKs share the way of the other's data");
        let pages = flow("pages", ["a", "z"], &format!("{RENO}\nsize=\"9kB\"\ncount=9\ninterval=\"100ms\""));
        let passed = [&all[..2], &all[4..]].concat();
        assert_eq!(delays(&(path + &pages)), passed, "its transfers overlap, and no packet passes b");
    }

    #[test]
    fn delay_is_of_the_slowest_link_and_the_shortest_of_the_flows() {
        let more = |rate: &str| path(&format!("rate=\"{rate}\"")) + &link(["m", "y"], "rate=\"1mbit\"");
        let to = |name: &str, ends| flow(name, ends, RENO);
        let flows = to("one", ["a", "z"]) + &to("two", ["a", "y"]) + &to("three", ["b", "y"]);
        let of = [("a", 1_200), ("m", 1_200), ("b", 12_000), ("m", 12_000), ("m", 1_200), ("z", 1_200)];
        let of = of.into_iter().chain([("m", 12_000), ("y", 12_000)]).map(|(node, delay)| (node.to_owned(), delay));
        assert_eq!(delays(&(more("10mbit") + &flows)), of.collect::<Vec<_>>());
        assert_eq!(delays(&(path("") + &to("one", ["b", "z"]) + &to("two", ["b", "z"]))), [], "no link has a rate");
        let slow = more("10mbit").replace("1mbit", "10kbit");
        let slow = slow + &to("two", ["b", "y"]) + &to("three", ["b", "y"]);
        assert!(delays(&slow).iter().all(|(_, delay)| *delay == 100_000), "the limit of the field");
    }

    /// A link that becomes slower, or that has no rate at first, once gave the delay of its first rate or none.
    #[test]
    fn rates_of_changes_count() {
        let flows = ["a", "b"].map(|from| flow(from, [from, "z"], RENO)).concat();
        for first in ["rate=\"20mbit\"\n", ""] {
            let rates = "change=[{at=\"1ms\",rate=\"2mbit\"},{at=\"2ms\",rate=\"5mbit\"}]";
            let all = delays(&(path(&format!("{first}{rates}")) + &flows));
            assert!(all.len() == 6 && all.iter().all(|(_, delay)| *delay == 6_000), "{first}: {all:?}");
        }
    }

    #[test]
    fn fixed_delay_is_that_of_every_node() {
        let fixed = |delay: &str| {
            let flows = ["a", "b"].map(|from| flow(from, [from, "z"], RENO)).concat();
            delays(&(format!("virtual={{host_delay=\"{delay}\"}}\n") + &path("rate=\"20mbit\"") + &flows))
        };
        assert_eq!(fixed("0s"), []);
        assert_eq!(fixed("50us").len(), 6);
        assert!(fixed("50us").iter().all(|(_, delay)| *delay == 50));
    }
}
