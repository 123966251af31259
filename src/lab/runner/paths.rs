//! The paths of a plan, each measured once before its first run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use anyhow::Result;

use super::patience::Patience;
use crate::emulate::Network;
use crate::lab::calibrate;
use crate::lab::layout::settings_in_force;
use crate::lab::machine;
use crate::lab::plan::{Plan, PlannedRun, mix};
use crate::lab::work::{Progress, Work, interrupted};
use crate::model::run::{At, Calibration, HostRecord};
use crate::scenario::Cell;

/// The first run on each distinct path.
fn distinct_paths<'a>(plan: &Plan, runs: &[&'a PlannedRun]) -> Vec<&'a PlannedRun> {
    let cell = |run: &PlannedRun| &plan.cells[run.cell];
    let mut first: Vec<&PlannedRun> = Vec::new();
    for run in runs {
        if !first.iter().any(|other| has_same_path(cell(other), cell(run))) {
            first.push(run);
        }
    }
    first
}

/// What the empty paths showed.
#[derive(Debug, Default)]
pub struct Paths {
    pub calibration: Vec<Calibration>,
    /// A cell of each path that is not what it should be.
    wrong: Vec<usize>,
    offloads: BTreeSet<String>,
    pub sysctls: BTreeMap<String, String>,
    pub notices: BTreeSet<String>,
}

impl Paths {
    /// Measures every distinct path once, while nothing else goes on, but for those that were measured earlier.
    pub fn measure(
        work: &Work<'_>,
        to_do: &[&PlannedRun],
        network: &dyn Network,
        earlier: &Earlier<'_>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Paths> {
        let plan = work.plan;
        let mut paths = Paths::default();
        let mut patience = Patience::default();
        for (index, run) in distinct_paths(plan, to_do).into_iter().enumerate() {
            let cell = &plan.cells[run.cell];
            if work.stop.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            let topology = network.build(&plan.layout(run))?;
            paths.notices.extend(
                topology.lacking.iter().map(|name| format!("this kernel has no {name}, which the profile sets")),
            );
            paths
                .notices
                .extend(topology.links.iter().flat_map(|link| link.notices()).map(|notice| notice.to_string()));
            let seed = mix(plan.seed, index as u64 + 1);
            paths.offloads.insert(topology.offloads()?);
            paths.sysctls = settings_in_force(&topology)?;
            if earlier.has(plan, cell) {
                continue;
            }
            tell(Progress::Calibrating(place(cell)));
            let measure = || calibrate::calibrate(cell, &topology, seed, &path_point(plan, cell));
            let measured = patience.measure(measure, work.stop, tell)?;
            paths.wrong.extend(calibrate::outside(&measured).map(|_| run.cell));
            let in_this_boot = |one| Calibration { boot: earlier.boot.clone(), ..one };
            paths.calibration.extend(measured.into_iter().map(in_this_boot));
        }
        Ok(paths)
    }

    /// Whether the path of a run is what it should be.
    pub fn carry(&self, plan: &Plan, run: &PlannedRun) -> bool {
        !self.wrong.iter().any(|&cell| has_same_path(&plan.cells[cell], &plan.cells[run.cell]))
    }

    pub fn offloads(&self) -> String {
        self.offloads.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// What an interrupted call of the same version measured.
#[derive(Debug, Default)]
pub struct Earlier<'a> {
    calibration: &'a [Calibration],
    boot: Option<String>,
}

impl<'a> Earlier<'a> {
    pub fn of(host: Option<&'a HostRecord>) -> Self {
        let calibration = host.map_or(&[][..], |host| &host.calibration);
        Earlier { calibration, boot: machine::boot() }
    }

    /// The first run on each distinct path that is left to measure.
    pub fn leaves<'r>(&self, plan: &Plan, to_do: &[&'r PlannedRun]) -> Vec<&'r PlannedRun> {
        let paths = distinct_paths(plan, to_do).into_iter();
        paths.filter(|run| !self.has(plan, &plan.cells[run.cell])).collect()
    }

    /// Whether the path of a cell was measured in this boot and was what the scenario asks.
    ///
    /// A call measures each path once. One that resumes it in the same boot does not measure it again. Whether links are late
    /// is seen in every run.
    fn has(&self, plan: &Plan, cell: &Cell) -> bool {
        let at = path_point(plan, cell);
        let is_on_it = |other: &&Cell| at.iter().all(|(name, value)| other.at.get(name) == Some(value));
        let is_unique = plan.cells.iter().filter(is_on_it).all(|other| has_same_path(other, cell));
        let mut measured = self.calibration.iter().filter(|one| one.quantity.at == at).peekable();
        let is_known = |one: &Calibration| one.within && one.boot.is_some() && one.boot == self.boot;
        is_unique && measured.peek().is_some() && measured.all(is_known)
    }
}

