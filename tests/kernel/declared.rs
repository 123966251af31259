//! Declarations on the real kernel: `tccc apply` makes the host match its declaration, and reports and repairs differences.

use super::*;
use crate::common::CommandOutput;
use crate::lab::sandbox::registered;
use crate::lab::trial::{end_guard, last_trial, on_trial, until_no_process};

const POLICY: &str = "version = 1\n[[rule]]\nname = \"all\"\nuse = \"ldk_a\"\n";

/// Declares an algorithm `ldk_a` whose risk is accepted.
const LDK_A: &str = "version = 1\n[algorithm.ldk_a]\nuse = \"dtcp\"\naccept_risk = true\n";

fn declare(lab: &PolicyLab, files: &[(&str, &str)]) {
    let _ = fs::remove_dir_all(lab.folder().join("tccc"));
    fs::create_dir_all(lab.folder().join("tccc/p")).unwrap();
    files.iter().for_each(|(name, text)| drop(lab.file(&format!("tccc/{name}"), text)));
}

/// Whether a test of defaults can run. If not, the test of `load --default` reports it.
fn can_set_default() -> bool {
    tccc::kernel::congestion::check_settable().is_ok()
}

#[track_caller]
fn apply(lab: &PolicyLab, code: i32, options: &str) -> CommandOutput {
    let mut command = tccc();
    command.arg("apply").arg("--config").arg(lab.folder().join("tccc"));
    check(code, command.args(options.split_whitespace()))
}

#[track_caller]
fn assert_settled(lab: &PolicyLab) {
    apply(lab, 0, "--dry-run --exit-code").stdout_has("this host matches");
}

#[test]
fn host_becomes_what_is_declared_and_stays_so() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    let before = default();
    let tuned = |value: u32| format!("{LDK_A}tunables = {{ keep_avoidance = {value} }}\n");
    let all = tuned(800).replace("version = 1\n", "version = 1\npolicy = \"p/web.toml\"\n");
    declare(lab, &[("10-site.toml", &all), ("p/web.toml", POLICY)]);
    apply(lab, 1, "--dry-run --exit-code").stdout_has("\"ldk_a\" is not loaded: would load \"ldk_a\"");
    assert!(registered().is_empty(), "a dry run changes nothing");
    apply(lab, 0, "");
    assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.1"), ["ldk_a", "ldk_a"]);
    assert_settled(lab);
    apply(lab, 0, "").stdout_has("this host matches");

    // Other tunables are an upgrade, during which the name stays registered.
    lab.file("tccc/90.toml", &tuned(900));
    apply(lab, 0, "").stdout_has("\"ldk_a\" has keep_avoidance=800, declared 900: upgrade \"ldk_a\": done");
    assert_settled(lab);

    declare(lab, &[("tccc.toml", "version = 1\n")]);
    apply(lab, 0, "")
        .stdout_has("the policy is no longer declared: remove the policy: done")
        .stdout_has("\"ldk_a\" is loaded and is no longer declared: unload \"ldk_a\": done");
    assert_nothing_left();
    assert_eq!(default(), before);
}

#[test]
fn default_is_declared_repaired_and_restored() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    if !can_set_default() {
        return;
    }
    let before = default();
    let with_default = LDK_A.replace("version = 1\n", "version = 1\ndefault = \"ldk_a\"\n");
    declare(lab, &[("tccc.toml", &with_default)]);
    apply(lab, 0, "");
    assert_eq!(default(), "ldk_a");
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", &before).unwrap(); // somebody else
    apply(lab, 0, "").stdout_has(format!("the default is \"{before}\", and \"ldk_a\" is declared"));
    assert_eq!(default(), "ldk_a");
    declare(lab, &[("tccc.toml", LDK_A)]);
    apply(lab, 0, "");
    assert_eq!((default(), registered()), (before, vec!["ldk_a".to_owned()]));
    run(0, "unload --all");

    // A default that a person set is left alone, and its risk needs no acceptance.
    declare(lab, &[("tccc.toml", &LDK_A.replace("accept_risk = true\n", ""))]);
    apply(lab, 0, "");
    run(0, "load dtcp --as ldk_a --replace --default --accept-risk");
    assert_settled(lab);
    apply(lab, 0, "");
    assert_eq!(default(), "ldk_a");
    run(0, "unload --all");
}

