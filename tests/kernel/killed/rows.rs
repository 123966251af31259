//! The rows: what each command promises if it is killed.

use super::*;
use crate::lab::policy::programs;

/// A test for each row, and the list of all rows.
macro_rules! rows {
    ($($test:ident: $row:expr;)+) => {
        pub const ALL: &[Row] = &[$($row),+];
        $(
            #[test]
            fn $test() {
                $row.check(&enter!(TrialLab; root, struct_ops, bpffs, cgroup2));
            }
        )+
    };
}

/// What most rows share.
const PLAIN: Row =
    Row { before: &[&[]], kill: |_| (), points: &[], left: |_| (), next: &["unload --all"], after: |_| () };
const GIVE_BEFORE: &str = "policy apply cubic.toml";
const TRY: &str = "policy apply dtcp.toml --trial 1m";
const UPGRADE: &str = "upgrade ldk_kill --accept-risk --set keep_avoidance=905";
const REVERT: &[&str] = &["revert.swapped", "revert.noted", "revert.cleared"];
const UPGRADE_POINTS: &[&str] =
    &["upgrade.noted", "upgrade.companion", "upgrade.linked", "upgrade.pinned", "upgrade.defaults"];
const APPLY_POINTS: &[&str] =
    &["apply.algorithms", "apply.noted", "apply.pinned", "apply.numbered", "apply.attached", "apply.settled"];

