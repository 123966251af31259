//! What this kernel offers to congestion control, read from its own type information and never from its version.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::btf::{Kind, Types};

/// Kernel functions that congestion control programs call, in the order `tccc doctor` lists them.
pub const KERNEL_FUNCTIONS: [&str; 10] = [
    "tcp_slow_start",
    "tcp_cong_avoid_ai",
    "tcp_reno_ssthresh",
    "tcp_reno_cong_avoid",
    "tcp_reno_undo_cwnd",
    "cubictcp_init",
    "cubictcp_recalc_ssthresh",
    "cubictcp_cong_avoid",
    "cubictcp_state",
    "cubictcp_acked",
];

/// One member of the kernel's table of congestion control operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Number of parameters of a callback; none for data such as the name.
    pub parameters: Option<u8>,
    /// Where it lies in a registered table as the kernel shows it, bytes.
    pub offset: usize,
}

/// What the kernel offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Congestion control can be a BPF program at all.
    pub struct_ops: bool,
    /// A registration can be held by a link, which vanishes with its last holder.
    pub links: bool,
    /// A link can be pointed to other code under the same name.
    pub link_update: bool,
    /// Members of `struct tcp_congestion_ops` by name.
    pub slots: BTreeMap<String, Slot>,
    /// Those of [`KERNEL_FUNCTIONS`] that exist.
    pub functions: BTreeSet<&'static str>,
}

impl Features {
    /// Asks the running kernel.
    ///
    /// Errors: the kernel shows no type information.
    pub fn probe() -> Result<Self> {
        Ok(Self::of(&Types::of_running_kernel()?))
    }

    /// Reads what a kernel with these types offers.
    pub fn of(types: &Types) -> Self {
        let has_struct = |name| types.find(Kind::Struct, name);
        let table = has_struct("tcp_congestion_ops").map(|id| types.members(id)).unwrap_or_default();
        let value = has_struct("bpf_struct_ops_tcp_congestion_ops").map(|id| types.members(id)).unwrap_or_default();
        let begin = value.iter().find(|member| member.name == "data").map(|member| member.offset);
        let link_members = has_struct("bpf_link_ops").map(|id| types.members(id)).unwrap_or_default();
        let slot = |member: &super::btf::Member| Slot {
            parameters: types.parameters(member.type_id),
            offset: begin.unwrap_or(0) + member.offset,
        };
        let links = has_struct("bpf_struct_ops_link").is_some();
        Features {
            struct_ops: begin.is_some() && !table.is_empty(),
            links,
            link_update: links && link_members.iter().any(|member| member.name == "update_map"),
            slots: table.iter().map(|member| (member.name.clone(), slot(member))).collect(),
            functions: types.functions_among(&KERNEL_FUNCTIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_kernel_shows_the_table() {
        let Ok(features) = Features::probe() else {
            return; // no type information: `tests/kernel_load.rs` reports that as a missing need
        };
        if features.struct_ops {
            assert_eq!(features.slots["ssthresh"].parameters, Some(1));
            assert_eq!(features.slots["name"].parameters, None);
        }
    }
}