/// What tells a cell's path from the plan's other paths; empty when all are one.
fn path_point(plan: &Plan, cell: &Cell) -> At {
    let same: Vec<&Cell> = plan.cells.iter().filter(|other| has_same_path(other, cell)).collect();
    let tells = |name: &str, value: &str| {
        let has = |other: &Cell| other.at.get(name).is_some_and(|other| other == value);
        same.iter().all(|other| has(other)) && !plan.cells.iter().all(has)
    };
    let told = cell.at.iter().filter(|(name, value)| same.len() < plan.cells.len() && tells(name, value));
    told.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether two cells differ in nothing that calibration measures.
fn has_same_path(one: &Cell, other: &Cell) -> bool {
    let ends = |cell: &Cell| -> BTreeSet<(String, String)> {
        cell.flows.iter().map(|flow| (flow.from.clone(), flow.to.clone())).collect()
    };
    one.links == other.links && one.mtu == other.mtu && ends(one) == ends(other)
}

/// A cell in words: `loss = 0.1%, variant = SACK`.
fn place(cell: &Cell) -> String {
    let parts: Vec<String> = cell.at.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if parts.is_empty() { "the only cell".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plan::tests::planned;

    fn plan() -> Plan {
        planned(&Default::default()).unwrap()
    }

    #[test]
    fn wrong_path_takes_its_own_cells_away_and_no_others() {
        let plan = plan();
        let lossy = plan.cells.iter().position(|cell| cell.at["loss"] == "1%").unwrap();
        let paths = Paths { wrong: vec![lossy], ..Paths::default() };
        let carried = plan.runs.iter().filter(|run| paths.carry(&plan, run));
        let losses: Vec<&str> = carried.map(|run| plan.cells[run.cell].at["loss"].as_str()).collect();
        assert_eq!(losses, ["0"; 12]);
    }

    #[test]
    fn path_that_was_measured_in_this_boot_is_not_measured_again() {
        let plan = plan();
        let lossy = plan.cells.iter().find(|cell| cell.at["loss"] == "1%").unwrap();
        let clean = plan.cells.iter().find(|cell| cell.at["loss"] == "0").unwrap();
        let text = r#"{"quantity":"s-r rate at loss = 1%","unit":"bit/s","asked":1.0,"measured":1.0,"allowed":[0.9,1.1],
                       "within":true,"boot":"now"}"#;
        let rate: Calibration = serde_json::from_str(text).unwrap();
        let rtt = |within| Calibration { quantity: "s-r rtt at loss = 1%".into(), within, ..rate.clone() };
        let old = |boot: Option<&str>| Calibration { boot: boot.map(str::to_owned), ..rtt(true) };
        let has =
            |calibration: &[Calibration], cell| Earlier { calibration, boot: Some("now".to_owned()) }.has(&plan, cell);
        let good = [rate.clone(), rtt(true)];
        assert!(has(&good, lossy) && !has(&good, clean) && !has(&[], lossy));
        let to_do: Vec<&PlannedRun> = plan.runs.iter().collect();
        let left = Earlier { calibration: &good, boot: Some("now".to_owned()) }.leaves(&plan, &to_do);
        assert_eq!(left.iter().map(|run| &*plan.cells[run.cell].at["loss"]).collect::<Vec<_>>(), ["0"]);
        assert_eq!(Earlier::default().leaves(&plan, &to_do).len(), 2);
        assert!(!has(&[rate.clone(), rtt(false)], lossy), "it was not what the scenario asks");
        assert!(!has(&[rate.clone(), old(Some("then"))], lossy), "the machine has booted since");
        assert!(!has(&[rate.clone(), old(None)], lossy), "an older file does not say when");
        assert!(!Earlier { calibration: &good, boot: None }.has(&plan, lossy));
        let one = [Calibration { quantity: "s-r rate".into(), ..rate }];
        assert!(!has(&one, lossy), "of a path that is one of several");
    }

    #[test]
    fn path_is_told_by_what_tells_it_from_others() {
        let plan = plan();
        let places: BTreeSet<At> = plan.cells.iter().map(|cell| path_point(&plan, cell)).collect();
        let loss = |value: &str| At::from([("loss".to_owned(), value.to_owned())]);
        assert_eq!(places, BTreeSet::from([loss("0"), loss("1%")]));
    }
}
