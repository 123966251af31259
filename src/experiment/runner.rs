//! A plan carried out: calibrate, register, trace, send, measure, keep; as many runs at once as the host carries.

mod attempt;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::experiment::algorithms::Algorithms;
use crate::experiment::calibrate;
use crate::experiment::conditions::Conditions;
use crate::experiment::cost::{self, Jobs, Limit};
use crate::experiment::follow::Follower;
use crate::experiment::net::Network;
use crate::experiment::net::layout::Layout;
use crate::experiment::plan::{Plan, PlannedRun, mix};
use crate::experiment::results::ResultDir;
use crate::experiment::scenario::{Cell, Scenario};
use crate::experiment::traffic::iperf3_version;
use crate::failure::Failure;
use crate::kernel::cgroup::RunCgroup;
use crate::model::run::{Calibration, HostRecord, RESULT_SCHEMA, RunStatus};

use attempt::{Attempt, Bench};

/// Attempts at a run whose link was late or whose traffic failed.
pub const ATTEMPTS: u32 = 3;
/// How often the scheduler looks up when no run ends.
const LOOK_UP: Duration = Duration::from_millis(100);

/// How a plan is carried out.
pub struct Options<'a> {
    /// Result directory.
    pub out: PathBuf,
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
    /// The path of a cell is being measured.
    Calibrating(String),
    /// The runs begin: how many are to be made, and how many were finished before.
    Begins {
        /// Runs to make.
        to_do: usize,
        /// Runs that an earlier call finished.
        finished: usize,
        /// How long they are expected to take.
        expected: Duration,
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

/// What is left to say at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs finished by this call.
    pub finished: usize,
    /// Runs whose link was late at every attempt.
    pub late: Vec<String>,
    /// Runs that failed at every attempt, with the reason.
    pub failed: Vec<(String, String)>,
    /// What a reader of the results has to know: settings that this kernel lacks, links that are not at their best.
    pub notices: Vec<String>,
}

/// Carries out what is left of a plan.
///
/// Errors: iperf3, root or a kernel feature is missing; the directory holds another plan; the path is not what the
/// scenario asks; `stop` was set; every run fails.
/// Side effects: namespaces, a cgroup, registered algorithms and processes, none of which outlive the call; the result
/// directory.
pub fn run(scenario: &Scenario, plan: &Plan, options: &Options<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let iperf3 = iperf3_version()?;
    require_root()?;
    let results = ResultDir::open(&options.out, plan, &scenario.text)?;
    let finished = results.finished()?;
    let to_do: Vec<&PlannedRun> = plan.runs.iter().filter(|run| !finished.contains(&run.id)).collect();
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
    if outside.is_none() || earlier.is_none() {
        host =
            HostRecord { offloads: paths.offloads(), sysctls: paths.sysctls, calibration: paths.calibration, ..host };
        results.write_host(&earlier.map_or(host.clone(), |earlier| joined(earlier, host)))?;
    }
    if let Some(failure) = outside {
        return Err(failure.into());
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
        stop: options.stop,
    };
    let limit = Limit::of(options.jobs, processors());
    let costs =
        to_do.iter().map(|run| (cost::traffic_bps(&plan.cells[run.cell]), cost::run_time(&plan.cells[run.cell])));
    let expected = cost::total_time(costs, limit);
    tell(Progress::Begins { to_do: to_do.len(), finished: finished.len(), expected });
    let mut schedule = Schedule::new(to_do, limit, finished.len());
    let ended = std::thread::scope(|scope| schedule.carry_out(scope, &bench, tell));
    ended?;
    Ok(Outcome { notices, ..schedule.outcome })
}

fn require_root() -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let unmet = Failure::unmet("cannot run experiments: namespaces, cgroups and BPF programs need root");
    Err(unmet.hint("run it with `sudo`; `--dry-run` shows the plan without").into())
}

