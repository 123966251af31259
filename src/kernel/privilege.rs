//! What this process may do: its effective capabilities.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::failure::Failure;

/// A right of the kernel's capability system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Write where the file system's permissions forbid it, such as the root of cgroup v2.
    DacOverride = 1,
    /// Change networks; register congestion control.
    NetAdmin = 12,
    /// Send and receive packets as they are.
    NetRaw = 13,
    /// Look at the namespaces of other processes.
    SysPtrace = 19,
    /// Enter namespaces, list BPF objects by number; stands for the two below as well.
    SysAdmin = 21,
    /// Let BPF programs read kernel memory, such as sockets.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// What helps where root is only root of a user namespace.
pub const OUTSIDE: &str = "run it as root of the host, outside this container or user namespace";

/// What registering an algorithm takes.
pub const FOR_LOAD: [Capability; 3] = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

/// What a link between two namespaces takes.
pub const FOR_LINK: [Capability; 3] = [Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin];

/// What an experiment on this kernel takes.
pub const FOR_EXPERIMENT: [Capability; 4] =
    [Capability::DacOverride, Capability::NetAdmin, Capability::NetRaw, Capability::SysAdmin];

impl Capability {
    pub fn name(self) -> &'static str {
        match self {
            Capability::DacOverride => "CAP_DAC_OVERRIDE",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// Inode of the host's own user namespace, fixed in the kernel (`PROC_USER_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Whether this process is root of a user namespace at most: BPF wants the capabilities of the host's own.
pub fn is_confined() -> bool {
    fs::metadata("/proc/self/ns/user").is_ok_and(|namespace| namespace.ino() != INITIAL_USER_NAMESPACE)
}

/// Those of `wanted` that this process must be given in the host's own user namespace: CAP_SYS_ADMIN includes the BPF ones.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    lacking(wanted, if is_confined() { 0 } else { effective() })
}

fn lacking(wanted: &[Capability], effective: u64) -> Vec<Capability> {
    let has = |capability: Capability| effective & (1 << capability as u32) != 0;
    let stands_in = |capability| matches!(capability, Capability::Bpf | Capability::Perfmon);
    // Where the large one is wanted, too, whoever gets it has the small ones.
    let has_large = has(Capability::SysAdmin) || wanted.contains(&Capability::SysAdmin);
    let may = |capability| has(capability) || (stands_in(capability) && has_large);
    wanted.iter().copied().filter(|&capability| !may(capability)).collect()
}

/// The effective set, one bit a capability.
fn effective() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// Refuses what this process may not do: `what` it cannot, in a verb phrase.
///
/// Errors: a capability is missing; names each.
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
    }
}
