//! Killed between any two steps of an upgrade or a rollback: the name is there, flows go on, the next command works.

use tccc::kernel::struct_ops;
use tccc::kernel::{bpf, cgroup};

use crate::common::host_has;
use crate::lab::policy::fault::{Stopped, killed_at, points};
use crate::lab::policy::{Ends, Lab, Pair, with_lab};
use crate::lab::sandbox::{assert_nothing_left, instance, run, stdout};

const NAME: &str = "ldk_kill";

fn chosen(lab: &Lab) -> Pair {
    lab.pair(&Ends { client: Some(NAME), listener: Some(NAME), ..Ends::new("127.0.0.1", "127.0.0.2") })
}

/// Number of the map that the name stands for now.
fn registered() -> u32 {
    let link = bpf::open_pin(format!("/sys/fs/bpf/tccc/links/{NAME}").as_ref()).unwrap();
    struct_ops::link_target(&link).unwrap().map_id
}

fn drift() -> Vec<String> {
    let drift = instance(NAME)["drift"].clone();
    drift.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Kills at a point what changes the code of a name, and looks at what is left.
fn check(lab: &Lab, point: &str, words: &[&str]) {
    let (before, mut established) = (registered(), chosen(lab));
    let generation = instance(NAME)["generation"].as_u64().unwrap();
    killed_at(point, words);
    established.exchange(100_000);
    assert_eq!(established.algorithms(), [NAME, NAME], "{point}");
    let mut fresh = chosen(lab);
    fresh.exchange(100_000);
    // Until its last step a change is either not begun, or said to be unfinished.
    let is_changed = registered() != before;
    let is_told = drift().iter().any(|it| it.contains("a replacement was interrupted"));
    assert_eq!((drift().len(), is_told), if is_changed { (1, true) } else { (0, false) }, "{point}: {:?}", drift());
    if !is_changed {
        assert_eq!(instance(NAME)["generation"].as_u64(), Some(generation), "{point}");
    }
    run(0, &format!("upgrade {NAME} --accept-risk --set keep_avoidance=905"));
    let after = instance(NAME);
    assert_eq!(drift(), [] as [String; 0], "{point}");
    assert!(after["generation"].as_u64().unwrap() > generation, "{point}: {after}");
    assert_eq!(after["tunables"]["keep_avoidance"], 905, "{point}");
    assert_ne!(registered(), before, "{point}");
    run(0, &format!("rollback {NAME}"));
    assert_eq!(drift(), [] as [String; 0], "{point}");
    established.exchange(100_000);
    fresh.exchange(100_000);
    drop((established, fresh, chosen(lab)));
    run(0, "unload --all");
    assert_nothing_left();
}

#[test]
fn upgrade_killed_at_any_point_is_continued() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        for point in points("upgrade.") {
            for is_default in [false, true] {
                let default = crate::lab::sandbox::default();
                run(0, &format!("load dtcp --as {NAME}{}", if is_default { " --default" } else { "" }));
                check(lab, point, &["upgrade", NAME, "--accept-risk", "--set", "keep_avoidance=901"]);
                assert_eq!(crate::lab::sandbox::default(), default, "{point}");
            }
        }
    });
}

#[test]
fn rollback_killed_at_any_point_is_continued() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        let shared = ["upgrade.pinned", "upgrade.defaults"];
        for point in points("rollback.").into_iter().chain(shared).filter(|point| *point != "rollback.pinned") {
            run(0, &format!("load dtcp --as {NAME} --set keep_avoidance=901"));
            run(0, &format!("upgrade {NAME} --set keep_avoidance=902"));
            check(lab, point, &["rollback", NAME]);
        }
    });
}

/// The last point of a rollback comes when everything is done.
#[test]
fn rollback_killed_at_its_end_is_whole() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        run(0, &format!("load dtcp --as {NAME} --set keep_avoidance=901"));
        run(0, &format!("upgrade {NAME} --set keep_avoidance=902"));
        killed_at("rollback.pinned", &["rollback", NAME]);
        let instance = instance(NAME);
        assert_eq!((&instance["generation"], &instance["tunables"]["keep_avoidance"]), (&1.into(), &901.into()));
        assert_eq!(drift(), [] as [String; 0]);
        chosen(lab).exchange(1000);
        run(0, "unload --all");
    });
}

#[test]
fn companion_is_there_wherever_an_upgrade_is_killed() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |_| {
        let root = std::fs::File::open(cgroup::mount_point().unwrap()).unwrap();
        let attached = || {
            let programs = bpf::sock_ops_of(&root).unwrap().ids.into_iter();
            programs.filter(|&id| bpf::program_name(id).as_deref() == Some("pair_delta")).count()
        };
        // After these the companion does not change any more.
        for point in points("upgrade.").into_iter().take(3) {
            for [before, after, then] in [
                ["mswift", "mswift", "mswift"],
                ["mswift", "dtcp", "mswift"],
                ["dtcp", "mswift", "mswift"],
                ["dtcp", "mswift", "tahoe"],
            ] {
                let when = format!("{point}, {before} to {after}, then {then}");
                run(0, &format!("load {before} --as {NAME}"));
                killed_at(point, &["upgrade", NAME, after]);
                let is_needed = before == "mswift" || instance(NAME)["algorithm"] == "mswift";
                assert!(attached() == 1 || !is_needed, "{when}");
                run(0, &format!("upgrade {NAME} {then}"));
                assert_eq!(drift(), [] as [String; 0], "{when}");
                assert!(attached() == 1 || then == "tahoe", "{when}");
                run(0, "unload --all");
                assert_eq!(attached(), 0, "{when}");
                assert_nothing_left();
            }
        }
    });
}

#[test]
fn command_beside_a_stopped_upgrade_waits_and_then_says_so() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        run(0, &format!("load dtcp --as {NAME}"));
        let before = registered();
        let stopped = Stopped::at("upgrade.linked", &["upgrade", NAME]);
        assert_ne!(registered(), before);
        let mut pair = chosen(lab);
        run(5, &format!("rollback {NAME}")).stderr_has(stopped.refusal(&format!("\"{NAME}\"")));
        assert!(drift()[0].contains("a replacement was interrupted"), "{:?}", drift());
        stopped.kill();
        pair.exchange(100_000);
        assert!(stdout(&run(0, &format!("rollback {NAME}"))).starts_with("\"ldk_kill\": generation 1 (was 2)"));
        assert_eq!((registered(), drift()), (before, vec![]));
        pair.exchange(100_000);
        run(0, &format!("unload {NAME}"));
    });
}
