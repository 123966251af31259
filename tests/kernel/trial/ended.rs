//! Every way in which a trial ends, with and without a policy before it.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::{host_has, inhabit, poll_until};
use crate::lab::sandbox::{assert_nothing_left, available, run, stdout};
use crate::lab::trial::{
    BEFORE, DEFAULT, Lab, SOON, TRIED, algorithm_of, guard, in_lab, is_gone, last_trial, on_trial, processes, status,
};

/// Connections that the only rule decided so far, by what became of them.
fn counted() -> [u64; 2] {
    let shown: Value = run(0, "policy show -o json").json();
    let arm = &shown["counts"]["arms"][0][0];
    ["set", "kept"].map(|name| arm[name].as_u64().unwrap())
}

/// The policy before decides again, goes on counting, and nothing of the trial is left.
#[track_caller]
fn assert_as_before(lab: &Lab, before: [u64; 2], why: &str) {
    assert_eq!(lab.given(), BEFORE);
    assert_eq!(counted(), [before[0] + 2, before[1]], "the counts of the policy before go on");
    assert!(on_trial().is_null());
    assert_eq!(status()["policy"]["generation"], 1);
    assert_eq!(last_trial(), ("reverted".to_owned(), why.to_owned()));
    assert!(!available().contains(&TRIED.to_owned()), "what was loaded for the trial is gone");
    assert!(!Path::new("/run/tccc/policy/trial.json").exists());
}

#[test]
fn confirmed_policy_decides_for_good() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
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
            assert_eq!(stdout(&run(0, "confirm")), "the policy is confirmed and stays\n");
            assert!(is_gone(guard), "the guard ends with the trial");
            assert_eq!((lab.given(), on_trial()), (TRIED.to_owned(), Value::Null));
            assert_eq!(status()["policy"]["generation"], number + 1, "a generation without a lease");
            assert_eq!(last_trial().0, "kept");
            run(1, "confirm").stderr_has("nothing waits to be confirmed");
            run(0, "policy remove");
            assert_eq!((lab.given(), available().contains(&TRIED.to_owned())), (DEFAULT.to_owned(), false));
        }
    });
}

#[test]
fn ended_trial_gives_way_to_the_policy_before() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        assert_eq!(lab.given(), BEFORE);
        let aborted = |_: &Lab| _ = run(0, "policy abort").stdout_has("the trial of the policy is over");
        let told = |_: &Lab| {
            let guard = guard();
            kill(guard, Signal::SIGTERM).unwrap();
            poll_until(SOON, "the guard ends", || is_gone(guard));
        };
        let waited = |lab: &Lab| poll_until(SOON, "the time is over", || lab.given() == BEFORE && on_trial().is_null());
        let check = |time: &str, end: &dyn Fn(&Lab), why: &str| {
            lab.try_policy(time);
            assert_eq!(lab.given(), TRIED);
            let guard = guard();
            end(lab);
            poll_until(SOON, "the guard ends", || is_gone(guard));
            assert_as_before(lab, counted(), why);
        };
        check("1m", &aborted, "a person ended it");
        check("1m", &told, "its guard was told to end");
        check("5s", &waited, "nobody confirmed it in time");
        run(0, "policy remove");
    });
}

#[test]
fn ended_trial_without_a_policy_before_leaves_nothing() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for end in ["policy abort", "policy remove", "unload --all"] {
            lab.try_policy("1m");
            let guard = guard();
            assert_eq!(lab.given(), TRIED);
            run(0, end);
            assert!(is_gone(guard), "{end}");
            assert_eq!(lab.given(), DEFAULT);
            assert_nothing_left();
        }
    });
}

#[test]
fn removed_policy_takes_its_trial_along() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        lab.try_policy("1m");
        run(0, "policy remove");
        assert_eq!(lab.given(), DEFAULT);
        assert_eq!(last_trial(), ("reverted".to_owned(), "the policy was removed".to_owned()));
    });
}

/// Open connections that a trial moved go back when it ends.
#[test]
fn live_trial_moves_open_connections_there_and_back() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let _inhabitant = inhabit(&lab.netns);
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
    });
}

/// A command that is refused leaves no guard behind.
#[test]
fn trial_that_cannot_begin_leaves_nothing() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(2, "use = \"no_such\"", "--trial 1m").stderr_has("unknown algorithm \"no_such\"");
        assert!(processes().is_empty());
        assert_nothing_left();
        poll_until(Duration::ZERO, "nothing is decided", || lab.given() == DEFAULT);
    });
}
