//! Algorithms with a companion program, which is attached, listed and detached with them; receivers without an algorithm.

use super::*;

fn until_detached(before: usize) {
    poll_until(SOON, "the kernel detaches", || attached().len() == before);
}

#[test]
fn companion_comes_and_goes_with_its_algorithm() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let before = attached().len();
    run(0, "load mswift --as ldk_pair --dry-run")
        .stdout_has("attach \"pair_delta\" to the cgroup ")
        .stdout_has("pin it at /sys/fs/bpf/tccc/companions/ldk_pair");
    assert_nothing_left();
    assert_eq!(attached().len(), before);
    let said = stdout(&run(0, "load mswift --as ldk_pair"));
    assert!(said.starts_with("\"ldk_pair\" companion: \"pair_delta\" attached to the cgroup "), "{said}");
    assert_eq!(attached().len(), before + 1);
    let instance = instance("ldk_pair");
    assert_eq!((instance["standing"].as_str(), instance["receiver"].as_bool()), (Some("pinned"), Some(false)));
    assert_eq!((&instance["companion"]["program"], drift("ldk_pair")), (&"pair_delta".into(), vec![]));
    run(1, "load mswift --as ldk_pair --receiver")
        .stderr_has("\"ldk_pair\" is loaded already: its companion receives too");
    run(0, "load mswift --as ldk_pair --replace --set estimate_divisor=2");
    assert_eq!((attached().len(), status()[0]["generation"].as_u64()), (before + 1, Some(2)));
    run(0, "unload ldk_pair --dry-run").stdout_has("detach \"pair_delta\" from the cgroup ");
    run(0, "unload ldk_pair");
    until_detached(before);
}

#[test]
fn receiver_registers_nothing_and_is_listed() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let before = attached().len();
    run(0, "load mswift --as ldk_end --receiver --dry-run")
        .stdout_has("loading its receiving side would")
        .stdout_lacks("register");
    run(0, "load mswift --as ldk_end --receiver");
    assert!(!is_available("ldk_end"));
    assert_eq!(attached().len(), before + 1);
    let instance = instance("ldk_end");
    assert_eq!((instance["standing"].as_str(), instance["receiver"].as_bool()), (Some("pinned"), Some(true)));
    assert_eq!((instance["registered"].as_bool(), drift("ldk_end")), (Some(false), vec![]));
    run(0, "status").stdout_has("mswift (receiver)");
    run(1, "load mswift --as ldk_end").stderr_has("\"ldk_end\" is already loaded with `--receiver` only");
    run(0, "unload ldk_end").stdout_has("\"ldk_end\" no longer receives");
    run(0, "load mswift --as ldk_end --receiver");
    run(0, "unload --all");
    until_detached(before);
}

#[test]
fn companion_options_that_do_not_apply_are_refused() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let check = |arguments: &str, words: &str| _ = run(2, arguments).stderr_has(words);
    check("load dtcp --as ldk_no --receiver", "\"dtcp\" needs nothing at the receiver");
    check("load dtcp --as ldk_no --cgroup /", "\"dtcp\" has no companion program, so there is nothing to attach");
    check("load mswift --as ldk_no --cgroup /ldk_is_not_there", "no cgroup \"/ldk_is_not_there\"");
    check("load mswift --as ldk_no --receiver --default", "cannot be used with");
}

#[test]
fn companion_in_a_removed_cgroup_is_drift() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let before = attached().len();
    let group = TestCgroup::create("/ldk_companion");
    run(0, "load mswift --as ldk_cgroup --cgroup /ldk_companion");
    assert_eq!(status()[0]["companion"]["cgroup"], group.path().to_str().unwrap());
    assert_eq!(attached().len(), before + 1);
    drop(group);
    poll_until(SOON, "the attachment goes with its cgroup", || attached().len() == before);
    assert!(drift("ldk_cgroup")[0].contains("its companion program is no longer attached"));
    run(0, "unload ldk_cgroup");
    until_detached(before);
}
