//! Reads what this kernel offers to congestion control from its type information, never from its version.

pub mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::btf::Types;
use crate::btf::{Member, TypeKind};

/// Kernel functions that congestion control programs call, in the order of `tccc doctor`.
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

/// A member of the kernel's `struct tcp_congestion_ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpsSlot {
    /// `None` for data such as the name.
    pub parameters: Option<u8>,
    /// In the value of a registered table's map, bytes.
    pub offset: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// Congestion control can be a BPF program at all.
    pub struct_ops: bool,
    /// A link can hold a registration. The link vanishes with its last holder.
    pub links: bool,
    /// A link can be pointed to other code under the same name.
    pub link_update: bool,
    /// Programs can learn of a new cgroup before a process enters it.
    pub cgroup_events: bool,
    /// Sockets count their retransmission timeouts.
    pub counts_timeouts: bool,
    /// Connections can negotiate Accurate ECN (RFC 9768): Linux 7.0 and newer.
    pub accurate_ecn: bool,
    /// Members of `struct tcp_congestion_ops` by name.
    pub slots: BTreeMap<String, OpsSlot>,
    /// The subset of [`KERNEL_FUNCTIONS`] that exists.
    pub functions: BTreeSet<&'static str>,
}

impl Features {
    /// # Errors
    /// The running kernel shows no type information.
    pub fn probe() -> Result<Self> {
        Ok(Self::of(&Types::of_running_kernel()?))
    }

    pub fn of(types: &Types) -> Self {
        let table = types.members("tcp_congestion_ops");
        let value = types.members("bpf_struct_ops_tcp_congestion_ops");
        let begin = value.iter().find(|member| member.name == "data").map(Member::offset);
        let view = types.view();
        let slot = |member: &Member| OpsSlot {
            parameters: view.parameters(member.type_id),
            offset: begin.unwrap_or(0) + member.offset(),
        };
        let links = types.has(TypeKind::Struct, "bpf_struct_ops_link");
        let has_tracepoint = |name: &str| types.has(TypeKind::Typedef, &format!("btf_trace_{name}"));
        let has_member = |of: &str, name: &str| types.members(of).iter().any(|member| member.name == name);
        Features {
            struct_ops: begin.is_some() && !table.is_empty(),
            links,
            link_update: links && has_member("bpf_link_ops", "update_map"),
            cgroup_events: has_tracepoint("cgroup_mkdir") && has_tracepoint("cgroup_release"),
            counts_timeouts: has_member("tcp_sock", "total_rto"),
            // The field that came last. An older kernel has a part of the others.
            accurate_ecn: has_member("tcp_sock", "accecn_opt_sent_w_dsack"),
            slots: table.iter().map(|member| (member.name.to_owned(), slot(member))).collect(),
            functions: types.functions_among(&KERNEL_FUNCTIONS),
        }
    }

    /// Whether the kernel is patched for BBRv3: it asks `tso_segs` for the size of a burst, and no longer `min_tso_segs`.
    pub fn asks_tso_segs(&self) -> bool {
        self.slots.contains_key("tso_segs") && !self.slots.contains_key("min_tso_segs")
    }
}

/// [`Features::accurate_ecn`] of the running kernel. False without its type information.
pub fn has_accurate_ecn() -> bool {
    Features::probe().is_ok_and(|features| features.accurate_ecn)
}

/// The queue disciplines that links can have, by the kernel's names, in the order of `tccc doctor`.
pub const QUEUE_DISCIPLINES: [&str; 9] =
    ["pfifo", "codel", "fq_codel", "pie", "fq_pie", "red", "cake", "fq", "dualpi2"];

/// Whether this kernel has the netem qdisc, built in or as a module.
pub fn has_netem() -> bool {
    lacking_qdiscs(&["netem"]).is_empty()
}

/// Those qdiscs that this kernel has neither built in nor as a module, which is loaded on use.
pub fn lacking_qdiscs<'a>(kinds: &[&'a str]) -> Vec<&'a str> {
    let modules = installed_modules();
    let is_module = |kind: &str| {
        let name = format!("sch_{kind}");
        Path::new("/sys/module").join(&name).exists() || modules.contains(&format!("/{name}.ko"))
    };
    let mut lacking: Vec<&str> = kinds.iter().copied().filter(|kind| !is_module(kind)).collect();
    if !lacking.is_empty()
        && let Ok(types) = Types::of_running_kernel()
    {
        let is_function = |name: String| types.has(TypeKind::Function, &name);
        lacking.retain(|kind| !is_function(format!("{kind}_enqueue")) && !is_function(format!("{kind}_qdisc_enqueue")));
    }
    lacking
}

