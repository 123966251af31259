//! Experiments end to end on this kernel: measured, interrupted, resumed, refused.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use tccc::emulate::{Link, LinkEnd};
use tccc::kernel::cgroup;
use tccc::lab::cost::Jobs;
use tccc::lab::part::RunSelection;
use tccc::lab::runner;
use tccc::lab::work::RunRequest;
use tccc::model::run::RunStatus;
use tccc::trace::event::EventKind;
use tccc::units::BitsPerSec;

use super::*;
use crate::common::CommandOutput;
use crate::common::experiment::{
    LIMITS, OVERLOADED, TEN_A_ROUND_TRIP, TINY, assert_limits, assert_ten_a_round_trip, late_connection, place,
};

/// Attempts at a run that other work on this host may delay.
pub const ATTEMPTS: u32 = 2;

/// Runs a scenario to its end.
///
/// None: other work keeps this host too busy.
fn measured(scenario: &Path, out: &Path) -> Option<CommandOutput> {
    quiet_attempt(ATTEMPTS, || run_command(scenario, out).output().unwrap())
}

/// Runs the text of a scenario; returns the records of its runs.
///
/// None: other work keeps this host too busy.
fn measured_records(scenario: &str) -> Option<Vec<RunRecord>> {
    let (_place, file, out) = place();
    fs::write(&file, scenario).unwrap();
    measured(&file, &out)?;
    Some(done(&out))
}

/// Records of the completed runs, sorted by id.
pub fn done(out: &Path) -> Vec<RunRecord> {
    let records = finished(out).into_iter().map(|(_, bytes)| serde_json::from_slice::<RunRecord>(&bytes).unwrap());
    records.filter(|record| record.status == RunStatus::Done).collect()
}

pub fn events(out: &Path, record: &RunRecord) -> Vec<Event> {
    let text = fs::read_to_string(out.join("runs").join(&record.id).join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn own_sender_sends_as_in_virtual_time() {
    needs!(root, struct_ops, cgroup2);
    let Some(records) = measured_records(TEN_A_ROUND_TRIP) else { return };
    let flow = &records[0].flows[0];
    assert_ten_a_round_trip(flow.received_bytes, flow.mss_bytes.into());
    let others = records[0].others_share;
    assert!(
        others.is_some_and(|share| (0.0..=1.0).contains(&share)),
        "the processor time of others is not recorded: {others:?}"
    );
}

/// iperf3 would start to count after the handshake.
#[test]
fn own_sender_starts_to_count_before_the_handshake() {
    needs!(root, struct_ops, cgroup2);
    let Some(records) = measured_records(&late_connection("tccc")) else { return };
    let flow = &records[0].flows[0];
    assert!(flow.begin_s.unwrap() < 0.5, "{flow:?}");
    assert!((4.5e6..5.8e6).contains(&flow.goodput_bps), "two of three seconds at 8 Mbit/s: {flow:?}");
    let packets = flow.goodput_bps * 3.0 / 8.0 / f64::from(flow.mss_bytes);
    assert!((flow.delivered_pkts as f64 / packets - 1.0).abs() < 0.05, "{flow:?}");
}

/// Only virtual time recorded them.
#[test]
fn limits_of_flows_are_recorded_as_in_virtual_time() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let (_place, file, out) = place();
    fs::write(&file, LIMITS).unwrap();
    let Some(report) = measured(&file, &out) else { return };
    assert_limits(&serde_json::from_slice(&finished(&out)[0].1).unwrap(), 0.0);
    report.stdout_has("flow \"receiver\" waited for the receive window for up to ");
}

#[test]
fn scenario_runs_from_file_to_table_under_its_conditions() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["tccc_ss"]);
    let (_place, scenario, out) = place();
    let Some(output) = measured(&scenario, &out) else { return };
    output.stdout_has("discrete").stdout_has("results: ");
    let records = done(&out);
    assert_eq!(records.len(), 6);
    for record in &records {
        let flow = &record.flows[0];
        // 2 s at 8 Mbit/s carry 1298 packets of 1540 bytes.
        assert!((200..1320).contains(&flow.delivered_pkts), "{flow:?}");
        assert!(flow.goodput_bps < 8e6 && flow.goodput_bps > 1e6, "{flow:?}");
        assert_eq!(flow.mss_bytes, 1500, "1500-byte packets with 40 header bytes");
        assert_eq!(flow.variant, record.at["variant"]);
        let events = events(&out, record);
        assert_eq!((events[0].kind, events.last().unwrap().kind), (EventKind::Open, EventKind::Close));
        // iperf3 chooses the algorithm after the handshake.
        let own = |event: &&Event| Some(event.socket) == flow.socket && event.algorithm == flow.algorithm;
        let strange = events[1..].iter().find(|event| !own(event));
        assert_eq!(strange, None, "{flow:?}");
        // The open event precedes the scenario's limits on the window.
        let (first, most) = (&events[1], events.iter().map(|event| event.cwnd_pkts).max().unwrap());
        match flow.variant.as_str() {
            "open" => assert!(first.ssthresh_pkts == Some(9) && most > 12, "{first:?}, at most {most}"),
            _ => assert!(first.ssthresh_pkts == Some(12) && most <= 12, "{first:?}, at most {most}"),
        }
        assert_eq!(events.iter().find(|event| event.delivered_pkts == 2).unwrap().cwnd_pkts, 2);
        assert_eq!(record.links.len(), 2);
        assert!(record.links[1].counters[0].lost_pkts > 0, "{record:?}");
    }
}

