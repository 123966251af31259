//! One gate to the host: a change of a name knows the policy, the trial, listeners and other namespaces, and waits for them.

use nix::sys::socket::{setsockopt, sockopt};
use tccc::kernel::sysctl;

use super::*;
use crate::lab::policy::{all, named_netns};
use crate::lab::trial::connect;

const DEFAULT: &str = "net.ipv4.tcp_congestion_control";

fn loads(names: &[&str]) {
    names.iter().for_each(|name| drop(run(0, &format!("load dtcp --as {name}"))));
}

fn end_all() {
    run(0, "policy remove");
    run(0, "unload --all");
}

/// A revert once restored a rule whose algorithm was gone.
#[test]
fn name_of_the_policy_before_a_trial_stays_loaded() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    loads(&["ldk_before", "ldk_tried"]);
    lab.apply(&all("ldk_before"));
    lab.policy(0, "apply --trial 1m", &all("ldk_tried"));
    run(1, "unload ldk_before")
        .stderr_has("cannot unload \"ldk_before\": rule \"all\" of the policy gives it to connections");
    run(0, "policy abort");
    lab.assert_given("ldk_before", "after the trial");
    end_all();
}

/// The check of the policy and the removal of the name were once two steps, with room for a policy in between.
#[test]
fn unload_waits_for_a_policy_that_is_being_applied() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    loads(&["ldk_raced"]);
    let file = lab.policy_file(&all("ldk_raced"));
    let applying = Stopped::at("apply.pinned", &["policy", "apply", file.to_str().unwrap(), "--accept-risk"]);
    let unload = begin(tccc().args(["unload", "ldk_raced"]));
    let waits = || fs::read_to_string(format!("/proc/{}/wchan", unload.id())).is_ok_and(|at| at.contains("nanosleep"));
    poll_until(SOON, "the unload waits for the lock", waits);
    applying.go_on();
    end(1, unload).stderr_has("rule \"all\" of the policy gives it to connections");
    lab.assert_given("ldk_raced", "the rule has its algorithm");
    end_all();
}

/// The trial would be judged against a policy that no longer decides, and would restore it at its end.
#[test]
fn trial_does_not_begin_beside_a_policy_applied_meanwhile() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let before = default();
    lab.apply(&all("cubic"));
    let words = ["load", "dtcp", "--as", "ldk_late", "--default", "--confirm", "1m"];
    let beginning = Stopped::at("trial.guard", &words);
    lab.apply(&all("bbr"));
    beginning.go_on_to(5).stderr_has("the policy changed meanwhile");
    assert!(on_trial().is_null());
    lab.assert_given("bbr", "the policy applied meanwhile decides");
    assert_eq!((is_available("ldk_late"), default()), (false, before));
    run(0, "policy remove");
    lab.assert_given("reno", "nothing restores the policy before it");
}

/// A namespace takes over the default as a pointer to code. Without a process in it, it was found by nobody.
#[test]
fn unload_changes_the_default_of_a_namespace_without_process() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let before = default();
    run(0, "load dtcp --as ldk_def --default");
    let child = named_netns("ldk_child");
    let its_default = || sysctl::read(&child, DEFAULT).unwrap().unwrap();
    assert_eq!(its_default(), "ldk_def");
    let said = run(0, "unload ldk_def");
    said.stderr_has(format!("the default of network namespace ldk_child is \"{before}\" now"));
    assert_eq!((its_default(), default()), (before.clone(), before));
}

/// A closed socket runs the code until its last byte is acknowledged. No process holds it.
#[test]
fn drain_counts_closed_sockets_of_a_namespace_without_process() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_drain");
    let netns = named_netns("ldk_child");
    let [client, server] = connect(&netns);
    choose(&client, "ldk_drain").unwrap();
    setsockopt(&server, sockopt::RcvBuf, &4096).unwrap();
    client.set_nonblocking(true).unwrap();
    // The server reads nothing, so bytes stay unacknowledged after the close.
    while std::io::Write::write(&mut &client, &[0; 65_536]).is_ok() {}
    drop(client);
    run(1, "unload ldk_drain --drain 300ms").stderr_has("1 socket still with \"ldk_drain\"");
    drop(server);
}

/// `--confirm` whose time is over leaves a name to the policy that gives it to connections.
#[test]
fn name_that_nobody_confirmed_stays_for_the_policy() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_soon --confirm 5s");
    lab.apply(&all("ldk_soon"));
    poll_until(SOON, "its time is over", || instance("ldk_soon")["confirm_pid"].is_null());
    lab.assert_given("ldk_soon", "the rule still gives it");
    assert_eq!(instance("ldk_soon")["standing"], "pinned");
    let said = run(0, "policy remove");
    said.stdout_has("\"ldk_soon\" unloaded");
    assert!(!is_available("ldk_soon"));
}
