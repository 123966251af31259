//! What this process may do: its effective capabilities.

use std::fs;

use crate::failure::Failure;

/// A right of the kernel's capability system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Change networks; register congestion control.
    NetAdmin = 12,
    /// Enter namespaces, list BPF objects by number; stands for the two below as well.
    SysAdmin = 21,
    /// Let BPF programs read kernel memory, such as sockets.
    Perfmon = 38,
    /// Load BPF programs.
    Bpf = 39,
}

/// What registering an algorithm takes.
pub const FOR_LOAD: [Capability; 3] = [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin];

impl Capability {
    /// Its name in manuals.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// Those of `wanted` that this process lacks.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    lacking(wanted, effective())
}

fn lacking(wanted: &[Capability], effective: u64) -> Vec<Capability> {
    let has = |capability: Capability| effective & (1 << capability as u32) != 0;
    let stands_in = |capability| matches!(capability, Capability::Bpf | Capability::Perfmon);
    let may = |capability| has(capability) || (stands_in(capability) && has(Capability::SysAdmin));
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
    Err(Failure::unmet(format!("cannot {what}: this process lacks {}", names.join(", "))).hint("run it as root"))
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