#[test]
fn killed_experiment_leaves_nothing_and_resumes_without_repeating() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["tccc_ss"]);
    let (_place, scenario, out) = place();
    let part = ["--jobs", "2", "--only", "variant=capped", "--runs", "3"];
    let mut child = begin_quietly(run_command(&scenario, &out).args(part));
    poll_until(Duration::from_secs(90), "the first run is finished", || !finished(&out).is_empty());
    // Any later moment: another run is set up, sends, or is torn down.
    let moment = Duration::from_millis(u64::from(SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_millis()) * 3);
    println!("killed {moment:?} after the first run");
    let (reached, began) = (finished(&out).len(), Instant::now());
    let ended = &mut || finished(&out).len() >= reached + 2 || child.try_wait().unwrap().is_some();
    poll_until(Duration::from_secs(90), "the moment has come", || began.elapsed() >= moment || ended());
    kill_with_descendants(&mut child);
    let kept = finished(&out);
    let run_part = |options: &[&str]| {
        quiet_attempt(ATTEMPTS, || run_command(&scenario, &out).args(options).output().unwrap()).is_some()
    };
    if !run_part(&part) {
        return;
    }
    let after = finished(&out);
    assert!(kept.iter().all(|one| after.contains(one)), "a finished run was repeated");
    assert_eq!(done(&out).len(), 3);
    // The same directory accepts another part of the plan with fewer repeats.
    if !run_part(&["--only", "variant=open", "--runs", "1"]) {
        return;
    }
    assert!(after.iter().all(|one| finished(&out).contains(one)));
    assert_eq!(done(&out).iter().filter(|run| run.at["variant"] == "open").count(), 1);
    assert_eq!(unfinished(&out), Vec::<String>::new());
    assert_eq!(cgroup::stale().unwrap(), Vec::<PathBuf>::new(), "the next run removes the cgroups of the killed one");
}

#[test]
fn interrupted_experiment_explains_how_to_resume() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let (_place, scenario, out) = place();
    let child = begin(run_command(&scenario, &out).args(["--jobs", "1", "--only", "variant=capped"]));
    poll_until(Duration::from_secs(60), "a run began", || {
        fs::read_dir(out.join("runs")).is_ok_and(|mut folders| folders.next().is_some())
    });
    signal(child.id(), Signal::SIGINT);
    end(5, child).stderr_has("interrupted; finished runs are kept").stderr_has("resumes it");
}

/// A dumbbell with bulk flows, transfers on new connections and on one connection, and datagrams in the other direction.
const MIXED: &str = include_str!("../fixtures/scenarios/mixed.toml");

#[test]
fn dumbbell_carries_bulk_flows_transfers_and_datagrams_side_by_side() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["mixed"]);
    let (_place, scenario, out) = place();
    fs::write(&scenario, MIXED).unwrap();
    let Some(output) = measured(&scenario, &out) else { return };
    output.stdout_has("flow completion time");
    let record = &done(&out)[0];
    let names: Vec<&str> = record.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["bulk-1", "bulk-2", "short", "pages", "cbr"]);
    let [bulk, _, short, pages, cbr] = &record.flows[..] else { panic!("five flows") };
    assert!(!bulk.tcp_sack && short.tcp_sack && bulk.received_bytes > 100_000, "{bulk:?}");
    let packets = bulk.received_bytes as f64 / f64::from(bulk.mss_bytes);
    assert!((bulk.delivered_pkts as f64) < 1.05 * packets, "without SACK, acknowledged bytes count: {bulk:?}");
    assert_eq!(short.completions.len(), 8);
    // 20 kB over a round trip of 14 ms take 14 packets: at least two round trips with the SYN's.
    let quickest = short.completions.iter().map(|one| one.took_s).fold(f64::INFINITY, f64::min);
    assert!((0.020..1.5).contains(&quickest), "{:?}", short.completions);
    let done = short.completions.iter().filter(|one| one.done).count() as u64;
    assert!(done >= 4 && short.received_bytes >= 20_000 * done, "{short:?}");
    let starts: Vec<f64> = pages.completions.iter().map(|one| one.start_s).collect();
    assert!(starts.iter().zip([0.0, 0.6, 1.2, 1.8]).all(|(start, due)| *start >= due - 0.001), "{starts:?}");
    let done = pages.completions.iter().filter(|one| one.done).count() as u64;
    assert!(pages.socket.is_some() && done >= 1 && pages.received_bytes >= 20_000 * done, "{pages:?}");
    assert!(cbr.datagrams && cbr.algorithm == "udp" && cbr.mss_bytes == 500, "{cbr:?}");
    // 400 kbit/s in packets of 500 bytes for 2 s are 200; a host that stalls sends them later, never more.
    assert!((150..=200).contains(&(cbr.delivered_pkts + cbr.lost_pkts)), "{cbr:?}");
}

