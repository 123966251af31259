//! What is refused while something is on trial, what comes too late, and what is damaged.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};

use crate::common::{Owned, begin, host_has, poll_until, tccc};
use crate::lab::sandbox::{assert_nothing_left, available, check, run, stderr, stdout};
use crate::lab::trial::{
    BEFORE, DEFAULT, Lab, SOON, TRIED, guard, in_lab, is_gone, kill_all, last_trial, on_trial, processes, start, status,
};

#[test]
fn one_trial_goes_on_at_a_time() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        run(0, "load dtcp --as ldk_up");
        lab.try_policy("1m");
        let hint = "hint: `tccc confirm` keeps it, `tccc policy abort` ends it; `tccc status` shows it";
        let use_it = format!("use = \"{BEFORE}\"");
        let refused = [
            stderr(&lab.apply(1, &use_it, "")),
            stderr(&lab.apply(1, &use_it, "--trial 1m")),
            stderr(&lab.apply(1, &use_it, "--dry-run")),
            stderr(&run(1, "load dtcp --as ldk_no --default --confirm 1m")),
            stderr(&run(1, "upgrade ldk_up --trial 1m")),
            stderr(&run(1, "upgrade ldk_up")),
            stderr(&run(1, "rollback ldk_up")),
        ];
        for said in refused {
            assert!(said.contains("the policy is on trial") && said.contains(hint), "{said}");
        }
        let loaded = available();
        assert!(!loaded.iter().any(|name| name == "ldk_no" || name.starts_with("ldk_up_")), "{loaded:?}");
        assert_eq!((lab.given().as_str(), processes().len()), (TRIED, 1), "the one guard");
        run(1, "policy pause").stderr_has("the trial has no steps that could be paused");
        run(1, "policy promote").stderr_has("no rule waits for another step");
        run(1, "confirm ldk_up").stderr_has("does not wait to be confirmed");
        run(0, "policy abort");
        run(1, "policy abort").stderr_has("nothing is on trial");
        run(0, "unload ldk_up");
    });
}

fn said(command: Owned) -> (bool, String) {
    let output = command.output();
    (output.status.success(), stdout(&output) + &stderr(&output))
}

/// Starts the same command twice; the first entry is of the one that succeeded.
fn twice(arguments: &[&std::ffi::OsStr]) -> [String; 2] {
    let mut both = [(), ()].map(|()| begin(tccc().args(arguments))).map(said);
    both.sort_by_key(|(is_done, _)| !is_done);
    assert_eq!([both[0].0, both[1].0], [true, false], "{both:?}");
    both.map(|(_, text)| text)
}

#[test]
fn of_two_commands_at_once_one_does_it() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        for _ in 0..4 {
            let file = lab.policy(&format!("use = \"{TRIED}\""));
            let [_, said] =
                twice(&["policy".as_ref(), "apply".as_ref(), file.as_ref(), "--trial".as_ref(), "1m".as_ref()]);
            assert!(said.contains("is on trial") || said.contains("is loaded already"), "{said}");
            assert_eq!((lab.given().as_str(), processes().len()), (TRIED, 1), "the one guard");
            let [done, said] = twice(&["confirm".as_ref()]);
            assert_eq!(done, "the policy is confirmed and stays\n");
            assert!(said.contains("nothing is on trial") || said.contains("nothing waits"), "{said}");
            assert_eq!((lab.given().as_str(), on_trial().is_null(), last_trial().0.as_str()), (TRIED, true, "kept"));
            lab.apply_before();
        }
        // The end and the confirmation: one of them, and what it says is what holds.
        for _ in 0..4 {
            lab.try_policy("1m");
            let [abort, confirm] = [&["policy", "abort"][..], &["confirm"]].map(|it| begin(tccc().args(it))).map(said);
            assert_ne!(abort.0, confirm.0, "{abort:?} {confirm:?}");
            assert_eq!(lab.given(), if confirm.0 { TRIED } else { BEFORE });
            assert_eq!(last_trial().0, if confirm.0 { "kept" } else { "reverted" });
            lab.apply_before();
        }
        run(0, "policy remove");
    });
}

