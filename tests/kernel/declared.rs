//! What is declared, on the real kernel: `tccc apply` makes the host so, says what differs, and mends it.
//!
//! Each test has its own BPF file system, `/run` and network namespace; the policy itself is at the root of the cgroups.

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use serde_json::Value;

use crate::common::{begin, end, host_has, tccc};
use crate::lab::policy::{Lab, with_lab};
use crate::lab::sandbox::{Said, assert_nothing_left, check, default, registered, run, stdout};

const POLICY: &str = "version = 1\n[[rule]]\nname = \"all\"\nuse = \"ldk_a\"\n";

/// Writes the files of the declaration.
fn declare(lab: &Lab, files: &[(&str, &str)]) {
    let folder = lab.folder().join("tccc");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
}

/// `tccc apply` with these options, which must end with `code`.
#[track_caller]
fn apply(lab: &Lab, code: i32, options: &str) -> Said {
    let mut command = tccc();
    command.arg("apply").arg("--config").arg(lab.folder().join("tccc"));
    check(code, command.args(options.split_whitespace()))
}

#[track_caller]
fn assert_settled(lab: &Lab) {
    apply(lab, 0, "--dry-run --exit-code").stdout_has("this host is what");
}

#[test]
fn host_becomes_what_is_declared_and_stays_so() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        let before = default();
        let all = "version = 1\npolicy = \"p/web.toml\"\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\ntunables = { keep_avoidance = 800 }\n";
        declare(lab, &[("10-site.toml", all)]);
        fs::create_dir(lab.folder().join("tccc/p")).unwrap();
        fs::write(lab.folder().join("tccc/p/web.toml"), POLICY).unwrap();
        apply(lab, 1, "--dry-run --exit-code").stdout_has("\"ldk_a\" is not loaded: would load \"ldk_a\"");
        assert!(registered().is_empty(), "a dry run changes nothing");
        apply(lab, 0, "");
        assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.1"), ["ldk_a", "ldk_a"]);
        assert_settled(lab);
        assert!(stdout(&apply(lab, 0, "")).contains("this host is what"), "again it changes nothing");

        // Other tunables are an upgrade: the name never goes.
        fs::write(
            lab.folder().join("tccc/90.toml"),
            "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\ntunables = { keep_avoidance = 900 }\n",
        )
        .unwrap();
        apply(lab, 0, "").stdout_has("\"ldk_a\" has keep_avoidance=800, declared 900: upgrade \"ldk_a\": done");
        assert_settled(lab);

        declare(lab, &[("tccc.toml", "version = 1\n")]);
        apply(lab, 0, "")
            .stdout_has("the policy is no longer declared: remove the policy: done")
            .stdout_has("\"ldk_a\" is loaded and is no longer declared: unload \"ldk_a\": done");
        assert_nothing_left();
        assert_eq!(default(), before);
    });
}

#[test]
fn default_is_declared_mended_and_given_back() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        if tccc::kernel::congestion::check_settable().is_err() {
            return; // said by the test of `load --default`
        }
        let before = default();
        let with_default = "version = 1\ndefault = \"ldk_a\"\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n";
        declare(lab, &[("tccc.toml", with_default)]);
        apply(lab, 0, "");
        assert_eq!(default(), "ldk_a");
        fs::write("/proc/sys/net/ipv4/tcp_congestion_control", &before).unwrap(); // somebody else
        apply(lab, 0, "").stdout_has(format!("the default is \"{before}\", declared \"ldk_a\""));
        assert_eq!(default(), "ldk_a");
        declare(lab, &[("tccc.toml", "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n")]);
        apply(lab, 0, "");
        assert_eq!((default(), registered()), (before, vec!["ldk_a".to_owned()]));
        run(0, "unload --all");
    });
}

#[test]
fn default_that_a_person_set_is_left_alone() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        if tccc::kernel::congestion::check_settable().is_err() {
            return; // said by the test of `load --default`
        }
        declare(lab, &[("tccc.toml", "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\n")]);
        apply(lab, 0, "");
        run(0, "load dtcp --as ldk_a --replace --default --accept-risk");
        assert_settled(lab);
        apply(lab, 0, "");
        assert_eq!(default(), "ldk_a");
        run(0, "unload --all");
    });
}

