//! `tccc guard --stand-by` cleans up after dead guards.

use super::*;
use crate::common::begin;

/// Shorter than the usual lease, to save time.
const LEASE: Duration = Duration::from_secs(6);
const WATCHDOG: Duration = Duration::from_secs(4);

#[test]
fn stand_by_ends_trials_of_dead_guards_when_their_time_is_over() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let manager = Manager::new();
    let mut command = tccc();
    command.args(["guard", "--stand-by"]);
    manager.manage(&mut command, Some(WATCHDOG));
    let stand_by = begin(&mut command);
    assert_eq!(manager.next(SOON).unwrap().lines().collect::<Vec<_>>(), ["READY=1", "STATUS=standing by"]);
    assert_eq!(manager.next(WATCHDOG).as_deref().map(str::trim), Some("WATCHDOG=1"));

    lab.apply_before();
    lab.try_policy("1m");
    // They once were called "exe".
    let comm = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!([guard(), stand_by.id()].map(comm), ["tccc-guard\n"; 2]);
    run(0, "status").stdout_has(format!("\n  its guard is pid {}\n", guard()));
    shorten_lease(LEASE);
    end_guard(Signal::SIGKILL);
    assert_eq!(lab.given(), TRIED, "the lease is not over");
    // The end is recorded after the policy is reverted.
    let interrupted = ("interrupted".to_owned(), "its guard died, and the lease expired".to_owned());
    poll_until(LEASE + SOON, "the trial is cleaned up", || on_trial().is_null() && last_trial() == interrupted);
    assert_eq!(lab.given(), BEFORE);
    poll_until(SOON, "the tried algorithm is unloaded", || !is_available(TRIED));

    run(0, "load dtcp --as ldk_late --confirm 5s");
    let waits = instance("ldk_late")["confirm_pid"].as_u64().unwrap() as u32;
    poll_until(SOON, "it has its name", || comm(waits) == "tccc-guard\n");
    signal(waits, Signal::SIGKILL);
    poll_until(SOON, "ldk_late is unloaded", || !is_available("ldk_late"));
    run(0, "policy remove");

    signal(stand_by.id(), Signal::SIGTERM);
    // Watchdog messages have filled the socket, and the process waits until they are read.
    poll_until(SOON, "the end is announced", || manager.next(SOON).unwrap().trim() == "STOPPING=1");
    end(0, stand_by)
        .stderr_has("tccc: note: the trial of the policy is over: its guard died, and the lease expired\n")
        .stderr_has("tccc: note: nobody confirmed \"ldk_late\" in time: it is unloaded\n");
    assert!(processes().is_empty());
}
