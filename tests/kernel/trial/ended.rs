//! All ways in which a trial ends, with and without an earlier policy.

use std::os::unix::net::UnixDatagram;

use super::*;
use crate::lab::sandbox::{BALLAST, fill_run};

/// Connections that the only rule set, and those that it kept.
fn counted() -> [u64; 2] {
    let shown = show();
    ["set", "kept"].map(|what| count(&shown, 0, 0, what))
}

/// Asserts that the earlier policy decides again and continues its counts, and that the trial left nothing.
#[track_caller]
fn assert_as_before(lab: &TrialLab, before: [u64; 2], [result, why]: [&str; 2]) {
    assert_eq!(lab.given(), BEFORE);
    assert_eq!(counted(), [before[0] + 2, before[1]], "the counts of the earlier policy continue");
    assert!(on_trial().is_null());
    assert_eq!(status()["policy"]["generation"], 1);
    assert_eq!(last_trial(), (result.to_owned(), why.to_owned()));
    assert!(!is_available(TRIED), "the algorithm that was loaded for the trial is unloaded");
    assert!(!Path::new("/run/tccc/policy/trial.json").exists());
}

#[test]
fn confirmed_policy_stays() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    for is_before in [false, true] {
        if is_before {
            lab.apply_before();
        }
        lab.try_policy("1m");
        assert_eq!(lab.given(), TRIED);
        let (trial, number) = (on_trial(), status()["policy"]["generation"].as_u64().unwrap());
        assert_eq!((trial["kind"].as_str(), trial["guard_lives"].as_bool()), (Some("policy"), Some(true)));
        assert!(trial["lease_s"].as_f64().unwrap() > 10.0 && trial["ends_within_s"].as_f64().unwrap() > 50.0);
        let guard = guard();
        assert_eq!(run(0, "confirm").stdout(), "the policy is confirmed and stays\n");
        assert!(!is_alive(guard), "the guard ends with the trial");
        assert_eq!((lab.given(), on_trial()), (TRIED.to_owned(), Value::Null));
        assert_eq!(status()["policy"]["generation"], number + 1, "a generation without a lease");
        assert_eq!(last_trial().0, "kept");
        run(1, "confirm").stderr_has("nothing needs confirmation");
        run(0, "policy remove");
        assert_eq!((lab.given().as_str(), is_available(TRIED)), (DEFAULT, false));
    }
}

#[test]
fn ended_trial_restores_the_earlier_policy() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    assert_eq!(lab.given(), BEFORE);
    let aborted = |_: &TrialLab| _ = run(0, "policy abort").stdout_has("the trial of the policy is over");
    let told = |_: &TrialLab| _ = end_guard(Signal::SIGTERM);
    let waited =
        |lab: &TrialLab| poll_until(SOON, "the time is over", || lab.given() == BEFORE && on_trial().is_null());
    let check = |time: &str, end: &dyn Fn(&TrialLab), ended: [&str; 2]| {
        lab.try_policy(time);
        assert_eq!(lab.given(), TRIED);
        let guard = guard();
        end(lab);
        until_ended(guard);
        assert_as_before(lab, counted(), ended);
    };
    check("1m", &aborted, ["reverted", "a person ended it"]);
    check("1m", &told, ["interrupted", "its guard received a signal to end"]);
    check("5s", &waited, ["reverted", "nobody confirmed it in time"]);
    run(0, "policy remove");
}

#[test]
fn removed_policy_and_failed_or_ended_trial_leave_nothing() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    for end in ["policy abort", "policy remove", "unload --all"] {
        lab.try_policy("1m");
        let guard = guard();
        assert_eq!(lab.given(), TRIED);
        run(0, end);
        assert!(!is_alive(guard), "{end}");
        assert_eq!(lab.given(), DEFAULT);
        assert_nothing_left();
    }
    lab.apply_before();
    lab.try_policy("1m");
    run(0, "policy remove");
    assert_eq!(lab.given(), DEFAULT);
    assert_eq!(last_trial(), ("interrupted".to_owned(), "the policy was removed".to_owned()));
    // A trial that cannot begin leaves no guard.
    let rules = "use = \"keep\"\n[[rule]]\nname = \"gone\"\nnetns = \"ldk_none\"\nuse = \"keep\"";
    lab.apply(2, rules, "--trial 1m").stderr_has("no network namespace \"ldk_none\"");
    assert!(processes().is_empty());
    assert_nothing_left();
    assert_eq!(lab.given(), DEFAULT);
}

