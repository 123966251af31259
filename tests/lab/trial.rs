//! A network namespace with a policy, trials of the policy, and the guard processes of these trials.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::all_processes;
use serde_json::Value;
use tccc::kernel::netns::Netns;
use tccc::kernel::sysctl;

use crate::common::experiment::is_alive;
use crate::common::{CommandOutput, SOON, TCCC, check, inhabit, poll_until, run, signal, tccc};
use crate::lab::policy::SocketPair;
use crate::lab::policy::traffic::BackgroundTraffic;
use crate::lab::sandbox::Sandbox;
use crate::lab::socket::{algorithm_of, path_of};
use crate::lab::trace::loopback_netns;

/// Algorithm of connections without a policy.
pub const DEFAULT: &str = "reno";
/// Algorithm of the policy before a trial.
pub const BEFORE: &str = "cubic";
/// Algorithm on trial.
pub const TRIED: &str = "dtcp";

/// A sandbox with an inhabited network namespace and a folder for files. One connection of the namespace carries bytes throughout.
///
/// Panics when dropped: that connection was reset or received a wrong byte, or a process of tccc is left.
pub struct TrialLab {
    pub netns: Netns,
    folder: tempfile::TempDir,
    traffic: Option<BackgroundTraffic>,
    _inhabitant: std::sync::mpsc::Sender<()>,
    _sandbox: Sandbox,
}

impl Drop for TrialLab {
    fn drop(&mut self) {
        let traffic = self.traffic.take().expect("it is taken once");
        if !std::thread::panicking() {
            traffic.goes_on(1);
            traffic.end();
            until_no_process();
        }
    }
}

impl TrialLab {
    pub fn enter() -> Self {
        let (sandbox, netns) = (Sandbox::enter(), loopback_netns());
        sysctl::write(&netns, "net.ipv4.tcp_congestion_control", DEFAULT).unwrap();
        let [client, server] = connect(&netns);
        let traffic = Some(BackgroundTraffic::begin(vec![SocketPair { client, server }]));
        TrialLab {
            _inhabitant: inhabit(&netns),
            netns,
            folder: tempfile::tempdir().unwrap(),
            traffic,
            _sandbox: sandbox,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a policy file with one rule for the namespace.
    pub fn policy(&self, fields: &str) -> PathBuf {
        let name = format!("{}.toml", fields.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        let path = self.file(&name[name.len().saturating_sub(100)..]);
        let rule = format!("version = 1\n[[rule]]\nname = \"web\"\nnetns = \"{}\"\n{fields}\n", path_of(&self.netns));
        fs::write(&path, rule).unwrap();
        path
    }

    /// Runs `tccc policy apply` with one rule; the test fails unless it ends with `code`.
    #[track_caller]
    pub fn apply(&self, code: i32, fields: &str, options: &str) -> CommandOutput {
        let mut command = tccc();
        command.args(["policy", "apply"]).arg(self.policy(fields)).args(options.split_whitespace());
        check(code, &mut command)
    }

    /// Begins a trial of [`TRIED`] for all connections. `time`: `5s` or longer.
    #[track_caller]
    pub fn try_policy(&self, time: &str) {
        self.apply(0, &format!("use = \"{TRIED}\""), &format!("--trial {time}"));
    }

    #[track_caller]
    pub fn apply_before(&self) {
        self.apply(0, &format!("use = \"{BEFORE}\""), "");
    }

    pub fn connect(&self) -> [TcpStream; 2] {
        connect(&self.netns)
    }

    /// The algorithm that both ends of a new connection get.
    #[track_caller]
    pub fn given(&self) -> String {
        let [client, server] = self.connect().map(|end| algorithm_of(&end));
        assert_eq!(client, server);
        client
    }

    /// Asserts that nothing is on trial, and which algorithm new connections get.
    #[track_caller]
    pub fn assert_over(&self, algorithm: &str, when: &str) {
        assert_eq!((self.given().as_str(), on_trial().is_null()), (algorithm, true), "{when}");
    }
}

pub fn connect(netns: &Netns) -> [TcpStream; 2] {
    let ends = netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        Ok([client, listener.accept()?.0])
    });
    ends.unwrap()
}

/// The algorithms that both ends of a new connection on the host's loopback interface get.
pub fn given_on_host() -> [String; 2] {
    connect(&Netns::current().unwrap()).map(|end| algorithm_of(&end))
}

pub fn status() -> Value {
    run(0, "status -o json").json()
}

/// The current trial in `tccc status -o json`, or null.
pub fn on_trial() -> Value {
    status()["trial"].clone()
}

/// Result and reason of the latest trial that ended.
pub fn last_trial() -> (String, String) {
    let last = status()["last_trial"].clone();
    let word = |name: &str| last[name].as_str().unwrap_or_default().to_owned();
    (word("result"), word("why"))
}

#[track_caller]
pub fn guard() -> u32 {
    on_trial()["guard_pid"].as_u64().expect("something is on trial") as u32
}

/// Sends a signal to the guard and waits until it is dead. Returns its process id.
#[track_caller]
pub fn end_guard(number: Signal) -> u32 {
    let guard = guard();
    signal(guard, number);
    until_ended(guard);
    guard
}

pub fn until_ended(process: u32) {
    poll_until(SOON, "the process ends", || !is_alive(process));
}

pub fn until_no_process() {
    poll_until(SOON, "every process of tccc ends", || processes().is_empty());
}

/// Waits for the guard's first look. The guard counts what happens after that.
pub fn until_guard_has_looked() {
    poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
}

/// Connections of the first rule that the guard has counted.
pub fn counted_connections() -> u64 {
    let arms = on_trial()["view"]["rules"][0]["arms"].clone();
    arms.as_array().map_or(0, |arms| arms.iter().filter_map(|arm| arm["connections"].as_u64()).sum())
}

/// Shortens the lease of the current trial, to save time.
pub fn shorten_lease(lease: Duration) {
    const RECORD: &str = "/run/tccc/policy/record.json";
    until_guard_has_looked();
    let mut record: Value = serde_json::from_slice(&fs::read(RECORD).unwrap()).unwrap();
    record["trial"]["lease_ns"] = Value::from(lease.as_nanos() as u64);
    fs::write("/run/tccc/policy/short", record.to_string()).unwrap();
    fs::rename("/run/tccc/policy/short", RECORD).unwrap();
    poll_until(SOON, "the guard renews the shorter lease", || {
        on_trial()["lease_s"].as_f64().is_some_and(|left_s| left_s <= lease.as_secs_f64())
    });
}

/// Processes of tccc in this mount namespace.
pub fn processes() -> Vec<u32> {
    processes_of(Path::new(TCCC))
}

/// Processes of a program in this mount namespace.
pub fn processes_of(program: &Path) -> Vec<u32> {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let own = mounts("thread-self");
    let ours = all_processes().unwrap().flatten().filter(|process| {
        let is_tccc = process.exe().is_ok_and(|it| it == program);
        is_tccc && mounts(&process.pid.to_string()) == own && process.is_alive()
    });
    ours.map(|process| process.pid as u32).collect()
}

pub fn kill_all() {
    poll_until(SOON, "every process of tccc is killed", || {
        let left = processes();
        for &pid in &left {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL); // it may have ended by itself
        }
        left.is_empty()
    });
}
