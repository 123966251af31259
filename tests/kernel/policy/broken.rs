//! Records, pins or their file system are lost or damaged. tccc reports it correctly, and the next command repairs it.

use nix::mount::umount;
use tccc::kernel::bpf;

use super::*;

const RECORD: &str = "/run/tccc/policy/record.json";
const PINS: &str = "/sys/fs/bpf/tccc/policy";
const BPFFS: &str = "/sys/fs/bpf";
const NONE: Option<&str> = None;

fn mount_bpffs() {
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), NONE).unwrap();
}

#[test]
fn damaged_record_is_reported_and_removed() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let later = r#"{"schema": 2, "generations": [], "slots": [], "trial": null, "next_trial": null}"#;
    let damaged = format!("the record {RECORD} is damaged: ");
    let foreign = format!("the record {RECORD} was written by another version of tccc");
    for (text, says) in
        [("", &damaged), ("{", &damaged), ("[1]", &damaged), ("\u{0}\u{ff}", &damaged), (later, &foreign)]
    {
        lab.apply(&all("cubic"));
        fs::write(RECORD, text).unwrap();
        run(0, "status").stdout_has(says);
        for said in [run(1, "policy show"), lab.policy(1, "apply", &all("bbr")), lab.policy(1, "diff", &all("bbr"))] {
            said.stderr_has(says).stderr_has("hint: `tccc policy remove` ends the policy");
        }
        lab.assert_given("cubic", "");
        run(0, "policy remove --dry-run").stdout_has(format!("remove the record {RECORD}"));
        run(0, "policy remove");
        lab.assert_given("reno", "");
        assert_nothing_left();
    }
}

#[test]
fn policy_without_its_record_is_reported_and_replaced_or_removed() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for next in ["apply", "remove", "unload"] {
        lab.apply(&all("dtcp"));
        fs::remove_file(RECORD).unwrap();
        lab.assert_given("dtcp", "");
        run(0, "status").stdout_has("policy: the policy in effect is not in the record, which was lost");
        assert_eq!(run(0, "policy show").stdout(), "");
        if next == "apply" {
            lab.apply(&all("cubic"));
            lab.assert_given("cubic", "");
        }
        run(0, if next == "unload" { "unload --all" } else { "policy remove" });
        lab.assert_given("reno", "");
        assert_nothing_left();
    }
}

/// A second BPF file system mounted over the first hides the pins. The policy still decides.
#[test]
fn policy_with_hidden_pins_is_reported_and_can_be_removed() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let told = "it is in effect, but its pins are in another BPF file system";
    lab.apply(&all("cubic"));
    mount_bpffs();
    assert!(show()["drift"].to_string().contains(told), "{}", show());
    run(0, "status").stdout_has(told);
    lab.policy(1, "apply", &all("bbr"))
        .stderr_has("one is already in effect, and its pins are not in the BPF file system mounted here")
        .stderr_has("hint: `tccc policy remove` detaches it; then apply again");
    lab.assert_given("cubic", "");
    run(0, "policy remove").stdout_has("the policy is removed");
    lab.assert_given("reno", "");
    lab.apply(&all("bbr"));
    lab.assert_given("bbr", "");
    run(0, "policy remove");
    umount(BPFFS).unwrap();
    run(0, "status").stdout_has("parts of a policy that has no effect are left");
    lab.assert_given("reno", "");
    run(0, "policy remove");
    assert_nothing_left();
}

/// A policy ends with its last pin. Its record stays until the policy is removed or another is applied.
#[test]
fn policy_without_pins_ends_and_is_reported() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    pose_as_process_1();
    for (loses_file_system, next) in [(true, "apply"), (true, "remove"), (false, "apply"), (false, "remove")] {
        lab.apply(&all("cubic"));
        match loses_file_system {
            true => umount2(BPFFS, MntFlags::empty()).unwrap(),
            false => fs::remove_dir_all(PINS).unwrap(),
        }
        poll_until(SOON, "the policy ends with its last pin", || programs() == 0);
        lab.assert_given("reno", "");
        run(0, "status").stdout_has("parts of a policy that has no effect are left");
        assert!(show()["generation"].is_null());
        if next == "remove" {
            run(0, "policy remove").stdout_has("the policy is removed");
            assert_eq!(run(0, "policy remove").stdout(), "there is no policy\n");
        }
        lab.apply(&all("bbr")); // tccc mounts what is missing
        lab.assert_given("bbr", "");
        run(0, "policy remove");
        assert_nothing_left();
        if loses_file_system {
            mount_bpffs();
        }
    }
}

/// The policy still decides without one of its pins, and the next apply restores it.
#[test]
fn missing_pin_does_not_stop_the_next_policy() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    for pin in ["labels", "generations/1/counts", "generations/1/cgroups", "generations/1/program"]
        .map(|pin| format!("v2/{pin}"))
    {
        lab.apply(&all("cubic"));
        fs::remove_file(format!("{PINS}/{pin}")).unwrap();
        lab.assert_given("cubic", "");
        let told = "some of its pins are gone: apply it again";
        run(0, "status").stdout_has(format!("policy: {told}"));
        run(0, "policy show").stderr_has(told);
        lab.apply(&all("bbr"));
        lab.assert_given("bbr", "");
        run(0, "policy remove --live");
        assert_nothing_left();
    }
}

/// Once status said only that parts without effect are left.
#[test]
fn policy_that_somebody_detached_says_so() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    for next in ["remove", "apply"] {
        lab.apply(&all("cubic"));
        bpf::detach_link(&bpf::open_pin(&Path::new(PINS).join("link")).unwrap());
        lab.assert_given("reno", "nothing decides");
        let told = "it was detached by somebody, and has no effect: apply it again, or `tccc policy remove` removes";
        run(0, "status").stdout_has(format!("policy: {told}"));
        run(0, "policy show").stderr_has(told);
        assert!(show()["drift"][0].as_str().unwrap().starts_with(told));
        if next == "apply" {
            lab.apply(&all("bbr"));
            lab.assert_given("bbr", "");
        }
        run(0, "policy remove");
        assert_nothing_left();
    }
}

/// Folders among the pins that are not tccc's own are left alone.
#[test]
fn foreign_pins_are_left_alone() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let [foreign, own] = ["of-another", "7"].map(|name| format!("{PINS}/v2/generations/{name}"));
    fs::create_dir_all(&foreign).unwrap();
    fs::create_dir_all(&own).unwrap();
    lab.apply(&all("cubic"));
    lab.assert_given("cubic", "");
    run(0, "policy remove");
    lab.assert_given("reno", "");
    assert_eq!([fs::exists(&foreign).unwrap(), fs::exists(own).unwrap()], [true, false]);
    fs::remove_dir(foreign).unwrap();
    run(0, "policy remove");
    assert_nothing_left();
}
