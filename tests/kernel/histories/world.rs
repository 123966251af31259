//! The host of a history: runs steps by the program under test, and compares the host with the model.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Output;

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tccc::fault::VARIABLE;

mod compare;

use super::model::{End, KERNEL, Model, is_one_of};
use super::step::{Algorithm, CLASSES, Class, Declaration, Policy, Step, Trying, Version};
use crate::common::TCCC;
use crate::lab::policy::pair::{connect_from, listen_at};
use crate::lab::policy::programs;
use crate::lab::sandbox;
use crate::lab::trial::until_ended;
use crate::*;

/// Another program to test, such as that of an earlier commit.
const PROGRAM: &str = "TCCC_UNDER_TEST";
const CGROUP: &str = "/ldk_histories.slice";
const STATE: &str = "/etc/tccc-state";
const NO: Option<&str> = None;
/// The ports of the classes begin here.
const PORT: u16 = 7100;
const LEASE_NS: u64 = 4_000_000_000;

/// What differs from the promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The promise, without values. Shrinking keeps it.
    pub kind: &'static str,
    pub what: String,
}

type Checked<T = ()> = Result<T, Difference>;

fn differs<T>(kind: &'static str, what: impl Into<String>) -> Checked<T> {
    Err(Difference { kind, what: what.into() })
}

fn promised(kind: &'static str, holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { differs(kind, what()) }
}

/// One end of a connection that was opened to compare it.
struct Probe {
    what: String,
    end: End,
    socket: TcpStream,
    /// The code of its listener or namespace, and the name of that code.
    held: Option<(String, Option<u32>)>,
}

pub struct World {
    program: PathBuf,
    base: String,
    /// Listeners of each class. The second ones choose an algorithm.
    listeners: Vec<[TcpListener; 2]>,
    choosing: Vec<TcpListener>,
    open: Vec<SocketPair>,
    namespaces: Vec<Netns>,
    /// The number of each generation of the policy, by its stamp.
    numbers: BTreeMap<u32, u64>,
    /// Programs of policies of other tests on this host.
    others: usize,
    _cgroup: TestCgroup,
    _sandbox: Sandbox,
}

fn port_of(class: Class) -> u16 {
    PORT + class as u16
}

impl World {
    pub fn enter() -> Self {
        let (others, sandbox) = (programs(), Sandbox::enter());
        // The lasting files of the host are not the test's.
        mount(Some("none"), "/etc", Some("tmpfs"), MsFlags::empty(), NO).unwrap();
        fs::create_dir("/etc/tccc").unwrap();
        let cgroup = TestCgroup::create(CGROUP);
        let listen = |class| {
            let at = |chooses| {
                let port = port_of(class) + if chooses == NO { 0 } else { 100 };
                listen_at(format!("[::]:{port}").parse().unwrap(), true, chooses)
            };
            [NO, Some(KERNEL)].map(at)
        };
        let listeners =
            CLASSES.map(|class| if class == Class::Group { cgroup.inside(|| listen(class)) } else { listen(class) });
        World {
            program: std::env::var_os(PROGRAM).map_or(TCCC.into(), PathBuf::from),
            base: sandbox::default(),
            listeners: listeners.into(),
            choosing: Vec::new(),
            open: Vec::new(),
            namespaces: Vec::new(),
            numbers: BTreeMap::new(),
            others,
            _cgroup: cgroup,
            _sandbox: sandbox,
        }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// Ends a history: the next one finds a host after a reboot, with an empty disk.
    pub fn clear(&mut self) {
        self.reboot();
        for place in ["/etc/tccc", STATE, "/etc/hand"] {
            let _ = fs::remove_dir_all(place);
        }
        fs::create_dir("/etc/tccc").unwrap();
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words.split_whitespace()).env("NO_COLOR", "1").env("STATE_DIRECTORY", STATE);
        command.current_dir("/run");
        command
    }

