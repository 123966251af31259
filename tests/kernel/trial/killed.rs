//! Commands and guards killed at any moment and at every step: the trial is reverted or kept, and leftovers are listed.

use std::process::Command;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tccc::fault::VARIABLE;

use super::*;
use crate::lab::trial::given_on_host;

const KILLS: &str = "TCCC_TRIAL_KILLS";
const KILLS_IN_CI: u32 = 6;
const SEED: u128 = 15;

#[track_caller]
fn assert_listed() {
    poll_until(SOON, "`tccc status` lists every registration", || {
        let instances = status()["instances"].as_array().unwrap().clone();
        let is_listed = |name: &String| instances.iter().any(|it| it["name"] == name.as_str());
        available().iter().filter(|name| name.starts_with("ldk") || name.as_str() == TRIED).all(is_listed)
    });
}

/// Asserts that the trial is over, that new connections get an algorithm, and that every registration is listed.
#[track_caller]
fn assert_decided(lab: &TrialLab, algorithm: &str, point: &str) {
    until_no_process();
    lab.assert_over(algorithm, point);
    assert_listed();
}

#[track_caller]
fn assert_restorable() {
    run(0, "unload --all");
    until_no_process();
    assert_nothing_left();
}

#[test]
fn default_on_trial_killed_at_any_moment_is_back_after_the_lease() {
    let _lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let given = || given_on_host()[0].clone();
    let (before, before_given) = (default(), given());
    let load = || begin_quietly(tccc().args(["load", "dtcp", "--as", "ldk_kill", "--default", "--confirm", "5s"]));
    let begun = Instant::now();
    assert!(load().wait().unwrap().success());
    let usual = begun.elapsed();
    assert_eq!(given(), "ldk_kill");
    run(0, "unload --all");
    let kills = std::env::var(KILLS).map_or(KILLS_IN_CI, |text| text.parse().unwrap());
    let mut random = Pcg64Mcg::new(SEED);
    let mut decided = 0;
    for number in 0..kills {
        let command = load();
        // Every other kill is near the end of the command, when the trial begins.
        let from = if number % 2 == 0 { 0.0 } else { 0.8 };
        let part = from + (1.3 - from) * f64::from(random.next_u32()) / f64::from(u32::MAX);
        if number + 1 == kills && decided == 0 {
            poll_until(SOON, "the trial decides", || given() == "ldk_kill");
        } else {
            std::thread::sleep(usual.mul_f64(part)); // the moment of the kill is what the test varies
        }
        drop(command);
        kill_all();
        assert_eq!(default(), before);
        assert_listed();
        decided += u32::from(given() == "ldk_kill");
        poll_until(SOON, "new connections get the default again", || given() == before_given);
        assert_listed();
        assert_restorable();
        assert_eq!((default(), given()), (before.clone(), before_given.clone()));
    }
    println!("{kills} kills within 1.3 times {usual:?}; {decided} while the trial decided");
    assert!(decided > 0, "no kill came while the trial decided");
}

fn apply(lab: &TrialLab) -> Command {
    let mut command = tccc();
    command.args(["policy", "apply"]).arg(lab.policy(&format!("use = \"{TRIED}\""))).args(["--trial", "1m"]);
    command
}

#[test]
fn command_that_begins_a_trial_can_be_killed_at_each_step() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    // Before the trial decides, the guard ends with the command, and loaded algorithms are listed.
    for point in ["trial.guard", "apply.noted", "apply.pinned", "apply.numbered"] {
        die_at(point, &mut apply(lab));
        assert_decided(lab, BEFORE, point);
    }
    // Once the trial decides, the guard continues it.
    for point in ["apply.attached", "trial.begun"] {
        die_at(point, &mut apply(lab));
        assert_eq!(lab.given(), TRIED, "{point}");
        assert_eq!(on_trial()["guard_lives"], true, "{point}");
        end_guard(Signal::SIGTERM);
        assert_decided(lab, BEFORE, point);
    }
    run(0, "policy remove");
    assert!(!is_available(TRIED), "algorithms of interrupted trials are unloaded with the policy");
}

#[test]
fn command_that_ends_a_trial_can_be_killed_at_each_step() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    for is_before in [true, false] {
        let expected = if is_before { BEFORE } else { DEFAULT };
        for point in ["revert.swapped", "revert.noted", "revert.cleared"] {
            if is_before {
                lab.apply_before();
            }
            lab.try_policy("1m");
            die_at(point, tccc().args(["policy", "abort"]));
            assert_decided(lab, expected, point);
            // The next trial works.
            lab.try_policy("1m");
            assert_eq!(lab.given(), TRIED);
            run(0, "policy abort");
            assert_eq!(lab.given(), expected);
            assert_restorable();
        }
    }
}

#[test]
fn guard_that_ends_a_trial_can_be_killed_at_each_step() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    for point in ["revert.swapped", "revert.noted", "revert.cleared"] {
        lab.apply_before();
        assert!(begin_quietly(apply(lab).env(VARIABLE, point)).wait().unwrap().success());
        end_guard(Signal::SIGTERM);
        assert_decided(lab, BEFORE, point);
        run(1, "confirm").stderr_has("nothing");
        run(0, "policy remove");
        assert_nothing_left();
    }
}

/// The guard continues a confirmation whose command was killed.
#[test]
fn confirmation_of_a_policy_killed_at_each_step_is_completed() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    for point in ["confirm.noted", "apply.noted", "apply.numbered", "apply.attached", "confirm.swapped"] {
        lab.try_policy("1m");
        die_at(point, tccc().arg("confirm"));
        assert_eq!(lab.given(), TRIED, "{point}");
        assert_decided(lab, TRIED, point);
    }
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

#[test]
fn confirmation_of_a_default_killed_at_each_step_is_completed() {
    let _lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let given = || given_on_host()[0].clone();
    let (before, before_given) = (default(), given());
    for point in ["confirm.noted", "confirm.default", "revert.swapped", "revert.noted", "confirm.swapped"] {
        run(0, "load dtcp --as ldk_kill --default --confirm 1m");
        die_at(point, tccc().arg("confirm"));
        assert_eq!(given(), "ldk_kill", "{point}");
        until_no_process();
        assert_eq!((default().as_str(), given().as_str(), on_trial().is_null()), ("ldk_kill", "ldk_kill", true));
        assert!(!std::path::Path::new("/sys/fs/bpf/tccc/policy").exists(), "{point}: no rule is left");
        run(0, "unload ldk_kill");
        assert_eq!((default(), given()), (before.clone(), before_given.clone()), "{point}");
        assert_restorable();
    }
}

#[test]
fn stopped_command_does_not_block_the_end_of_the_trial() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    // The command stops while it holds the locks.
    lab.try_policy("5s");
    let stopped = begin_quietly(tccc().args(["confirm"]).env(VARIABLE, "apply.noted:stop"));
    poll_until(SOON, "the kernel ends the trial", || lab.given() == BEFORE);
    assert_eq!(on_trial()["over"], "nobody confirmed it in time");
    drop(stopped);
    poll_until(Duration::from_secs(90), "the guard ends", || processes().is_empty());
    assert!(on_trial().is_null());
    run(0, "policy remove");
}
