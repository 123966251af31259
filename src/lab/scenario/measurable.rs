//! Finds metrics that the flows of a scenario can never have, before hours of runs end in an empty table.
//!
//! These are warnings, because the other metrics can be measured.

use crate::scenario::spec::{Cell, FlowSpec, Sends};
use crate::scenario::whole::Scenario;
use host::toml_reader::Mistake;
use shared::model::metrics::Metric;

impl Scenario {
    /// A warning for each of `report.metrics` that cannot have a value in any cell.
    pub fn unmeasurable(&self) -> Vec<Mistake> {
        let metrics = self.report.metrics.iter().enumerate();
        metrics.filter_map(|(index, name)| self.why_unmeasurable(index, name)).collect()
    }

    fn why_unmeasurable(&self, index: usize, name: &str) -> Option<Mistake> {
        let flows = Metric::find(name)?.flows;
        let (lack, next) = flows.lack()?;
        let can_be = |(own, beside): (Vec<&FlowSpec>, Vec<&FlowSpec>)| {
            let is_sized = |flow: &&FlowSpec| {
                matches!(flow.sends, Sends::Transfers { .. } | Sends::Load(_) | Sends::Messages { .. })
            };
            let has_sizes = |flow: &&FlowSpec| matches!(&flow.sends, Sends::Load(load) if !load.has_one_size());
            flows.are_in(own.len(), [own.iter().any(is_sized), own.iter().any(has_sizes)], beside.len())
        };
        if self.cells.iter().flat_map(|cell| self.variants_of(cell)).any(can_be) {
            return None;
        }
        let mistake = self.mistake_in_metric(index, format!("it can have no value: {lack}"))?;
        Some(*mistake.or_hint(next))
    }

    /// For each variant that a cell measures, its TCP flows and the other TCP flows.
    fn variants_of<'a>(&self, cell: &'a Cell) -> Vec<(Vec<&'a FlowSpec>, Vec<&'a FlowSpec>)> {
        let flows = || cell.flows.iter().filter(|flow| flow.is_tcp());
        if self.series_variable().is_some() {
            return vec![flows().partition(|flow| flow.compared)];
        }
        flows().map(|one| flows().partition(|flow| cell.label(flow) == cell.label(one))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests;

    const SWEEP: &str = "[sweep]\nalgorithm=[\"reno\",\"cubic\"]\n";

    fn flow(name: &str, rest: &str) -> String {
        tests::flow(name, ["a", "b"], rest)
    }

    fn check(metric: &str, rest: &str) -> Vec<Mistake> {
        let report = format!("[report]\nmetrics=[\"goodput_bps\",\n\"{metric}\"]\n");
        tests::scenario(9, &(tests::link(["a", "b"], "") + &report + rest)).unmeasurable()
    }

    #[test]
    fn metric_that_no_flow_can_have_is_reported_with_its_place() {
        let bulk = flow("bulk", "algorithm=\"$algorithm\"");
        let short = flow("short", "algorithm=\"reno\"\nsize=\"9kB\"");
        let noise = flow("noise", "protocol=\"udp\"\nrate=\"1mbit\"");
        let error = &check("fct_p95_s", &format!("{SWEEP}{bulk}{short}"))[0];
        assert_eq!((error.line, error.field.as_str()), (Some(12), "report.metrics"));
        assert!(error.expected.ends_with("no compared flow has a `size`"), "{error}");
        let error =
            &check("fct_q1_mean_s", &format!("{SWEEP}{}", flow("f", "algorithm=\"$algorithm\"\nsize=\"9kB\"")))[0];
        assert!(error.expected.ends_with("no compared flow has transfers that differ in size"), "{error}");
        assert_eq!(check("jain_index", &format!("{SWEEP}{bulk}{short}")).len(), 1);
        assert_eq!(check("convergence_s", &format!("{SWEEP}{bulk}{noise}")).len(), 1);
        assert_eq!(check("friendliness_ratio", &format!("{SWEEP}{bulk}{noise}")).len(), 1);
    }

    #[test]
    fn metric_that_some_cell_can_have_is_accepted() {
        let swept = |rest: &str| format!("{SWEEP}{}", flow("bulk", &format!("algorithm=\"$algorithm\"\n{rest}")));
        let short = flow("short", "algorithm=\"reno\"\nsize=\"9kB\"");
        assert_eq!(check("fct_mean_s", &swept("size=\"1MB\"")), []);
        let drawn = "size=\"lognormal:median=9kB,sigma=1\"\narrivals=\"poisson:mean=1s\"";
        assert_eq!([check("fct_mean_s", &swept(drawn)), check("fct_q4_p95_s", &swept(drawn))], [[], []]);
        assert_eq!(check("jain_index", &swept("copies=2")), []);
        assert_eq!(check("friendliness_ratio", &(swept("") + &short)), []);
        let variants = "[variant.A]\nalgorithm=\"reno\"\n[variant.B]\nalgorithm=\"reno\"\nflows=[\"short\"]\n";
        let both = flow("bulk", "algorithm=\"cubic\"") + &short;
        assert_eq!(check("fct_mean_s", &format!("{variants}{both}")), []);
        assert_eq!(check("fct_mean_s", &both), [], "without a sweep each algorithm is compared");
        assert_eq!(check("friendliness_ratio", &both), []);
    }
}