#[test]
fn two_applies_at_once_make_the_same_host() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
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
}

#[test]
fn lost_parts_are_repaired_and_algorithms_of_others_are_left_alone() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_hand");
    declare(lab, &[("tccc.toml", LDK_A)]);
    apply(lab, 0, "");
    // Another folder does not undo this one's declaration.
    let other = lab.folder().join("other");
    fs::create_dir(&other).unwrap();
    check(0, tccc().args(["apply", "--config"]).arg(&other)).stdout_has("this host matches");
    assert_eq!(registered(), ["ldk_a", "ldk_hand"]);
    fs::remove_file("/sys/fs/bpf/tccc/links/ldk_a").unwrap();
    apply(lab, 0, "").stdout_has("parts of \"ldk_a\" are left: unload \"ldk_a\" and load it as declared: done");
    fs::remove_file("/run/tccc/ldk_a.json").unwrap();
    apply(lab, 0, "").stdout_has("the record of \"ldk_a\" is lost");
    assert_settled(lab);
    declare(lab, &[]);
    apply(lab, 0, "");
    assert_eq!(registered(), ["ldk_hand"]);
    run(0, "unload --all");
}

#[test]
fn difference_that_needs_a_person_is_left_and_reported() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    declare(lab, &[("reno.toml", &LDK_A.replace("ldk_a", "reno")), ("tccc.toml", LDK_A)]);
    apply(lab, 1, "")
        .stdout_has("\"reno\" is registered, but not by tccc: left as it is")
        .stderr_has("1 of the differences");
    assert_eq!(registered(), ["ldk_a"], "the other difference is repaired");
    run(0, "unload --all");
}

#[test]
fn policy_that_its_guard_reverted_is_not_applied_again() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    let policy = POLICY.replace("use = \"ldk_a\"", "use = \"ldk_a\"\nguard = \"retransmitted<50%\"");
    let declaration = LDK_A.replace("version = 1\n", "version = 1\npolicy = \"p/web.toml\"\n");
    declare(lab, &[("tccc.toml", &declaration), ("p/web.toml", &policy)]);
    apply(lab, 0, "");
    assert_settled(lab);
    run(0, "policy abort");
    apply(lab, 1, "").stdout_has("its trial was reverted at");
    lab.file("tccc/p/web.toml", &policy.replace("50%", "60%"));
    apply(lab, 0, "");
    run(0, "policy abort");
    declare(lab, &[]);
    apply(lab, 0, "");
}

