//! Metrics that a scenario asks for and that its flows can never give: told before hours of runs, not by empty tables.
//!
//! No mistake: what else was asked can be measured.

use super::{Cell, FlowSpec, Scenario, Sends};
use crate::written::Mistake;

impl Scenario {
    /// Those of `report.metrics` that can have no value in any cell, whatever the runs give: where, why and what to do.
    pub fn unmeasurable(&self) -> Vec<Mistake> {
        let metrics = self.report.metrics.iter().enumerate();
        metrics.filter_map(|(index, name)| self.why_unmeasurable(index, name)).collect()
    }

    fn why_unmeasurable(&self, index: usize, name: &str) -> Option<Mistake> {
        let (lack, next) = lack_of(name)?;
        let mut variants = self.cells.iter().flat_map(|cell| self.variants_of(cell));
        if variants.any(|(own, beside)| can_be(name, &own, &beside)) {
            return None;
        }
        let mistake = self.mistake_in_metric(index, format!("it can have no value: {lack}"))?;
        Some(mistake.or_hint(next))
    }

    /// The TCP flows of each variant that a cell measures, and those beside it.
    fn variants_of<'a>(&self, cell: &'a Cell) -> Vec<(Vec<&'a FlowSpec>, Vec<&'a FlowSpec>)> {
        let flows = || cell.flows.iter().filter(|flow| flow.is_tcp());
        if self.series_variable().is_some() {
            return vec![flows().partition(|flow| flow.compared)];
        }
        flows().map(|one| flows().partition(|flow| cell.label(flow) == cell.label(one))).collect()
    }
}

/// Why a metric has no value where it can have none, and what to do; none for one that always can.
fn lack_of(metric: &str) -> Option<(&'static str, &'static str)> {
    let compared = "compared are the flows of a variant, else those that run $algorithm, else all";
    match metric {
        _ if metric.starts_with("fct_") => Some(("no flow that is compared has a `size`", compared)),
        "jain_index" | "convergence_s" => {
            let next = "`copies = 2` makes two of one; friendliness_ratio is of a compared flow and those beside it";
            Some(("it is of two compared flows or more", next))
        }
        "friendliness_ratio" => Some(("it needs a TCP flow beside those that are compared", compared)),
        _ => None,
    }
}

fn can_be(metric: &str, own: &[&FlowSpec], beside: &[&FlowSpec]) -> bool {
    match metric {
        "jain_index" | "convergence_s" => own.len() > 1,
        "friendliness_ratio" => !own.is_empty() && !beside.is_empty(),
        _ => own.iter().any(|flow| matches!(flow.sends, Sends::Transfers { .. } | Sends::Messages { .. })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"9s\"\nruns=1\nseed=1\n\
                        [[link]]\nends=[\"a\",\"b\"]\n";
    const SWEEP: &str = "[sweep]\nalgorithm=[\"reno\",\"cubic\"]\n";

    fn flow(name: &str, rest: &str) -> String {
        format!("[[flow]]\nname=\"{name}\"\nfrom=\"a\"\nto=\"b\"\n{rest}\n")
    }

    fn check(metric: &str, rest: &str) -> Vec<Mistake> {
        let report = format!("[report]\nmetrics=[\"goodput_bps\",\n\"{metric}\"]\n");
        Scenario::parse("x.toml", &format!("{HEAD}{report}{rest}")).unwrap().unmeasurable()
    }

    #[test]
    fn metric_that_no_flow_can_give_is_told_with_its_place() {
        let bulk = flow("bulk", "algorithm=\"$algorithm\"");
        let short = flow("short", "algorithm=\"reno\"\nsize=\"9kB\"");
        let noise = flow("noise", "protocol=\"udp\"\nrate=\"1mbit\"");
        let error = &check("fct_p95_s", &format!("{SWEEP}{bulk}{short}"))[0];
        assert_eq!((error.line, error.field.as_str()), (Some(11), "report.metrics"));
        assert!(error.expected.ends_with("no flow that is compared has a `size`"), "{error}");
        assert_eq!(check("jain_index", &format!("{SWEEP}{bulk}{short}")).len(), 1);
        assert_eq!(check("convergence_s", &format!("{SWEEP}{bulk}{noise}")).len(), 1);
        assert_eq!(check("friendliness_ratio", &format!("{SWEEP}{bulk}{noise}")).len(), 1);
    }

    #[test]
    fn metric_that_some_cell_can_give_is_taken() {
        let swept = |rest: &str| format!("{SWEEP}{}", flow("bulk", &format!("algorithm=\"$algorithm\"\n{rest}")));
        let short = flow("short", "algorithm=\"reno\"\nsize=\"9kB\"");
        assert_eq!(check("fct_mean_s", &swept("size=\"1MB\"")), []);
        assert_eq!(check("jain_index", &swept("copies=2")), []);
        assert_eq!(check("friendliness_ratio", &(swept("") + &short)), []);
        let variants = "[variant.A]\nalgorithm=\"reno\"\n[variant.B]\nalgorithm=\"reno\"\nflows=[\"short\"]\n";
        let both = flow("bulk", "algorithm=\"cubic\"") + &short;
        assert_eq!(check("fct_mean_s", &format!("{variants}{both}")), []);
        assert_eq!(check("fct_mean_s", &both), [], "without a sweep each algorithm is compared");
        assert_eq!(check("friendliness_ratio", &both), []);
    }
}
