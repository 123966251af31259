//! The empty paths of a plan, each measured once before its first run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::busy::BusyWatch;
use crate::calibrate;
use crate::emulate::Network;
use crate::layout::settings_in_force;
use crate::machine;
use crate::path::Direction;
use crate::path::route::LinkSpec;
use crate::plan::{Plan, PlannedRun, mix};
use crate::scenario::Cell;
use crate::work::{Progress, RunRequest, interrupted};
use shared::model::run::{At, Calibration, HostRecord};

/// How long an experiment waits for a quiet host before it accepts that its paths are wrong.
const WAIT: Duration = Duration::from_secs(60);

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

/// Measurements of the empty paths.
#[derive(Debug, Default)]
pub struct Paths {
    pub calibration: Vec<Calibration>,
    /// One cell of each path that differs from the scenario.
    wrong: Vec<usize>,
    pub offloads: BTreeSet<String>,
    pub sysctls: BTreeMap<String, String>,
    pub notices: BTreeSet<String>,
}

impl Paths {
    /// Measures every distinct path once, except those that an earlier call measured. No run is active meanwhile.
    pub fn measure(
        work: &RunRequest<'_>,
        to_do: &[&PlannedRun],
        network: &dyn Network,
        earlier: &CachedCalibration<'_>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Paths> {
        let plan = work.plan;
        let mut paths = Paths::default();
        let mut deadline = None;
        for (index, run) in distinct_paths(plan, to_do).into_iter().enumerate() {
            let cell = &plan.cells[run.cell];
            if work.stop.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            let topology = network.build(&plan.layout(run))?;
            let lacking =
                topology.lacking.iter().map(|name| format!("this kernel has no {name}, which the profile sets"));
            let of_links = topology.links.iter().flat_map(|link| link.notices()).map(|notice| notice.to_string());
            paths.notices.extend(lacking.chain(of_links));
            let seed = mix(plan.seed, index as u64 + 1);
            paths.offloads.insert(topology.offloads()?);
            paths.sysctls = settings_in_force(&topology)?;
            if earlier.has(plan, cell) {
                continue;
            }
            tell(Progress::Calibrating(place(cell)));
            let measure = || calibrate::calibrate(cell, &topology, seed, &path_point(plan, cell));
            let measured = measure_when_quiet(measure, &mut deadline, work.stop, tell)?;
            paths.wrong.extend(calibrate::outside(&measured).map(|_| run.cell));
            let in_this_boot = |one| Calibration { boot: earlier.boot.clone(), ..one };
            paths.calibration.extend(measured.into_iter().map(in_this_boot));
        }
        Ok(paths)
    }

    /// Whether the path of a run matches the scenario.
    pub fn carry(&self, plan: &Plan, run: &PlannedRun) -> bool {
        !self.wrong.iter().any(|&cell| has_same_path(&plan.cells[cell], &plan.cells[run.cell]))
    }
}

/// Measures, and repeats while the result is outside its tolerance and other processes use the processors.
///
/// The first repeat sets `deadline`, after which no measurement of the experiment is repeated.
///
/// # Errors
/// Those of the measurement; /proc cannot be read.
fn measure_when_quiet(
    measure: impl Fn() -> Result<Vec<Calibration>>,
    deadline: &mut Option<Instant>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Vec<Calibration>> {
    loop {
        let watch = BusyWatch::begin()?;
        let measured = measure()?;
        let others = watch.others()?;
        let is_good = measured.iter().all(|one| one.within);
        if is_good || !others.disturb() || stop.load(Ordering::Relaxed) {
            return Ok(measured);
        }
        if deadline.is_none() {
            tell(Progress::Disturbed { others: others.clone(), waits: Some(WAIT) });
        }
        if Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + WAIT) {
            tell(Progress::Disturbed { others, waits: None });
            return Ok(measured);
        }
    }
}

/// Measurements of an interrupted call of the same version.
#[derive(Debug, Default)]
pub struct CachedCalibration<'a> {
    calibration: &'a [Calibration],
    boot: Option<String>,
}

impl<'a> CachedCalibration<'a> {
    pub fn of(host: Option<&'a HostRecord>) -> Self {
        let calibration = host.map_or(&[][..], |host| &host.calibration);
        CachedCalibration { calibration, boot: machine::boot() }
    }

    /// The first run on each distinct path that is still to be measured.
    pub fn leaves<'r>(&self, plan: &Plan, to_do: &[&'r PlannedRun]) -> Vec<&'r PlannedRun> {
        let paths = distinct_paths(plan, to_do).into_iter();
        paths.filter(|run| !self.has(plan, &plan.cells[run.cell])).collect()
    }

    /// Whether the path of a cell was measured in this boot and matched the scenario.
    ///
    /// A call that resumes another in the same boot does not repeat its measurements. Every run still checks for late
    /// links.
    fn has(&self, plan: &Plan, cell: &Cell) -> bool {
        let at = path_point(plan, cell);
        let is_on_it = |other: &&Cell| at.iter().all(|(name, value)| other.at.get(name) == Some(value));
        let is_unique = plan.cells.iter().filter(is_on_it).all(|other| has_same_path(other, cell));
        let mut measured = self.calibration.iter().filter(|one| one.quantity.at == at).peekable();
        let is_known = |one: &Calibration| one.within && one.boot.is_some() && one.boot == self.boot;
        is_unique && measured.peek().is_some() && measured.all(is_known)
    }
}

