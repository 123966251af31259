//! Others come between: a second `tccc`, another BPF file system, damaged records.

use std::fs;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount, umount};
use tccc::kernel::bpf;

use crate::common::{host_has, tccc};
use crate::lab::sandbox::{available, default, in_sandbox, run, status};

const RECORD: &str = "/run/tccc/ldk_odd.json";

/// The second once overwrote the record of the first and then removed its pins.
#[test]
fn loads_at_the_same_time_do_not_undo_each_other() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let before = default();
        let start = |arguments: [&str; 5]| {
            Command::spawn(tccc().args(arguments).stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
        };
        for _ in 0..3 {
            let mut first = start(["load", "dtcp", "--as", "ldk_two", "--default"]);
            let mut second = start(["load", "dtcp", "--as", "ldk_two", "--replace"]);
            let first_came_first = first.wait().unwrap().success();
            assert!(second.wait().unwrap().success());
            let instance = &status()[0];
            assert_eq!(instance["standing"], "pinned");
            assert_eq!(instance["generation"], if first_came_first { 2 } else { 1 });
            assert_eq!(default() == "ldk_two", first_came_first);
            run(0, "unload ldk_two");
            assert_eq!(default(), before);
        }
    });
}

#[test]
fn one_that_cannot_be_unloaded_does_not_keep_the_others() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_held --default");
        run(0, "load dtcp --as ldk_later");
        let link = bpf::open_pin("/sys/fs/bpf/tccc/links/ldk_held".as_ref()).unwrap();
        fs::remove_file("/sys/fs/bpf/tccc/links/ldk_held").unwrap();
        let said = run(1, "unload --all");
        let why = format!("\"ldk_held\" is still registered: process {} (", std::process::id());
        said.stderr_has(&why);
        said.stdout_has("\"ldk_later\" unregistered");
        assert_eq!(default(), "ldk_held");
        drop(link);
        run(0, "unload --all");
        assert!(!available().contains(&"ldk_held".to_owned()));
    });
}

#[test]
fn pin_in_another_file_system_is_named_as_the_cause() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_far");
        const NONE: Option<&str> = None;
        mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), NONE).unwrap();
        let drift = status()[0]["drift"].to_string();
        assert!(drift.contains("its pin is not in the BPF file system mounted here"), "{drift}");
        run(1, "unload ldk_far").stderr_has("its pin is not in the BPF file system that is mounted here");
        umount("/sys/fs/bpf").unwrap();
        run(0, "unload ldk_far");
    });
}

#[test]
fn record_of_other_code_is_drift() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_odd");
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(RECORD).unwrap()).unwrap();
        record["map_id"] = (record["map_id"].as_u64().unwrap() + 1).into(); // as a kill within `--replace` leaves it
        fs::write(RECORD, record.to_string()).unwrap();
        let drift = status()[0]["drift"].to_string();
        assert!(drift.contains("other code is registered than its record says"), "{drift}");
        let store = tccc::state::Store::of_host();
        assert!(tccc::loader::survey::trusted_record("ldk_odd", &store).is_none());
        run(0, "load dtcp --as ldk_odd --replace");
        assert!(tccc::loader::survey::trusted_record("ldk_odd", &store).is_some());
        run(0, "unload ldk_odd");
    });
}

#[test]
fn damaged_record_is_listed_and_removed() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        fs::create_dir("/run/tccc").unwrap();
        fs::write(RECORD, "{").unwrap();
        assert_eq!(status()[0]["standing"], "leftover");
        run(0, "status").stdout_has("`tccc unload ldk_odd` removes what was left");
        run(1, "load dtcp --as ldk_odd");
        assert_eq!(fs::read(RECORD).unwrap(), b"{");
        run(0, "unload ldk_odd");
    });
}
