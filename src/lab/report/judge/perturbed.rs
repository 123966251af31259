//! Whether the flows' shares depend on exact numbers of the path: the runs of `tccc run --perturb`.
//!
//! A phase effect changes shares when the path changes slightly, and no interval shows it, because all seeds share the
//! phase.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cell::point_name;
use super::index::Index;
use crate::scenario::PERTURBED;
use shared::model::notice::Notice;
use shared::model::run::{At, FlowRecord, RunRecord, RunStatus};
use shared::model::stats::{self, UPPER_TAIL};
use shared::sanitize::count;

/// Up to so many flows are compared one by one, more by their label.
const FLOWS_MAX: usize = 16;
/// Smaller changes of a share are no effect of the phase: the path itself is another.
const LEAST_CHANGE: f64 = 0.01;

/// What the perturbed paths of an experiment show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Perturbed {
    /// Compared shares over all cells and paths.
    pub comparisons: usize,
    pub changed: Vec<ChangedShare>,
}

/// A share that differs on a perturbed path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedShare {
    pub at: At,
    /// `1% more delay`.
    pub path: String,
    /// Name of the flow, or a label of several.
    pub flow: String,
    /// Mean of its goodput over that of all flows: on the scenario's path, on the perturbed one.
    pub shares: [f64; 2],
}

/// None: the experiment has no perturbed paths.
pub fn compare(index: &Index<'_>) -> Option<Perturbed> {
    let mut runs: BTreeMap<(At, Option<String>), Vec<&RunRecord>> = BTreeMap::new();
    let stored = index.directory.runs.iter().chain(&index.directory.perturbed);
    for run in stored.filter(|run| run.record.status == RunStatus::Done) {
        let mut at = run.record.at.clone();
        let path = at.remove(PERTURBED);
        runs.entry((at, path)).or_default().push(&run.record);
    }
    let mut compared = Vec::new();
    for ((at, path), records) in &runs {
        let Some((path, own)) = path.as_ref().zip(runs.get(&(at.clone(), None))) else { continue };
        let (own, other) = (shares(own), shares(records));
        for (flow, values) in &own {
            let Some((p, means)) = other.get(flow).and_then(|others| stats::welch(values, others)) else { continue };
            let (at, path, flow) = (at.clone(), path.clone(), flow.clone());
            compared.push((p, ChangedShare { at, path, flow, shares: means }));
        }
    }
    let comparisons = compared.len();
    // Bonferroni: 95 % over all comparisons together.
    let level = 2.0 * UPPER_TAIL / comparisons.max(1) as f64;
    let is_changed = |p: f64, shares: [f64; 2]| p < level && (shares[0] - shares[1]).abs() >= LEAST_CHANGE;
    let changed = compared.into_iter().filter(|(p, one)| is_changed(*p, one.shares)).map(|(_, one)| one).collect();
    (!index.directory.perturbed.is_empty()).then_some(Perturbed { comparisons, changed })
}

/// The share of each flow or label in the goodput of all flows, one value per run. Empty for a single one.
fn shares(runs: &[&RunRecord]) -> BTreeMap<String, Vec<f64>> {
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.flows.len() > 1) {
        let mut of_run: BTreeMap<&str, f64> = BTreeMap::new();
        for flow in &run.flows {
            *of_run.entry(name(flow, run.flows.len())).or_default() += flow.goodput_bps;
        }
        let all: f64 = of_run.values().sum();
        let are_several = of_run.len() > 1 && all > 0.0;
        for (name, goodput) in of_run.into_iter().filter(|_| are_several) {
            shares.entry(name.to_owned()).or_default().push(goodput / all);
        }
    }
    shares
}

fn name(flow: &FlowRecord, flows: usize) -> &str {
    if flows <= FLOWS_MAX { &flow.name } else { &flow.variant }
}

impl Perturbed {
    /// One notice for each cell and path with a changed share: that of the largest change.
    pub fn notices(&self) -> Vec<Notice> {
        let mut largest: BTreeMap<(&At, &str), &ChangedShare> = BTreeMap::new();
        for one in &self.changed {
            let known = largest.entry((&one.at, &one.path)).or_insert(one);
            if one.change() > known.change() {
                *known = one;
            }
        }
        largest.into_values().map(ChangedShare::notice).collect()
    }

    /// `12 shares compared, 1 changed`.
    pub fn sentence(&self) -> String {
        if self.comparisons == 0 {
            let needs = format!("{} runs of each path, and several flows", stats::FEWEST_FOR_INTERVAL);
            return format!("no share was compared: it takes {needs}");
        }
        let changed = match self.changed.len() {
            0 => "none changed".to_owned(),
            some => format!("{some} changed"),
        };
        format!("{} compared on slightly other paths, {changed}", count(self.comparisons, "share"))
    }
}

impl ChangedShare {
    fn change(&self) -> f64 {
        (self.shares[0] - self.shares[1]).abs()
    }

    fn notice(&self) -> Notice {
        let Self { at, path, flow, shares: [own, other] } = self;
        let place = if at.is_empty() { String::new() } else { format!("at {}, ", point_name(at)) };
        Notice::new(
            format!("{place}\"{flow}\" has {own:.3} of the goodput, and {other:.3} on a path with {path}"),
            "the result depends on exact numbers of the path: do not compare flows here; a larger `[virtual] host_delay` \
             or paths that vary may help",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_names_the_flow_with_the_largest_change_of_each_path() {
        let change = |path: &str, flow: &str, shares| ChangedShare {
            at: At::from([("loss".into(), "0".into())]),
            path: path.into(),
            flow: flow.into(),
            shares,
        };
        let changed = vec![change("1% more delay", "a", [0.5, 0.45]), change("1% more delay", "b", [0.1, 0.2])];
        let told = Perturbed { comparisons: 6, changed };
        let [only] = &told.notices()[..] else { panic!("{told:?}") };
        assert_eq!(only.cause, "at loss 0, \"b\" has 0.100 of the goodput, and 0.200 on a path with 1% more delay");
        assert_eq!(told.sentence(), "6 shares compared on slightly other paths, 2 changed");
        let nothing = Perturbed { comparisons: 0, changed: Vec::new() };
        assert_eq!(nothing.sentence(), "no share was compared: it takes 3 runs of each path, and several flows");
    }
}
