//! What this kernel can do of each feature, as an operator uses it: one short test a feature.
//!
//! `cargo xtask vm-matrix` runs these under several kernels and writes the table of bpf/README.md from what they record.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::verdict::record_feature;
use crate::common::{host_has, needs, poll_until};
use crate::lab::sandbox::{default, in_sandbox, network, run, stderr, stdout};
use crate::lab::socket::algorithm_of;
use crate::lab::trace::Connection;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use tccc::kernel::cgroup;

/// Generous for a busy host, and for a guest whose instructions are emulated.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "ldk_feature";

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

/// A policy file that is gone at the end.
struct PolicyFile {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl PolicyFile {
    fn new(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, format!("version = 1\n{rules}")).unwrap();
        PolicyFile { _folder: folder, path }
    }
}

fn apply(rules: &str, options: &str) -> String {
    let file = PolicyFile::new(rules);
    let output = run(0, &format!("policy apply {} {options}", file.path.display()));
    stdout(&output) + &stderr(&output)
}

fn shown(arguments: &str) -> Value {
    run(0, &format!("{arguments} -o json")).json()
}

#[test]
fn load() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, &format!("load dtcp --as {NAME}"));
        let netns = network();
        Connection::open(&netns, NAME).transfer();
        run(0, &format!("unload {NAME}"));
    });
    record_feature("load", "yes");
}

#[test]
fn companion() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        run(0, &format!("load mswift --as {NAME}"));
        run(0, &format!("unload {NAME}"));
    });
    record_feature("companion (TCP option)", "yes");
}

#[test]
fn policy_by_port() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = Server::new();
        let rule = format!("[[rule]]\nname = \"in\"\nlocal_port = {}\nuse = \"dtcp\"\n", server.address.port());
        let before = server.algorithms();
        apply(&rule, "");
        assert_eq!(server.algorithms(), [before[0].clone(), "dtcp".to_owned()]);
        assert_eq!(shown("policy show")["counts"]["arms"][0][0]["set"], 1);
        run(0, "policy remove");
        assert_eq!(server.algorithms(), before);
    });
    record_feature("policy", "yes");
}

/// A cgroup that this process is in as long as the value lives.
struct Inside {
    path: PathBuf,
    before: PathBuf,
}

impl Inside {
    fn enter(name: &str) -> Self {
        let mount = cgroup::mount_point().unwrap();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = own.lines().find_map(|line| line.strip_prefix("0::/")).expect("a cgroup v2");
        let (path, before) = (mount.join(name), mount.join(before));
        fs::create_dir(&path).unwrap();
        join(&path);
        Inside { path, before }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        join(&self.before);
        let _ = fs::remove_dir(&self.path);
    }
}

fn join(cgroup: &Path) {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).unwrap();
}

#[test]
fn policy_by_unit() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        apply("[[rule]]\nname = \"unit\"\nunit = \"ldk-feature.service\"\nuse = \"dtcp\"\n", "");
        for _ in 0..2 {
            let inside = Inside::enter("ldk-feature.service");
            assert_eq!(Server::new().algorithms(), ["dtcp", "dtcp"], "the unit is built again each time");
            drop(inside);
        }
        assert_eq!(Server::new().algorithms().map(|name| name == "dtcp"), [false, false]);
        run(0, "policy remove");
    });
    record_feature("policy by systemd unit", "yes");
}

#[test]
fn live_move() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let server = Server::new();
        let [client, accepted] = server.connect();
        let before = algorithm_of(&client);
        let rule = format!("[[rule]]\nname = \"out\"\nremote_port = {}\nuse = \"dtcp\"\n", server.address.port());
        apply(&rule, "--live");
        assert_eq!([algorithm_of(&client), algorithm_of(&accepted)], ["dtcp".to_owned(), before.clone()]);
        run(0, "policy remove --live");
        assert_eq!(algorithm_of(&client), before);
    });
    record_feature("policy on open connections", "yes");
}

#[test]
fn upgrade_and_rollback() {
    needs!(root, struct_ops, bpffs, cgroup2);
    let mut word = "yes";
    in_sandbox(true, || {
        run(0, &format!("load dtcp --as {NAME}"));
        let said = stderr(&run(0, &format!("upgrade {NAME} --set keep_avoidance=896")));
        if said.contains("cannot swap code under a name") {
            word = "with a gap for those who ask by name";
        }
        run(0, &format!("rollback {NAME}"));
        let netns = network();
        Connection::open(&netns, NAME).transfer();
        run(0, &format!("unload {NAME}"));
    });
    record_feature("upgrade, rollback", word);
}

#[test]
fn lease() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let before = default();
        run(0, &format!("load dtcp --as {NAME} --default --confirm 8s"));
        assert_eq!(Server::new().algorithms(), [NAME, NAME]);
        assert_eq!(default(), before, "the default changes when the trial is confirmed");
        let guard = shown("status")["trial"]["guard_pid"].as_i64().unwrap();
        kill(Pid::from_raw(guard as i32), Signal::SIGKILL).unwrap();
        poll_until(LIMIT, "the kernel takes it back", || Server::new().algorithms().iter().all(|it| *it == before));
        run(0, "unload --all");
    });
    record_feature("trial on a lease", "yes");
}

#[test]
fn guard() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
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
    });
    record_feature("guard", "yes");
}
