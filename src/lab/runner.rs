//! Runs a plan on this host's kernel: calibrates, registers algorithms, sends, traces, and writes results. It makes as
//! many runs at once as the host can carry.

mod attempt;
mod gauge;
mod lateness;
mod paths;
mod queue;

use std::time::Duration;

use anyhow::{Result, ensure};

use self::attempt::SharedLab;
use self::gauge::ConcurrencyGauge;
use self::paths::{CachedCalibration, Paths};
use self::queue::Queue;
use crate::algorithms::PreparedAlgorithms;
use crate::calibrate;
use crate::conditions::SocketConditions;
use crate::cost::{self, Jobs, RunLimit};
use crate::emulate::Network;
use crate::follow::Follower;
use crate::machine;
use crate::plan::{Plan, PlannedRun};
use crate::pool::processors;
use crate::record::versions;
use crate::results::{Finished, OpenResultDir};
use crate::schedule;
use crate::traffic::iperf3::iperf3_version;
use crate::work::{Forecast, OpenRun, Progress, RunRequest, WorkOutcome};
use shared::kernel::cgroup::{self, RunCgroup};
use shared::kernel::{btf, privilege};
use shared::model::run::{Calibration, HostRecord};

/// Forecasts the unfinished runs of a part, and the paths that no earlier call measured.
pub fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    let to_do = finished.left(part);
    let has_same_tools =
        |host: &&HostRecord| iperf3_version().is_ok_and(|iperf3| host.tools == versions([("iperf3", iperf3)]));
    let paths = CachedCalibration::of(finished.host.as_ref().filter(has_same_tools)).leaves(plan, &to_do);
    let measuring: Duration = paths.iter().map(|run| cost::calibration_time(&plan.cells[run.cell])).sum();
    let waiting = to_do.iter().map(|run| queue::waiting_run(plan, run)).collect();
    let (runs, at_once) = schedule::time_and_most(waiting, Vec::new(), RunLimit::of(jobs, processors()));
    Forecast {
        paths: paths.len(),
        to_do: to_do.len(),
        finished: part.len() - to_do.len(),
        expected: measuring + runs,
        at_once,
    }
}

/// Checks the host for the needs of every experiment; returns the version of iperf3.
///
/// # Errors
/// Iperf3, a capability, the kernel's type information or cgroup v2 is missing.
pub fn check_host() -> Result<String> {
    let iperf3 = iperf3_version()?;
    privilege::require("run experiments", &privilege::FOR_EXPERIMENT)
        .map_err(|lack| lack.hint("run it as root, or with `--engine virtual`, which needs no rights"))?;
    btf::require()?;
    cgroup::mount_point()?;
    Ok(iperf3)
}

/// Runs the unfinished runs of a plan's part.
///
/// Side effects: the result directory; namespaces, a cgroup, registered algorithms and processes, which all end with
/// the call.
///
/// # Errors
/// Those of [`check_host`]; a kernel feature is missing; the plan has no such part; the directory holds another plan;
/// no path has the values of the scenario; `stop` was set; every run fails.
pub fn run(work: &RunRequest<'_>, network: &dyn Network, tell: &mut dyn FnMut(Progress)) -> Result<WorkOutcome> {
    let iperf3 = check_host()?;
    let OpenRun { results, finished, to_do } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(WorkOutcome::default());
    }
    let cgroup = RunCgroup::create()?;
    let flows = || to_do.iter().flat_map(|run| &plan.cells[run.cell].flows);
    let algorithms = PreparedAlgorithms::prepare(flows(), cgroup.path())?;
    let ssthresh_alone = flows().any(|flow| flow.initial_ssthresh.is_some());
    let mut host = HostRecord {
        link: network.link_driver().to_owned(),
        network: network.name().to_owned(),
        algorithms: algorithms.digests(),
        ..plan.host_record([("iperf3", iperf3)])?
    };
    let Finished { ids: finished, host: earlier } = finished;
    if let Some(earlier) = &earlier {
        check_same_host(earlier, &host, &results)?;
    }
    let same_tools = earlier.as_ref().filter(|earlier| earlier.tools == host.tools);
    let paths = Paths::measure(work, &to_do, network, &CachedCalibration::of(same_tools), tell)?;
    let outside = calibrate::outside(&paths.calibration);
    let (to_do, left_out): (Vec<_>, Vec<_>) = to_do.into_iter().partition(|run| paths.carry(plan, run));
    if !to_do.is_empty() || earlier.is_none() {
        let offloads = paths.offloads.into_iter().collect::<Vec<_>>().join("; ");
        host = HostRecord { offloads, sysctls: paths.sysctls, calibration: paths.calibration, ..host };
        results.write_host(&earlier.map_or(host.clone(), |earlier| joined(earlier, host)))?;
    }
    match &outside {
        Some(failure) if to_do.is_empty() => return Err(failure.clone().into()),
        Some(failure) => tell(Progress::LeftOut { runs: left_out.len(), why: failure.what.clone() }),
        None => {}
    }
    let notices = paths.notices.into_iter().collect();
    let lab = SharedLab {
        plan,
        results: &results,
        cgroup: &cgroup,
        algorithms: &algorithms,
        conditions: &SocketConditions::attach(&cgroup, ssthresh_alone)?,
        follower: &Follower::start(plan.sample)?,
        network,
        gauge: &ConcurrencyGauge::default(),
        stop: work.stop,
    };
    let mut queue = Queue::new(plan, to_do, RunLimit::of(work.jobs, processors()), finished.len());
    std::thread::scope(|scope| queue.carry_out(scope, &lab, tell))?;
    Ok(WorkOutcome { outside, notices, ..queue.outcome })
}

