//! Killed at any moment, and at every step: connections are decided as before or for good, and whatever is left is listed.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tccc::kernel::netns::Netns;

use crate::common::{host_has, poll_until, tccc};
use crate::lab::sandbox::{assert_nothing_left, available, default, run};
use crate::lab::trial::{
    BEFORE, DEFAULT, Lab, SOON, TRIED, algorithm_of, connect, guard, in_lab, is_gone, kill_all, last_trial, on_trial,
    processes, start, status,
};

/// Variable for more kills than CI has time for.
const KILLS: &str = "TCCC_TRIAL_KILLS";
const KILLS_IN_CI: u32 = 6;
/// Seed of the moments.
const SEED: u128 = 15;

/// Whatever is registered under the names of these tests is listed by `tccc status`.
#[track_caller]
fn assert_listed() {
    poll_until(SOON, "every registration is listed by `tccc status`", || {
        let instances = status()["instances"].as_array().unwrap().clone();
        let is_listed = |name: &String| instances.iter().any(|it| it["name"] == name.as_str());
        available().iter().filter(|name| name.starts_with("ldk") || name.as_str() == TRIED).all(is_listed)
    });
}

/// `unload --all` restores the host, whatever was there.
#[track_caller]
fn assert_restorable() {
    run(0, "unload --all");
    poll_until(SOON, "every process of tccc ends", || processes().is_empty());
    assert_nothing_left();
}

#[test]
fn default_on_trial_killed_at_any_moment_is_back_after_the_lease() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |_| {
        let here = Netns::current().unwrap();
        let given = || algorithm_of(&connect(&here)[0]);
        let (before, before_given) = (default(), given());
        let load = || start(tccc().args(["load", "dtcp", "--as", "ldk_kill", "--default", "--confirm", "5s"]));
        let begun = Instant::now();
        assert!(load().wait().unwrap().success());
        let usual = begun.elapsed();
        assert_eq!(given(), "ldk_kill");
        run(0, "unload --all");
        let kills = std::env::var(KILLS).map_or(KILLS_IN_CI, |text| text.parse().unwrap());
        let mut random = Pcg64Mcg::new(SEED);
        let mut decided = 0;
        for number in 0..kills {
            let mut command = load();
            // Every other one near the end of the command, where the trial begins.
            let from = if number % 2 == 0 { 0.0 } else { 0.8 };
            let part = from + (1.3 - from) * f64::from(random.next_u32()) / f64::from(u32::MAX);
            std::thread::sleep(usual.mul_f64(part)); // the moment is the subject of the test
            let _ = command.kill();
            command.wait().unwrap();
            kill_all();
            assert_eq!(default(), before);
            assert_listed();
            decided += u32::from(given() == "ldk_kill");
            poll_until(SOON, "the default is given again", || given() == before_given);
            assert_listed();
            assert_restorable();
            assert_eq!((default(), given()), (before.clone(), before_given.clone()));
        }
        println!("{kills} kills within 1.3 times {usual:?}; {decided} while the trial decided");
        assert!(decided > 0, "no kill came while the trial decided: this test tested nothing");
    });
}

/// Runs a command that dies at a point.
#[track_caller]
fn die_at(point: &str, command: &mut Command) {
    let mut child = start(command.env(tccc::fault::VARIABLE, point));
    assert!(!child.wait().unwrap().success(), "{point} was not reached");
}

fn apply(lab: &Lab, time: &str) -> Command {
    let mut command = tccc();
    command.args(["policy", "apply"]).arg(lab.policy(&format!("use = \"{TRIED}\""))).args(["--trial", time]);
    command
}

#[test]
fn command_that_begins_a_trial_killed_at_each_step() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        // Before the trial decides the guard ends with the command; what was loaded is listed.
        for point in ["trial.guard", "apply.noted", "apply.pinned", "apply.numbered"] {
            die_at(point, &mut apply(lab, "1m"));
            poll_until(SOON, "the guard ends", || processes().is_empty());
            assert_eq!((lab.given().as_str(), on_trial().is_null()), (BEFORE, true), "{point}");
            assert_listed();
        }
        // Once it decides the guard has it, and it goes its way.
        for point in ["apply.attached", "trial.begun"] {
            die_at(point, &mut apply(lab, "1m"));
            assert_eq!(lab.given(), TRIED, "{point}");
            assert_eq!(on_trial()["guard_lives"], true, "{point}");
            kill(guard(), Signal::SIGTERM).unwrap();
            poll_until(SOON, "the guard ends the trial", || processes().is_empty());
            assert_eq!((lab.given().as_str(), on_trial().is_null()), (BEFORE, true), "{point}");
            assert_listed();
        }
        run(0, "policy remove");
        assert!(!available().contains(&TRIED.to_owned()), "what interrupted trials loaded goes with the policy");
    });
}

