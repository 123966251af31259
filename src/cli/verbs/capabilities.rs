//! What each verb takes of this process: the one table behind the help, the man pages and the tests.

use crate::kernel::privilege::Capability::{self, Bpf, NetAdmin, Perfmon, SysAdmin, SysPtrace};
use crate::kernel::privilege::{FOR_EXPERIMENT, FOR_LINK};

#[derive(Debug)]
pub struct Needs {
    /// Its words: `policy apply`.
    pub verb: &'static str,
    /// Without one of these it is refused.
    pub always: &'static [Capability],
    pub sometimes: &'static [Sometimes],
}

/// What else some uses need, and which.
type Sometimes = (&'static [Capability], &'static str);

const LOADING: &[Capability] = &[Bpf, Perfmon, NetAdmin];
/// Entering namespaces and opening programs by their numbers take the large one, which stands for the two small ones.
const LOOKING: &[Capability] = &[SysAdmin];
const MOUNTING: Sometimes = (&[SysAdmin], "to mount the BPF file system where none is mounted");

/// Every verb that needs something at some time, and those that need nothing.
pub const NEEDS: [Needs; 20] = [
    needs("list", &[], &[]),
    needs("show", &[], &[(LOADING, "to tell what the verifier says")]),
    needs("load", LOADING, &[MOUNTING]),
    needs("confirm", &[], &[(LOADING, "for what a policy tries"), (&[SysAdmin], "for an upgrade")]),
    needs("unload", LOADING, &[(&[SysPtrace], "to name other users' processes")]),
    needs("status", &[], &[(&[SysAdmin], "to look at tables by their numbers, at costs and drift")]),
    needs("apply", LOADING, &[MOUNTING, (&[SysAdmin], "for an upgrade, and for rules with `netns`")]),
    needs("policy check", &[], &[]),
    needs("policy apply", LOADING, &[MOUNTING, (&[SysAdmin], "for `--live`, and for rules with `netns`")]),
    needs("policy remove", LOADING, &[(&[SysAdmin], "for `--live`")]),
    needs("explain", LOOKING, &[]),
    needs("upgrade", &[NetAdmin, SysAdmin], &[]),
    needs("rollback", &[NetAdmin, SysAdmin], &[]),
    needs("sockets", LOOKING, &[(&[SysPtrace], "to name other users' processes")]),
    needs("trace", &[Bpf, Perfmon], &[(&[SysAdmin], "to see idle sockets, and to record")]),
    needs("top", &[Bpf, Perfmon], &[(&[SysAdmin], "to see idle sockets")]),
    needs("serve", LOOKING, &[]),
    needs("run", &FOR_EXPERIMENT, &[]),
    needs("link", &FOR_LINK, &[]),
    needs("doctor", &[], &[]),
];

const fn needs(verb: &'static str, always: &'static [Capability], sometimes: &'static [Sometimes]) -> Needs {
    Needs { verb, always, sometimes }
}

/// The paragraph below a verb's help; `also` is what the table does not say.
pub fn of(verb: &str, also: &str) -> String {
    let needs = NEEDS.iter().find(|needs| needs.verb == verb).expect("each verb that asks is in the table");
    let always = if needs.always.is_empty() { "none".to_owned() } else { names(needs.always) };
    let sometimes = needs.sometimes.iter().map(|(capabilities, what)| format!("; {} {what}", names(capabilities)));
    let stands_for = if needs.always.contains(&SysAdmin) { ", which includes CAP_BPF and CAP_PERFMON" } else { "" };
    format!("Capabilities: {always}{stands_for}{}.{also}", sometimes.collect::<String>())
}

/// `CAP_A, CAP_B and CAP_C`.
fn names(capabilities: &[Capability]) -> String {
    let names: Vec<&str> = capabilities.iter().map(|capability| capability.name()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraph_names_what_is_always_needed_and_what_sometimes() {
        let load = "Capabilities: CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; CAP_SYS_ADMIN to mount the BPF file system where \
                    none is mounted. More.";
        assert_eq!(of("load", " More."), load);
        assert_eq!(of("list", ""), "Capabilities: none.");
        let upgrade = "Capabilities: CAP_NET_ADMIN and CAP_SYS_ADMIN, which includes CAP_BPF and CAP_PERFMON.";
        assert_eq!(of("upgrade", ""), upgrade);
    }
}
