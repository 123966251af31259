//! The narrowest link of a cell: pure.

use std::time::Duration;

use super::{Cell, FlowSpec};
use crate::experiment::net::route::{Hop, shortest_path};
use crate::model::metrics::view::Bottleneck;
use crate::model::run::FlowRecord;

impl Cell {
    /// The link direction that limits these flows while the flows of a run count, and every flow that crosses it.
    ///
    /// Of several equally narrow ones the first on the way.
    ///
    /// None: no flow of these names, flows that are limited at different links, a way without a rate, or a rate that
    /// varies where the records do not say when the flows began.
    pub fn bottleneck(&self, flows: &[&str], records: &[FlowRecord]) -> Option<Bottleneck> {
        let span = self.span(records);
        let counted = span.unwrap_or([Duration::ZERO, self.duration]);
        let mut narrowest = self.flows.iter().filter(|flow| flows.contains(&flow.name.as_str())).map(|flow| {
            let rate = |hop: &Hop| hop.direction(&self.links).mean_rate(counted);
            let rated = self.way(flow).into_iter().filter_map(|hop| Some((rate(&hop)?, hop)));
            rated.min_by(|(one, _), (other, _)| one.total_cmp(other))
        });
        let first = narrowest.next()?;
        let (rate, hop) = first.filter(|_| narrowest.all(|other| other == first))?;
        if span.is_none() && hop.direction(&self.links).varies() {
            return None;
        }
        let crossing = self.flows.iter().filter(|flow| self.way(flow).contains(&hop));
        Some(Bottleneck {
            bits: rate * (counted[1] - counted[0]).as_secs_f64(),
            packet_bytes: self.mtu,
            flows: crossing.map(|flow| flow.name.clone()).collect(),
        })
    }

    /// From when to when the flows of a run count: as long as the run, but later by what the first packets took, which
    /// differs between flows.
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

    fn way(&self, flow: &FlowSpec) -> Vec<Hop> {
        shortest_path(&self.links, &flow.from, &flow.to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;
    use super::*;
    use crate::model::metrics::samples::Sampled;

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
        let narrow = cell.bottleneck(&["long"], &[]).unwrap();
        assert_eq!((narrow.bits, narrow.packet_bytes), (20e6, 1500));
        assert_eq!(narrow.flows, ["long", "short"]);
        assert_eq!(cell.bottleneck(&["long", "short"], &[]), Some(narrow));
        assert_eq!(cell.bottleneck(&["back"], &[]).unwrap().bits, 1e6);
        assert_eq!(cell.bottleneck(&["long", "back"], &[]), None, "limited at different places");
        assert_eq!(cell.bottleneck(&["free"], &[]), None);
        assert_eq!(cell.bottleneck(&[], &[]), None);
    }

    /// Utilisations above 1 were shown: what a flow delivered in its time was held against another time of the link.
    #[test]
    fn capacity_is_that_of_the_time_in_which_the_flows_count() {
        let text = "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"2s\"\nruns=1\nseed=1\n\
                    [[link]]\nends=[\"a\",\"b\"]\nrate=\"2mbit\"\nchange=[{at=\"1s\",rate=\"10mbit\"}]\n\
                    [[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\nalgorithm=\"reno\"\n\
                    [[flow]]\nname=\"g\"\nfrom=\"a\"\nto=\"b\"\nalgorithm=\"reno\"\nstart=\"1s\"\n";
        let cell = Scenario::parse("t.toml", text).unwrap().cells.remove(0);
        let record = |name: &str, begin_s| FlowRecord { begin_s, ..Sampled::named(name, 1).record };
        let bits = |records: &[FlowRecord]| cell.bottleneck(&["f"], records).map(|narrow| narrow.bits);
        assert_eq!(bits(&[record("f", Some(0.5))]), Some(0.5 * 2e6 + 1.5 * 10e6));
        // The second flow's first packet took 250 ms: what it delivers until 2.25 s counts.
        assert_eq!(bits(&[record("f", Some(0.0)), record("g", Some(1.25))]), Some(2e6 + 1.25 * 10e6));
        assert_eq!(bits(&[record("f", None)]), None, "older records do not say when");
    }
}
