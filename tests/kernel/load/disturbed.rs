//! Loads disturbed by others: a second `tccc`, another BPF file system, damaged records.

use nix::mount::umount;

use super::*;

const RECORD: &str = "/run/tccc/ldk_odd.json";

/// The second load once overwrote the record of the first, and then removed its pins.
#[test]
fn loads_at_the_same_time_do_not_undo_each_other() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = default();
    let start = |options: &str| begin_quietly(tccc().args(["load", "dtcp", "--as", "ldk_two", options]));
    for _ in 0..3 {
        let mut first = start("--default");
        let mut second = start("--replace");
        let first_came_first = first.wait().unwrap().success();
        assert!(second.wait().unwrap().success());
        let instance = &status()[0];
        assert_eq!(instance["standing"], "pinned");
        assert_eq!(instance["generation"], if first_came_first { 2 } else { 1 });
        assert_eq!(default() == "ldk_two", first_came_first);
        run(0, "unload ldk_two");
        assert_eq!(default(), before);
    }
}

#[test]
fn algorithm_that_cannot_be_unloaded_does_not_keep_the_others_loaded() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_held --default");
    run(0, "load dtcp --as ldk_later");
    let link = bpf::open_pin("/sys/fs/bpf/tccc/links/ldk_held".as_ref()).unwrap();
    fs::remove_file("/sys/fs/bpf/tccc/links/ldk_held").unwrap();
    let short = shorten_waits("unload.gone=2000");
    run(1, "unload --all")
        .stderr_has(format!("\"ldk_held\" is still registered: process {} (", std::process::id()))
        .stdout_has("\"ldk_later\" unregistered");
    assert_eq!(default(), "ldk_held");
    drop((link, short));
    run(0, "unload --all");
    assert!(!is_available("ldk_held"));
}

#[test]
fn pin_in_another_file_system_is_named_as_the_cause() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_far");
    const NONE: Option<&str> = None;
    mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), NONE).unwrap();
    assert_eq!(instance("ldk_far")["standing"], "elsewhere");
    assert!(drift("ldk_far")[0].contains("its pin is not in a BPF file system that is mounted here"));
    run(0, "status").stdout_lacks("removes what was left");
    let why = "a later mount hides a BPF file system at /sys/fs/bpf: unmount what covers it";
    let short = shorten_waits("unload.gone=200"); // it stays
    run(1, "unload ldk_far").stderr_has("its pin is not in a BPF file system that is mounted here").stderr_has(why);
    drop(short);
    run(1, "load dtcp --as ldk_far").stderr_has("\"ldk_far\" is loaded already, but its pin is not").stderr_has(why);
    umount("/sys/fs/bpf").unwrap();
    run(0, "unload ldk_far");
}

#[test]
fn wrong_and_damaged_records_are_reported_and_repaired() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_odd");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(RECORD).unwrap()).unwrap();
    record["map_id"] = (record["map_id"].as_u64().unwrap() + 1).into(); // as a kill during `--replace` leaves it
    fs::write(RECORD, record.to_string()).unwrap();
    assert!(drift("ldk_odd")[0].contains("other code is registered than its record says"));
    let store = tccc::state::Store::of_host();
    assert!(tccc::loader::survey::trusted_record("ldk_odd", &store).is_none());
    run(0, "load dtcp --as ldk_odd --replace");
    assert!(tccc::loader::survey::trusted_record("ldk_odd", &store).is_some());
    run(0, "unload ldk_odd");

    fs::create_dir("/run/tccc").unwrap();
    fs::write(RECORD, "{").unwrap();
    assert_eq!(status()[0]["standing"], "leftover");
    run(0, "status").stdout_has("`tccc unload ldk_odd` removes what was left");
    run(1, "load dtcp --as ldk_odd");
    assert_eq!(fs::read(RECORD).unwrap(), b"{");
    run(0, "unload ldk_odd");
}