/// Processors this process may use.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Measures every distinct path once, while nothing else goes on.
fn calibrate_paths(
    plan: &Plan,
    to_do: &[&PlannedRun],
    options: &Options<'_>,
    tell: &mut dyn FnMut(Progress),
) -> Result<Paths> {
    let mut paths = Paths::default();
    let mut seen: Vec<&Cell> = Vec::new();
    for run in to_do {
        let cell = &plan.cells[run.cell];
        if seen.iter().any(|other| has_same_path(other, cell)) {
            continue;
        }
        seen.push(cell);
        if options.stop.load(Ordering::Relaxed) {
            return Err(interrupted(options));
        }
        tell(Progress::Calibrating(place(cell)));
        let topology = options.network.build(&Layout::new(cell, &plan.link_configs(run), plan.profile))?;
        paths
            .notices
            .extend(topology.lacking.iter().map(|name| format!("this kernel has no {name}, which the profile sets")));
        paths.notices.extend(topology.links.iter().flat_map(|link| link.notices()));
        let seed = mix(plan.seed, seen.len() as u64);
        paths.offloads.insert(topology.offloads()?);
        paths.sysctls = topology.settings_in_force()?;
        paths.calibration.extend(calibrate::calibrate(cell, &topology, seed, &path_place(plan, cell))?);
    }
    Ok(paths)
}

/// What the empty paths showed.
#[derive(Debug, Default)]
struct Paths {
    calibration: Vec<Calibration>,
    offloads: BTreeSet<String>,
    sysctls: BTreeMap<String, String>,
    notices: BTreeSet<String>,
}