#[test]
fn command_that_ends_a_trial_killed_at_each_step() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for is_before in [true, false] {
            let expected = if is_before { BEFORE } else { DEFAULT };
            for point in ["revert.swapped", "revert.noted", "revert.cleared"] {
                if is_before {
                    lab.apply_before();
                }
                lab.try_policy("1m");
                die_at(point, tccc().args(["policy", "abort"]));
                poll_until(SOON, "the guard ends", || processes().is_empty());
                assert_eq!((lab.given().as_str(), on_trial().is_null()), (expected, true), "{point}");
                assert_listed();
                // The next trial begins as if nothing had happened.
                lab.try_policy("1m");
                assert_eq!(lab.given(), TRIED);
                run(0, "policy abort");
                assert_eq!(lab.given(), expected);
                assert_restorable();
            }
        }
    });
}

#[test]
fn guard_that_ends_a_trial_killed_at_each_step() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for point in ["revert.swapped", "revert.noted", "revert.cleared"] {
            lab.apply_before();
            assert!(start(apply(lab, "1m").env(tccc::fault::VARIABLE, point)).wait().unwrap().success());
            let guard = guard();
            kill(guard, Signal::SIGTERM).unwrap();
            poll_until(SOON, "the guard dies", || is_gone(guard));
            assert_eq!((lab.given().as_str(), on_trial().is_null()), (BEFORE, true), "{point}");
            assert_listed();
            run(1, "confirm").stderr_has("nothing");
            run(0, "policy remove");
            assert_nothing_left();
        }
    });
}

/// A confirmation is not lost with the command: the guard goes on with it.
#[test]
fn confirmation_of_a_policy_killed_at_each_step_is_carried_out() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        for point in ["confirm.noted", "apply.noted", "apply.numbered", "apply.attached", "confirm.swapped"] {
            lab.try_policy("1m");
            die_at(point, tccc().arg("confirm"));
            assert_eq!(lab.given(), TRIED, "{point}");
            poll_until(SOON, "the guard ends", || processes().is_empty());
            assert_eq!((lab.given().as_str(), on_trial().is_null()), (TRIED, true), "{point}");
            assert_listed();
        }
        run(0, "policy remove");
    });
}

/// With the guard dead too, the next command does so.
#[test]
fn confirmation_whose_guard_is_dead_is_carried_out_by_the_next_command() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("6s");
        kill(guard(), Signal::SIGKILL).unwrap();
        die_at("confirm.noted", tccc().arg("confirm"));
        poll_until(SOON, "the lease is over", || lab.given() == DEFAULT);
        run(1, "policy pause").stderr_has("nothing is on trial");
        assert_eq!((lab.given(), last_trial().0), (TRIED.to_owned(), "kept".to_owned()));
        run(0, "policy remove");
    });
}

#[test]
fn confirmation_of_a_default_killed_at_each_step_is_carried_out() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |_| {
        let here = Netns::current().unwrap();
        let given = || algorithm_of(&connect(&here)[0]);
        let (before, before_given) = (default(), given());
        for point in ["confirm.noted", "confirm.default", "revert.swapped", "revert.noted", "confirm.swapped"] {
            run(0, "load dtcp --as ldk_kill --default --confirm 1m");
            die_at(point, tccc().arg("confirm"));
            assert_eq!(given(), "ldk_kill", "{point}");
            poll_until(SOON, "the guard ends", || processes().is_empty());
            assert_eq!((default().as_str(), given().as_str(), on_trial().is_null()), ("ldk_kill", "ldk_kill", true));
            assert!(!std::path::Path::new("/sys/fs/bpf/tccc/policy").exists(), "{point}: no rule is left");
            run(0, "unload ldk_kill");
            assert_eq!((default(), given()), (before.clone(), before_given.clone()), "{point}");
            assert_restorable();
        }
    });
}

/// The shortest way to be sure that nothing waits for ever.
#[test]
fn stopped_command_does_not_keep_the_guard_from_the_end() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        // It stops while it holds the turn and the lock of the records.
        lab.try_policy("5s");
        let mut stopped = start(tccc().args(["confirm"]).env(tccc::fault::VARIABLE, "apply.noted:stop"));
        poll_until(SOON, "the kernel ends the trial", || lab.given() == BEFORE);
        assert_eq!(on_trial()["over"], "nobody confirmed it in time");
        kill(nix::unistd::Pid::from_raw(stopped.id() as i32), Signal::SIGKILL).unwrap();
        stopped.wait().unwrap();
        poll_until(Duration::from_secs(90), "the guard ends", || processes().is_empty());
        assert!(on_trial().is_null());
        run(0, "policy remove");
    });
}
