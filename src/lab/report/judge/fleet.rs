//! The machines that ran the experiment of a report, and how far their results differ.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compare::metrics_of;
use super::index::{Index, point_of};
use super::input::OverTime;
use crate::report::read::blocks::Blocks;
use shared::model::metrics::Metric;
use shared::model::run::{At, Machine, RunStatus};
use shared::model::stats;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleet {
    /// Completeness of each plan that has blocks here.
    pub blocks: Vec<Blocks>,
    /// Shape: by name.
    pub nodes: Vec<FleetNode>,
    /// What [`FleetNode::shift`] compares. `None` with one machine, or without a comparable metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedBy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedBy {
    pub metric: String,
    pub variant: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetNode {
    #[serde(flatten)]
    pub machine: Machine,
    pub runs: usize,
    /// Attempts that do not count because the link or sender was late.
    pub late_attempts: usize,
    /// How far its values differ from the other machines'.
    pub shift: Option<Shift>,
}

/// A difference of means at the same points, as a fraction of the mean at each point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    pub mean: f64,
    /// 95 % interval; `None` with too few runs.
    pub ci95: Option<[f64; 2]>,
    /// Compared runs of this machine.
    pub n: usize,
}

/// Values of one metric by machine, each divided by the mean at its point.
type Shares<'a> = BTreeMap<&'a str, Vec<f64>>;

/// `None` if there are no blocks and fewer than two machines.
pub fn of(index: &Index<'_>) -> Option<Fleet> {
    let directory = index.directory;
    if directory.blocks.is_empty() && directory.machines.len() < 2 {
        return None;
    }
    let compared = (directory.machines.len() > 1).then(|| compared(index)).flatten();
    let shares = compared.as_ref().map_or_else(Shares::new, |(metric, variant)| shares(index, metric, variant));
    let node = |machine: &Machine| {
        let count = |status| {
            let own = directory.runs.iter().filter(|run| run.machine.as_deref() == Some(machine.id.as_str()));
            own.filter(|run| run.record.status == status).count()
        };
        FleetNode {
            machine: machine.clone(),
            runs: count(RunStatus::Done),
            late_attempts: count(RunStatus::Late),
            shift: shift(&shares, &machine.id),
        }
    };
    let mut nodes: Vec<FleetNode> = directory.machines.iter().map(node).collect();
    nodes.sort_by(|one, other| (&one.machine.node, &one.machine.id).cmp(&(&other.machine.node, &other.machine.id)));
    let compared = compared.map(|(metric, variant)| ComparedBy { metric: metric.name.to_owned(), variant });
    Some(Fleet { blocks: directory.blocks.clone(), nodes, compared })
}

/// The first metric that needs neither events nor queues, and the baseline or else the first variant.
fn compared(index: &Index<'_>) -> Option<(&'static Metric, String)> {
    let metric =
        metrics_of(index.scenario()).ok()?.into_iter().find(|metric| !metric.needs_events && !metric.needs_queues)?;
    let baseline = index.scenario().report.baseline.as_ref();
    Some((metric, baseline.or(index.variants.first())?.clone()))
}

/// The values of each machine at points measured by several machines.
fn shares<'a>(index: &Index<'a>, metric: &Metric, variant: &str) -> Shares<'a> {
    let mut by_point: BTreeMap<At, Vec<(&str, f64)>> = BTreeMap::new();
    for run in index.done() {
        let Some(machine) = run.machine.as_deref() else { continue };
        let value = index.views(&run.record, OverTime::default()).remove(variant).and_then(|view| metric.value(&view));
        let point = by_point.entry(point_of(index.scenario(), &run.record.at)).or_default();
        point.extend(value.map(|value| (machine, value.value)));
    }
    let mut shares = Shares::new();
    for values in by_point.into_values().filter(|values| values.iter().any(|(machine, _)| *machine != values[0].0)) {
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        for (machine, value) in values.into_iter().filter(|_| mean != 0.0) {
            shares.entry(machine).or_default().push(value / mean);
        }
    }
    shares
}

/// The difference of means between a machine and all others.
///
/// The margin is the root of the sum of both squared margins, so that the spreads may differ.
///
/// None: no common points.
/// Source: G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27,
/// 2008.
fn shift(shares: &Shares<'_>, id: &str) -> Option<Shift> {
    let own = shares.get(id)?;
    let others: Vec<f64> = shares.iter().filter(|(other, _)| **other != id).flat_map(|(_, all)| all.clone()).collect();
    let mean = stats::mean(own)? - stats::mean(&others)?;
    let margin = |values: &[f64]| stats::students_interval(values).map(|[low, high]| (high - low) / 2.0);
    let ci95 = margin(own).zip(margin(&others)).map(|(own, others)| own.hypot(others));
    Some(Shift { mean, ci95: ci95.map(|margin| [mean - margin, mean + margin]), n: own.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shift_is_the_difference_of_means_and_its_interval_needs_three_runs_on_both_sides() {
        let shares = Shares::from([("a", vec![1.02, 1.03, 1.01]), ("b", vec![0.98, 0.99]), ("c", vec![0.97])]);
        let of_a = shift(&shares, "a").unwrap();
        assert!((of_a.mean - 0.04).abs() < 1e-12 && of_a.n == 3);
        let [low, high] = of_a.ci95.unwrap();
        let margin = 4.302_652_729_911_275 * 0.01 / 3_f64.sqrt() * 2_f64.sqrt();
        assert!((low - (0.04 - margin)).abs() < 1e-9 && (high - (0.04 + margin)).abs() < 1e-9, "{low} to {high}");
        assert_eq!(shift(&shares, "b").unwrap().ci95, None, "two runs have no interval");
        assert_eq!(shift(&shares, "d"), None);
        assert_eq!(shift(&Shares::from([("a", vec![1.0])]), "a"), None, "nothing to compare with");
    }
}
