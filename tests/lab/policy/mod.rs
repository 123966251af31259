//! A network namespace and the policy for its connections, as a user applies it.
//!
//! The default algorithm is `reno`. The tests' rules set `cubic` or `bbr`, which every kernel of the matrix has.

pub mod fault;
pub mod object;
pub mod pair;
pub mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use tccc::kernel::netns::Netns;
use tccc::policy::rule::{Arm, Match, Portion, Rule, Split, SplitBy, Treatment};
use tempfile::TempDir;

use crate::common::{CommandOutput, SOON, check, poll_until, run, tccc};
use crate::lab::sandbox::Sandbox;
use crate::lab::trace::loopback_netns;
pub use pair::{Endpoints, SocketPair};

/// Name of the namespace for `ip netns`, in the sandbox's own `/run`.
pub const NAME: &str = "ldk_lab";
/// Names of the policy's programs. The kernel truncates names to 15 characters.
const PROGRAMS: [&str; 8] = [
    "tccc_select",
    "tccc_cg_mkdir",
    "tccc_cg_release",
    "tccc_sight",
    "tccc_label",
    "tccc_older",
    "tccc_move",
    "tccc_refresh",
];

pub fn all(algorithm: &str) -> String {
    format!("[[rule]]\nname = \"all\"\nuse = \"{algorithm}\"\n")
}

/// When dropped, it removes the policy that the test left. Panics: the kernel still has programs or maps of the policy.
pub struct PolicyLab {
    pub netns: Netns,
    folder: TempDir,
    before: (usize, usize),
    _sandbox: Sandbox,
}

impl Drop for PolicyLab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if Path::new("/sys/fs/bpf/tccc/policy").exists() {
            remove();
        }
        let is_clean = || programs() <= self.before.0 && maps() <= self.before.1;
        poll_until(SOON, "the policy's programs and maps leave the kernel", is_clean);
    }
}

fn maps() -> usize {
    let names = ["tccc_labels", "tccc_cgroups", "tccc_awaited", "tccc_remotes", "tccc_counts"];
    MapInfoIter::default().filter(|map| names.iter().any(|name| map.name == *name)).count()
}

pub fn programs() -> usize {
    ProgInfoIter::default().filter(|program| PROGRAMS.iter().any(|name| program.name == *name)).count()
}

impl PolicyLab {
    pub fn enter() -> Self {
        let (before, sandbox) = ((programs(), maps()), Sandbox::enter());
        let netns = named_netns(NAME);
        tccc::kernel::sysctl::write(&netns, "net.ipv4.tcp_congestion_control", "reno").unwrap();
        PolicyLab { netns, folder: tempfile::tempdir().unwrap(), before, _sandbox: sandbox }
    }

    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.netns.run(|| Ok(work())).unwrap()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn policy_file(&self, rules: &str) -> PathBuf {
        self.file("policy.toml", &format!("version = 1\n{rules}"))
    }

    /// Runs `tccc policy VERB FILE OPTIONS`, which must end with `code`. `verb` contains the options.
    #[track_caller]
    pub fn policy(&self, code: i32, verb: &str, rules: &str) -> CommandOutput {
        let (verb, options) = verb.split_once(' ').unwrap_or((verb, ""));
        let file = self.policy_file(rules);
        // The tests' rules choose algorithms by what they show, not by their risk.
        let accepted = if verb == "apply" { "--accept-risk" } else { "" };
        let options = options.split_whitespace().chain(accepted.split_whitespace());
        check(code, tccc().args(["policy", verb]).arg(file).args(options))
    }

    #[track_caller]
    pub fn apply(&self, rules: &str) -> CommandOutput {
        self.policy(0, "apply", rules)
    }

    #[track_caller]
    pub fn pair(&self, ends: &Endpoints) -> SocketPair {
        self.inside(|| SocketPair::open(ends))
    }

    /// A connection over the loopback interface whose ends choose no algorithm.
    #[track_caller]
    pub fn plain(&self) -> SocketPair {
        self.pair(&Endpoints::loopback())
    }

    /// The algorithms of both ends of a new connection between two addresses: client, server.
    #[track_caller]
    pub fn algorithms(&self, from: &str, to: &str) -> [String; 2] {
        self.pair(&Endpoints::new(from, to)).algorithms()
    }

    #[track_caller]
    pub fn assert_given(&self, algorithm: &str, when: &str) {
        assert_eq!(self.plain().algorithms(), [algorithm, algorithm], "{when}");
    }

    #[track_caller]
    pub fn ip(&self, words: &str) {
        self.inside(|| check(0, Command::new("ip").args(words.split_whitespace())));
    }
}

/// A rule without a trial whose arms get these portions, by connection.
pub fn rule(name: &str, when: Match, arms: Vec<(Treatment, Portion)>) -> Rule {
    let arms = arms.into_iter().map(|(treatment, portion)| Arm { treatment, portion }).collect();
    Rule {
        name: name.to_owned(),
        line: 1,
        when,
        split: Split { arms, by: SplitBy::Connection },
        overrides: false,
        overrides_route: true,
        trial: None,
    }
}

/// A network namespace with its loopback interface up, listed by the sandbox's `ip netns`.
pub fn named_netns(name: &str) -> Netns {
    let netns = loopback_netns();
    let place = Path::new("/run/netns").join(name);
    fs::create_dir_all("/run/netns").unwrap();
    fs::write(&place, "").unwrap();
    const NONE: Option<&str> = None;
    netns.run(|| Ok(mount(Some("/proc/thread-self/ns/net"), &place, NONE, MsFlags::MS_BIND, NONE)?)).unwrap();
    netns
}

#[track_caller]
pub fn show() -> Value {
    let shown = run(0, "policy show -o json").json();
    assert_eq!(shown["schema"], 1);
    shown
}

/// A count of an arm, by its name in JSON.
#[track_caller]
pub fn count(shown: &Value, rule: usize, arm: usize, what: &str) -> u64 {
    shown["counts"]["arms"][rule][arm][what].as_u64().unwrap_or_else(|| panic!("{what} of {rule}/{arm}: {shown}"))
}

pub fn total(shown: &Value, rule: usize, arm: usize) -> u64 {
    ["kept", "set", "chosen", "routed", "locked", "missing", "failed"]
        .iter()
        .map(|what| count(shown, rule, arm, what))
        .sum()
}

/// Removes the policy. Open connections keep their algorithm.
#[track_caller]
pub fn remove() -> CommandOutput {
    run(0, "policy remove")
}
