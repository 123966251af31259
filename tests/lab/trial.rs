//! A network namespace whose connections a policy decides, trials of it, and the processes that guard them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::{Process, all_processes};
use serde_json::Value;
use tccc::kernel::netns::Netns;
use tccc::kernel::sysctl;

use crate::common::{TCCC, poll_until, tccc};
use crate::lab::policy::Pair;
use crate::lab::policy::traffic::Traffic;
use crate::lab::sandbox::{Said, check, in_sandbox, network, run};
pub use crate::lab::socket::algorithm_of;
use crate::lab::socket::path_of;

/// Generous for a busy host.
pub const SOON: Duration = Duration::from_secs(30);
/// What connections in the namespace have without a policy, what the policy before a trial gives, and what the trial does.
pub const DEFAULT: &str = "reno";
pub const BEFORE: &str = "cubic";
pub const TRIED: &str = "dtcp";

/// One test's namespace and files.
pub struct Lab {
    pub netns: Netns,
    folder: tempfile::TempDir,
}

/// Runs a test in a sandbox of its own. A connection that is open throughout carries its bytes unchanged, and no process is
/// left.
pub fn in_lab(host_has_needs: bool, test: impl FnOnce(&Lab) + Send) {
    in_sandbox(host_has_needs, || {
        let netns = network();
        sysctl::write(&netns, "net.ipv4.tcp_congestion_control", DEFAULT).unwrap();
        let lab = Lab { netns, folder: tempfile::tempdir().unwrap() };
        let [client, server] = lab.connect();
        let traffic = Traffic::begin(vec![Pair { client, server }]);
        test(&lab);
        traffic.goes_on(1);
        traffic.end();
        poll_until(SOON, "every process of tccc ends", || processes().is_empty());
    });
}

impl Lab {
    /// Path by which other processes find the namespace while this one lives.
    pub fn place(&self) -> String {
        path_of(&self.netns)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A policy file with one rule for the namespace.
    pub fn policy(&self, fields: &str) -> PathBuf {
        let name = format!("{}.toml", fields.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        let path = self.file(&name[name.len().saturating_sub(100)..]);
        let rule = format!("version = 1\n[[rule]]\nname = \"web\"\nnetns = \"{}\"\n{fields}\n", self.place());
        fs::write(&path, rule).unwrap();
        path
    }

    /// `tccc policy apply` of a rule; the test fails unless it ends with `code`.
    #[track_caller]
    pub fn apply(&self, code: i32, fields: &str, options: &str) -> Said {
        let mut command = tccc();
        command.args(["policy", "apply"]).arg(self.policy(fields)).args(options.split_whitespace());
        check(code, &mut command)
    }

    /// Begins a trial of [`TRIED`] for all connections.
    #[track_caller]
    pub fn try_policy(&self, time: &str) {
        self.apply(0, &format!("use = \"{TRIED}\""), &format!("--trial {time}"));
    }

    /// A policy that gives [`BEFORE`].
    #[track_caller]
    pub fn apply_before(&self) {
        self.apply(0, &format!("use = \"{BEFORE}\""), "");
    }

    /// Both ends of a new connection.
    pub fn connect(&self) -> [TcpStream; 2] {
        connect(&self.netns)
    }

    /// The algorithm that a new connection gets, at both ends.
    #[track_caller]
    pub fn given(&self) -> String {
        let [client, server] = self.connect().map(|end| algorithm_of(&end));
        assert_eq!(client, server);
        client
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

/// `tccc status -o json`.
pub fn status() -> Value {
    run(0, "status -o json").json()
}

/// What is on trial, as `tccc status` tells it.
pub fn on_trial() -> Value {
    status()["trial"].clone()
}

/// Why the latest trial ended, and what became of it.
pub fn last_trial() -> (String, String) {
    let last = status()["last_trial"].clone();
    let word = |name: &str| last[name].as_str().unwrap_or_default().to_owned();
    (word("result"), word("why"))
}

/// The process that guards what is on trial.
#[track_caller]
pub fn guard() -> Pid {
    Pid::from_raw(on_trial()["guard_pid"].as_i64().expect("something is on trial") as i32)
}

/// Makes the lease of the trial that goes on as short as this, so that a test need not wait for a whole one.
pub fn shorten_lease(lease: Duration) {
    const RECORD: &str = "/run/tccc/policy/record.json";
    poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
    let mut record: Value = serde_json::from_slice(&fs::read(RECORD).unwrap()).unwrap();
    record["trial"]["lease_ns"] = Value::from(lease.as_nanos() as u64);
    fs::write("/run/tccc/policy/short", record.to_string()).unwrap();
    fs::rename("/run/tccc/policy/short", RECORD).unwrap();
    poll_until(SOON, "the guard renews it by this much", || {
        on_trial()["lease_s"].as_f64().is_some_and(|left_s| left_s <= lease.as_secs_f64())
    });
}

/// A dead process that nobody has collected yet is gone as well.
pub fn is_gone(pid: Pid) -> bool {
    !Process::new(pid.as_raw()).is_ok_and(|process| process.is_alive())
}

/// Processes of tccc in this mount namespace.
pub fn processes() -> Vec<Pid> {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let own = mounts("thread-self");
    let ours = all_processes().unwrap().flatten().filter(|process| {
        let is_tccc = process.exe().is_ok_and(|program| program == Path::new(TCCC));
        is_tccc && mounts(&process.pid.to_string()) == own && process.is_alive()
    });
    ours.map(|process| Pid::from_raw(process.pid)).collect()
}

/// `kill -9` of everything of tccc.
pub fn kill_all() {
    poll_until(SOON, "every process of tccc is killed", || {
        let left = processes();
        for &pid in &left {
            let _ = kill(pid, Signal::SIGKILL); // it may have ended by itself
        }
        left.is_empty()
    });
}

/// Starts a command that says nothing.
pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