/// The lists of the modules that are installed for this kernel, or part of it.
fn installed_modules() -> String {
    let Ok(system) = nix::sys::utsname::uname() else { return String::new() };
    let folder = Path::new("/lib/modules").join(system.release());
    ["modules.dep", "modules.builtin"].map(|list| fs::read_to_string(folder.join(list)).unwrap_or_default()).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel's type information, built type by type.
    #[derive(Default)]
    struct TypeBuilder {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl TypeBuilder {
        /// Returns the offset of a name.
        fn name(&mut self, name: &str) -> u32 {
            if name.is_empty() {
                return 0;
            }
            self.strings.push(0);
            self.strings.extend(name.bytes());
            (self.strings.len() - name.len()) as u32
        }

        fn push(&mut self, name: &str, info: u32, size: u32, extra: &[u32]) -> u32 {
            let at = self.name(name);
            [at, info, size].iter().chain(extra).for_each(|word| self.types.extend(word.to_ne_bytes()));
            self.count += 1;
            self.count
        }

        fn callback(&mut self, parameters: u32) -> u32 {
            let prototype = self.push("", 13 << 24 | parameters, 0, &vec![0; 2 * parameters as usize]);
            self.push("", 2 << 24, prototype, &[])
        }

        fn structure(&mut self, name: &str, members: &[(&str, u32, u32)]) -> u32 {
            let fields = members.iter().flat_map(|(name, kind, offset)| [self.name(name), *kind, offset * 8]);
            let fields: Vec<u32> = fields.collect();
            self.push(name, 4 << 24 | members.len() as u32, 0, &fields)
        }

        fn types(mut self) -> Types {
            self.strings.push(0);
            let lengths = [0, self.types.len() as u32, self.types.len() as u32, self.strings.len() as u32];
            let mut bytes = vec![0x9f, 0xeb, 1, 0];
            [24].iter().chain(&lengths).for_each(|word: &u32| bytes.extend(word.to_ne_bytes()));
            Types::parse([bytes, self.types, self.strings].concat()).unwrap()
        }
    }

    #[test]
    fn kernel_without_links_shows_its_table() {
        let mut kernel = TypeBuilder::default();
        let (one, two) = (kernel.callback(1), kernel.callback(2));
        let number = kernel.push("int", 1 << 24, 4, &[32]);
        kernel.structure("tcp_congestion_ops", &[("ssthresh", one, 0), ("cong_control", two, 8), ("name", number, 16)]);
        kernel.structure("bpf_struct_ops_tcp_congestion_ops", &[("state", number, 0), ("data", 4, 64)]);
        kernel.push("tcp_slow_start", 12 << 24, one, &[]);
        let features = Features::of(&kernel.types());
        assert!(features.struct_ops && !features.links && !features.link_update);
        let expected = [("cong_control", Some(2), 72), ("name", None, 80), ("ssthresh", Some(1), 64)];
        let expected = expected.map(|(name, parameters, offset)| (name.to_owned(), OpsSlot { parameters, offset }));
        assert_eq!(features.slots, BTreeMap::from(expected));
        assert_eq!(features.functions, BTreeSet::from(["tcp_slow_start"]));
    }

    #[test]
    fn kernel_patched_for_bbr3_is_recognised_by_its_table() {
        for (members, is_patched) in
            [(&["tso_segs"][..], true), (&["min_tso_segs"], false), (&["min_tso_segs", "tso_segs"], false)]
        {
            let mut kernel = TypeBuilder::default();
            let asked = kernel.callback(2);
            let members: Vec<_> = members.iter().map(|name| (*name, asked, 0)).collect();
            kernel.structure("tcp_congestion_ops", &members);
            assert_eq!(Features::of(&kernel.types()).asks_tso_segs(), is_patched, "{members:?}");
        }
    }

    #[test]
    fn kernel_with_links_and_updates_is_recognised() {
        let mut kernel = TypeBuilder::default();
        let update = kernel.callback(3);
        kernel.structure("bpf_link_ops", &[("update_map", update, 0)]);
        kernel.structure("bpf_struct_ops_link", &[]);
        let features = Features::of(&kernel.types());
        assert!(features.links && features.link_update && !features.struct_ops);
    }
}
