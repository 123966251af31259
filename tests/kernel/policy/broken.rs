//! Somebody took something away: records, pins, the file system that they are in. What is said is true, and it can be
//! put in order.

use std::fs;

use nix::mount::{MntFlags, MsFlags, mount, umount, umount2};

use crate::common::{host_has, poll_until, tccc};
use crate::lab::policy::{Lab, SOON, all, programs, show, with_lab};
use crate::lab::sandbox::{assert_nothing_left, check, run, stderr, stdout};

const RECORD: &str = "/run/tccc/policy/record.json";
const PINS: &str = "/sys/fs/bpf/tccc/policy";
const BPFFS: &str = "/sys/fs/bpf";
const NONE: Option<&str> = None;

#[track_caller]
fn assert_decided_by(lab: &Lab, algorithm: &str) {
    assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.2"), [algorithm, algorithm]);
}

fn mount_bpffs() {
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), NONE).unwrap();
}

#[test]
fn damaged_record_is_said_and_removed() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let later = r#"{"schema": 2, "generations": [], "slots": [], "trial": null, "next_trial": null}"#;
        let damaged = format!("the record {RECORD} is damaged: ");
        let foreign = format!("the record {RECORD} is of another version of tccc");
        for (text, says) in
            [("", &damaged), ("{", &damaged), ("[1]", &damaged), ("\u{0}\u{ff}", &damaged), (later, &foreign)]
        {
            lab.apply(&all("cubic"));
            fs::write(RECORD, text).unwrap();
            run(0, "status").stdout_has(says.as_str());
            for said in [run(1, "policy show"), lab.policy(1, "apply", &all("bbr")), lab.policy(1, "diff", &all("bbr"))]
            {
                assert!(stderr(&said).contains(says.as_str()), "{}", stderr(&said));
                assert!(stderr(&said).contains("hint: `tccc policy remove` ends the policy"), "{}", stderr(&said));
            }
            assert_decided_by(lab, "cubic");
            run(0, "policy remove --dry-run").stdout_has(format!("remove the record {RECORD}"));
            run(0, "policy remove");
            assert_decided_by(lab, "reno");
            assert_nothing_left();
        }
    });
}

#[test]
fn policy_without_its_record_is_told_and_replaced_or_removed() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for next in ["apply", "remove", "unload"] {
            lab.apply(&all("dtcp"));
            fs::remove_file(RECORD).unwrap();
            assert_decided_by(lab, "dtcp");
            run(0, "status").stdout_has("policy: a policy decides that is not in the record, which was lost");
            assert_eq!(stdout(&run(0, "policy show")), "");
            match next {
                "apply" => {
                    lab.apply(&all("cubic"));
                    assert_decided_by(lab, "cubic");
                    run(0, "policy remove");
                }
                "remove" => drop(run(0, "policy remove")),
                _ => drop(run(0, "unload --all")),
            }
            assert_decided_by(lab, "reno");
            assert_nothing_left();
        }
    });
}

/// Mounting a BPF file system over the other hides the pins; the policy still decides.
#[test]
fn policy_whose_pins_are_hidden_is_told_and_detached() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let told = "it decides, but its pins are in another BPF file system";
        lab.apply(&all("cubic"));
        mount_bpffs();
        assert!(show()["drift"].to_string().contains(told), "{}", show());
        run(0, "status").stdout_has(told);
        lab.policy(1, "apply", &all("bbr"))
            .stderr_has("one decides already whose pins are not in the BPF file system mounted here")
            .stderr_has("hint: `tccc policy remove` detaches it; then apply again");
        assert_decided_by(lab, "cubic");
        run(0, "policy remove").stdout_has("the policy is removed");
        assert_decided_by(lab, "reno");
        lab.apply(&all("bbr"));
        assert_decided_by(lab, "bbr");
        run(0, "policy remove");
        umount(BPFFS).unwrap();
        run(0, "status").stdout_has("parts of a policy that decides nothing are left");
        assert_decided_by(lab, "reno");
        run(0, "policy remove");
        assert_nothing_left();
    });
}

/// Without its last pin the policy ends; its record stays until somebody removes it or applies another.
#[test]
fn policy_whose_pins_are_gone_is_told() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for (loses_file_system, next) in [(true, "apply"), (true, "remove"), (false, "apply"), (false, "remove")] {
            lab.apply(&all("cubic"));
            match loses_file_system {
                true => umount2(BPFFS, MntFlags::empty()).unwrap(),
                false => fs::remove_dir_all(PINS).unwrap(),
            }
            poll_until(SOON, "the policy ends with its last pin", || programs() == 0);
            assert_decided_by(lab, "reno");
            run(0, "status").stdout_has("parts of a policy that decides nothing are left");
            assert!(show()["generation"].is_null());
            if next == "remove" {
                run(0, "policy remove").stdout_has("the policy is removed");
                assert_eq!(stdout(&run(0, "policy remove")), "there is no policy\n");
            }
            lab.apply(&all("bbr")); // tccc mounts what is missing
            assert_decided_by(lab, "bbr");
            run(0, "policy remove");
            assert_nothing_left();
            if loses_file_system {
                mount_bpffs();
            }
        }
    });
}

/// One pin of many: what still works works, and the next command puts it in order.
#[test]
fn single_pins_that_are_gone_do_not_stop_the_next_policy() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        for pin in ["labels", "generations/1/counts", "generations/1/cgroups", "generations/1/program"] {
            lab.apply(&all("cubic"));
            fs::remove_file(format!("{PINS}/{pin}")).unwrap();
            assert_decided_by(lab, "cubic");
            let told = "some of its pins are gone: apply it again";
            assert!(stdout(&run(0, "status")).contains(&format!("policy: {told}")), "{pin}");
            assert!(stderr(&run(0, "policy show")).contains(told), "{pin}");
            lab.apply(&all("bbr"));
            assert_decided_by(lab, "bbr");
            run(0, "policy remove --live");
            assert_nothing_left();
        }
    });
}

/// A file that is not ours in the folder of pins is left, and said.
#[test]
fn foreign_pins_are_left_alone() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        fs::create_dir_all("/sys/fs/bpf/tccc/policy/generations/of-another").unwrap();
        fs::create_dir_all("/sys/fs/bpf/tccc/policy/generations/7").unwrap();
        lab.apply(&all("cubic"));
        assert_decided_by(lab, "cubic");
        run(0, "policy remove");
        assert_decided_by(lab, "reno");
        assert!(fs::exists("/sys/fs/bpf/tccc/policy/generations/of-another").unwrap());
        assert!(!fs::exists("/sys/fs/bpf/tccc/policy/generations/7").unwrap());
        fs::remove_dir("/sys/fs/bpf/tccc/policy/generations/of-another").unwrap();
        check(0, tccc().args(["policy", "remove"]));
        assert_nothing_left();
    });
}