/// Refuses to mix kernels, link drivers or objects of algorithms in one result directory.
fn check_same_host(earlier: &HostRecord, now: &HostRecord, results: &OpenResultDir) -> Result<()> {
    ensure!(earlier.kernel == now.kernel, results.refuse_host("kernel", &earlier.kernel, &now.kernel));
    ensure!(earlier.network == now.network, results.refuse_mixture("network", &earlier.network, &now.network));
    ensure!(earlier.link == now.link, results.refuse_mixture("link driver", &earlier.link, &now.link));
    results.check_same_algorithms(earlier, now)
}

/// The record of a resumed experiment. Earlier measurements stay, but a new measurement replaces one that was outside
/// its tolerance, because no run used that path.
fn joined(mut earlier: HostRecord, now: HostRecord) -> HostRecord {
    if earlier.tools != now.tools {
        earlier.calibration.iter_mut().for_each(|old| old.boot = None); // new tools measure again
    }
    let is_again = |old: &Calibration| now.calibration.iter().any(|new| new.quantity == old.quantity);
    earlier.calibration.retain(|old| old.within || !is_again(old));
    earlier.calibration.extend(now.calibration);
    earlier.algorithms.extend(now.algorithms);
    machine::add(&mut earlier.machines, now.machines);
    let HostRecord { calibration, algorithms, machines, .. } = earlier;
    HostRecord { calibration, algorithms, machines, ..now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{TEXT, planned};
    use shared::failure::{Failure, FailureKind};

    fn host(kernel: &str, digest: &str) -> HostRecord {
        let text = format!(
            r#"{{"schema":1,"kernel":"{kernel}","cpus":2,"link":"tunlink","network":"netns","offloads":"off",
            "profile":"paper","sysctls":{{}},"tools":{{}},"algorithms":{{"dtcp":"{digest}"}},"calibration":[{{"quantity":
            "s-r rtt","unit":"us","asked":1.0,"measured":1.0,"allowed":[0.0,2.0],"within":true}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn resuming_refuses_another_host_and_keeps_what_was_measured() {
        let place = tempfile::tempdir().unwrap();
        let results = OpenResultDir::open(place.path(), &planned(&Default::default()).unwrap(), TEXT).unwrap();
        for (now, what, kind) in [
            (host("6.19", "aa"), "has runs of kernel 6.18", FailureKind::Unmet), // another node has that kernel
            (host("6.18", "bb"), "\"dtcp\" with digest aa", FailureKind::Usage), // every node has this program
        ] {
            let error = check_same_host(&host("6.18", "aa"), &now, &results).unwrap_err();
            let failure = error.downcast::<Failure>().unwrap();
            assert!(failure.what.contains(what) && failure.kind == kind, "{failure}");
        }
        check_same_host(&host("6.18", "aa"), &host("6.18", "aa"), &results).unwrap();
        assert_eq!(joined(host("6.18", "aa"), host("6.18", "aa")).calibration.len(), 2);
    }

    /// Reports once warned forever about a path whose first measurement was outside its tolerance.
    #[test]
    fn new_measurement_of_a_wrong_path_replaces_the_old_one() {
        let measured = |quantity: &str, measured: f64, within: bool| {
            let one = host("6.18", "aa").calibration.remove(0);
            Calibration { quantity: quantity.into(), measured, within, ..one }
        };
        let with = |calibration: &[Calibration]| HostRecord { calibration: calibration.to_vec(), ..host("6.18", "aa") };
        let kept = [measured("s-r loss", 9.0, false), measured("s-r rate", 1.5, true)];
        let earlier = with(&[&[measured("s-r rtt", 8.0, false)], &kept[..]].concat());
        for again in [measured("s-r rtt", 1.0, true), measured("s-r rtt", 7.0, false)] {
            let after = joined(earlier.clone(), with(std::slice::from_ref(&again))).calibration;
            assert_eq!(after, [&kept[..], &[again]].concat());
        }
    }
}