/// Datagrams in the queue at the end were once counted, and copies hid losses. The calibration failed because delayed
/// packets were taken for lost.
#[test]
fn datagrams_count_once_and_only_while_their_flow_lasts() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let Some(records) = measured_records(OVERLOADED) else { return };
    let cbr = records[0].flows.iter().find(|flow| flow.datagrams).unwrap();
    // 1 Mbit/s carries 750 packets of 500 bytes in 3 s, a fifth of them copies; 1500 were sent.
    assert!((400..=750).contains(&cbr.delivered_pkts), "{cbr:?}");
    // Up to 200 more arrived after the end. The others were dropped by the full queue, copies twice.
    assert!((450..=1000).contains(&cbr.lost_pkts) && cbr.delivered_pkts + cbr.lost_pkts < 1500, "{cbr:?}");
}

#[test]
fn runs_of_one_repeat_have_the_same_losses() {
    needs!(root);
    let scenario = Scenario::parse("tiny.toml", TINY).unwrap();
    let plan = Plan::new(&scenario, &Choices::default()).unwrap();
    let losses = |variant: &str, repeat: u32| {
        let of =
            |run: &&tccc::lab::plan::PlannedRun| run.repeat == repeat && plan.cells[run.cell].at["variant"] == variant;
        let run = plan.runs.iter().find(of).unwrap();
        let topology = Namespaces::new(Box::new(TunLink)).build(&plan.layout(run)).unwrap();
        numbers_that_arrive(&topology, ["a", "c"], 600).unwrap()
    };
    let first = losses("capped", 0);
    assert!(first.len() < 600, "a loss of 0.5 % takes some of 600 packets");
    assert_eq!(first, losses("discrete", 0), "the variants of a repeat are paired");
    assert_ne!(first, losses("capped", 1), "another repeat has other losses");
}

struct HalfRate;

impl LinkDriver for HalfRate {
    fn name(&self) -> &'static str {
        "half"
    }

    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
        let mut config = config.clone();
        for direction in &mut config.directions {
            direction.rate = direction.rate.map(|rate| BitsPerSec(rate.0 / 2));
        }
        TunLink.connect(&config, ends)
    }
}

#[test]
fn path_that_misses_its_configuration_stops_the_experiment_with_the_measurement() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let (_place, _, out) = place();
    let scenario = Scenario::parse("tiny.toml", TINY).unwrap();
    let plan = Plan::new(&scenario, &Choices::default()).unwrap();
    let stop = AtomicBool::new(false);
    let (part, jobs) = (&RunSelection::default(), Jobs::Auto);
    let work = RunRequest { scenario: &scenario, plan: &plan, part, out: out.clone(), jobs, stop: &stop };
    let error = runner::run(&work, &Namespaces::new(Box::new(HalfRate)), &mut |_| {}).unwrap_err();
    let failure = error.downcast_ref::<Failure>().expect("a failure with its kind");
    assert_eq!(failure.kind, FailureKind::Outside);
    // Half of the configured rate, or up to a thousandth less.
    let is_half = ["a-c rate measured 4", "a-c rate measured 3.9"].iter().any(|half| failure.what.contains(half));
    assert!(is_half && failure.what.contains("requested 8mbit"), "{}", failure.what);
    assert!(finished(&out).is_empty());
    let host = fs::read_to_string(out.join("host.json")).unwrap();
    assert!(host.contains("\"within\": false"), "the measurement is recorded: {host}");
}

/// Both once ended with 1, so that a cluster did not try another node.
#[test]
fn host_without_types_or_settings_is_one_that_lacks_a_requirement() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["tccc_ss"]);
    let without = |steps: &str, expected: &str| {
        let (_place, file, out) = place();
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{steps} && exec \"$0\" run \"$1\" --out \"$2\"")]);
        check(4, command.arg(tccc().get_program()).arg(file).arg(out)).stderr_has(expected).stderr_has("\n  hint: ");
    };
    without("mount -t tmpfs none /sys/kernel/btf", "this kernel provides no type information: /sys/kernel/btf/vmlinux");
    let read_only = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys";
    without(read_only, "in a network namespace: /proc/sys is mounted read-only");
}