#[test]
fn confirmation_after_the_time_is_refused() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("5s");
        let guard = guard();
        kill(guard, Signal::SIGSTOP).unwrap(); // it would end the trial itself
        poll_until(SOON, "the time is over", || !on_trial()["over"].is_null());
        assert_eq!(lab.given(), DEFAULT);
        run(1, "confirm").stderr_has("too late to confirm the policy: nobody confirmed it in time");
        assert_eq!((lab.given().as_str(), on_trial().is_null()), (DEFAULT, true));
        kill(guard, Signal::SIGCONT).unwrap();
        poll_until(SOON, "the guard ends", || is_gone(guard));
    });
}

/// What the guard saw is for those who look: without it the trial goes on, and ends.
#[test]
fn damaged_view_of_a_trial_changes_nothing() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("1m");
        let view = Path::new("/run/tccc/policy/trial.json");
        poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
        for damage in [&b"{"[..], b"", b"{\"schema\": 9}", b"\xff\xfe"] {
            fs::write(view, damage).unwrap();
            assert!(on_trial()["view"].is_null());
            run(0, "status").stdout_has("the policy is on trial");
        }
        run(0, "confirm");
        assert!(!view.exists());
        run(0, "policy remove");
    });
}

/// Nobody can tell what the trial was: the lease ends it, and the policy can be removed.
#[test]
fn damaged_record_ends_the_trial_by_the_lease() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("6s");
        fs::write("/run/tccc/policy/record.json", "{").unwrap();
        run(0, "status").stdout_has("is damaged");
        run(1, "confirm").stderr_has("is damaged");
        poll_until(SOON, "the lease is over", || lab.given() == DEFAULT);
        poll_until(SOON, "the guard ends", || processes().is_empty());
        run(0, "policy remove");
        assert_nothing_left();
    });
}

/// The pins were removed by hand: nothing decides, and the guard ends.
#[test]
fn trial_whose_pins_are_gone_is_cleared() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.try_policy("1m");
        fs::remove_file("/sys/fs/bpf/tccc/policy/link").unwrap();
        poll_until(SOON, "nothing decides", || lab.given() == DEFAULT);
        poll_until(SOON, "the guard ends", || processes().is_empty());
        assert!(on_trial().is_null());
        lab.try_policy("1m");
        assert_eq!(lab.given(), TRIED);
        run(0, "policy abort");
        assert_nothing_left();
    });
}

#[test]
fn folder_for_state_that_cannot_be_written_does_not_keep_a_trial_from_its_end() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let with = |lab: &Lab, arguments: &[&str]| {
            let mut command = tccc();
            command.args(arguments).env("STATE_DIRECTORY", "/proc/tccc");
            if arguments[0] == "policy" && arguments[1] == "apply" {
                command.arg(lab.policy(&format!("use = \"{TRIED}\"")));
            }
            check(0, &mut command)
        };
        for end in [&["confirm"][..], &["policy", "abort"], &[]] {
            with(lab, &["policy", "apply", "--trial", "1m"]);
            assert_eq!(lab.given(), TRIED);
            if end.is_empty() {
                kill(guard(), Signal::SIGTERM).unwrap();
                poll_until(SOON, "the guard ends", || processes().is_empty());
            } else {
                with(lab, end);
            }
            assert!(on_trial().is_null() && status()["last_trial"].is_null());
            assert_eq!(lab.given(), if end == ["confirm"] { TRIED } else { DEFAULT });
            if end == ["confirm"] {
                run(0, "policy remove");
            }
            assert_nothing_left();
        }
    });
}

/// Between the command that is killed and the guard that is killed nothing is lost: `unload --all` finds it.
#[test]
fn everything_killed_is_restored_by_unload_all() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply_before();
        lab.try_policy("1m");
        let _ = start(tccc().args(["policy", "abort"]).env(tccc::fault::VARIABLE, "revert.swapped")).wait();
        kill_all();
        run(0, "unload --all");
        assert_eq!(lab.given(), DEFAULT);
        assert_nothing_left();
    });
}