#[test]
fn status_shows_differences_from_the_declaration() {
    let _lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    // The test's mount namespace gets an /etc of its own.
    mount(Some("none"), "/etc", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    fs::create_dir("/etc/tccc").unwrap();
    fs::write("/etc/tccc/tccc.toml", LDK_A).unwrap();
    run(0, "status").stdout_has("not as declared: \"ldk_a\" is not loaded");
    run(0, "apply");
    let status: Value = run(0, "status -o json").json();
    assert_eq!(status["undeclared"], Value::Array(Vec::new()), "{status}");
    run(0, "unload --all");
}

/// Declares the policy of a file, and writes it.
fn declare_policy(lab: &PolicyLab, policy: &str) {
    declare(lab, &[("10.toml", "version = 1\npolicy = \"p/a.toml\"\n"), ("p/a.toml", policy)]);
}

/// Declares a policy of one rule, and tables of algorithms.
fn declare_rule(lab: &PolicyLab, algorithms: &str, fields: &str) {
    let main = format!("version = 1\npolicy = \"p/a.toml\"\n{algorithms}\n");
    let rule = format!("version = 1\n[[rule]]\nname = \"a\"\nremote_port = 65000\n{fields}\n");
    declare(lab, &[("10.toml", &main), ("p/a.toml", &rule)]);
}

const ON_TRIAL: &str = "version = 1
[[rule]]
name = \"a\"
remote_port = 65000
split = { reno = 50, keep = 50 }
guard = \"retransmitted<1.5x\"
deadline = \"1h\"
";

/// Once a stop, a reboot or a dead guard counted as a judgement, and `tccc apply` refused the policy for ever.
#[test]
fn interrupted_trial_begins_again_and_a_judged_one_does_not() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    declare_policy(lab, ON_TRIAL);
    let interrupt = |how: &dyn Fn()| {
        apply(lab, 0, "");
        assert!(on_trial().is_object());
        how();
        assert_eq!((last_trial().0.as_str(), on_trial().is_null()), ("interrupted", true), "{:?}", last_trial());
    };
    interrupt(&|| _ = run(0, "unload --all"));
    interrupt(&|| _ = run(0, "policy remove"));
    interrupt(&|| _ = end_guard(Signal::SIGTERM));
    // Other trials do not hide the judgement.
    apply(lab, 0, "");
    run(0, "policy abort");
    apply(lab, 1, "").stdout_has("its trial was reverted at").stdout_has("a person ended it");
    let other = lab.file("other.toml", &ON_TRIAL.replace("65000", "65001"));
    check(0, tccc().args(["policy", "apply"]).arg(&other));
    run(0, "policy remove");
    apply(lab, 1, "").stdout_has("its trial was reverted at");
    // A person may overrule it, also if the trial is then interrupted.
    check(0, tccc().args(["policy", "apply"]).arg(lab.folder().join("tccc/p/a.toml")));
    run(0, "unload --all");
    apply(lab, 0, "");
    run(0, "unload --all");
}

/// Once each reboot began a rollout again that had been kept.
#[test]
fn kept_rollout_is_applied_for_good_with_the_share_of_its_end() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    let steps =
        "steps = [{ percent = 5, for = \"1h\" }, { percent = 40, for = \"1h\" }, { percent = 80, for = \"1h\" }]";
    let rollout = format!("version = 1\n[[rule]]\nname = \"a\"\nremote_port = 65000\nuse = \"reno\"\n{steps}\n");
    declare_policy(lab, &rollout);
    apply(lab, 0, "");
    run(0, "policy promote");
    run(0, "confirm");
    run(0, "unload --all");
    apply(lab, 0, "");
    let shown: Value = run(0, "policy show -o json").json();
    assert_eq!(shown["policy"]["rules"][0]["split"]["arms"][0]["portion"], 4000, "{shown}");
    assert!(on_trial().is_null());
    assert_settled(lab);
    // A change of the file is a new rollout.
    declare_policy(lab, &rollout.replace("80", "90"));
    apply(lab, 0, "--dry-run").stdout_has("the applied policy is not that of");
    apply(lab, 0, "");
    assert!(on_trial().is_object());
    // Once the removal by a declaration left the guard running and the journal without a line.
    declare(lab, &[]);
    apply(lab, 0, "").stdout_has("remove the policy: done");
    assert_eq!(last_trial(), ("interrupted".to_owned(), "the policy is no longer declared".to_owned()));
    until_no_process();
}

/// Once `tccc apply` removed a trial that a person had begun, because its file lay below the folder of the declaration.
#[test]
fn what_a_person_applied_is_not_the_declarations() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    declare(lab, &[("p/web.toml", ON_TRIAL)]);
    let file = lab.folder().join("tccc/p/web.toml");
    check(0, tccc().args(["policy", "apply"]).arg(&file));
    assert_settled(lab);
    apply(lab, 0, "").stdout_has("this host matches");
    assert!(on_trial().is_object());
    let status: Value = run(0, "status -o json").json();
    assert_eq!((&status["policy"]["by"]["declaration"], &status["policy"]["by"]["uid"]), (&Value::Null, &0.into()));
    // A kept one stays with the person too.
    run(0, "confirm");
    assert_settled(lab);
    run(0, "policy remove");

    if can_set_default() {
        run(0, "load dtcp --as ldk_try --default --confirm 1m");
        assert_settled(lab);
        run(0, "policy abort");
    }

    // So does the record of an algorithm.
    run(0, "load bpf_reno");
    assert_eq!(
        (&instance("bpf_reno")["by"]["declaration"], &instance("bpf_reno")["by"]["uid"]),
        (&Value::Null, &0.into())
    );
    run(0, "unload bpf_reno");
    declare(lab, &[("a.toml", "version = 1\n[algorithm.bpf_reno]\n")]);
    apply(lab, 0, "");
    assert_eq!(instance("bpf_reno")["by"]["declaration"], lab.folder().join("tccc").to_str().unwrap());
    run(0, "status")
        .stdout_has(format!("\"bpf_reno\": loaded by the declaration in {}", lab.folder().join("tccc").display()));
    run(0, "unload bpf_reno");

    // What the declaration applied is removed with it.
    declare_policy(lab, ON_TRIAL);
    apply(lab, 0, "");
    let status: Value = run(0, "status -o json").json();
    assert_eq!(status["policy"]["by"]["declaration"], lab.folder().join("tccc").to_str().unwrap());
    declare(lab, &[("p/a.toml", ON_TRIAL)]);
    apply(lab, 0, "").stdout_has("the policy is no longer declared: remove the policy: done");
    until_no_process();
}

