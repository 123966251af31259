//! The lease: what the kernel does when the guard is killed or stopped, and what is left then.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::common::{host_has, poll_until};
use crate::lab::sandbox::{available, run};
use crate::lab::trial::{BEFORE, SOON, TRIED, guard, in_lab, is_gone, last_trial, on_trial, shorten_lease, status};

/// Shorter than the product's, to save time.
const LEASE: Duration = Duration::from_secs(6);

#[test]
fn killed_guard_gives_new_connections_back_within_the_lease() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        lab.try_policy("1m");
        shorten_lease(LEASE);
        kill(guard(), Signal::SIGKILL).unwrap();
        poll_until(SOON, "the guard is dead", || on_trial()["guard_lives"] == false);
        run(0, "status").stdout_has("its guard is dead: connections are decided as before in");
        assert_eq!(lab.given(), TRIED, "the lease is not over");
        lab.apply(1, "use = \"reno\"", "").stderr_has("the policy is on trial");
        poll_until(LEASE + SOON, "the policy before decides", || lab.given() == BEFORE);
        run(0, "status").stdout_has("its guard died, and the lease was over. New connections are decided as before");
        assert_eq!(status()["policy"]["generation"], 2, "nothing was cleared yet");
        // A command that changes something clears what is left.
        run(1, "confirm").stderr_has("too late to confirm the policy: its guard died");
        assert!(on_trial().is_null());
        assert_eq!(last_trial().0, "reverted");
        assert_eq!((lab.given(), available().contains(&TRIED.to_owned())), (BEFORE.to_owned(), false));
        run(0, "policy remove");
    });
}

#[test]
fn stopped_guard_does_not_take_the_trial_up_again() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        lab.try_policy("1m");
        shorten_lease(LEASE);
        let guard = guard();
        kill(guard, Signal::SIGSTOP).unwrap();
        poll_until(LEASE + SOON, "the policy before decides", || lab.given() == BEFORE);
        run(0, "status").stdout_has("its guard was stopped, and the lease was over");
        kill(guard, Signal::SIGCONT).unwrap();
        let mut is_tried = false;
        poll_until(SOON, "the guard ends", || {
            is_tried |= lab.given() == TRIED;
            is_gone(guard)
        });
        assert!(!is_tried, "the trial was taken up again");
        let (result, why) = last_trial();
        assert!(result == "reverted" && why.contains("its guard did not run for"), "{result}: {why}");
        run(0, "policy remove");
    });
}

/// The time of a trial is the longest that it can last, whatever becomes of the guard.
#[test]
fn killed_guard_does_not_make_a_trial_longer() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("6s");
        kill(guard(), Signal::SIGKILL).unwrap();
        let trial = on_trial();
        let (lease_s, left_s) = (trial["lease_s"].as_f64().unwrap(), trial["ends_within_s"].as_f64().unwrap());
        assert!(lease_s <= left_s + 0.5 && left_s <= 6.0, "{trial}");
        poll_until(SOON, "no rule decides", || lab.given() != TRIED);
        // A new trial clears what is left of this one.
        lab.try_policy("1m");
        assert_eq!((lab.given().as_str(), on_trial()["guard_lives"].as_bool()), (TRIED, Some(true)));
        run(0, "policy abort");
    });
}

/// A guard that was stopped while somebody else cleared the trial, and began another one, leaves that alone.
#[test]
fn stopped_guard_of_an_earlier_trial_leaves_the_next_one_alone() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("1m");
        let earlier = guard();
        kill(earlier, Signal::SIGSTOP).unwrap();
        run(0, "policy abort");
        lab.try_policy("1m");
        let next = guard();
        kill(earlier, Signal::SIGCONT).unwrap();
        poll_until(SOON, "the guard of the earlier trial ends", || is_gone(earlier));
        assert!(!is_gone(next));
        assert_eq!((lab.given().as_str(), on_trial()["guard_lives"].as_bool()), (TRIED, Some(true)));
        run(0, "policy abort");
    });
}
