//! Algorithms with a companion program: attached with them, listed, and gone with them; the receiving side alone.

use std::time::Duration;

use crate::common::{host_has, poll_until};
use crate::lab::group::Group;
use crate::lab::pair::attached;
use crate::lab::sandbox::{assert_nothing_left, available, in_sandbox, run, status, stdout};

/// Runs a test that ends with as many attachments as it began with.
fn with_attachments(host_has_needs: bool, test: impl FnOnce(usize) + Send) {
    in_sandbox(host_has_needs, || {
        let before = attached().len();
        test(before);
        poll_until(Duration::from_secs(5), "the kernel detaches", || attached().len() == before);
    });
}

#[test]
fn companion_comes_and_goes_with_its_algorithm() {
    with_attachments(host_has!(root, struct_ops, bpffs, cgroup2), |before| {
        run(0, "load mswift --as ldk_pair --dry-run")
            .stdout_has("attach \"pair_delta\" to the cgroup ")
            .stdout_has("pin it at /sys/fs/bpf/tccc/companions/ldk_pair");
        assert_nothing_left();
        assert_eq!(attached().len(), before);
        let said = stdout(&run(0, "load mswift --as ldk_pair"));
        assert!(said.starts_with("\"ldk_pair\" companion: \"pair_delta\" attached to the cgroup "), "{said}");
        assert_eq!(attached().len(), before + 1);
        let instance = &status()[0];
        assert_eq!((instance["standing"].as_str(), instance["receiver"].as_bool()), (Some("pinned"), Some(false)));
        assert_eq!(instance["companion"]["program"], "pair_delta");
        assert_eq!(instance["drift"].as_array().map(Vec::len), Some(0), "{instance}");
        run(1, "load mswift --as ldk_pair --receiver")
            .stderr_has("\"ldk_pair\" is loaded already: its companion receives too");
        run(0, "load mswift --as ldk_pair --replace --set estimate_divisor=2");
        assert_eq!((attached().len(), status()[0]["generation"].as_u64()), (before + 1, Some(2)));
        run(0, "unload ldk_pair --dry-run").stdout_has("detach \"pair_delta\" from the cgroup ");
        run(0, "unload ldk_pair");
    });
}

#[test]
fn receiver_registers_nothing_and_is_listed() {
    with_attachments(host_has!(root, struct_ops, bpffs, cgroup2), |before| {
        run(0, "load mswift --as ldk_end --receiver --dry-run")
            .stdout_has("loading its receiving side would")
            .stdout_lacks("register");
        run(0, "load mswift --as ldk_end --receiver");
        assert!(!available().contains(&"ldk_end".to_owned()));
        assert_eq!(attached().len(), before + 1);
        let instance = &status()[0];
        assert_eq!((instance["standing"].as_str(), instance["receiver"].as_bool()), (Some("pinned"), Some(true)));
        assert_eq!(
            (instance["registered"].as_bool(), instance["drift"].as_array().map(Vec::len)),
            (Some(false), Some(0))
        );
        run(0, "status").stdout_has("mswift (receiver)");
        run(1, "load mswift --as ldk_end").stderr_has("\"ldk_end\" is loaded already, as `--receiver` alone");
        run(0, "unload ldk_end").stdout_has("\"ldk_end\" no longer receives");
        run(0, "load mswift --as ldk_end --receiver");
        run(0, "unload --all");
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let check = |arguments: &str, words: &str| {
            run(2, arguments).stderr_has(words);
        };
        check("load dtcp --as ldk_no --receiver", "\"dtcp\" needs nothing at the receiver");
        check("load dtcp --as ldk_no --cgroup /", "\"dtcp\" has no companion program, so there is nothing to attach");
        check("load mswift --as ldk_no --cgroup /ldk_is_not_there", "no cgroup \"/ldk_is_not_there\"");
        check("load mswift --as ldk_no --receiver --default", "cannot be used with");
    });
}

#[test]
fn companion_in_a_cgroup_that_went_is_drift() {
    with_attachments(host_has!(root, struct_ops, bpffs, cgroup2), |before| {
        let group = Group::create("/ldk_companion");
        run(0, "load mswift --as ldk_cgroup --cgroup /ldk_companion");
        assert_eq!(status()[0]["companion"]["cgroup"], group.path().to_str().unwrap());
        assert_eq!(attached().len(), before + 1);
        drop(group);
        poll_until(Duration::from_secs(5), "the attachment goes with its cgroup", || attached().len() == before);
        let drift = status()[0]["drift"].to_string();
        assert!(drift.contains("its companion program is no longer attached"), "{drift}");
        run(0, "unload ldk_cgroup");
    });
}
