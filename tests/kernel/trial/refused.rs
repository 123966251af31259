//! Commands that are refused during a trial or come too late, and trials with damaged or missing state.

use super::*;
use crate::common::{CommandOutput, STATE_FOLDER, TCCC, begin};

#[test]
fn only_one_trial_runs_at_a_time() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_up");
    lab.try_policy("1m");
    let hint = "hint: `tccc confirm` keeps it, `tccc policy abort` ends it; `tccc status` shows it";
    let use_it = format!("use = \"{BEFORE}\"");
    for said in [
        lab.apply(1, &use_it, ""),
        lab.apply(1, &use_it, "--trial 1m"),
        lab.apply(1, &use_it, "--dry-run"),
        run(1, "load dtcp --as ldk_no --default --confirm 1m"),
        run(1, "upgrade ldk_up --trial 1m"),
        run(1, "upgrade ldk_up"),
        run(1, "rollback ldk_up"),
    ] {
        said.stderr_has("the policy is on trial").stderr_has(hint);
    }
    let loaded = available();
    assert!(!loaded.iter().any(|name| name == "ldk_no" || name.starts_with("ldk_up_")), "{loaded:?}");
    assert_eq!((lab.given().as_str(), processes().len()), (TRIED, 1), "one guard");
    run(1, "policy pause").stderr_has("the trial has no steps that could be paused");
    run(1, "policy promote").stderr_has("no rule waits for another step");
    run(1, "confirm ldk_up").stderr_has("needs no confirmation");
    run(0, "policy abort");
    run(1, "policy abort").stderr_has("nothing is on trial");
    run(0, "unload ldk_up");
}

fn said(command: Owned) -> (bool, String) {
    let output = command.output();
    (output.status.success(), stdout(&output) + &stderr(&output))
}

/// Runs the same command twice at once. Returns the output of the command that succeeded, then of the other.
fn twice(arguments: &[&str]) -> [String; 2] {
    let mut both = [(), ()].map(|()| begin(tccc().args(arguments))).map(said);
    both.sort_by_key(|(is_done, _)| !is_done);
    assert_eq!([both[0].0, both[1].0], [true, false], "{both:?}");
    both.map(|(_, text)| text)
}

#[test]
fn one_of_two_commands_at_once_succeeds() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    for _ in 0..4 {
        let file = lab.policy(&format!("use = \"{TRIED}\""));
        let [_, said] = twice(&["policy", "apply", file.to_str().unwrap(), "--trial", "1m"]);
        assert!(said.contains("is on trial") || said.contains("is loaded already"), "{said}");
        assert_eq!((lab.given().as_str(), processes().len()), (TRIED, 1), "the one guard");
        let [done, said] = twice(&["confirm"]);
        assert_eq!(done, "the policy is confirmed and stays\n");
        assert!(said.contains("nothing is on trial") || said.contains("nothing needs confirmation"), "{said}");
        lab.assert_over(TRIED, "confirmed");
        assert_eq!(last_trial().0, "kept");
        lab.apply_before();
    }
    // Either the abort or the confirmation succeeds, and its message is true.
    for _ in 0..4 {
        lab.try_policy("1m");
        let [abort, confirm] = [&["policy", "abort"][..], &["confirm"]].map(|it| begin(tccc().args(it))).map(said);
        assert_ne!(abort.0, confirm.0, "{abort:?} {confirm:?}");
        assert_eq!(lab.given(), if confirm.0 { TRIED } else { BEFORE });
        assert_eq!(last_trial().0, if confirm.0 { "kept" } else { "reverted" });
        lab.apply_before();
    }
    run(0, "policy remove");
}

#[test]
fn confirmation_after_the_time_is_refused() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("5s");
    let guard = guard();
    signal(guard, Signal::SIGSTOP); // otherwise it would end the trial
    poll_until(SOON, "the time is over", || !on_trial()["over"].is_null());
    assert_eq!(lab.given(), DEFAULT);
    run(1, "confirm").stderr_has("too late to confirm the policy: nobody confirmed it in time");
    lab.assert_over(DEFAULT, "after the refusal");
    signal(guard, Signal::SIGCONT);
    until_ended(guard);
}

/// The guard's view is only for display. The trial does not depend on it.
#[test]
fn damaged_view_does_not_change_a_trial() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("1m");
    let view = Path::new("/run/tccc/policy/trial.json");
    until_guard_has_looked();
    for damage in [&b"{"[..], b"", b"{\"schema\": 9}", b"\xff\xfe"] {
        fs::write(view, damage).unwrap();
        assert!(on_trial()["view"].is_null());
        run(0, "status").stdout_has("the policy is on trial");
    }
    run(0, "confirm");
    assert!(!view.exists());
    run(0, "policy remove");
}

/// Without its record the trial is unknown, but the lease ends it, and the policy can be removed.
#[test]
fn damaged_record_ends_the_trial_by_the_lease() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("6s");
    fs::write("/run/tccc/policy/record.json", "{").unwrap();
    run(0, "status").stdout_has("is damaged");
    run(1, "confirm").stderr_has("is damaged");
    poll_until(SOON, "the lease is over", || lab.given() == DEFAULT);
    until_no_process();
    run(0, "policy remove");
    assert_nothing_left();
}

#[test]
fn trial_without_pins_is_cleaned_up() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("1m");
    fs::remove_file("/sys/fs/bpf/tccc/policy/link").unwrap();
    poll_until(SOON, "nothing decides", || lab.given() == DEFAULT);
    until_no_process();
    assert!(on_trial().is_null());
    lab.try_policy("1m");
    assert_eq!(lab.given(), TRIED);
    run(0, "policy abort");
    assert_nothing_left();
}

#[test]
fn trial_ends_without_a_writable_state_folder() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let with = |lab: &TrialLab, arguments: &[&str]| {
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
            end_guard(Signal::SIGTERM);
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
}

#[test]
fn unload_all_restores_the_host_after_command_and_guard_were_killed() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply_before();
    lab.try_policy("1m");
    killed_at("revert.swapped", &["policy", "abort"]);
    kill_all();
    run(0, "unload --all");
    assert_eq!(lab.given(), DEFAULT);
    assert_nothing_left();
}

/// Runs tccc in a mount namespace of its own, without the BPF file system.
#[track_caller]
fn without_pins(code: i32, arguments: &str) -> CommandOutput {
    let mut command = Command::new("unshare");
    let script = format!("umount /sys/fs/bpf && exec {TCCC} {arguments}");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).env("STATE_DIRECTORY", STATE_FOLDER);
    check(code, &mut command)
}

/// Once `policy abort` there ended the guard and wrote "reverted", and the trial decided on until its lease was over.
#[test]
fn command_without_the_pins_changes_all_or_nothing() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.try_policy("1m");
    until_guard_has_looked();
    let guard = guard();
    for verb in ["policy abort", "policy pause", "policy promote", "confirm"] {
        without_pins(1, verb)
            .stderr_has("its pins are not in the BPF file system mounted here; nothing is changed")
            .stderr_has(format!("nsenter --target {guard} --mount"));
    }
    assert_eq!((is_alive(guard), lab.given().as_str(), last_trial().0.as_str()), (true, TRIED, ""));
    assert_eq!(on_trial()["guard_lives"], true);
    // What is removed there decides no more, and the message says what is left.
    without_pins(1, "policy remove").stdout_has("the policy is removed").stderr_has("unload \"dtcp\"");
    assert_eq!((lab.given().as_str(), last_trial().0.as_str()), (DEFAULT, "interrupted"));
    until_no_process();
    run(0, "unload --all");
}
