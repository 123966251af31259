//! Checks the effective capabilities of this process.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::failure::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", prefix = "CAP_")]
pub enum Capability {
    /// Write where the file system's permissions forbid it, such as the root of cgroup v2.
    DacOverride = 1,
    /// Change networks; register congestion control.
    NetAdmin = 12,
    /// Send and receive raw packets.
    NetRaw = 13,
    /// Look at the namespaces of other processes.
    SysPtrace = 19,
    /// Enter namespaces, list BPF objects by id. Includes the two below.
    SysAdmin = 21,
    /// Let BPF programs read kernel memory, such as sockets.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// The hint for root of a user namespace.
pub const OUTSIDE: &str = "run it as root of the host, outside this container or user namespace";

pub const FOR_LOAD: [Capability; 3] = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

/// For a link between two namespaces.
pub const FOR_LINK: [Capability; 3] = [Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin];

pub const FOR_EXPERIMENT: [Capability; 4] =
    [Capability::DacOverride, Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin];

impl Capability {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Inode of the host's own user namespace, fixed in the kernel (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Whether this process is in another user namespace than the host's. BPF checks capabilities in the host's.
pub fn is_confined() -> bool {
    fs::metadata("/proc/self/ns/user").is_ok_and(|namespace| namespace.ino() != INITIAL_USER_NAMESPACE)
}

/// The capabilities that this process lacks in the host's user namespace. CAP_SYS_ADMIN includes the BPF ones.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    lacking(wanted, if is_confined() { 0 } else { effective() })
}

fn lacking(wanted: &[Capability], effective: u64) -> Vec<Capability> {
    let has = |capability: Capability| effective & (1 << capability as u32) != 0;
    let stands_in = |capability| matches!(capability, Capability::Bpf | Capability::Perfmon);
    // A process that gains a wanted CAP_SYS_ADMIN has the BPF capabilities too.
    let has_large = has(Capability::SysAdmin) || wanted.contains(&Capability::SysAdmin);
    let may = |capability| has(capability) || (stands_in(capability) && has_large);
    wanted.iter().copied().filter(|&capability| !may(capability)).collect()
}

/// One bit per capability.
fn effective() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// Checks that this process has the capabilities. `what` is a verb phrase for the action that needs them.
///
/// # Errors
/// Capabilities are missing. The error names them.
pub fn require(what: &str, wanted: &[Capability]) -> Result<(), Failure> {
    let missing = missing(wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
    let what = format!("cannot {what}: this process lacks {}", names.join(", "));
    if is_confined() {
        let what = format!("{what} outside its user namespace");
        return Err(Failure::unmet(what).hint(OUTSIDE));
    }
    Err(Failure::unmet(what).hint("run it as root, or with the capabilities that its `--help` lists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrator_stands_for_the_bpf_capabilities() {
        let of = |bits: &[u32]| bits.iter().fold(0, |set, bit| set | 1u64 << bit);
        assert_eq!(lacking(&FOR_LOAD, of(&[12, 21])), []);
        assert_eq!(lacking(&FOR_LOAD, of(&[12, 38, 39])), []);
        assert_eq!(lacking(&FOR_LOAD, of(&[21])), [Capability::NetAdmin]);
        assert_eq!(lacking(&FOR_LOAD, 0), FOR_LOAD);
        assert_eq!(FOR_LOAD.map(Capability::name), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
    }
}
