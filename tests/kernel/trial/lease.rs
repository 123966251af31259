//! The lease of a trial: what the kernel does when the guard is killed or stopped, and what is left afterwards.

use super::*;

/// Shorter than the usual lease, to save time.
const LEASE: Duration = Duration::from_secs(6);

/// Asserts what decides after the end of a lease. Once `show` and `explain` presented the dead trial as in force.
#[track_caller]
fn assert_decides(generation: Option<u32>, why: &str) {
    let said = &format!("the policy was on trial: {why}. New connections are decided as before");
    let shown = run(0, "policy show -o json").json();
    let explained = run(0, "explain 10.0.0.1:1 10.0.0.2:2");
    explained.stdout_has(said).stdout_lacks(TRIED);
    let explained = run(0, "explain 10.0.0.1:1 10.0.0.2:2 -o json").json();
    let status = status()["policy"]["deciding"].clone();
    assert_eq!([&shown["generation"], &explained["generation"], &status], [&Value::from(generation); 3]);
    assert!([&shown, &explained].iter().all(|it| it["over"].as_str().unwrap().starts_with(said)), "{shown}{explained}");
    let table = run(0, "policy show");
    table.stderr_has(said).stdout_lacks(TRIED);
    match generation {
        Some(number) => table.stdout_has(format!("policy generation {number} from ")),
        None => table.stdout_has("no rule decides now"),
    };
    run(0, "status").stdout_has(match generation {
        Some(number) => format!(", no longer in effect: generation {number} decides"),
        None => ", no longer in effect\n".to_owned(),
    });
}

#[test]
fn killed_guard_ends_the_trial_within_the_lease() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    lab.try_policy("1m");
    shorten_lease(LEASE);
    end_guard(Signal::SIGKILL);
    poll_until(SOON, "the guard is dead", || on_trial()["guard_lives"] == false);
    run(0, "status").stdout_has("its guard is dead: connections are decided as before in");
    assert_eq!(lab.given(), TRIED, "the lease is not over");
    lab.apply(1, "use = \"reno\"", "").stderr_has("the policy is on trial");
    poll_until(LEASE + SOON, "the earlier policy decides", || lab.given() == BEFORE);
    run(0, "status").stdout_has("its guard died, and the lease expired. New connections are decided as before");
    assert_eq!(status()["policy"]["generation"], 2, "nothing is cleaned up yet");
    assert_decides(Some(1), "its guard died, and the lease expired");
    // The next command that changes something cleans up.
    run(1, "confirm").stderr_has("too late to confirm the policy: its guard died");
    lab.assert_over(BEFORE, "after the cleanup");
    assert_eq!((last_trial().0.as_str(), is_available(TRIED)), ("interrupted", false));
    run(0, "policy remove");
}

#[test]
fn stopped_guard_does_not_resume_the_trial() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    lab.try_policy("1m");
    shorten_lease(LEASE);
    let guard = guard();
    signal(guard, Signal::SIGSTOP);
    poll_until(LEASE + SOON, "the earlier policy decides", || lab.given() == BEFORE);
    run(0, "status").stdout_has("its guard was stopped, and the lease expired");
    signal(guard, Signal::SIGCONT);
    let mut is_tried = false;
    poll_until(SOON, "the guard ends", || {
        is_tried |= lab.given() == TRIED;
        !is_alive(guard)
    });
    assert!(!is_tried, "the trial was resumed");
    let (result, why) = last_trial();
    assert!(result == "interrupted" && why.contains("its guard did not run for"), "{result}: {why}");
    run(0, "policy remove");
}

/// The trial's time limits it even if the guard is dead.
#[test]
fn killed_guard_does_not_make_a_trial_longer() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("12s");
    end_guard(Signal::SIGKILL);
    let trial = on_trial();
    let (lease_s, left_s) = (trial["lease_s"].as_f64().unwrap(), trial["ends_within_s"].as_f64().unwrap());
    assert!(lease_s <= left_s + 0.5 && left_s <= 12.0, "{trial}");
    poll_until(Duration::from_secs(12) + SOON, "no rule decides", || lab.given() != TRIED);
    assert_decides(None, "nobody confirmed it in time");
    // A new trial cleans up after this one.
    lab.try_policy("1m");
    assert_eq!((lab.given().as_str(), on_trial()["guard_lives"].as_bool()), (TRIED, Some(true)));
    run(0, "policy abort");
}

/// A guard is stopped while another command ends its trial and begins another one.
#[test]
fn stopped_guard_of_an_earlier_trial_leaves_the_next_one_alone() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("1m");
    let earlier = guard();
    signal(earlier, Signal::SIGSTOP);
    run(0, "policy abort");
    lab.try_policy("1m");
    let next = guard();
    signal(earlier, Signal::SIGCONT);
    until_ended(earlier);
    assert!(is_alive(next));
    assert_eq!((lab.given().as_str(), on_trial()["guard_lives"].as_bool()), (TRIED, Some(true)));
    run(0, "policy abort");
}