rows! {
    load: Row {
        kill: |it| it.dies("load dtcp --as ldk_kill --default"),
        points: &["load.locked", "load.registered"],
        ..PLAIN
    };
    load_with_companion: Row {
        kill: |it| it.dies("load mswift --as ldk_kill"),
        points: &["load.companion"],
        ..PLAIN
    };
    first_policy: Row {
        kill: |it| it.dies("policy apply dtcp.toml"),
        points: APPLY_POINTS,
        left: applied_or_not,
        next: &["policy apply --accept-risk bbr.toml", "policy remove"],
        after: given_what_is_applied,
        ..PLAIN
    };
    other_policy: Row {
        before: &[&["policy apply --accept-risk tahoe.toml"]],
        kill: |it| it.dies("policy apply dtcp.toml"),
        points: APPLY_POINTS,
        left: applied_or_not,
        next: &["policy apply --accept-risk bbr.toml"],
        after: given_what_is_applied,
    };
    policy_remove: Row {
        before: &[&["policy apply dtcp.toml"]],
        kill: |it| it.dies("policy remove"),
        points: &["remove.detached", "remove.cleared"],
        left: |it| {
            shown_is_given(it);
            assert_eq!(it.lab.given(), DEFAULT);
        },
        next: &["policy remove", "policy apply --accept-risk bbr.toml", "unload --all"],
        after: given_what_is_applied,
    };
    upgrade: Row {
        before: &[&["load dtcp --as ldk_kill"], &["load dtcp --as ldk_kill --default"]],
        kill: |it| it.dies("upgrade ldk_kill --accept-risk --set keep_avoidance=901"),
        points: UPGRADE_POINTS,
        left: changed_or_not,
        next: &[UPGRADE],
        after: upgraded_and_rolled_back,
    };
    rollback: Row {
        before: &[&["load dtcp --as ldk_kill --set keep_avoidance=901", "upgrade ldk_kill --set keep_avoidance=902"]],
        kill: |it| it.dies("rollback ldk_kill"),
        points: &["rollback.linked", "upgrade.pinned", "upgrade.defaults"],
        left: changed_or_not,
        next: &[UPGRADE],
        after: upgraded_and_rolled_back,
    };
    rollback_at_its_end: Row {
        before: &[&["load dtcp --as ldk_kill --set keep_avoidance=901", "upgrade ldk_kill --set keep_avoidance=902"]],
        kill: |it| it.dies("rollback ldk_kill"),
        points: &["rollback.pinned"],
        left: |_| {
            assert_eq!(generation(NAME), (Some(1), Some(901)));
            assert_eq!(drift(NAME), [] as [String; 0]);
        },
        next: &["unload ldk_kill"],
        ..PLAIN
    };
    // Later points do not change the companion.
    companion_of_new_code: Row {
        before: &[&["load mswift --as ldk_kill"], &["load dtcp --as ldk_kill"]],
        kill: |it| it.dies("upgrade ldk_kill mswift"),
        points: &["upgrade.noted", "upgrade.companion", "upgrade.linked"],
        left: attached_if_needed,
        next: &["upgrade ldk_kill mswift", "upgrade ldk_kill tahoe"],
        after: attached_if_loaded,
    };
    companion_of_old_code: Row {
        before: &[&["load mswift --as ldk_kill"]],
        kill: |it| it.dies("upgrade ldk_kill dtcp"),
        points: &["upgrade.noted", "upgrade.companion", "upgrade.linked"],
        left: attached_if_needed,
        next: &["upgrade ldk_kill mswift"],
        after: attached_if_loaded,
    };
    upgrade_without_links: Row {
        kill: |it| {
            gate::load(&dtcp_as(NAME), LoadOptions::default(), &without_links()).unwrap();
            it.run("policy apply ldk_kill.toml");
            die_at(it.point, &mut test_alone(module_path!(), "upgrade_without_links_to_kill"));
        },
        points: &["beside.bridged", "beside.loaded", "beside.restored"],
        left: |it| assert!([NAME, "ldk_kill_g2"].contains(&it.lab.given().as_str()), "{}", it.lab.given()),
        next: &["policy apply --accept-risk ldk_kill.toml"],
        after: |it| assert_eq!(it.lab.given(), NAME),
        ..PLAIN
    };
    // Before the trial decides, the guard ends with the command.
    trial_that_does_not_decide: Row {
        before: &[&[GIVE_BEFORE]],
        kill: |it| it.dies(TRY),
        points: &["trial.guard", "apply.noted", "apply.pinned", "apply.numbered"],
        left: |it| it.assert_decided(BEFORE),
        next: &["policy remove"],
        after: |_| assert!(!is_available(TRIED), "algorithms of interrupted trials are unloaded with the policy"),
    };
    // Once the trial decides, the guard continues it.
    trial_that_decides: Row {
        before: &[&[GIVE_BEFORE]],
        kill: |it| it.dies(TRY),
        points: &["apply.attached", "trial.begun"],
        left: |it| {
            assert_eq!((it.lab.given().as_str(), &on_trial()["guard_lives"]), (TRIED, &Value::Bool(true)));
            end_guard(Signal::SIGTERM);
            it.assert_decided(BEFORE);
        },
        next: &["policy remove"],
        after: |_| assert!(!is_available(TRIED), "algorithms of interrupted trials are unloaded with the policy"),
    };
    // Once the reason was lost if the process was killed after the swap.
    abort: Row {
        before: &[&[GIVE_BEFORE, TRY], &[TRY]],
        kill: |it| it.dies("policy abort"),
        points: REVERT,
        left: |it| {
            it.assert_decided(if it.before.len() == 2 { BEFORE } else { DEFAULT });
            run(1, "policy pause");
            assert_eq!(last_trial(), ("reverted".to_owned(), "a person ended it".to_owned()));
        },
        next: &[TRY],
        after: |it| {
            assert_eq!(it.lab.given(), TRIED, "the next trial works");
            it.run("policy abort");
            it.assert_decided(if it.before.len() == 2 { BEFORE } else { DEFAULT });
        },
    };
    guard_that_ends_a_trial: Row {
        before: &[&[GIVE_BEFORE]],
        kill: |it| {
            check(0, it.command(TRY).env(tccc::fault::VARIABLE, it.point));
            end_guard(Signal::SIGTERM);
        },
        points: REVERT,
        left: |it| {
            it.assert_decided(BEFORE);
            run(1, "confirm").stderr_has("nothing");
        },
        next: &["policy remove"],
        ..PLAIN
    };
    // The guard continues the confirmation.
    confirmed_policy: Row {
        before: &[&[GIVE_BEFORE, TRY]],
        kill: |it| it.dies("confirm"),
        points: &["confirm.noted", "apply.noted", "apply.numbered", "apply.attached", "confirm.swapped"],
        left: |it| {
            assert_eq!(it.lab.given(), TRIED);
            it.assert_decided(TRIED);
        },
        next: &["policy remove"],
        ..PLAIN
    };
    confirmed_default: Row {
        before: &[&["load dtcp --as ldk_kill --default --confirm 1m"]],
        kill: |it| it.dies("confirm"),
        points: &["confirm.noted", "confirm.default", "revert.swapped", "revert.noted", "confirm.swapped"],
        left: |_| {
            assert_eq!(given_on_host()[0], NAME);
            until_no_process();
            assert_eq!((default().as_str(), given_on_host()[0].as_str(), on_trial().is_null()), (NAME, NAME, true));
            assert!(!Path::new("/sys/fs/bpf/tccc/policy").exists(), "no rule is left");
        },
        next: &["unload ldk_kill"],
        ..PLAIN
    };
    // If the upgrade were made twice, the earlier code would be lost.
    confirmed_upgrade: Row {
        before: &[&["load dtcp --as ldk_kill", "upgrade ldk_kill --set keep_avoidance=896 --trial 1m"]],
        kill: |it| it.dies("confirm"),
        points: &[
            "confirm.noted", "revert.swapped", "confirm.swapped", "upgrade.noted", "upgrade.linked", "confirm.upgraded",
        ],
        left: |it| {
            until_no_process();
            assert!(on_trial().is_null());
            assert_eq!(it.connect(&Endpoints::choosing(NAME)).algorithms()[0], NAME);
            assert_eq!((generation(NAME).0, instance(NAME)["previous_generation"].as_u64()), (Some(2), Some(1)));
        },
        next: &["rollback ldk_kill"],
        after: |_| assert_eq!(generation(NAME), (Some(1), None), "the earlier code is kept"),
    };
}

