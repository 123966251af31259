//! The checks of `tccc doctor`: what this host has and lacks, with a fix for each.

use std::fs::{self, File};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::Serialize;

use super::{Features, KERNEL_FUNCTIONS, QUEUE_DISCIPLINES, has_netem, lacking_qdiscs};
use crate::failure::Failure;
use crate::kernel::btf::{RUNNING_KERNEL, Types};
use crate::kernel::privilege::{self, Capability};
use crate::kernel::{bpf, bpffs, cgroup};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// `tccc load` does not work without it.
    Needed,
    /// Something else does not work, or works less well.
    Useful,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostCheck {
    pub what: &'static str,
    pub is_met: bool,
    pub weight: Weight,
    pub found: String,
    pub needed_for: &'static str,
    pub fix: String,
}

/// Changes nothing. The checks that `tccc load` needs come first.
pub fn all() -> Vec<HostCheck> {
    let types = Types::of_running_kernel();
    let features = types.as_ref().ok().map(Features::of);
    let mut checks = vec![type_information(types.is_ok())];
    checks.extend(rights());
    checks.extend(features.iter().flat_map(of_features));
    checks.extend([bpf_file_system(), cgroups(), place_for_policy(), packet_sockets()]);
    checks.extend(types.iter().map(never_skipped));
    let bpftool = "to cross-check: bpftool struct_ops show, prog show, map show, link show";
    checks.extend([netem(), queue_disciplines(), program("iperf3", "run"), program("bpftool", bpftool), statistics()]);
    checks
}

pub fn can_load(checks: &[HostCheck]) -> bool {
    checks.iter().all(|check| check.is_met || check.weight == Weight::Useful)
}

fn useful(what: &'static str, is_met: bool, found: impl Into<String>) -> HostCheck {
    HostCheck { what, is_met, weight: Weight::Useful, found: found.into(), needed_for: "", fix: String::new() }
}

fn needed(what: &'static str, is_met: bool, found: impl Into<String>) -> HostCheck {
    HostCheck { weight: Weight::Needed, ..useful(what, is_met, found) }
}

impl HostCheck {
    fn helps(self, needed_for: &'static str, fix: impl Into<String>) -> Self {
        HostCheck { needed_for, fix: fix.into(), ..self }
    }
}

fn type_information(is_met: bool) -> HostCheck {
    let found = if is_met { RUNNING_KERNEL.to_owned() } else { format!("no {RUNNING_KERNEL}") };
    needed("kernel type information (BTF)", is_met, found)
        .helps("load, run, trace, sockets", "use a kernel built with CONFIG_DEBUG_INFO_BTF")
}

fn rights() -> [HostCheck; 2] {
    let names = |list: &[Capability]| list.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
    let (outside, fix) = match privilege::is_confined() {
        true => (" outside its user namespace", privilege::OUTSIDE),
        false => ("", "run as root"),
    };
    let [load, others] = [&privilege::FOR_LOAD[..], &[Capability::SysAdmin]].map(|wanted| {
        let missing = privilege::missing(wanted);
        let found = if missing.is_empty() { names(wanted) } else { format!("lacks {}", names(&missing)) };
        (missing.is_empty(), format!("{found}{outside}"))
    });
    [
        needed("rights to load", load.0, load.1).helps("load, unload, apply, policy, trace, top", fix),
        useful("rights for other verbs", others.0, others.1)
            .helps("upgrade, sockets, serve, run; costs and drift in status", fix),
    ]
}