#[test]
fn folder_undoes_only_what_it_declared_itself() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        declare(lab, &[("tccc.toml", "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\n")]);
        apply(lab, 0, "");
        let other = lab.folder().join("other");
        fs::create_dir(&other).unwrap();
        check(0, tccc().args(["apply", "--config"]).arg(&other)).stdout_has("this host is what");
        assert_eq!(registered(), ["ldk_a"]);
        run(0, "unload --all");
    });
}

#[test]
fn two_at_once_make_the_same_host() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        let names = ["ldk_a", "ldk_b", "ldk_c", "ldk_d"];
        let text: String = names.iter().map(|name| format!("[algorithm.{name}]\nuse = \"dtcp\"\n")).collect();
        declare(lab, &[("tccc.toml", &format!("version = 1\n{text}"))]);
        let start = || begin(tccc().arg("apply").arg("--config").arg(lab.folder().join("tccc")));
        for child in [start(), start()] {
            end(0, child);
        }
        assert_eq!(registered(), names);
        assert_settled(lab);
        run(0, "unload --all");
    });
}

#[test]
fn what_is_lost_is_mended_and_what_others_loaded_is_left_alone() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        run(0, "load dtcp --as ldk_hand");
        declare(lab, &[("tccc.toml", "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n")]);
        apply(lab, 0, "");
        fs::remove_file("/sys/fs/bpf/tccc/links/ldk_a").unwrap();
        apply(lab, 0, "").stdout_has("parts of \"ldk_a\" are left: unload \"ldk_a\" and load it as declared: done");
        fs::remove_file("/run/tccc/ldk_a.json").unwrap();
        apply(lab, 0, "").stdout_has("the record of \"ldk_a\" is lost");
        assert_settled(lab);
        declare(lab, &[]);
        apply(lab, 0, "");
        assert_eq!(registered(), ["ldk_hand"]);
        run(0, "unload --all");
    });
}

#[test]
fn difference_that_needs_a_person_is_left_and_said() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        declare(
            lab,
            &[(
                "tccc.toml",
                "version = 1\n[algorithm.reno]\nuse = \"dtcp\"\naccept_risk = true\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n",
            )],
        );
        apply(lab, 1, "")
            .stdout_has("\"reno\" is registered, but not by tccc: left as it is")
            .stderr_has("1 of the differences");
        assert_eq!(registered(), ["ldk_a"], "the rest is done all the same");
        run(0, "unload --all");
    });
}

#[test]
fn policy_that_its_guard_took_back_is_not_applied_again() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |lab| {
        let policy = POLICY.replace("use = \"ldk_a\"", "use = \"ldk_a\"\nguard = \"retransmitted<50%\"");
        let declaration =
            "version = 1\npolicy = \"p/web.toml\"\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n";
        declare(lab, &[("tccc.toml", declaration)]);
        fs::create_dir(lab.folder().join("tccc/p")).unwrap();
        fs::write(lab.folder().join("tccc/p/web.toml"), &policy).unwrap();
        apply(lab, 0, "");
        assert_settled(lab);
        run(0, "policy abort");
        apply(lab, 1, "").stdout_has("its trial was reverted at");
        fs::write(lab.folder().join("tccc/p/web.toml"), policy.replace("50%", "60%")).unwrap();
        apply(lab, 0, "");
        run(0, "policy abort");
        declare(lab, &[]);
        apply(lab, 0, "");
    });
}

#[test]
fn status_tells_what_differs_from_what_is_declared() {
    with_lab(host_has!(root, btf, struct_ops, bpffs, cgroup2), |_| {
        // An /etc of the test's own, in its own mount namespace.
        mount(Some("none"), "/etc", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        fs::create_dir("/etc/tccc").unwrap();
        fs::write("/etc/tccc/tccc.toml", "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n")
            .unwrap();
        assert!(Path::new("/etc/tccc/tccc.toml").exists());
        run(0, "status").stdout_has("not as declared: \"ldk_a\" is not loaded");
        run(0, "apply");
        let status: Value = run(0, "status -o json").json();
        assert_eq!(status["undeclared"], Value::Array(Vec::new()), "{status}");
        run(0, "unload --all");
    });
}