impl Paths {
    fn offloads(&self) -> String {
        self.offloads.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// What tells a cell's path from the plan's other paths: `loss = 1%`; empty when all are one.
fn path_place(plan: &Plan, cell: &Cell) -> String {
    let same: Vec<&Cell> = plan.cells.iter().filter(|other| has_same_path(other, cell)).collect();
    let tells = |name: &str, value: &str| {
        let has = |other: &Cell| other.at.get(name).is_some_and(|other| other == value);
        same.iter().all(|other| has(other)) && !plan.cells.iter().all(has)
    };
    let told = cell.at.iter().filter(|(name, value)| same.len() < plan.cells.len() && tells(name, value));
    told.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
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

/// The record of a resumed experiment: what was measured for its earlier runs stays.
fn joined(mut earlier: HostRecord, now: HostRecord) -> HostRecord {
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

fn interrupted(options: &Options<'_>) -> anyhow::Error {
    let failure = Failure::failed("interrupted; finished runs are kept");
    failure.hint(format!("`tccc run` with `--out {}` resumes it", options.out.display())).into()
}

fn host_record(plan: &Plan, options: &Options<'_>, algorithms: &Algorithms, iperf3: String) -> Result<HostRecord> {
    let kernel = nix::sys::utsname::uname().context("read the kernel's release")?;
    let tools = [("iperf3".to_owned(), iperf3), ("tccc".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    Ok(HostRecord {
        schema: RESULT_SCHEMA,
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

/// A run that waits for its turn.
#[derive(Debug, Clone, Copy)]
struct Waiting<'a> {
    run: &'a PlannedRun,
    /// Attempts that came to nothing.
    tried: u32,
    /// Those of them whose link was late.
    late: u32,
}

/// Which runs wait, which go on, and what came of the others.
struct Schedule<'a> {
    waiting: VecDeque<Waiting<'a>>,
    going: u32,
    traffic_bps: f64,
    limit: Limit,
    /// Runs that an earlier call finished.
    before: usize,
    outcome: Outcome,
}

/// What a run's thread reports.
struct Report<'a> {
    waiting: Waiting<'a>,
    result: Result<Attempt>,
}

impl<'a> Schedule<'a> {
    fn new(to_do: Vec<&'a PlannedRun>, limit: Limit, before: usize) -> Self {
        let waiting = to_do.into_iter().map(|run| Waiting { run, tried: 0, late: 0 }).collect();
        Schedule { waiting, going: 0, traffic_bps: 0.0, limit, before, outcome: Outcome::default() }
    }

    /// Starts runs as they fit and takes in their results, until none is left.
    fn carry_out<'scope, 'env>(
        &mut self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        bench: &'env Bench<'env>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()>
    where
        'a: 'scope,
    {
        let (sender, reports): (Sender<Report<'a>>, Receiver<Report<'a>>) = mpsc::channel();
        loop {
            let stopping = bench.stop.load(Ordering::Relaxed);
            while !stopping && let Some(next) = self.next_to_start(bench) {
                let (sender, jobs) = (sender.clone(), self.going);
                scope.spawn(move || {
                    let result = bench.attempt(next.run, next.tried, next.late, jobs);
                    let _ = sender.send(Report { waiting: next, result }); // nobody listens after an error
                });
            }
            if self.going == 0 {
                let interrupted = || Failure::failed("interrupted; finished runs are kept");
                let hint = || format!("`tccc run` with `--out {}` resumes it", bench.results.path().display());
                return if stopping { Err(interrupted().hint(hint()).into()) } else { Ok(()) };
            }
            if let Ok(report) = reports.recv_timeout(LOOK_UP) {
                self.take_in(report, bench, tell)?;
            }
        }
    }

    /// The first run that waits, if it fits beside those that go on.
    fn next_to_start(&mut self, bench: &Bench<'_>) -> Option<Waiting<'a>> {
        let cost = cost::traffic_bps(&bench.plan.cells[self.waiting.front()?.run.cell]);
        if !self.limit.allows(self.going, self.traffic_bps, cost) {
            return None;
        }
        self.going += 1;
        self.traffic_bps += cost;
        self.waiting.pop_front()
    }

    fn take_in(&mut self, report: Report<'a>, bench: &Bench<'_>, tell: &mut dyn FnMut(Progress)) -> Result<()> {
        let Report { mut waiting, result } = report;
        let (going, traffic_bps) = (self.going, self.traffic_bps);
        self.going -= 1;
        self.traffic_bps -= cost::traffic_bps(&bench.plan.cells[waiting.run.cell]);
        if bench.stop.load(Ordering::Relaxed) && result.as_ref().map_or(true, |attempt| attempt.why.is_some()) {
            return Ok(()); // stopped in the middle, so it says nothing
        }
        let attempt = result.with_context(|| format!("make the run {}", waiting.run.id))?;
        let Some(why) = attempt.why else {
            self.outcome.finished += 1;
            tell(Progress::Finished(waiting.run.id.clone()));
            return Ok(());
        };
        waiting.tried += 1;
        let last = waiting.tried >= ATTEMPTS;
        tell(Progress::Again { id: waiting.run.id.clone(), attempt: waiting.tried, why: why.clone(), last });
        if attempt.status == RunStatus::Late {
            waiting.late += 1;
            self.limit = self.limit.halved(going, traffic_bps);
        }
        match (last, attempt.status) {
            (false, _) => self.waiting.push_back(waiting),
            (true, RunStatus::Late) => self.outcome.late.push(waiting.run.id.clone()),
            (true, _) => self.outcome.failed.push((waiting.run.id.clone(), why.clone())),
        }
        if self.before + self.outcome.finished == 0 && !self.outcome.failed.is_empty() {
            // It is not this run: nothing works.
            bench.stop.store(true, Ordering::Relaxed);
            return Err(Failure::failed(format!("no run works: {why}")).into());
        }
        Ok(())
    }
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

    #[test]
    fn path_is_told_by_what_tells_it_from_others() {
        let plan = plan();
        let places: BTreeSet<String> = plan.cells.iter().map(|cell| path_place(&plan, cell)).collect();
        assert_eq!(places, BTreeSet::from(["loss = 0%".to_owned(), "loss = 1%".to_owned()]));
    }
}
