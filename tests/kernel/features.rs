//! What this kernel can do of each feature, as an operator uses it: one short test a feature.
//!
//! `cargo xtask vm-matrix` runs these under several kernels and writes the table of bpf/README.md from what they record.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::common::verdict::record_feature;
use crate::common::{host_has, poll_until, test_alone};
use crate::lab::group::Group;
use crate::lab::sandbox::{BPF, default, in_sandbox, network, run, without};
use crate::lab::socket::algorithm_of;
use crate::lab::trace::Connection;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;

/// Generous for a busy host, and for a guest whose instructions are emulated.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "ldk_feature";
/// What is recorded of a feature that works without exception.
const YES: &str = "yes";

/// Runs the test of a feature in a sandbox, and records the words that it returns; a skipped test is recorded as skipped.
fn try_feature(feature: &str, host_has_needs: bool, test: impl FnOnce() -> &'static str + Send) {
    let mut words = "skipped";
    in_sandbox(host_has_needs, || words = test());
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

/// A listening socket of the loopback interface and its connections.
struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Server { listener, address }
    }

    fn connect(&self) -> [TcpStream; 2] {
        let client = TcpStream::connect(self.address).unwrap();
        [client, self.listener.accept().unwrap().0]
    }

    /// Algorithms of both ends of a new connection: the one that makes it, the one that accepts it.
    fn algorithms(&self) -> [String; 2] {
        self.connect().map(|end| algorithm_of(&end))
    }
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
        let netns = network();
        Connection::open(&netns, NAME).transfer();
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
        let server = Server::new();
        let rule = format!("[[rule]]\nname = \"in\"\nlocal_port = {}\nuse = \"dtcp\"\n", server.address.port());
        let before = server.algorithms();
        apply(&rule, "");
        assert_eq!(server.algorithms(), [before[0].clone(), "dtcp".to_owned()]);
        assert_eq!(shown("policy show")["counts"]["arms"][0][0]["set"], 1);
        run(0, "policy remove");
        assert_eq!(server.algorithms(), before);
        YES
    });
}

#[test]
fn policy_by_unit() {
    try_feature("policy by systemd unit", host_has!(root, struct_ops, bpffs, cgroup2), || {
        apply("[[rule]]\nname = \"unit\"\nunit = \"ldk-feature.service\"\nuse = \"dtcp\"\n", "");
        for _ in 0..2 {
            let unit = Group::create("/ldk-feature.service");
            assert_eq!(
                unit.inside(|| Server::new().algorithms()),
                ["dtcp", "dtcp"],
                "the unit is built again each time"
            );
        }
        assert_eq!(Server::new().algorithms().map(|name| name == "dtcp"), [false, false]);
        run(0, "policy remove");
        YES
    });
}

#[test]
fn live_move() {
    try_feature("policy on open connections", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = Server::new();
        let [client, accepted] = server.connect();
        let before = algorithm_of(&client);
        let rule = format!("[[rule]]\nname = \"out\"\nremote_port = {}\nuse = \"dtcp\"\n", server.address.port());
        apply(&rule, "--live");
        assert_eq!([algorithm_of(&client), algorithm_of(&accepted)], ["dtcp".to_owned(), before.clone()]);
        run(0, "policy remove --live");
        assert_eq!(algorithm_of(&client), before);
        YES
    });
}

#[test]
fn upgrade_and_rollback() {
    try_feature("upgrade, rollback", host_has!(root, struct_ops, bpffs, cgroup2), || {
        run(0, &format!("load dtcp --as {NAME}"));
        let said = run(0, &format!("upgrade {NAME} --set keep_avoidance=896")).stderr();
        run(0, &format!("rollback {NAME}"));
        let netns = network();
        Connection::open(&netns, NAME).transfer();
        run(0, &format!("unload {NAME}"));
        if said.contains("cannot swap code under a name") { "with a gap for those who ask by name" } else { YES }
    });
}

#[test]
fn lease() {
    try_feature("trial on a lease", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let before = default();
        run(0, &format!("load dtcp --as {NAME} --default --confirm 8s"));
        assert_eq!(Server::new().algorithms(), [NAME, NAME]);
        assert_eq!(default(), before, "the default changes when the trial is confirmed");
        let guard = shown("status")["trial"]["guard_pid"].as_i64().unwrap();
        kill(Pid::from_raw(guard as i32), Signal::SIGKILL).unwrap();
        poll_until(LIMIT, "the kernel takes it back", || Server::new().algorithms().iter().all(|it| *it == before));
        run(0, "unload --all");
        YES
    });
}

#[test]
fn guard() {
    try_feature("guard", host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = Server::new();
        let rule = format!("[[rule]]\nname = \"in\"\nlocal_port = {}\nuse = \"dtcp\"\n", server.address.port());
        apply(&rule, "--trial 5m --guard abnormal_ends<1%");
        assert_eq!(server.algorithms()[1], "dtcp");
        poll_until(LIMIT, "the guard sees the limit crossed and reverts", || {
            for _ in 0..20 {
                let [client, accepted] = server.connect();
                // Closed by a reset, which ends the other side abnormally.
                setsockopt(&client, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
                drop((client, accepted));
            }
            shown("status")["last_trial"]["result"] == "reverted"
        });
        let end = &shown("status")["last_trial"];
        assert!(end["why"].as_str().unwrap().contains("crossed the limit abnormal_ends<1%"), "{end}");
        let incident = Path::new(end["incident"].as_str().unwrap()).join("incident.json");
        poll_until(LIMIT, "the incident is written", || incident.is_file());
        assert_ne!(server.algorithms()[1], "dtcp");
        run(0, "unload --all");
        YES
    });
}