    /// Runs a step. `None`: there is no command that could be refused.
    pub fn run(&mut self, step: &Step) -> Option<Output> {
        let words = match step {
            Step::Declare(declaration) => {
                declare(declaration, &self.base);
                return None;
            }
            Step::KillGuard => return self.kill_guard(),
            Step::StopGuard => return self.stop_guard(),
            Step::Reboot => return self.reboot(),
            Step::Shutdown => {
                let _ = self.command("unload --all").output(); // as the unit's ExecStop, whatever it answers
                return self.reboot();
            }
            Step::Namespace => {
                self.namespaces.push(loopback_netns());
                return None;
            }
            Step::Listen(name) => {
                let port = PORT + 200 + self.choosing.len() as u16;
                let at = format!("[::]:{port}").parse().unwrap();
                self.choosing.push(listen_at(at, true, Some(&name.to_string())));
                return None;
            }
            Step::Hold(class) => {
                let listener = &self.listeners[*class as usize][0];
                let at = format!("127.0.0.1:{}", port_of(*class)).parse().unwrap();
                let client = connect_from("127.0.0.1:0".parse().unwrap(), at, None);
                self.open.push(SocketPair { client, server: listener.accept().unwrap().0 });
                return None;
            }
            Step::Killed(point, step) => {
                let words = words_of(step, &self.base);
                return Some(self.command(&words).env(VARIABLE, point).output().unwrap());
            }
            step => words_of(step, &self.base),
        };
        Some(self.command(&words).output().unwrap())
    }

    fn processes(&self) -> Vec<u32> {
        crate::lab::trial::processes_of(&self.program)
    }

    fn reboot(&mut self) -> Option<Output> {
        // The kernel ends processes without a word.
        poll_until(SOON, "every process of the host ends", || {
            let left = self.processes();
            for &pid in &left {
                let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL); // it may have ended by itself
            }
            left.is_empty()
        });
        self.choosing.clear();
        self.open.clear();
        self.namespaces.clear();
        self.numbers.clear();
        if sandbox::default() != self.base {
            fs::write("/proc/sys/net/ipv4/tcp_congestion_control", &self.base).unwrap();
        }
        for (place, kind) in [("/sys/fs/bpf", "bpf"), ("/run", "tmpfs")] {
            umount2(place, MntFlags::MNT_DETACH).unwrap();
            mount(Some(kind), place, Some(kind), MsFlags::empty(), NO).unwrap();
        }
        let is_clean = || programs() <= self.others && !available().iter().any(|name| is_ours(name));
        poll_until(SOON, "the kernel is as after a reboot", is_clean);
        None
    }

    fn status(&self) -> Checked<Value> {
        let output = self.command("status -o json").output().unwrap();
        match serde_json::from_slice(&output.stdout) {
            Ok(status) if output.status.success() => Ok(status),
            _ => differs("status answers", format!("{}{}", stdout(&output), stderr(&output))),
        }
    }

    fn guard(&self) -> Option<u32> {
        Some(self.status().ok()?["trial"]["guard_pid"].as_u64()? as u32)
    }

    /// As if the lease were shorter, to save time.
    fn shorten_lease(&self) {
        const RECORD: &str = "/run/tccc/policy/record.json";
        let mut record: Value = serde_json::from_slice(&fs::read(RECORD).unwrap()).unwrap();
        record["trial"]["lease_ns"] = LEASE_NS.into();
        fs::write("/run/tccc/policy/short", record.to_string()).unwrap();
        fs::rename("/run/tccc/policy/short", RECORD).unwrap();
        poll_until(SOON, "the guard renews the shorter lease", || {
            let left_s = self.status().ok().and_then(|status| status["trial"]["lease_s"].as_f64());
            left_s.is_none_or(|left_s| left_s <= LEASE_NS as f64 / 1e9)
        });
    }

    /// Kills the guard. tccc-guard.service cleans up after the lease.
    fn kill_guard(&self) -> Option<Output> {
        self.shorten_lease();
        let guard = self.guard()?;
        signal(guard, Signal::SIGKILL);
        until_ended(guard);
        let stand_by = begin_quietly(&mut self.command("guard --stand-by"));
        poll_until(SOON, "the trial is cleaned up", || self.status().is_ok_and(|status| status["trial"].is_null()));
        signal(stand_by.id(), Signal::SIGTERM);
        stand_by.output();
        None
    }

    fn stop_guard(&self) -> Option<Output> {
        self.shorten_lease();
        let guard = self.guard()?;
        signal(guard, Signal::SIGSTOP);
        let is_over = || self.status().is_ok_and(|status| status["trial"]["lease_s"] == 0.0);
        poll_until(SOON, "the lease is over", is_over);
        signal(guard, Signal::SIGCONT);
        until_ended(guard);
        None
    }
}