/// The sweep values that distinguish a cell's path from the plan's other paths; empty if there is only one path.
fn path_point(plan: &Plan, cell: &Cell) -> At {
    let same: Vec<&Cell> = plan.cells.iter().filter(|other| has_same_path(other, cell)).collect();
    let tells = |name: &str, value: &str| {
        let has = |other: &Cell| other.at.get(name).is_some_and(|other| other == value);
        same.iter().all(|other| has(other)) && !plan.cells.iter().all(has)
    };
    let told = cell.at.iter().filter(|(name, value)| same.len() < plan.cells.len() && tells(name, value));
    told.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether calibration would measure the same path for both cells.
fn has_same_path(one: &Cell, other: &Cell) -> bool {
    let ends = |cell: &Cell| -> BTreeSet<(String, String)> {
        cell.flows.iter().map(|flow| (flow.from.clone(), flow.to.clone())).collect()
    };
    let links = || one.links.iter().zip(&other.links);
    one.links.len() == other.links.len()
        && one.mtu == other.mtu
        && links().all(|(one, other)| is_same_link(one, other))
        && ends(one) == ends(other)
}

/// Calibration sets host delays to 0, so they do not count.
fn is_same_link(one: &LinkSpec, other: &LinkSpec) -> bool {
    let is_same = |(one, other): (&Direction, &Direction)| {
        one == other || Direction { host_delay: other.host_delay, ..one.clone() } == *other
    };
    one.ends == other.ends && one.directions.iter().zip(&other.directions).all(is_same)
}

/// The values of a cell, such as `loss = 0.1%, variant = SACK`.
fn place(cell: &Cell) -> String {
    let parts: Vec<String> = cell.at.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if parts.is_empty() { "the only cell".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::planned;

    fn plan() -> Plan {
        planned(&Default::default()).unwrap()
    }

    #[test]
    fn failed_calibration_drops_only_its_cells() {
        let plan = plan();
        let lossy = plan.cells.iter().position(|cell| cell.at["loss"] == "1%").unwrap();
        let paths = Paths { wrong: vec![lossy], ..Paths::default() };
        let carried = plan.runs.iter().filter(|run| paths.carry(&plan, run));
        let losses: Vec<&str> = carried.map(|run| plan.cells[run.cell].at["loss"].as_str()).collect();
        assert_eq!(losses, ["0"; 12]);
    }

    /// A number of flows as a sweep gave each cell another host delay, and each was calibrated.
    #[test]
    fn cells_that_differ_in_host_delays_alone_have_the_same_path() {
        let cell = &plan().cells[0];
        let with = |change: fn(&mut Direction)| {
            let mut other = cell.clone();
            change(&mut other.links[0].directions[0]);
            has_same_path(cell, &other)
        };
        assert!(with(|direction| direction.host_delay += Duration::from_millis(1)));
        assert!(!with(|direction| direction.delay += Duration::from_millis(1)));
    }

    #[test]
    fn path_that_was_measured_in_this_boot_is_not_measured_again() {
        let plan = plan();
        let text = r#"{"quantity":"s-r rate at loss = 1%","unit":"bit/s","asked":1.0,"measured":1.0,"allowed":[0.9,1.1],
                       "within":true,"boot":"now"}"#;
        let rate: Calibration = serde_json::from_str(text).unwrap();
        let rtt = |within, boot: Option<&str>| Calibration {
            quantity: "s-r rtt at loss = 1%".into(),
            within,
            boot: boot.map(str::to_owned),
            ..rate.clone()
        };
        let good = [rate.clone(), rtt(true, Some("now"))];
        let to_do: Vec<&PlannedRun> = plan.runs.iter().collect();
        for (calibration, boot, left, why) in [
            (&good[..], Some("now"), &["0"][..], "measured"),
            (&[], Some("now"), &["0", "1%"], "not measured"),
            (&good, None, &["0", "1%"], "the boot is unknown"),
            (&[rate.clone(), rtt(false, Some("now"))], Some("now"), &["0", "1%"], "outside its tolerance"),
            (&[rate.clone(), rtt(true, Some("then"))], Some("now"), &["0", "1%"], "the machine has booted since"),
            (&[rate.clone(), rtt(true, None)], Some("now"), &["0", "1%"], "an older file has no boot"),
            (
                &[Calibration { quantity: "s-r rate".into(), ..rate.clone() }],
                Some("now"),
                &["0", "1%"],
                "of a path that is one of several",
            ),
        ] {
            let runs = CachedCalibration { calibration, boot: boot.map(str::to_owned) }.leaves(&plan, &to_do);
            let losses: BTreeSet<&str> = runs.iter().map(|run| &*plan.cells[run.cell].at["loss"]).collect();
            assert_eq!(losses, left.iter().copied().collect(), "{why}");
        }
    }

    #[test]
    fn path_is_named_by_the_values_that_distinguish_it() {
        let plan = plan();
        let places: BTreeSet<At> = plan.cells.iter().map(|cell| path_point(&plan, cell)).collect();
        let loss = |value: &str| At::from([("loss".to_owned(), value.to_owned())]);
        assert_eq!(places, BTreeSet::from([loss("0"), loss("1%")]));
    }
}
