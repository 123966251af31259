//! Loading on trial: `load --confirm` undoes itself, `confirm` keeps it, and a killed guard is not forgotten.
//!
//! With `--default` a rule gives it to new connections, and the default itself changes at `confirm` (`kernel/trial.rs` has
//! the rest of what trials do).

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{host_has, poll_until, tccc};
use crate::lab::sandbox::{available, check, default, in_sandbox, run, status, stdout};
use crate::lab::trial::{algorithm_of, connect, is_gone, on_trial};
use tccc::kernel::netns::Netns;

/// Generous for a busy host.
const LIMIT: Duration = Duration::from_secs(40);
/// The shortest trial there is, seconds.
const SHORTEST: u64 = 5;

/// Seconds of a trial that is not over before this host has run the few commands that look at it.
fn trial() -> u64 {
    const COMMANDS: u32 = 8;
    let begin = Instant::now();
    run(0, "status");
    (begin.elapsed() * COMMANDS).as_secs().max(SHORTEST)
}

/// The only instance that is loaded.
fn only() -> Value {
    let mut instances = status();
    assert_eq!(instances.len(), 1, "{instances:?}");
    instances.remove(0)
}

fn guard() -> Pid {
    Pid::from_raw(only()["confirm_pid"].as_i64().expect("a process that would undo it") as i32)
}

/// The algorithms of both ends of a connection over the loopback interface of this host.
fn algorithms_of_new_connection() -> [String; 2] {
    connect(&Netns::current().unwrap()).map(|end| algorithm_of(&end))
}

#[test]
fn unconfirmed_load_undoes_itself() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let (before, trial) = (default(), trial());
        run(0, &format!("load dtcp --as ldk_trial --confirm {trial}s"));
        assert!(only()["confirm_within_s"].as_f64().unwrap() <= trial as f64);
        run(0, "status").stdout_has("unless `tccc confirm ldk_trial` follows");
        assert_ne!(algorithms_of_new_connection(), ["ldk_trial", "ldk_trial"], "only who asks for it gets it");
        let guard = guard();
        poll_until(LIMIT + Duration::from_secs(trial), "it is undone", || !Path::new("/run/tccc").exists());
        assert_eq!(default(), before);
        assert!(!available().contains(&"ldk_trial".to_owned()));
        poll_until(LIMIT, "the process that undid it ends", || is_gone(guard));
    });
}

#[test]
fn unconfirmed_default_is_given_by_a_rule_and_undone() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let (before, trial) = (default(), trial());
        let said = run(0, &format!("load dtcp --as ldk_trial --default --confirm {trial}s"));
        assert_eq!(default(), before, "the default itself does not change before it is confirmed");
        assert_eq!(algorithms_of_new_connection(), ["ldk_trial", "ldk_trial"]);
        let expected = format!("100 % of the new connections that choose no algorithm get \"ldk_trial\", for {trial}s");
        said.stdout_has(&expected);
        said.stderr_has("unless `tccc confirm ldk_trial` follows");
        assert!(on_trial()["ends_within_s"].as_f64().unwrap() <= trial as f64);
        let guard = guard();
        poll_until(LIMIT + Duration::from_secs(trial), "it is undone", || !Path::new("/run/tccc").exists());
        assert_eq!((default(), algorithms_of_new_connection()), (before.clone(), [before.clone(), before]));
        assert!(!available().contains(&"ldk_trial".to_owned()));
        poll_until(LIMIT, "the guard ends", || is_gone(guard));
        run(0, "status").stdout_has("\"ldk_trial\" as the default, reverted");
    });
}