fn of_features(features: &Features) -> Vec<HostCheck> {
    let offered = if features.struct_ops { "tcp_congestion_ops can be registered" } else { "not offered" };
    let links = if features.links { "yes" } else { "registration by the map instead" };
    let registered = [
        needed("congestion control by BPF (struct_ops)", features.struct_ops, offered)
            .helps("load, run", "use a kernel built with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT"),
        useful("struct_ops links", features.links, links)
            .helps("a killed run unregisters by itself", "none needed: the next tccc command unregisters it"),
        useful("swapping code under a name", features.link_update, yes(features.link_update)).helps(
            "upgrade and rollback without a gap",
            "none needed: the new code is loaded beside the old one first",
        ),
        useful("cgroup events", features.cgroup_events, yes(features.cgroup_events))
            .helps("policy rules by cgroup or unit", "use a kernel built with CONFIG_CGROUPS and CONFIG_TRACEPOINTS"),
        useful("timeouts counted by sockets", features.counts_timeouts, yes(features.counts_timeouts))
            .helps("guard limits on timeouts", "use Linux 6.7 or newer, or another limit"),
    ];
    registered.into_iter().chain(callbacks(features)).collect()
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn callbacks(features: &Features) -> [HostCheck; 4] {
    let parameters = |name: &str| features.slots.get(name).and_then(|slot| slot.parameters);
    let control = parameters("cong_control");
    let shape = control.map_or("absent".into(), |count| format!("{count} parameters"));
    let start = parameters("cwnd_event_tx_start").map_or("no: cwnd_event is used instead", |_| "yes");
    let burst = if features.asks_tso_segs() { "no: patched for BBRv3, calls tso_segs instead" } else { "yes" };
    let missing: Vec<&str> = KERNEL_FUNCTIONS.into_iter().filter(|name| !features.functions.contains(name)).collect();
    let functions = match missing.as_slice() {
        [] => format!("all {} found", KERNEL_FUNCTIONS.len()),
        _ => format!("without {}", missing.join(", ")),
    };
    [
        useful("callback cong_control", control.is_some(), shape)
            .helps("algorithms that set the rate", "none: such algorithms are refused here"),
        useful("callback cwnd_event_tx_start", start == "yes", start)
            .helps("idle restarts on kernels without that event", "none needed"),
        useful("callback min_tso_segs", burst == "yes", burst)
            .helps("algorithms that pace in it, such as swift", "use a kernel without that patch"),
        useful("kernel functions for algorithms", missing.is_empty(), functions).helps(
            "algorithms that call them",
            "use a kernel that has them; algorithms that do not call them still load",
        ),
    ]
}

fn bpf_file_system() -> HostCheck {
    let place = bpffs::place();
    let found = match (bpffs::mount(), &place) {
        (Some(mount), _) if bpffs::is_private(&mount) => {
            format!("{}, only in this mount namespace: pins end with it", mount.display())
        }
        (Some(mount), _) => mount.display().to_string(),
        (None, Ok(_)) => "not mounted; tccc mounts it".to_owned(),
        (None, Err(error)) => error.to_string(),
    };
    let hint = place.as_ref().err().and_then(hint_of);
    let advice = hint.unwrap_or_else(|| format!("{}, or run as root", bpffs::mount_command()));
    needed("BPF file system", place.is_ok(), found).helps("load", advice)
}

fn cgroups() -> HostCheck {
    let mount = cgroup::mount_point();
    let root = cgroup::root();
    let found = match (&mount, &root) {
        (Ok(place), Ok(_)) => place.display().to_string(),
        (Ok(place), Err(_)) => format!("{}, not the root of this host's: no policies", place.display()),
        (Err(error), _) => error.to_string(),
    };
    let advice = root.as_ref().err().and_then(hint_of).unwrap_or_default();
    useful("cgroup v2", root.is_ok(), found).helps("policies, trials of a default, run, trace --cgroup", advice)
}

fn hint_of(error: &anyhow::Error) -> Option<String> {
    error.downcast_ref::<Failure>()?.hint.clone()
}

/// A program at the root cgroup can rule out a policy.
fn place_for_policy() -> HostCheck {
    let programs = cgroup::root().ok().and_then(|root| bpf::sock_ops_of(&File::open(root).ok()?).ok());
    let found = match &programs {
        None => "not permitted to check".to_owned(),
        Some(programs) if programs.allows_others => format!("{} other programs attached", programs.ids.len()),
        Some(programs) => format!("program {} allows no other program", programs.ids.first().copied().unwrap_or(0)),
    };
    let is_free = programs.is_none_or(|programs| programs.allows_others);
    useful("a place for a policy", is_free, found)
        .helps("policies", "have that program attached with BPF_F_ALLOW_MULTI; `bpftool cgroup tree` shows it")
}

/// The check of rights reports a missing permission.
fn packet_sockets() -> HostCheck {
    let answer = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None);
    let is_met = answer.err() != Some(Errno::EAFNOSUPPORT);
    useful("packet sockets", is_met, if is_met { "yes" } else { "absent" })
        .helps("run, with the user-space link", "modprobe af_packet")
}

