//! A network namespace with many fast connections, and the policy that decides them, as a user applies it.
//!
//! Its default algorithm is `reno`; rules of the tests give `cubic` or `bbr`, which every kernel of the matrix has.

pub mod fault;
pub mod object;
pub mod pair;
pub mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use tccc::kernel::netlink;
use tccc::kernel::netns::Netns;
use tempfile::TempDir;

use crate::common::{poll_until, tccc};
use crate::lab::sandbox::{self, Said, check, run};
pub use pair::{Ends, Pair};

/// How long the kernel may take for what it does in the background.
pub const SOON: Duration = Duration::from_secs(10);
/// Name of the namespace for `ip netns`, in the sandbox's own `/run`.
pub const NAME: &str = "ldk_lab";
/// Names of the policy's programs, as the kernel cuts them.
const PROGRAMS: [&str; 7] =
    ["tccc_select", "tccc_cg_mkdir", "tccc_cg_release", "tccc_sight", "tccc_label", "tccc_move", "tccc_refresh"];

/// A rule that gives every connection an algorithm.
pub fn all(algorithm: &str) -> String {
    format!("[[rule]]\nname = \"all\"\nuse = \"{algorithm}\"\n")
}

/// A namespace of the test's own whose connections the policy decides.
pub struct Lab {
    pub netns: Netns,
    folder: TempDir,
}

/// Runs a test in a sandbox with a lab, and removes the policy that it leaves; afterwards no program of a policy may be left in
/// the kernel.
pub fn with_lab(host_has_needs: bool, test: impl FnOnce(&Lab) + Send) {
    if !host_has_needs {
        return;
    }
    let before = (programs(), maps());
    sandbox::in_sandbox(true, || {
        test(&Lab::create());
        if Path::new("/sys/fs/bpf/tccc/policy/link").exists() {
            remove();
        }
    });
    poll_until(SOON, "the policy's programs and maps leave the kernel", || {
        programs() <= before.0 && maps() <= before.1
    });
}

/// Maps of policies and sweeps in the kernel.
fn maps() -> usize {
    let names = ["tccc_labels", "tccc_cgroups", "tccc_awaited", "tccc_remotes", "tccc_counts"];
    MapInfoIter::default().filter(|map| names.iter().any(|name| map.name == *name)).count()
}

/// Programs of policies and sweeps in the kernel.
pub fn programs() -> usize {
    ProgInfoIter::default().filter(|program| PROGRAMS.iter().any(|name| program.name == *name)).count()
}

impl Lab {
    fn create() -> Self {
        let netns = named_netns(NAME);
        tccc::kernel::sysctl::write(&netns, "net.ipv4.tcp_congestion_control", "reno").unwrap();
        Lab { netns, folder: tempfile::tempdir().unwrap() }
    }

    /// Works inside the namespace.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.netns.run(|| Ok(work())).unwrap()
    }

    /// The folder of the test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file of the test's own.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The file of a policy with these rules.
    pub fn policy_file(&self, rules: &str) -> PathBuf {
        self.file("policy.toml", &format!("version = 1\n{rules}"))
    }

    /// `tccc policy VERB FILE OPTIONS`, which must end with `code`.
    #[track_caller]
    pub fn policy(&self, code: i32, verb: &str, rules: &str) -> Said {
        let (verb, options) = verb.split_once(' ').unwrap_or((verb, ""));
        let file = self.policy_file(rules);
        // What rules give here is chosen for what it shows, whatever its risk is.
        let accepted = if verb == "apply" { "--accept-risk" } else { "" };
        let options = options.split_whitespace().chain(accepted.split_whitespace());
        check(code, tccc().args(["policy", verb]).arg(file).args(options))
    }

    /// Makes rules decide.
    #[track_caller]
    pub fn apply(&self, rules: &str) -> Said {
        self.policy(0, "apply", rules)
    }

    /// A connection between two ends.
    #[track_caller]
    pub fn pair(&self, ends: &Ends) -> Pair {
        self.inside(|| Pair::open(ends))
    }

    /// The algorithms of both ends of a connection between two addresses: client, server.
    #[track_caller]
    pub fn algorithms(&self, from: &str, to: &str) -> [String; 2] {
        self.pair(&Ends::new(from, to)).algorithms()
    }

    /// `ip` with these words in the namespace.
    #[track_caller]
    pub fn ip(&self, words: &str) {
        let mut command = std::process::Command::new("ip");
        let output = self.inside(|| command.args(words.split_whitespace()).output().expect("iproute2 is installed"));
        assert!(output.status.success(), "ip {words}: {}", sandbox::stderr(&output));
    }
}

/// A network namespace with its loopback up, which `ip netns` of the sandbox lists.
pub fn named_netns(name: &str) -> Netns {
    let netns = Netns::create().unwrap();
    netlink::set_up(&netns, "lo").unwrap();
    let place = Path::new("/run/netns").join(name);
    fs::create_dir_all("/run/netns").unwrap();
    fs::write(&place, "").unwrap();
    const NONE: Option<&str> = None;
    netns.run(|| Ok(mount(Some("/proc/thread-self/ns/net"), &place, NONE, MsFlags::MS_BIND, NONE)?)).unwrap();
    netns
}

/// `tccc policy show -o json`.
#[track_caller]
pub fn show() -> Value {
    let shown = run(0, "policy show -o json").json();
    assert_eq!(shown["schema"], 1);
    shown
}

/// Counts of an arm by their names in JSON.
#[track_caller]
pub fn count(shown: &Value, rule: usize, arm: usize, what: &str) -> u64 {
    shown["counts"]["arms"][rule][arm][what].as_u64().unwrap_or_else(|| panic!("{what} of {rule}/{arm}: {shown}"))
}

/// Everything that an arm counted.
pub fn total(shown: &Value, rule: usize, arm: usize) -> u64 {
    ["kept", "set", "chosen", "routed", "locked", "missing", "failed"]
        .iter()
        .map(|what| count(shown, rule, arm, what))
        .sum()
}

/// Removes the policy; open connections keep their algorithm.
#[track_caller]
pub fn remove() -> Said {
    run(0, "policy remove")
}
