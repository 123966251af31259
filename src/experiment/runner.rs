//! A plan carried out: calibrate, register, trace, send, measure, keep; as many runs at once as the host carries.

mod attempt;
mod lateness;
mod patience;
mod queue;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::experiment::algorithms::Algorithms;
use crate::experiment::busy::Others;
use crate::experiment::calibrate;
use crate::experiment::conditions::Conditions;
use crate::experiment::cost::{self, Jobs, Limit};
use crate::experiment::follow::Follower;
use crate::experiment::net::Network;
use crate::experiment::net::layout::Layout;
use crate::experiment::part::Part;
use crate::experiment::plan::{Plan, PlannedRun, mix};
use crate::experiment::results::ResultDir;
use crate::experiment::scenario::{Cell, Scenario};
use crate::experiment::schedule;
use crate::experiment::traffic::iperf3_version;
use crate::failure::Failure;
use crate::kernel::cgroup::{self, RunCgroup};
use crate::kernel::privilege;
use crate::model::run::{At, Calibration, Engine, HostRecord, RESULT_SCHEMA};

use attempt::Bench;
use patience::Patience;
use queue::Queue;
use together::Together;

/// Attempts at a run whose link was late or whose traffic failed.
pub const ATTEMPTS: u32 = 3;

/// How a plan is carried out.
pub struct Options<'a> {
    /// Result directory.
    pub out: PathBuf,
    /// Which part of the plan.
    pub part: &'a Part,
    /// Runs at once.
    pub jobs: Jobs,
    /// How networks are built.
    pub network: &'a dyn Network,
    /// Set from outside to stop: finished runs stay.
    pub stop: &'a AtomicBool,
}

/// What happens while a plan is carried out, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// What this call has to do.
    Begins(Forecast),
    /// The path of a cell is being measured.
    Calibrating(String),
    /// A path was measured wrong while others used the processors.
    Disturbed {
        /// Who, and how much.
        others: Others,
        /// For how long in all the measurement is repeated; none when it is not, any more.
        waits: Option<Duration>,
    },
    /// Some of the paths are not what the scenario asks: their cells are left out.
    LeftOut {
        /// Runs that are not made.
        runs: usize,
        /// What was measured.
        why: String,
    },
    /// How many runs go on, and how long the rest takes from now.
    Left {
        /// Runs that go on.
        going: usize,
        /// Until all are finished.
        left: Duration,
    },
    /// A run is finished.
    Finished(String),
    /// A run counts no more, or is made again: its id, which attempt, and why.
    Again {
        /// The run.
        id: String,
        /// The attempt that went wrong, from 1.
        attempt: u32,
        /// Why.
        why: String,
        /// Whether another attempt follows.
        last: bool,
    },
}

/// What one call has to do, and how long that should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Distinct paths to measure first.
    pub paths: usize,
    /// Runs to make.
    pub to_do: usize,
    /// Runs of the part that an earlier call finished.
    pub finished: usize,
    /// How long all of it should take.
    pub expected: Duration,
    /// Most runs at once, in that time.
    pub at_once: usize,
}

impl Forecast {
    /// What is left of a part when these runs are finished.
    pub fn new(plan: &Plan, part: &[&PlannedRun], finished: &BTreeSet<String>, jobs: Jobs) -> Forecast {
        let to_do: Vec<&PlannedRun> = part.iter().copied().filter(|run| !finished.contains(&run.id)).collect();
        let paths = distinct_paths(plan, &to_do);
        let measuring: Duration = paths.iter().map(|run| cost::calibration_time(&plan.cells[run.cell])).sum();
        let wanted = to_do.iter().map(|run| queue::wanted(plan, run)).collect();
        let (runs, at_once) = schedule::time_and_most(wanted, Vec::new(), Limit::of(jobs, processors()));
        Forecast {
            paths: paths.len(),
            to_do: to_do.len(),
            finished: part.len() - to_do.len(),
            expected: measuring + runs,
            at_once,
        }
    }
}

/// What is left to say at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs finished by this call.
    pub finished: usize,
    /// Runs whose link was late at every attempt.
    pub late: Vec<String>,
    /// Runs that failed at every attempt, with the reason.
    pub failed: Vec<(String, String)>,
    /// Paths that are not what the scenario asks, whose cells were left out.
    pub outside: Option<Failure>,
    /// What a reader of the results has to know: settings that this kernel lacks, links that are not at their best.
    pub notices: Vec<String>,
}