#[test]
fn confirmed_default_becomes_the_default() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let before = default();
        run(0, "load dtcp --as ldk_keep --default --confirm 1m");
        let guard = guard();
        let said = stdout(&run(0, "confirm ldk_keep"));
        assert_eq!(said, "\"ldk_keep\" as the default is confirmed and stays\n");
        assert_eq!(default(), "ldk_keep");
        assert_eq!(algorithms_of_new_connection(), ["ldk_keep", "ldk_keep"]);
        assert!(is_gone(guard), "nothing waits to undo it");
        assert!(on_trial().is_null() && !Path::new("/sys/fs/bpf/tccc/policy").exists(), "no rule is left");
        run(1, "confirm ldk_keep").stderr_has("does not wait to be confirmed");
        // What was loaded for the trial is not taken away with a policy.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        std::fs::write(&file, "version = 1\n[[rule]]\nname = \"none\"\nremote_port = 1\nuse = \"reno\"\n").unwrap();
        check(0, tccc().args(["policy", "apply"]).arg(&file));
        run(0, "policy remove");
        assert_eq!(default(), "ldk_keep");
        run(0, "unload ldk_keep");
        assert_eq!(default(), before);
    });
}

#[test]
fn confirmed_load_stays() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_keep --confirm 1m");
        let guard = guard();
        assert_eq!(stdout(&run(0, "confirm")), "\"ldk_keep\" is confirmed and stays until `tccc unload ldk_keep`\n");
        poll_until(LIMIT, "nothing waits to undo it", || is_gone(guard));
        assert!(only()["confirm_within_s"].is_null());
        run(1, "confirm ldk_keep").stderr_has("does not wait to be confirmed");
        run(0, "unload ldk_keep");
    });
}

#[test]
fn unload_ends_the_trial() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_trial --confirm 1m");
        let guard = guard();
        run(0, "unload ldk_trial");
        poll_until(LIMIT, "nothing waits to undo it", || is_gone(guard));
    });
}

#[test]
fn unload_ends_the_trial_of_a_default() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let before = default();
        run(0, "load dtcp --as ldk_trial --default --confirm 1m");
        let guard = guard();
        run(0, "unload ldk_trial");
        assert_eq!(algorithms_of_new_connection(), [before.clone(), before]);
        poll_until(LIMIT, "nothing waits to undo it", || is_gone(guard));
    });
}

#[test]
fn killed_guard_is_shown_and_the_next_load_undoes_what_it_should_have() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let trial = trial();
        run(0, &format!("load dtcp --as ldk_trial --confirm {trial}s"));
        kill(guard(), Signal::SIGKILL).unwrap();
        poll_until(LIMIT + Duration::from_secs(trial), "the time is over", || only()["confirm_within_s"] == 0.0);
        run(0, "status").stdout_has("nobody confirmed it in time");
        run(1, "confirm ldk_trial").stderr_has("too late");
        run(0, "load dtcp --as ldk_next");
        assert_eq!(only()["name"], "ldk_next");
        run(0, "unload --all");
    });
}

#[test]
fn what_cannot_be_on_trial_starts_no_guard() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(2, "load dtcp --as ldk_no --confirm 1s");
        run(2, "load dtcp --as ldk_no --confirm 31d");
        run(2, "load dtcp --as ldk_no --percent 5");
        run(2, "load dtcp --as ldk_no --confirm 60s --guard retransmitted<1.2x");
        run(2, "load dtcp --as ldk_no --default --confirm 60s --percent 100 --guard retransmitted<1.2x");
        run(2, "load dtcp --as ldk_no --confirm 60");
        run(2, "load dtcp --as ldk_no --confirm 60s --replace");
        run(1, "confirm ldk_no").stderr_has("it is not loaded");
        run(1, "confirm").stderr_has("nothing waits");
        let plan = stdout(&run(0, "load dtcp --as ldk_no --confirm 60s --dry-run"));
        assert!(plan.ends_with("start a process that undoes all this after 60s\n"), "{plan}");
        let plan = stdout(&run(0, "load dtcp --as ldk_no --default --confirm 60s --dry-run"));
        assert!(
            plan.ends_with("with `tccc confirm ldk_no`, set net.ipv4.tcp_congestion_control to \"ldk_no\"\n"),
            "{plan}"
        );
        run(1, "load dtcp --as reno --confirm 1m");
        run(1, "load dtcp --as reno --default --confirm 1m");
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let commands = processes.filter_map(|it| std::fs::read_to_string(it.path().join("cmdline")).ok());
        assert!(!commands.into_iter().any(|it| it.contains("confirm\0ldk_no\0") || it.contains("confirm\0reno\0")));
    });
}