#[test]
fn live_trial_moves_open_connections_and_moves_them_back() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    for before in [None, Some(BEFORE)] {
        if before.is_some() {
            lab.apply_before();
        }
        let open = lab.connect();
        let algorithms = || open.each_ref().map(algorithm_of);
        let was = algorithms();
        lab.apply(0, &format!("use = \"{TRIED}\""), "--trial 1m --live");
        assert_eq!(algorithms(), [TRIED, TRIED]);
        run(0, "policy abort");
        assert_eq!(algorithms(), was);
    }
    run(0, "policy remove");
}

/// The journal of a service manager that hears only of this sandbox.
fn system_log() -> UnixDatagram {
    fs::create_dir_all("/run/systemd/journal").unwrap();
    let log = UnixDatagram::bind("/run/systemd/journal/socket").unwrap();
    log.set_read_timeout(Some(SOON)).unwrap();
    log
}

fn logged(log: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = log.recv(&mut bytes).expect("a line reaches the system's log");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Once only the kernel's log was tried, which a service with PrivateDevices does not see.
#[test]
fn each_end_reaches_the_systems_log_with_its_reason() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let log = &system_log();
    let check = |end: &dyn Fn(), words: &str| {
        lab.try_policy("1m");
        end();
        let line = logged(log);
        let message = line.lines().last().unwrap().to_owned();
        assert!(message.starts_with(&format!("MESSAGE=the trial of the policy is over: {words}")), "{line}");
        assert!(line.contains("PRIORITY=5\nSYSLOG_IDENTIFIER=tccc\n"), "{line}");
    };
    check(&|| _ = run(0, "confirm"), "kept: a person confirmed it");
    run(0, "policy remove");
    check(&|| _ = run(0, "policy abort"), "reverted: a person ended it");
    check(&|| _ = run(0, "policy remove"), "interrupted: the policy was removed");
    check(&|| _ = end_guard(Signal::SIGTERM), "interrupted: its guard received a signal to end");
    run(0, "load dtcp --as ldk_late --confirm 5s");
    let line = logged(log);
    assert!(line.contains("MESSAGE=") && line.contains("\"ldk_late\"") && line.contains("in time"), "{line}");
    until_no_process();
}

/// Once a full /run ended a revert half-way: the reason, the incident and what follows the swap were lost.
#[test]
fn trial_is_reverted_with_its_reason_although_run_is_full() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let _inhabitant = inhabit(&lab.netns);
    lab.apply_before();
    let open = lab.connect();
    let was = open.each_ref().map(algorithm_of);
    lab.apply(0, &format!("use = \"{TRIED}\""), "--trial 1m --live");
    assert_eq!(open.each_ref().map(algorithm_of), [TRIED, TRIED]);
    until_guard_has_looked();
    let state = tempfile::tempdir_in("/var/tmp").unwrap();
    let abort = |code| {
        let mut command = tccc();
        check(code, command.args(["policy", "abort"]).env("STATE_DIRECTORY", state.path()))
    };
    fill_run("512k");
    abort(1).stderr_has("clear the trial of the policy, which is over");
    let journal = fs::read_to_string(state.path().join("trials.jsonl")).unwrap();
    let end: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!((end["result"].as_str(), end["why"].as_str()), (Some("reverted"), Some("a person ended it")));
    assert_eq!((lab.given().as_str(), open.each_ref().map(algorithm_of)), (BEFORE, was));
    fs::remove_file(BALLAST).unwrap();
    // The next command clears the rest, and adds no second end.
    let mut command = tccc();
    check(0, command.args(["policy", "remove"]).env("STATE_DIRECTORY", state.path()));
    assert_eq!(fs::read_to_string(state.path().join("trials.jsonl")).unwrap(), journal);
    until_no_process();
}
