//! Loads on trial: `load --confirm` undoes itself, `confirm` keeps the algorithm, and a killed guard is replaced.
//!
//! With `--default`, a rule gives the algorithm to new connections, and `confirm` changes the default itself.
//! `kernel/trial.rs` has the other tests of trials.

use serde_json::Value;

use super::*;

/// The shortest allowed trial, seconds.
const SHORTEST: u64 = 5;

/// A trial time in seconds that is long enough for this host to run the few commands of a test.
fn trial() -> u64 {
    const COMMANDS: u32 = 8;
    let begin = Instant::now();
    run(0, "status");
    (begin.elapsed() * COMMANDS).as_secs().max(SHORTEST)
}

fn only() -> Value {
    let mut instances = status();
    assert_eq!(instances.len(), 1, "{instances:?}");
    instances.remove(0)
}

fn guard() -> u32 {
    only()["confirm_pid"].as_u64().expect("a process that would undo the load") as u32
}

#[track_caller]
fn until_undone(trial: u64) {
    poll_until(SOON + Duration::from_secs(trial), "the load is undone", || !Path::new("/run/tccc").exists());
    assert!(!is_available("ldk_trial"));
}

#[test]
fn unconfirmed_load_undoes_itself() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let (before, trial) = (default(), trial());
    run(0, &format!("load dtcp --as ldk_trial --confirm {trial}s"));
    assert!(only()["confirm_within_s"].as_f64().unwrap() <= trial as f64);
    run(0, "status").stdout_has("unless `tccc confirm ldk_trial` follows");
    assert_ne!(given_on_host(), ["ldk_trial", "ldk_trial"], "only connections that choose it get it");
    let guard = guard();
    until_undone(trial);
    assert_eq!(default(), before);
    until_ended(guard);
}

#[test]
fn unconfirmed_default_is_given_by_a_rule_and_undone() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let (before, trial) = (default(), trial());
    let said = run(0, &format!("load dtcp --as ldk_trial --default --confirm {trial}s"));
    assert_eq!(default(), before, "the default itself does not change before it is confirmed");
    assert_eq!(given_on_host(), ["ldk_trial", "ldk_trial"]);
    said.stdout_has(format!("100 % of the new connections that choose no algorithm get \"ldk_trial\", for {trial}s"))
        .stderr_has("unless `tccc confirm ldk_trial` follows");
    assert!(on_trial()["ends_within_s"].as_f64().unwrap() <= trial as f64);
    let guard = guard();
    until_undone(trial);
    assert_eq!((default(), given_on_host()), (before.clone(), [before.clone(), before]));
    until_ended(guard);
    run(0, "status").stdout_has("\"ldk_trial\" as the default, reverted");
}

#[test]
fn confirmed_default_becomes_the_default() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let before = default();
    run(0, "load dtcp --as ldk_keep --default --confirm 1m");
    let guard = guard();
    assert_eq!(run(0, "confirm ldk_keep").stdout(), "\"ldk_keep\" as the default is confirmed and stays\n");
    assert_eq!(default(), "ldk_keep");
    assert_eq!(given_on_host(), ["ldk_keep", "ldk_keep"]);
    assert!(!is_alive(guard), "no process waits to undo the load");
    assert!(on_trial().is_null() && !Path::new("/sys/fs/bpf/tccc/policy").exists(), "no rule is left");
    run(1, "confirm ldk_keep").stderr_has("needs no confirmation");
    // The removal of a policy does not unload what a trial loaded.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, "version = 1\n[[rule]]\nname = \"none\"\nremote_port = 1\nuse = \"reno\"\n").unwrap();
    check(0, tccc().args(["policy", "apply"]).arg(&file));
    run(0, "policy remove");
    assert_eq!(default(), "ldk_keep");
    run(0, "unload ldk_keep");
    assert_eq!(default(), before);
}

#[test]
fn confirmed_load_stays() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_keep --confirm 1m");
    let guard = guard();
    assert_eq!(run(0, "confirm").stdout(), "\"ldk_keep\" is confirmed and stays until `tccc unload ldk_keep`\n");
    until_ended(guard);
    assert!(only()["confirm_within_s"].is_null());
    run(1, "confirm ldk_keep").stderr_has("needs no confirmation");
    run(0, "unload ldk_keep");
}

#[test]
fn unload_ends_the_trial() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let before = given_on_host();
    for options in ["", "--default"] {
        run(0, &format!("load dtcp --as ldk_trial {options} --confirm 1m"));
        let guard = guard();
        run(0, "unload ldk_trial");
        assert_eq!(given_on_host(), before);
        until_ended(guard);
    }
}

#[test]
fn killed_guard_is_shown_and_the_next_load_undoes_the_trial() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let trial = trial();
    run(0, &format!("load dtcp --as ldk_trial --confirm {trial}s"));
    signal(guard(), Signal::SIGKILL);
    poll_until(SOON + Duration::from_secs(trial), "the time is over", || only()["confirm_within_s"] == 0.0);
    run(0, "status").stdout_has("nobody confirmed it in time");
    run(1, "confirm ldk_trial").stderr_has("too late");
    run(0, "load dtcp --as ldk_next");
    assert_eq!(only()["name"], "ldk_next");
    run(0, "unload --all");
}

#[test]
fn load_that_cannot_be_on_trial_starts_no_guard() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    for options in [
        "--confirm 1s",
        "--confirm 31d",
        "--percent 5",
        "--confirm 60s --guard retransmitted<1.2x",
        "--default --confirm 60s --percent 100 --guard retransmitted<1.2x",
        "--confirm 60",
        "--confirm 60s --replace",
    ] {
        run(2, &format!("load dtcp --as ldk_no {options}"));
    }
    run(1, "confirm ldk_no").stderr_has("it is not loaded");
    run(1, "confirm").stderr_has("nothing needs confirmation");
    for (options, last) in [
        ("", "start a process that undoes all this after 60s\n"),
        ("--default", "with `tccc confirm ldk_no`, set net.ipv4.tcp_congestion_control to \"ldk_no\"\n"),
    ] {
        let plan = run(0, &format!("load dtcp --as ldk_no {options} --confirm 60s --dry-run")).stdout();
        assert!(plan.ends_with(last), "{plan}");
    }
    run(1, "load dtcp --as reno --confirm 1m");
    run(1, "load dtcp --as reno --default --confirm 1m");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|it| std::fs::read_to_string(it.path().join("cmdline")).ok());
    assert!(!commands.into_iter().any(|it| it.contains("confirm\0ldk_no\0") || it.contains("confirm\0reno\0")));
}
