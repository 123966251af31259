//! Commands and guards stopped in the middle of a change: others wait, fail, or end what the stopped one does not.

use super::*;
use crate::lab::policy::all;
use crate::lab::policy::fault::SHORT_LOCK;

#[test]
fn apply_beside_a_stopped_one_waits_and_fails() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&all("cubic"));
    let file = lab.file("other.toml", &format!("version = 1\n{}", all("bbr")));
    let stopped = Stopped::at("apply.numbered", &["policy", "apply", "--accept-risk", file.to_str().unwrap()]);
    lab.assert_given("cubic", "while it is stopped");
    let short = shorten_waits(SHORT_LOCK);
    lab.policy(5, "apply", &all("reno")).stderr_has(stopped.refusal("the policy"));
    drop(short);
    lab.assert_given("cubic", "");
    stopped.go_on();
    lab.assert_given("bbr", "after it went on");
    assert_eq!(show()["generation"], 2);
}

#[test]
fn rollback_beside_a_stopped_upgrade_waits_and_fails() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, &format!("load dtcp --as {NAME}"));
    let before = code();
    let stopped = Stopped::at("upgrade.linked", &["upgrade", NAME]);
    assert_ne!(code(), before);
    let short = shorten_waits(SHORT_LOCK);
    run(5, &format!("rollback {NAME}")).stderr_has(stopped.refusal(&format!("\"{NAME}\"")));
    drop(short);
    assert!(drift(NAME)[0].contains("a replacement was interrupted"), "{:?}", drift(NAME));
    stopped.kill();
    assert!(run(0, &format!("rollback {NAME}")).stdout().starts_with("\"ldk_kill\": generation 1 (was 2)"));
    assert_eq!((code(), drift(NAME)), (before, vec![]));
    run(0, &format!("unload {NAME}"));
}

#[test]
fn stopped_command_does_not_block_the_end_of_the_trial() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    // The command stops while it holds the locks.
    lab.try_policy("5s");
    let stopped = Stopped::at("apply.noted", &["confirm"]);
    poll_until(SOON, "the kernel ends the trial", || lab.given() == BEFORE);
    assert_eq!(on_trial()["over"], "nobody confirmed it in time");
    stopped.kill();
    poll_until(Duration::from_secs(90), "the guard ends", || processes().is_empty());
    assert!(on_trial().is_null());
    run(0, "policy remove");
}

#[test]
fn confirmation_whose_guard_is_dead_is_completed_by_the_next_command() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("6s");
    signal(guard(), Signal::SIGKILL);
    die_at("confirm.noted", tccc().arg("confirm"));
    poll_until(SOON, "the lease is over", || lab.given() == DEFAULT);
    run(1, "policy pause").stderr_has("nothing is on trial");
    assert_eq!((lab.given(), last_trial().0), (TRIED.to_owned(), "kept".to_owned()));
    run(0, "policy remove");
}
