//! `tccc trace` and `tccc sockets` from the command line.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::*;
use crate::common::TCCC;

#[test]
fn killed_trace_leaves_nothing() {
    needs!(root, btf);
    let _host = HostSnapshot::take(&["tccc-trace"]);
    let child = begin_quietly(tccc().args(["trace", "--netns", "/proc/self/ns/net"]));
    poll_until(SOON, "the tracer is attached", || programs_of(child.id()).len() >= 2);
    let programs = programs_of(child.id());
    drop(child);
    let left = || libbpf_rs::query::ProgInfoIter::default().any(|program| programs.contains(&program.id));
    poll_until(SOON, "the kernel detaches the tracer", || !left());
}

#[test]
fn trace_prints_events_and_a_summary() {
    needs!(root, btf);
    let netns = loopback_netns();
    let place = path_of(&netns);
    let options = ["--interval", "1ms", "--duration", "3s", "-o", "jsonl"];
    let child = begin(tccc().args(["trace", "--netns", &place]).args(options));
    poll_until(SOON, "the tracer is attached", || programs_of(child.id()).len() >= 2);
    let client = transfer(&netns, "reno", 16 << 20);
    let said = end(0, child);
    let events: Vec<serde_json::Value> =
        said.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["schema"] == 1));
    assert!(events.iter().any(|event| event["tcp_state"] == "ESTABLISHED"), "{events:?} {}", said.stderr());
    assert!(events.iter().any(|event| event["kind"] == "close" && event["local"] == client.to_string().as_str()));
    let told = said.stderr();
    assert!(told.contains("events in 3"), "{told}");
    let cost =
        told.split_once("looking at the sockets took ").and_then(|(_, rest)| rest.split_once(" % of a processor"));
    let share_percent: f64 = cost.expect("the cost of the samples is printed").0.parse().unwrap();
    assert!(share_percent > 0.0 && share_percent < 10.0, "{told}");
}

#[test]
fn missing_capabilities_of_a_user_are_named() {
    needs!(root, btf);
    // Other users cannot read the folder of the program, so they run a copy.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = folder.path().join("tccc");
    std::fs::copy(TCCC, &program).unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    for (verb, capabilities) in [("trace", "CAP_BPF, CAP_PERFMON"), ("sockets", "CAP_SYS_ADMIN")] {
        let said = check(4, Command::new(&program).arg(verb).uid(65534).gid(65534));
        said.stderr_has(format!("sockets: this process lacks {capabilities}\n")).stderr_has("hint: ");
        assert!(said.stdout.is_empty(), "{verb} prints to stdout before it is refused");
    }
    for (arguments, says) in [
        ("link --delay 1ms --between /proc/self/ns/net /proc/self/ns/net:other", "lacks CAP_NET_ADMIN"),
        ("sockets --netns 1", "cannot open the network namespace \"1\": permission denied"),
    ] {
        let said = check(4, Command::new(&program).args(arguments.split(' ')).uid(65534).gid(65534));
        said.stderr_has(says).stderr_has("hint: ");
    }
}

#[test]
fn unregistered_algorithm_is_named() {
    needs!(root, btf);
    run(0, "sockets --algorithm trace_nope").stderr_has("no algorithm \"trace_nope\" is registered");
}