/// Checks what every experiment needs of this host, whatever its scenario, and returns the version of iperf3.
///
/// Errors: iperf3, a capability or cgroup v2 is missing.
pub fn check_host() -> Result<String> {
    let iperf3 = iperf3_version()?;
    privilege::require("run experiments", &privilege::FOR_EXPERIMENT)?;
    cgroup::mount_point()?;
    Ok(iperf3)
}

/// Carries out what is left of a plan.
///
/// Errors: those of [`check_host`]; a kernel feature is missing; the plan has no such part; the directory holds another
/// plan; no path is what the scenario asks; `stop` was set; every run fails.
/// Side effects: namespaces, a cgroup, registered algorithms and processes, none of which outlive the call; the result
/// directory.
pub fn run(scenario: &Scenario, plan: &Plan, options: &Options<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let iperf3 = check_host()?;
    let results = ResultDir::open(&options.out, plan, &scenario.text)?;
    results.keep_files(&scenario.files)?;
    let finished = results.finished()?;
    let part = options.part.runs(scenario, plan)?;
    let to_do: Vec<&PlannedRun> = part.iter().copied().filter(|run| !finished.contains(&run.id)).collect();
    tell(Progress::Begins(Forecast::new(plan, &part, &finished, options.jobs)));
    if to_do.is_empty() {
        return Ok(Outcome::default());
    }
    let cgroup = RunCgroup::create()?;
    let flows = || to_do.iter().flat_map(|run| &plan.cells[run.cell].flows);
    let algorithms = Algorithms::prepare(flows(), cgroup.path())?;
    let ssthresh_alone = flows().any(|flow| flow.initial_ssthresh.is_some());
    let mut host = host_record(plan, options, &algorithms, iperf3)?;
    let earlier = if finished.is_empty() { None } else { results.host()? };
    if let Some(earlier) = &earlier {
        check_same_host(earlier, &host, &results)?;
    }
    let paths = calibrate_paths(plan, &to_do, options, tell)?;
    let outside = calibrate::outside(&paths.calibration);
    let (to_do, left_out): (Vec<_>, Vec<_>) = to_do.into_iter().partition(|run| paths.carry(plan, run));
    if !to_do.is_empty() || earlier.is_none() {
        host =
            HostRecord { offloads: paths.offloads(), sysctls: paths.sysctls, calibration: paths.calibration, ..host };
        results.write_host(&earlier.map_or(host.clone(), |earlier| joined(earlier, host)))?;
    }
    match &outside {
        Some(failure) if to_do.is_empty() => return Err(failure.clone().into()),
        Some(failure) => tell(Progress::LeftOut { runs: left_out.len(), why: failure.what.clone() }),
        None => {}
    }
    let notices = paths.notices.into_iter().collect();
    let bench = Bench {
        plan,
        results: &results,
        cgroup: &cgroup,
        algorithms: &algorithms,
        conditions: &Conditions::attach(&cgroup, ssthresh_alone)?,
        follower: &Follower::start(plan.sample)?,
        network: options.network,
        together: &Together::default(),
        stop: options.stop,
    };
    let mut queue = Queue::new(plan, to_do, Limit::of(options.jobs, processors()), finished.len());
    std::thread::scope(|scope| queue.carry_out(scope, &bench, tell))?;
    Ok(Outcome { outside, notices, ..queue.outcome })
}

/// Processors this process may use.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

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

