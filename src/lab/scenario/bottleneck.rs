//! The bottleneck of a cell. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::path::route::{Hop, RoundTrip, shortest_path};
use crate::scenario::spec::{Cell, FlowSpec};
use shared::model::metrics::view::Bottleneck;
use shared::model::run::FlowRecord;

/// The path of each flow of a cell, in the cell's order.
pub type Ways = Vec<Vec<Hop>>;

impl Cell {
    /// The paths of the flows; empty for one whose nodes are not joined.
    pub fn ways(&self) -> Ways {
        let way = |flow: &FlowSpec| shortest_path(&self.links, &flow.from, &flow.to).unwrap_or_default();
        self.flows.iter().map(way).collect()
    }

    /// The links that packets of any flow pass, there or back.
    pub(super) fn passed_links(&self) -> BTreeSet<usize> {
        let trips = self.flows.iter().filter_map(|flow| RoundTrip::between(&self.links, &flow.from, &flow.to));
        trips.flat_map(|trip| [trip.there, trip.back].concat()).map(|hop| hop.link).collect()
    }

    /// The link direction with the lowest mean rate for each flow that crosses it, on the path of these flows.
    ///
    /// So a link that two flows share limits them before links of their own with the same rate. Among equal rates for a
    /// flow, the first on the path counts. `ways` are [`Cell::ways`]. `part` is the counted part of the
    /// run; `None` is the whole run.
    ///
    /// None: no flow has one of these names; the flows have different bottlenecks; a path has no rate; the rate varies
    /// and the records do not say when the flows began.
    pub fn bottleneck(
        &self,
        ways: &[Vec<Hop>],
        flows: &[&str],
        records: &[FlowRecord],
        part: Option<[Duration; 2]>,
    ) -> Option<Bottleneck> {
        let ways = || self.flows.iter().zip(ways);
        let span = part.or_else(|| self.span(records));
        let counted = span.unwrap_or([Duration::ZERO, self.duration]);
        let mut narrowest = ways().filter(|(flow, _)| flows.contains(&flow.name.as_str())).map(|(_, way)| {
            let rate = |hop: &Hop| hop.direction(&self.links).mean_rate(counted);
            let rated = way.iter().filter_map(|hop| Some((rate(hop)?, *hop)));
            let for_each = |(rate, hop): &(f64, Hop)| rate / ways().filter(|(_, way)| way.contains(hop)).count() as f64;
            rated.min_by(|one, other| for_each(one).total_cmp(&for_each(other)))
        });
        let first = narrowest.next()?;
        let (rate, hop) = first.filter(|_| narrowest.all(|other| other == first))?;
        if span.is_none() && hop.direction(&self.links).varies() {
            return None;
        }
        let crossing = ways().filter(|(_, way)| way.contains(&hop));
        Some(Bottleneck {
            bits: rate * (counted[1] - counted[0]).as_secs_f64(),
            packet_bytes: self.mtu,
            flows: crossing.map(|(flow, _)| flow.name.clone()).collect(),
            hop: [hop.link, hop.side],
            ends: [1 - hop.side, hop.side].map(|side| self.links[hop.link].ends[1 - side].clone()),
        })
    }

    /// The time span over which the flows of a run are measured. Each flow is measured for the length of the run, but
    /// starts late by the delay of its first packet. The span covers all flows.
    ///
    /// None: a record does not say when its flow began.
    fn span(&self, records: &[FlowRecord]) -> Option<[Duration; 2]> {
        let start = |name: &str| self.flows.iter().find(|flow| flow.name == name).map(|flow| flow.start);
        let lag = |record: &FlowRecord| {
            let begin = Duration::try_from_secs_f64(record.begin_s?).ok()?;
            Some(begin.saturating_sub(start(&record.name)?))
        };
        let lags = records.iter().map(lag).collect::<Option<Vec<Duration>>>()?;
        Some([*lags.iter().min()?, *lags.iter().max()? + self.duration])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{RENO, cell, flow, link, scenario};
    use shared::model::metrics::samples::Sampled;

    #[test]
    fn link_that_flows_share_limits_them_before_links_of_their_own() {
        let dumbbell = |access: &str| {
            let access = format!("[dumbbell]\npairs=2\naccess={{rate=\"{access}\"}}\nbottleneck={{rate=\"10mbit\"}}\n");
            cell(&(access + &[flow("f", ["s1", "r1"], RENO), flow("g", ["s2", "r2"], RENO)].concat()))
        };
        let flows = |access: &str| {
            let cell = dumbbell(access);
            cell.bottleneck(&cell.ways(), &["f"], &[], None).map(|narrow| narrow.flows)
        };
        assert_eq!(flows("10mbit"), Some(vec!["f".to_owned(), "g".to_owned()]));
        assert_eq!(flows("6mbit"), flows("10mbit"), "5 Mbit/s are left for each");
        assert_eq!(flows("4mbit"), Some(vec!["f".to_owned()]));
    }

    #[test]
    fn bottleneck_is_the_narrowest_link_of_the_flows_with_all_that_cross_it() {
        let path = [
            link(["a", "b"], "rate=\"100mbit\""),
            link(["b", "c"], "rate=\"20mbit\"\nreverse={rate=\"1mbit\"}"),
            link(["c", "d"], ""),
        ];
        let flows = [("long", ["a", "c"]), ("short", ["b", "c"]), ("back", ["c", "b"]), ("free", ["c", "d"])];
        let flows = flows.map(|(name, ends)| flow(name, ends, RENO));
        let cell = cell(&(path.concat() + &flows.concat()));
        let narrow = cell.bottleneck(&cell.ways(), &["long"], &[], None).unwrap();
        assert_eq!((narrow.bits, narrow.packet_bytes), (20e6, 1500));
        assert_eq!(narrow.flows, ["long", "short"]);
        assert_eq!(cell.bottleneck(&cell.ways(), &["long", "short"], &[], None), Some(narrow));
        assert_eq!(cell.bottleneck(&cell.ways(), &["back"], &[], None).unwrap().bits, 1e6);
        assert_eq!(cell.bottleneck(&cell.ways(), &["long", "back"], &[], None), None, "limited at different places");
        assert_eq!(cell.bottleneck(&cell.ways(), &["free"], &[], None), None);
        assert_eq!(cell.bottleneck(&cell.ways(), &[], &[], None), None);
    }

    /// Reports had utilisations above 1, because flow and link were compared over different times.
    #[test]
    fn capacity_is_that_of_the_time_in_which_the_flows_count() {
        let link = link(["a", "b"], "rate=\"2mbit\"\nchange=[{at=\"1s\",rate=\"10mbit\"}]");
        let flows = [("f", RENO), ("g", "algorithm=\"reno\"\nstart=\"1s\"")];
        let flows = flows.map(|(name, rest)| flow(name, ["a", "b"], rest)).concat();
        let cell = scenario(2, &(link + &flows)).cells.remove(0);
        let record = |name: &str, begin_s| FlowRecord { begin_s, ..Sampled::named(name, 1).record };
        let bits =
            |records: &[FlowRecord]| cell.bottleneck(&cell.ways(), &["f"], records, None).map(|narrow| narrow.bits);
        assert_eq!(bits(&[record("f", Some(0.5))]), Some(0.5 * 2e6 + 1.5 * 10e6));
        // The second flow's first packet took 250 ms: what it delivers until 2.25 s counts.
        assert_eq!(bits(&[record("f", Some(0.0)), record("g", Some(1.25))]), Some(2e6 + 1.25 * 10e6));
        assert_eq!(bits(&[record("f", None)]), None, "older records do not say when");
    }
}
