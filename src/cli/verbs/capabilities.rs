//! The capabilities that each verb needs: one table for the help, the man pages and the tests.

use shared::kernel::privilege::Capability::{self, Bpf, NetAdmin, Perfmon, SysAdmin, SysPtrace};
use shared::kernel::privilege::{FOR_EXPERIMENT, FOR_LINK, FOR_LOAD};

#[derive(Debug)]
pub struct Needs {
    /// Such as `policy apply`.
    pub verb: &'static str,
    /// The verb is refused without one of these.
    pub always: Names,
    pub sometimes: &'static [Sometimes],
    /// Further sentences for the help.
    also: &'static str,
}

type Names = &'static [Capability];
/// Further capabilities, and what they are needed for.
type Sometimes = (Names, &'static str);

/// Entering namespaces and opening programs by number need CAP_SYS_ADMIN, which includes the BPF capabilities.
const INSPECT: Names = &[SysAdmin];
const MOUNT: Sometimes = (&[SysAdmin], "to mount the BPF file system if it is not mounted");
/// Without it, /proc hides processes of other users, and those with more capabilities.
const SEE_ALL: Sometimes = (&[SysPtrace], "to see other users' processes and their network namespaces");
const REPLAY: &str = " A replay needs none.";

pub const NEEDS: [Needs; 20] = [
    needs("list", &[], &[], ""),
    needs("show", &[], &[(&FOR_LOAD, "to ask the verifier")], ""),
    needs("load", &FOR_LOAD, &[MOUNT], " Writes pins to the BPF file system and records to /run/tccc."),
    needs("confirm", &[], &[(&FOR_LOAD, "for the trial of a policy"), (&[SysAdmin], "for an upgrade")], ""),
    needs("unload", &FOR_LOAD, &[SEE_ALL], ""),
    needs("status", &[], &[(&[SysAdmin], "to show sockets, costs and drift")], ""),
    needs("apply", &FOR_LOAD, &[MOUNT, (&[SysAdmin], "for an upgrade, and for rules with `netns`"), SEE_ALL], ""),
    needs("policy check", &[], &[], ""),
    needs(
        "policy apply",
        &FOR_LOAD,
        &[MOUNT, (&[SysAdmin], "for `--live`, and for rules with `netns`")],
        " It also needs cgroup v2.",
    ),
    needs("policy remove", &FOR_LOAD, &[(&[SysAdmin], "for `--live`")], ""),
    needs("explain", INSPECT, &[], ""),
    needs("upgrade", &[NetAdmin, SysAdmin], &[SEE_ALL], ""),
    needs("rollback", &[NetAdmin, SysAdmin], &[SEE_ALL], ""),
    needs("sockets", INSPECT, &[SEE_ALL], ""),
    needs("trace", &[Bpf, Perfmon], &[(&[SysAdmin], "to see idle sockets, and to record")], REPLAY),
    needs("top", &[Bpf, Perfmon], &[(&[SysAdmin], "to see idle sockets")], REPLAY),
    needs("serve", INSPECT, &[SEE_ALL], REPLAY),
    needs("run", &FOR_EXPERIMENT, &[], " Other engines, --dry-run and --explain need none."),
    needs("link", &FOR_LINK, &[], ""),
    needs("doctor", &[], &[], ""),
];

const fn needs(verb: &'static str, always: Names, sometimes: &'static [Sometimes], also: &'static str) -> Needs {
    Needs { verb, always, sometimes, also }
}

/// The paragraph below a verb's help; `None` if the table does not have the verb.
pub fn paragraph(verb: &str) -> Option<String> {
    let Needs { always, sometimes, also, .. } = NEEDS.iter().find(|needs| needs.verb == verb)?;
    let includes = if always.contains(&SysAdmin) { ", which includes CAP_BPF and CAP_PERFMON" } else { "" };
    let always = if always.is_empty() { "none".to_owned() } else { names(always) };
    let sometimes = sometimes.iter().map(|(capabilities, what)| format!("; {} {what}", names(capabilities)));
    Some(format!("Capabilities: {always}{includes}{}.{also}", sometimes.collect::<String>()))
}

/// `CAP_A, CAP_B and CAP_C`.
fn names(capabilities: &[Capability]) -> String {
    let names: Vec<&str> = capabilities.iter().map(|capability| capability.name()).collect();
    match names[..] {
        [ref others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraph_names_what_is_always_needed_and_what_sometimes() {
        for (verb, expected) in [
            ("list", "none."),
            (
                "load",
                "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; CAP_SYS_ADMIN to mount the BPF file system if it is not mounted. \
                 Writes pins to the BPF file system and records to /run/tccc.",
            ),
            (
                "upgrade",
                "CAP_NET_ADMIN and CAP_SYS_ADMIN, which includes CAP_BPF and CAP_PERFMON; CAP_SYS_PTRACE to see other \
                 users' processes and their network namespaces.",
            ),
        ] {
            assert_eq!(paragraph(verb), Some(format!("Capabilities: {expected}")));
        }
    }
}
