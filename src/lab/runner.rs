//! A plan run on this kernel: calibrate, register, trace, send, measure, keep; as many runs at once as the host carries.

mod attempt;
mod lateness;
mod paths;
mod patience;
mod queue;
mod together;

use std::time::Duration;

use anyhow::{Result, ensure};

use self::attempt::Bench;
use self::paths::{Earlier, Paths};
use self::queue::Queue;
use self::together::Together;
use crate::emulate::Network;
use crate::kernel::cgroup::{self, RunCgroup};
use crate::kernel::privilege;
use crate::lab::algorithms::Algorithms;
use crate::lab::calibrate;
use crate::lab::conditions::Conditions;
use crate::lab::cost::{self, Jobs, RunLimit};
use crate::lab::follow::Follower;
use crate::lab::machine;
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::pool::processors;
use crate::lab::record::versions;
use crate::lab::results::{Finished, OpenResultDir};
use crate::lab::schedule;
use crate::lab::traffic::bulk::iperf3_version;
use crate::lab::work::{Begun, Forecast, Outcome, Progress, Work};
use crate::model::run::{Calibration, HostRecord};

/// What is left of a part when these runs are finished. A path that their call measured is not measured again.
pub(crate) fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    let to_do = finished.left(part);
    let has_same_tools =
        |host: &&HostRecord| iperf3_version().is_ok_and(|iperf3| host.tools == versions([("iperf3", iperf3)]));
    let paths = Earlier::of(finished.host.as_ref().filter(has_same_tools)).leaves(plan, &to_do);
    let measuring: Duration = paths.iter().map(|run| cost::calibration_time(&plan.cells[run.cell])).sum();
    let wanted = to_do.iter().map(|run| queue::wanted(plan, run)).collect();
    let (runs, at_once) = schedule::time_and_most(wanted, Vec::new(), RunLimit::of(jobs, processors()));
    Forecast {
        paths: paths.len(),
        to_do: to_do.len(),
        finished: part.len() - to_do.len(),
        expected: measuring + runs,
        at_once,
    }
}

/// Checks what every experiment needs of this host, whatever its scenario, and returns the version of iperf3.
///
/// Errors: iperf3, a capability or cgroup v2 is missing.
pub(crate) fn check_host() -> Result<String> {
    let iperf3 = iperf3_version()?;
    privilege::require("run experiments", &privilege::FOR_EXPERIMENT)?;
    cgroup::mount_point()?;
    Ok(iperf3)
}

/// Runs what is left of a plan.
///
/// Errors: those of [`check_host`]; a kernel feature is missing; the plan has no such part; the directory holds another
/// plan; no path is what the scenario asks; `stop` was set; every run fails.
/// Side effects: namespaces, a cgroup, registered algorithms and processes, none of which outlive the call; the result
/// directory.
pub fn run(work: &Work<'_>, network: &dyn Network, tell: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let iperf3 = check_host()?;
    let Begun { results, finished, to_do } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(Outcome::default());
    }
    let cgroup = RunCgroup::create()?;
    let flows = || to_do.iter().flat_map(|run| &plan.cells[run.cell].flows);
    let algorithms = Algorithms::prepare(flows(), cgroup.path())?;
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
    let paths = Paths::measure(work, &to_do, network, &Earlier::of(same_tools), tell)?;
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
        network,
        together: &Together::default(),
        stop: work.stop,
    };
    let mut queue = Queue::new(plan, to_do, RunLimit::of(work.jobs, processors()), finished.len());
    std::thread::scope(|scope| queue.carry_out(scope, &bench, tell))?;
    Ok(Outcome { outside, notices, ..queue.outcome })
}

/// One result directory is of one kernel, one driver and the same objects: anything else would be a mixture.
fn check_same_host(earlier: &HostRecord, now: &HostRecord, results: &OpenResultDir) -> Result<()> {
    ensure!(earlier.kernel == now.kernel, results.refuse_host("kernel", &earlier.kernel, &now.kernel));
    ensure!(earlier.network == now.network, results.refuse_mixture("network", &earlier.network, &now.network));
    ensure!(earlier.link == now.link, results.refuse_mixture("link driver", &earlier.link, &now.link));
    results.check_same_algorithms(earlier, now)
}

/// The record of a resumed experiment: what was measured for its earlier runs stays; what was not as asked, on which no
/// run was made, only until it is measured again.
fn joined(mut earlier: HostRecord, now: HostRecord) -> HostRecord {
    if earlier.tools != now.tools {
        earlier.calibration.iter_mut().for_each(|old| old.boot = None); // the new tools measure anew
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
    use crate::failure::{Failure, FailureKind};
    use crate::lab::plan::tests::{TEXT, planned};

    fn host(kernel: &str, digest: &str) -> HostRecord {
        let text = format!(
            r#"{{"schema":1,"kernel":"{kernel}","cpus":2,"link":"tunlink","network":"netns","offloads":"off",
            "profile":"paper","sysctls":{{}},"tools":{{}},"algorithms":{{"dtcp":"{digest}"}},"calibration":[{{"quantity":
            "s-r rtt","unit":"us","asked":1.0,"measured":1.0,"allowed":[0.0,2.0],"within":true}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn plan() -> Plan {
        planned(&Default::default()).unwrap()
    }

    #[test]
    fn resuming_refuses_another_host_and_keeps_what_was_measured() {
        let place = tempfile::tempdir().unwrap();
        let results = OpenResultDir::open(place.path(), &plan(), TEXT).unwrap();
        let refusal = |now| {
            let error = check_same_host(&host("6.18", "aa"), &now, &results).unwrap_err();
            error.downcast::<Failure>().unwrap()
        };
        let kernel = refusal(host("6.19", "aa"));
        assert!(kernel.what.contains("has runs of kernel 6.18"));
        assert_eq!(kernel.kind, FailureKind::Unmet, "another node has that kernel");
        let object = refusal(host("6.18", "bb"));
        assert!(object.what.contains("\"dtcp\" with digest aa"));
        assert_eq!(object.kind, FailureKind::Usage, "every node has this program");
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
}