/// Once other limits were "this host matches", while the guard judged by those from before.
#[test]
fn changed_limits_of_a_running_trial_are_a_difference() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    declare_policy(lab, ON_TRIAL);
    apply(lab, 0, "");
    assert_settled(lab);
    declare_policy(lab, &ON_TRIAL.replace("1.5x", "1.05x"));
    for options in ["--dry-run", ""] {
        let code = i32::from(options.is_empty());
        apply(lab, code, options).stdout_has("the applied policy is not that of").stdout_has("is on trial");
    }
    run(0, "policy remove");
    until_no_process();
}

/// Once `apply` gave connections code that `upgrade` refuses, and the next boot refused the whole declaration.
#[test]
fn new_code_is_admitted_as_by_upgrade() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    let declare_with = |tunables: &str| declare_rule(lab, &format!("[algorithm.dtcp]\n{tunables}"), "use = \"dtcp\"");
    declare_with("");
    apply(lab, 0, "");
    declare_with("tunables = { keep_avoidance = 800 }");
    for options in ["--dry-run", ""] {
        apply(lab, 2, options).stderr_has("cannot give new code to \"dtcp\"").stderr_has("accept_risk = true");
    }
    assert_eq!(instance("dtcp")["generation"], 1);
    declare_with("tunables = { keep_avoidance = 800 }\naccept_risk = true");
    apply(lab, 0, "");
    assert_settled(lab);
    run(0, "policy remove");
    run(0, "unload --all");
}

/// Once the name was unloaded although a rule gives it, and could not be loaded again.
#[test]
fn algorithm_of_a_rule_does_not_become_a_receiver() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    let declare_with = |more: &str| {
        declare_rule(lab, &format!("[algorithm.mswift]\naccept_risk = true\n{more}"), "use = \"mswift\"");
    };
    declare_with("");
    apply(lab, 0, "");
    declare_with("receiver = true");
    for options in ["--dry-run", ""] {
        apply(lab, 1, options).stderr_has("rule \"a\" of the policy gives it to connections");
    }
    assert_eq!(instance("mswift")["receiver"], false);
    assert!(is_available("mswift"));
    run(0, "policy remove");
    run(0, "unload --all");
}

/// The policy before a trial waits for its end, and needs its algorithm. Once only a second `apply` succeeded.
#[test]
fn algorithm_that_a_trial_replaces_is_left_to_the_policy() {
    let lab = &enter!(PolicyLab; root, btf, struct_ops, bpffs, cgroup2);
    declare_rule(lab, "[algorithm.dtcp]", "use = \"dtcp\"");
    apply(lab, 0, "");
    declare_rule(lab, "", "split = { bpf_reno = 50, keep = 50 }\nguard = \"retransmitted<2x\"");
    apply(lab, 0, "");
    assert_settled(lab);
    assert!(is_available("dtcp") && on_trial().is_object());
    run(0, "confirm");
    until_no_process();
    assert!(!is_available("dtcp"), "no rule gives it any more");
    run(0, "policy remove");
    run(0, "unload --all");
}
