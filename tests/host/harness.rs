//! Tests the test harness: probes and skips, comparison of the host before and after, waiting with a deadline.

use std::process::Command;
use std::time::Duration;

use crate::common::{HostSnapshot, need, needs, poll_until, test_alone};

#[test]
fn missing_need_is_written_to_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("skips");
    let missing: need::Need = ("moon", || Err("it is day".into()));
    // The variables apply to the whole process, so another process runs the skip.
    if std::env::var_os("TCCC_HARNESS_INNER").is_some() {
        assert!(need::must_skip("harness::inner::this_test", &[missing]));
        return;
    }
    let inner = |required: &str| {
        test_alone(module_path!(), "missing_need_is_written_to_the_log")
            .envs([("TCCC_HARNESS_INNER", "1"), ("TCCC_REQUIRE", required)])
            .env("TCCC_SKIP_LOG", &log)
            .output()
            .unwrap()
    };
    assert!(inner("").status.success());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "skipped: harness::inner: needs moon: it is day\n");
    assert!(!inner("root,moon").status.success(), "a required need that is missing fails the test");
}

#[test]
fn host_snapshot_notices_a_cgroup_left_behind() {
    needs!(root, cgroup2);
    let place = crate::common::state::mounted("cgroup2").unwrap().join(format!("tccc-harness-{}", std::process::id()));
    let before = HostSnapshot::of(&["tccc-harness"]);
    std::fs::create_dir(&place).unwrap();
    let change = before.change_after(Duration::ZERO);
    std::fs::remove_dir(&place).unwrap();
    assert!(change.expect("a cgroup left behind is a change").contains("left behind [\"cgroup: "));
    before.assert_unchanged();
}

#[test]
#[should_panic(expected = "not met within 20ms: the moon rises")]
fn poll_until_names_the_condition() {
    poll_until(Duration::from_millis(20), "the moon rises", || false);
}

/// Compares probes with other ways to find out.
#[test]
fn every_probe_answers_truly_or_says_why_not() {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    assert_eq!(need::btf().is_ok(), tccc::kernel::btf::Types::of_running_kernel().is_ok());
    assert!(need::root().is_err() || tccc::kernel::netns::Netns::create().is_ok(), "root may create namespaces");
    assert_eq!(need::iperf3().is_ok(), runs("iperf3"));
    assert_eq!(need::clang().is_ok(), runs("clang"));
    let has_cgroup2 = std::fs::read_to_string("/proc/self/mounts").unwrap().contains(" cgroup2 ");
    assert!(has_cgroup2 || need::cgroup2().is_err(), "a cgroup2 is found where none is mounted");
    let probes = [need::root, need::struct_ops, need::tun, need::netem, need::bpffs, need::cgroup2];
    assert!(probes.iter().all(|probe| probe().err() != Some(String::new())), "a probe gives no reason");
}