/// Older kernels skip a callback when a softirq interrupts it, because one recursion guard covered several programs.
///
/// A kernel with the member `init_owned`, which mainline lacks, skips programs while process 1 is current, also in a softirq
/// that interrupts it. `ssthresh` then returns garbage from the stack.
fn never_skipped(types: &Types) -> HostCheck {
    const SPLIT: [&str; 2] = ["__bpf_prog_enter_struct_ops", "__bpf_prog_enter_recur"];
    let members = types.members("bpf_prog_aux");
    let found = match () {
        () if members.iter().any(|member| member.name == "init_owned") => {
            "this kernel skips them while process 1 has the processor"
        }
        () if types.functions_among(&SPLIT).is_empty() => "a softirq may skip one",
        () => "yes",
    };
    useful("callbacks are never skipped", found == "yes", found).helps(
        "trustworthy windows",
        "use a mainline kernel; on this one a window is wrong now and then, and its run is repeated",
    )
}

fn netem() -> HostCheck {
    let is_met = has_netem();
    useful("netem", is_met, if is_met { "yes" } else { "absent: the user-space link is used" })
        .helps("run --link netem", "none needed; else a kernel with CONFIG_NET_SCH_NETEM")
}

/// Links with a `discipline` are links by netem.
fn queue_disciplines() -> HostCheck {
    let needed = ["netem", "tbf"];
    let lacking = lacking_qdiscs(&[&needed[..], &QUEUE_DISCIPLINES[..]].concat());
    let found: Vec<&str> = QUEUE_DISCIPLINES.into_iter().filter(|kind| !lacking.contains(kind)).collect();
    let shown = match &lacking[..] {
        [] => format!("all {}", found.len()),
        [first, ..] if needed.contains(first) => format!("not usable: this kernel has no {first}"),
        others => format!("{}; without {}", found.join(", "), others.join(", ")),
    };
    let is_met = !needed.iter().any(|kind| lacking.contains(kind));
    useful("queue disciplines", is_met, shown)
        .helps("run, links with `discipline`", "none needed: `run --engine virtual` has them all")
}

fn program(name: &'static str, needed_for: &'static str) -> HostCheck {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let place = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    let found = place.as_ref().map_or("not in PATH".to_owned(), |path| path.display().to_string());
    useful(name, place.is_some(), found).helps(needed_for, format!("apt install {name}"))
}

fn statistics() -> HostCheck {
    let is_on = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() == "1");
    useful("BPF run-time statistics", is_on, if is_on { "on" } else { "off" })
        .helps("nanoseconds per callback in status", "sysctl kernel.bpf_stats_enabled=1")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kernel::probe::OpsSlot;

    /// XanMod and CachyOS carry that patch. Such a kernel clears the callback without a word.
    #[test]
    fn kernel_patched_for_bbr3_is_told() {
        let of = |burst: &str| {
            let slot = (burst.to_owned(), OpsSlot { parameters: Some(1), offset: 0 });
            let features = Features { slots: BTreeMap::from([slot]), ..Features::default() };
            callbacks(&features).into_iter().find(|check| check.what == "callback min_tso_segs").expect("the check")
        };
        assert!(of("min_tso_segs").is_met);
        let patched = of("tso_segs");
        assert!(!patched.is_met && patched.weight == Weight::Useful);
        assert_eq!(patched.found, "no: patched for BBRv3, calls tso_segs instead");
    }
}