/// New connections get what the shown policy gives.
fn shown_is_given(it: &Kill) {
    let (status, shown) = (status(), show());
    let gives = shown["policy"]["rules"][0]["split"]["arms"][0]["treatment"]["algorithm"].as_str();
    assert_eq!(status["policy"]["generation"], shown["generation"]);
    assert_eq!(it.lab.given(), gives.unwrap_or(DEFAULT), "{status}");
    let drift = shown["drift"].as_array().unwrap();
    assert!(gives.is_some() || programs() == 0 || !drift.is_empty() || shown["counts"].is_null(), "{shown}");
}

fn applied_or_not(it: &Kill) {
    shown_is_given(it);
    let is_applied = show()["policy"]["rules"][0]["split"].to_string().contains(TRIED);
    assert_eq!(is_applied, ["apply.attached", "apply.settled"].contains(&it.point));
}

fn given_what_is_applied(it: &Kill) {
    if it.next.starts_with("policy apply") {
        assert_eq!((it.lab.given().as_str(), &status()["policy"]["drift"]), ("bbr", &Value::Array(Vec::new())));
        assert_eq!(registered(), [] as [String; 0], "no rule names it any more");
        it.run("policy remove").stdout_has("the policy is removed");
    }
    assert_eq!(it.run("unload --all").stdout(), "nothing is loaded\n");
}

/// Before its last step, a change has not begun or is reported as unfinished.
fn changed_or_not(it: &Kill) {
    let (is_changed, drift) = (Some(code()) != it.code, drift(NAME));
    let is_told = drift.iter().any(|it| it.contains("a replacement was interrupted"));
    assert_eq!((drift.len(), is_told), if is_changed { (1, true) } else { (0, false) }, "{drift:?}");
    assert!(is_changed || generation(NAME).0 == it.generation);
}

fn upgraded_and_rolled_back(it: &Kill) {
    let after = generation(NAME);
    assert!(after.0 > it.generation && after.1 == Some(905), "{after:?}");
    assert_ne!(Some(code()), it.code);
    assert_eq!(drift(NAME), [] as [String; 0]);
    it.run("rollback ldk_kill");
    assert_eq!(drift(NAME), [] as [String; 0]);
}

fn attached_if_needed(it: &Kill) {
    let is_needed = it.before[0].contains("mswift") || instance(NAME)["algorithm"] == "mswift";
    assert!(attached().len() == 1 || !is_needed);
}

fn attached_if_loaded(it: &Kill) {
    assert_eq!(drift(NAME), [] as [String; 0]);
    assert!(attached().len() == 1 || it.next.ends_with("tahoe")); // code to roll back to may need it too
}

#[test]
#[ignore = "started by the test `upgrade_without_links`, to be killed"]
fn upgrade_without_links_to_kill() {
    let settings = catalog::find("dtcp").unwrap().settings(&["keep_avoidance=896".to_owned()]).unwrap();
    gate::upgrade(&Request { settings: &settings, ..dtcp_as(NAME) }, &without_links(), false).unwrap();
}