/// Measures every distinct path once, while nothing else goes on.
fn calibrate_paths(
    plan: &Plan,
    to_do: &[&PlannedRun],
    options: &Options<'_>,
    tell: &mut dyn FnMut(Progress),
) -> Result<Paths> {
    let mut paths = Paths::default();
    let mut patience = Patience::default();
    for (index, run) in distinct_paths(plan, to_do).into_iter().enumerate() {
        let cell = &plan.cells[run.cell];
        if options.stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        tell(Progress::Calibrating(place(cell)));
        let topology = options.network.build(&Layout::new(cell, &plan.link_configs(run), plan.profile))?;
        paths
            .notices
            .extend(topology.lacking.iter().map(|name| format!("this kernel has no {name}, which the profile sets")));
        paths.notices.extend(topology.links.iter().flat_map(|link| link.notices()).map(|notice| notice.to_string()));
        let seed = mix(plan.seed, index as u64 + 1);
        paths.offloads.insert(topology.offloads()?);
        paths.sysctls = topology.settings_in_force()?;
        let measure = || calibrate::calibrate(cell, &topology, seed, &path_place(plan, cell));
        let measured = patience.measure(measure, options.stop, tell)?;
        paths.wrong.extend(calibrate::outside(&measured).map(|_| run.cell));
        paths.calibration.extend(measured);
    }
    Ok(paths)
}

/// What the empty paths showed.
#[derive(Debug, Default)]
struct Paths {
    calibration: Vec<Calibration>,
    /// A cell of each path that is not what it should be.
    wrong: Vec<usize>,
    offloads: BTreeSet<String>,
    sysctls: BTreeMap<String, String>,
    notices: BTreeSet<String>,
}

impl Paths {
    /// Whether the path of a run is what it should be.
    fn carry(&self, plan: &Plan, run: &PlannedRun) -> bool {
        !self.wrong.iter().any(|&cell| has_same_path(&plan.cells[cell], &plan.cells[run.cell]))
    }

