//! Whether this kernel supports each feature, as an operator uses it. One short test per feature.
//!
//! `cargo xtask vm-matrix` runs these tests under several kernels and writes their records to the table of bpf/README.md.

use nix::sys::socket::{setsockopt, sockopt};

use super::*;
use crate::common::host_has;
use crate::common::verdict::record_feature;
use crate::lab::sandbox::{Sandbox, without};
use crate::lab::trial::{given_on_host, guard, shorten_lease};

const NAME: &str = "ldk_feature";
const YES: &str = "yes";

/// Runs the test of a feature in a sandbox and records the words that it returns, or that it was skipped.
fn try_feature(feature: &str, host_has_needs: bool, test: impl FnOnce() -> &'static str) {
    let mut words = "skipped";
    if host_has_needs {
        let _sandbox = Sandbox::enter();
        words = test();
    }
    record_feature(feature, words);
}

#[test]
fn feature_whose_needs_are_missing_is_recorded_as_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let [verdicts, skips] = ["verdicts", "skips"].map(|name| folder.path().join(name));
    let mut test = test_alone(module_path!(), "load");
    test.env("TCCC_VERDICT_LOG", &verdicts).env("TCCC_SKIP_LOG", &skips).env_remove("TCCC_REQUIRE");
    without(&[BPF], 0, &mut test);
    assert_eq!(fs::read_to_string(verdicts).unwrap(), "feature: load: skipped\n");
    let skipped = fs::read_to_string(skips).unwrap();
    assert!(skipped.contains("features::load: needs root: "), "{skipped}");
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn connect(server: &TcpListener) -> [TcpStream; 2] {
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    [client, server.accept().unwrap().0]
}

fn algorithms(server: &TcpListener) -> [String; 2] {
    connect(server).map(|end| algorithm_of(&end))
}

fn apply(rules: &str, options: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    fs::write(&file, format!("version = 1\n{rules}")).unwrap();
    run(0, &format!("policy apply {} {options}", file.display()));
}

fn shown(arguments: &str) -> Value {
    run(0, &format!("{arguments} -o json")).json()
}

#[test]
fn load() {
    try_feature("load", host_has!(root, struct_ops, bpffs), || {
        run(0, &format!("load dtcp --as {NAME}"));
        HeldConnection::open(&loopback_netns(), NAME).send(1 << 20);
        run(0, &format!("unload {NAME}"));
        YES
    });
}

#[test]
fn companion() {
    try_feature("companion (TCP option)", host_has!(root, struct_ops, bpffs, cgroup2), || {
        run(0, &format!("load mswift --as {NAME}"));
        run(0, &format!("unload {NAME}"));
        YES
    });
}

#[test]
fn policy_by_port() {
    try_feature("policy", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = listen();
        let rule =
            format!("[[rule]]\nname = \"in\"\nlocal_port = {}\nuse = \"dtcp\"\n", server.local_addr().unwrap().port());
        let before = algorithms(&server);
        apply(&rule, "");
        assert_eq!(algorithms(&server), [before[0].clone(), "dtcp".to_owned()]);
        assert_eq!(shown("policy show")["counts"]["arms"][0][0]["set"], 1);
        run(0, "policy remove");
        assert_eq!(algorithms(&server), before);
        YES
    });
}

#[test]
fn policy_by_unit() {
    try_feature("policy by systemd unit", host_has!(root, struct_ops, bpffs, cgroup2), || {
        apply("[[rule]]\nname = \"unit\"\nunit = \"ldk-feature.service\"\nuse = \"dtcp\"\n", "");
        for _ in 0..2 {
            let unit = TestCgroup::create("/ldk-feature.service");
            // Each start of the unit is a new cgroup.
            assert_eq!(unit.inside(given_on_host), ["dtcp", "dtcp"]);
        }
        assert_eq!(given_on_host().map(|name| name == "dtcp"), [false, false]);
        run(0, "policy remove");
        YES
    });
}

#[test]
fn live_move() {
    try_feature("policy on open connections", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = listen();
        let [client, accepted] = connect(&server);
        let before = algorithm_of(&client);
        let rule = format!(
            "[[rule]]\nname = \"out\"\nremote_port = {}\nuse = \"dtcp\"\n",
            server.local_addr().unwrap().port()
        );
        apply(&rule, "--live");
        assert_eq!([algorithm_of(&client), algorithm_of(&accepted)], ["dtcp".to_owned(), before.clone()]);
        run(0, "policy remove --live");
        assert_eq!(algorithm_of(&client), before);
        run(0, "policy remove"); // and what it keeps of open connections
        YES
    });
}

#[test]
fn upgrade_and_rollback() {
    try_feature("upgrade, rollback", host_has!(root, struct_ops, bpffs, cgroup2), || {
        run(0, &format!("load dtcp --as {NAME}"));
        let said = run(0, &format!("upgrade {NAME} --set keep_avoidance=896")).stderr();
        run(0, &format!("rollback {NAME}"));
        HeldConnection::open(&loopback_netns(), NAME).send(1 << 20);
        run(0, &format!("unload {NAME}"));
        if said.contains("cannot swap code under a name") { "yes, but the name is missing for a moment" } else { YES }
    });
}

#[test]
fn lease() {
    try_feature("trial on a lease", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let before = default();
        run(0, &format!("load dtcp --as {NAME} --default --confirm 5m"));
        assert_eq!(given_on_host(), [NAME, NAME]);
        assert_eq!(default(), before, "the default changes when the trial is confirmed");
        shorten_lease(Duration::from_secs(6));
        signal(guard(), Signal::SIGKILL);
        poll_until(SOON, "the kernel reverts the trial", || given_on_host().iter().all(|it| *it == before));
        run(0, "unload --all");
        YES
    });
}

#[test]
fn guard_reverts() {
    try_feature("guard", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = listen();
        let _short = shorten_waits("guard.look=1000 guard.tick=200");
        let rule =
            format!("[[rule]]\nname = \"in\"\nlocal_port = {}\nuse = \"dtcp\"\n", server.local_addr().unwrap().port());
        apply(&rule, "--trial 5m --guard abnormal_ends<1%");
        assert_eq!(algorithms(&server)[1], "dtcp");
        poll_until(SOON, "the guard sees the limit crossed and reverts", || {
            for _ in 0..20 {
                let [client, accepted] = connect(&server);
                // A reset ends the other side abnormally.
                setsockopt(&client, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
                drop((client, accepted));
            }
            shown("status")["last_trial"]["result"] == "reverted"
        });
        let end = &shown("status")["last_trial"];
        assert!(end["why"].as_str().unwrap().contains("crossed the limit abnormal_ends<1%"), "{end}");
        let incident = Path::new(end["incident"].as_str().unwrap()).join("incident.json");
        poll_until(SOON, "the incident is written", || incident.is_file());
        assert_ne!(algorithms(&server)[1], "dtcp");
        run(0, "unload --all");
        YES
    });
}