/// Registered by a history.
fn is_ours(name: &str) -> bool {
    super::step::ALGORITHMS.iter().any(|algorithm| name.starts_with(&algorithm.to_string()))
}

fn set(name: Algorithm, version: Version) -> String {
    match value(name, version) {
        Some((tunable, value)) => format!("--set {tunable}={value}"),
        None => String::new(),
    }
}

/// The tunable that shows a version, and its value. None: no tunable is set.
fn value(name: Algorithm, version: Version) -> Option<(&'static str, u64)> {
    let (tunable, least) = match name {
        Algorithm::Msack => ("tolerance", 20),
        Algorithm::Cubic => ("cubic_scale", 400),
    };
    (version > 0).then(|| (tunable, least + u64::from(version)))
}

/// The words of a command. Writes the policy file that it names.
fn words_of(step: &Step, base: &str) -> String {
    let by_hand = |policy: &Policy| {
        fs::create_dir_all("/etc/hand").unwrap();
        fs::write("/etc/hand/policy.toml", policy_text(policy, base)).unwrap();
        "policy apply /etc/hand/policy.toml --accept-risk"
    };
    match step {
        Step::Load(name, version) => format!("load {name} {}", set(*name, *version)),
        Step::Replace(name, version) => format!("load {name} --replace --accept-risk {}", set(*name, *version)),
        Step::LoadDefault(name) => format!("load {name} --default --accept-risk"),
        Step::TryDefault(name) => format!("load {name} --default --confirm 1h"),
        Step::Unload(name) => format!("unload {name}"),
        Step::UnloadAll => "unload --all".to_owned(),
        Step::Upgrade(name, version) => format!("upgrade {name} --accept-risk {}", set(*name, *version)),
        Step::TryUpgrade(name, version) => format!("upgrade {name} --trial 1h {}", set(*name, *version)),
        Step::Rollback(name) => format!("rollback {name}"),
        Step::Confirm => "confirm".to_owned(),
        Step::Policy(policy) => by_hand(policy).to_owned(),
        Step::PolicyLive(policy) => format!("{} --live", by_hand(policy)),
        Step::Promote => "policy promote".to_owned(),
        Step::Pause => "policy pause".to_owned(),
        Step::Resume => "policy resume".to_owned(),
        Step::Abort => "policy abort".to_owned(),
        Step::Remove => "policy remove".to_owned(),
        Step::RemoveLive => "policy remove --live".to_owned(),
        Step::Apply => "apply".to_owned(),
        step => panic!("{step:?} is no command"),
    }
}

fn policy_text(policy: &Policy, base: &str) -> String {
    let condition = match policy.class {
        Class::Other => "local_port = 7199".to_owned(),
        Class::Local | Class::Remote => {
            let side = if policy.class == Class::Local { "local" } else { "remote" };
            let port = port_of(policy.class);
            format!("{side}_port = [{port}, {}]", port + 100)
        }
        Class::Group => format!("cgroup = \"{CGROUP}\""),
    };
    let current = if policy.current { format!("current = \"{base}\"\n") } else { String::new() };
    let trying = match policy.trying {
        Trying::No => "",
        Trying::Guard => "guard = \"retransmitted<50%\"\n",
        Trying::Steps => "steps = [{ percent = 10, for = \"1h\" }, { percent = 100, for = \"1h\" }]\n",
    };
    let (gives, overrides) = (super::model::name_of(policy.gives), policy.overrides);
    format!(
        "version = 1\n[[rule]]\nname = \"web\"\n{condition}\n{current}use = \"{gives}\"\noverride = {overrides}\n{trying}"
    )
}

fn declare(declaration: &Declaration, base: &str) {
    fs::create_dir_all("/etc/tccc/policies").unwrap();
    let Declaration { algorithms, default, policy } = declaration;
    let default = default.map_or(String::new(), |name| format!("default = \"{name}\"\n"));
    let mut text = format!("version = 1\n{default}");
    if let Some(policy) = policy {
        text += "policy = \"policies/web.toml\"\n";
        fs::write("/etc/tccc/policies/web.toml", policy_text(policy, base)).unwrap();
    }
    for (&name, &version) in algorithms {
        text += &format!("[algorithm.{name}]\naccept_risk = true\n");
        if let Some((tunable, value)) = value(name, version) {
            text += &format!("tunables = {{ {tunable} = {value} }}\n");
        }
    }
    fs::write("/etc/tccc/10-site.toml", text).unwrap();
}