    fn offloads(&self) -> String {
        self.offloads.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// What tells a cell's path from the plan's other paths; empty when all are one.
fn path_place(plan: &Plan, cell: &Cell) -> At {
    let same: Vec<&Cell> = plan.cells.iter().filter(|other| has_same_path(other, cell)).collect();
    let tells = |name: &str, value: &str| {
        let has = |other: &Cell| other.at.get(name).is_some_and(|other| other == value);
        same.iter().all(|other| has(other)) && !plan.cells.iter().all(has)
    };
    let told = cell.at.iter().filter(|(name, value)| same.len() < plan.cells.len() && tells(name, value));
    told.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// One result directory is of one kernel, one driver and the same objects: anything else would be a mixture.
fn check_same_host(earlier: &HostRecord, now: &HostRecord, results: &ResultDir) -> Result<()> {
    let differs = |what: &str, earlier: &str, now: &str| {
        let place = results.path().display();
        let what = format!("\"{place}\" has runs of {what} {earlier}, and this would add some of {now}");
        Failure::usage(what).hint("choose another directory with `--out DIR`")
    };
    if earlier.kernel != now.kernel {
        return Err(differs("kernel", &earlier.kernel, &now.kernel).into());
    }
    if earlier.network != now.network {
        return Err(differs("network", &earlier.network, &now.network).into());
    }
    if earlier.link != now.link {
        return Err(differs("link driver", &earlier.link, &now.link).into());
    }
    for (name, digest) in &now.algorithms {
        if let Some(other) = earlier.algorithms.get(name).filter(|other| *other != digest) {
            return Err(differs(&format!("\"{name}\" with digest"), other, digest).into());
        }
    }
    Ok(())
}

/// The record of a resumed experiment: what was measured for its earlier runs stays; what was not as asked, on which no
/// run was made, only until it is measured again.
fn joined(mut earlier: HostRecord, now: HostRecord) -> HostRecord {
    let is_again = |old: &Calibration| now.calibration.iter().any(|new| new.quantity == old.quantity);
    earlier.calibration.retain(|old| old.within || !is_again(old));
    earlier.calibration.extend(now.calibration);
    earlier.algorithms.extend(now.algorithms);
    HostRecord { calibration: earlier.calibration, algorithms: earlier.algorithms, ..now }
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

/// What a call ends with that was stopped from outside; who made the call knows how it is resumed.
pub fn interrupted() -> anyhow::Error {
    Failure::again("interrupted; finished runs are kept").into()
}

fn host_record(plan: &Plan, options: &Options<'_>, algorithms: &Algorithms, iperf3: String) -> Result<HostRecord> {
    let kernel = nix::sys::utsname::uname().context("read the kernel's release")?;
    let tools = [("iperf3".to_owned(), iperf3), ("tccc".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    Ok(HostRecord {
        schema: RESULT_SCHEMA,
        engine: Engine::Kernel,
        kernel: kernel.release().to_string_lossy().into_owned(),
        cpus: processors(),
        link: options.network.link_driver().to_owned(),
        network: options.network.name().to_owned(),
        offloads: String::new(), // measured with the paths
        profile: plan.profile.name().to_owned(),
        sysctls: BTreeMap::new(),
        tools: tools.into(),
        algorithms: algorithms.digests(),
        calibration: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(kernel: &str, digest: &str) -> HostRecord {
        let text = format!(
            r#"{{"schema":1,"kernel":"{kernel}","cpus":2,"link":"tunlink","network":"netns","offloads":"off",
            "profile":"paper","sysctls":{{}},"tools":{{}},"algorithms":{{"dtcp":"{digest}"}},"calibration":[{{"quantity":
            "s-r rtt","unit":"us","asked":1.0,"measured":1.0,"allowed":[0.0,2.0],"within":true}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    const TEXT: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"1s\"\nruns=1\nseed=7\n\
                        [sweep]\nalgorithm=[\"reno\",\"cubic\"]\nloss=[\"0%\",\"1%\"]\n\
                        [[link]]\nends=[\"s\",\"r\"]\nloss=\"$loss\"\n\
                        [[flow]]\nname=\"data\"\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"$algorithm\"\n";

    fn plan() -> Plan {
        Plan::new(&Scenario::parse("t.toml", TEXT).unwrap(), &Default::default()).unwrap()
    }

    #[test]
    fn resuming_refuses_another_host_and_keeps_what_was_measured() {
        let place = tempfile::tempdir().unwrap();
        let results = ResultDir::open(place.path(), &plan(), TEXT).unwrap();
        let refusal = |now| check_same_host(&host("6.18", "aa"), &now, &results).unwrap_err().to_string();
        assert!(refusal(host("6.19", "aa")).contains("has runs of kernel 6.18"));
        assert!(refusal(host("6.18", "bb")).contains("\"dtcp\" with digest aa"));
        check_same_host(&host("6.18", "aa"), &host("6.18", "aa"), &results).unwrap();
        assert_eq!(joined(host("6.18", "aa"), host("6.18", "aa")).calibration.len(), 2);
    }

    /// A path that was wrong once was warned of in every report, whatever it was when it was measured again.
    #[test]
    fn path_that_is_measured_again_is_no_longer_what_it_was_when_it_was_wrong() {
        let measured = |quantity: &str, measured: f64, within: bool| {
            let one = host("6.18", "aa").calibration.remove(0);
            Calibration { quantity: quantity.into(), measured, within, ..one }
        };
        let with = |calibration: &[Calibration]| HostRecord { calibration: calibration.to_vec(), ..host("6.18", "aa") };
        let right = measured("s-r rate", 1.5, true);
        let earlier = with(&[measured("s-r rtt", 8.0, false), measured("s-r loss", 9.0, false), right.clone()]);
        let kept = [measured("s-r loss", 9.0, false), right];
        for again in [measured("s-r rtt", 1.0, true), measured("s-r rtt", 7.0, false)] {
            let after = joined(earlier.clone(), with(std::slice::from_ref(&again))).calibration;
            assert_eq!(after, [&kept[..], &[again]].concat());
        }
    }

    #[test]
    fn wrong_path_takes_its_own_cells_away_and_no_others() {
        let plan = plan();
        let lossy = plan.cells.iter().position(|cell| cell.at["loss"] == "1%").unwrap();
        let paths = Paths { wrong: vec![lossy], ..Paths::default() };
        let carried = plan.runs.iter().filter(|run| paths.carry(&plan, run));
        let losses: Vec<&str> = carried.map(|run| plan.cells[run.cell].at["loss"].as_str()).collect();
        assert_eq!(losses, ["0%", "0%"]);
    }

    #[test]
    fn path_is_told_by_what_tells_it_from_others() {
        let plan = plan();
        let places: BTreeSet<At> = plan.cells.iter().map(|cell| path_place(&plan, cell)).collect();
        let loss = |value: &str| At::from([("loss".to_owned(), value.to_owned())]);
        assert_eq!(places, BTreeSet::from([loss("0%"), loss("1%")]));
    }
}
