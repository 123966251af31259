//! Upgrades and rollbacks killed between any two steps: the name stays registered, flows continue, the next command works.

use tccc::kernel::bpf;

use super::*;

const NAME: &str = "ldk_kill";

fn chosen(lab: &PolicyLab) -> SocketPair {
    lab.pair(&Endpoints::choosing(NAME))
}

fn registered() -> u32 {
    let link = bpf::open_pin(format!("/sys/fs/bpf/tccc/links/{NAME}").as_ref()).unwrap();
    struct_ops::link_target(&link).unwrap().map_id
}

/// Kills a command at a point, checks what is left, and lets the next commands continue.
fn check(lab: &PolicyLab, point: &str, words: &[&str]) {
    let (before, mut established) = (registered(), chosen(lab));
    let generation = instance(NAME)["generation"].as_u64().unwrap();
    killed_at(point, words);
    established.exchange(100_000);
    assert_eq!(established.algorithms(), [NAME, NAME], "{point}");
    let mut fresh = chosen(lab);
    fresh.exchange(100_000);
    // Before its last step, a change has not begun or is reported as unfinished.
    let is_changed = registered() != before;
    let is_told = drift(NAME).iter().any(|it| it.contains("a replacement was interrupted"));
    assert_eq!(
        (drift(NAME).len(), is_told),
        if is_changed { (1, true) } else { (0, false) },
        "{point}: {:?}",
        drift(NAME)
    );
    assert!(is_changed || instance(NAME)["generation"] == generation, "{point}");
    run(0, &format!("upgrade {NAME} --accept-risk --set keep_avoidance=905"));
    let after = instance(NAME);
    assert_eq!(drift(NAME), [] as [String; 0], "{point}");
    assert!(after["generation"].as_u64().unwrap() > generation, "{point}: {after}");
    assert_eq!(after["tunables"]["keep_avoidance"], 905, "{point}");
    assert_ne!(registered(), before, "{point}");
    run(0, &format!("rollback {NAME}"));
    assert_eq!(drift(NAME), [] as [String; 0], "{point}");
    established.exchange(100_000);
    fresh.exchange(100_000);
    drop((established, fresh, chosen(lab)));
    run(0, "unload --all");
    assert_nothing_left();
}

#[test]
fn upgrade_killed_at_any_point_is_continued() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    for point in points("upgrade.") {
        for is_default in [false, true] {
            let before = default();
            run(0, &format!("load dtcp --as {NAME}{}", if is_default { " --default" } else { "" }));
            check(lab, point, &["upgrade", NAME, "--accept-risk", "--set", "keep_avoidance=901"]);
            assert_eq!(default(), before, "{point}");
        }
    }
}

#[test]
fn rollback_killed_at_any_point_is_continued() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let shared = ["upgrade.pinned", "upgrade.defaults"];
    for point in points("rollback.").into_iter().chain(shared).filter(|point| *point != "rollback.pinned") {
        run(0, &format!("load dtcp --as {NAME} --set keep_avoidance=901"));
        run(0, &format!("upgrade {NAME} --set keep_avoidance=902"));
        check(lab, point, &["rollback", NAME]);
    }
}

#[test]
fn rollback_killed_at_its_last_point_is_complete() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, &format!("load dtcp --as {NAME} --set keep_avoidance=901"));
    run(0, &format!("upgrade {NAME} --set keep_avoidance=902"));
    killed_at("rollback.pinned", &["rollback", NAME]);
    assert_eq!(generation(NAME), (Some(1), Some(901)));
    assert_eq!(drift(NAME), [] as [String; 0]);
    chosen(lab).exchange(1000);
    run(0, "unload --all");
}

#[test]
fn companion_is_attached_wherever_an_upgrade_is_killed() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let root = std::fs::File::open(cgroup::mount_point().unwrap()).unwrap();
    let attached = || {
        let programs = bpf::sock_ops_of(&root).unwrap().ids.into_iter();
        programs.filter(|&id| bpf::program_name(id).as_deref() == Some("pair_delta")).count()
    };
    // Later points do not change the companion.
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
            assert_eq!(drift(NAME), [] as [String; 0], "{when}");
            assert!(attached() == 1 || then == "tahoe", "{when}");
            run(0, "unload --all");
            assert_eq!(attached(), 0, "{when}");
            assert_nothing_left();
        }
    }
}

#[test]
fn rollback_beside_a_stopped_upgrade_waits_and_fails() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, &format!("load dtcp --as {NAME}"));
    let before = registered();
    let stopped = Stopped::at("upgrade.linked", &["upgrade", NAME]);
    assert_ne!(registered(), before);
    let mut pair = chosen(lab);
    run(5, &format!("rollback {NAME}")).stderr_has(stopped.refusal(&format!("\"{NAME}\"")));
    assert!(drift(NAME)[0].contains("a replacement was interrupted"), "{:?}", drift(NAME));
    stopped.kill();
    pair.exchange(100_000);
    assert!(stdout(&run(0, &format!("rollback {NAME}"))).starts_with("\"ldk_kill\": generation 1 (was 2)"));
    assert_eq!((registered(), drift(NAME)), (before, vec![]));
    pair.exchange(100_000);
    run(0, &format!("unload {NAME}"));
}
