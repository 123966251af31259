//! What the names in a policy mean on this host: network namespaces, algorithms, numbers of arms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use anyhow::Result;

use super::record::PolicyRecord;
use super::rule::{Policy, Rule};
use super::table::Resolved;
use crate::catalog;
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::probe::Features;
use crate::kernel::{congestion, struct_ops};

/// Those of the kernel's own algorithms that want ECN; it shows that of no module (net/ipv4/tcp_dctcp.c).
const KERNEL_WANTS_ECN: [&str; 2] = ["dctcp", "dctcp-reno"];

/// Looks names up.
///
/// Errors: a network namespace does not exist, or cannot be entered.
pub fn resolve(policy: &Policy, record: &PolicyRecord) -> Result<Resolved> {
    let mut netns = BTreeMap::new();
    for rule in &policy.rules {
        for name in &rule.when.netns {
            let found = Netns::find(name).map_err(|why| at_rule(rule, "netns", why))?;
            netns.insert(name.clone(), found.cookie()?);
        }
    }
    resolved(policy, record, netns)
}

/// Looks up the names of a policy that decides already: a namespace that has gone since matches nothing.
///
/// Errors: this kernel shows no type information.
pub fn resolve_present(policy: &Policy, record: &PolicyRecord) -> Result<Resolved> {
    let names = policy.rules.iter().flat_map(|rule| &rule.when.netns);
    let cookie = |name: &String| Some((name.clone(), Netns::find(name).ok()?.cookie().ok()?));
    resolved(policy, record, names.filter_map(cookie).collect())
}

fn resolved(policy: &Policy, record: &PolicyRecord, netns: BTreeMap<String, u64>) -> Result<Resolved> {
    let mut resolved = Resolved { netns, ..Resolved::default() };
    for (slot, number) in record.slots.iter().zip(1..) {
        resolved.slots.insert((slot.rule.clone(), slot.arm.clone()), number);
    }
    let wanted = algorithms(policy);
    let tables = struct_ops::tables(features()?).unwrap_or_default();
    resolved.want_ecn = wanted
        .into_iter()
        .filter(|name| match tables.iter().find(|table| table.name == *name) {
            Some(table) => table.wants_ecn,
            None => KERNEL_WANTS_ECN.contains(&name.as_str()),
        })
        .collect();
    Ok(resolved)
}

/// What this kernel offers, read once: it stays the same while this process runs, and a guard asks at each step.
///
/// Errors: this kernel shows no type information.
pub(super) fn features() -> Result<&'static Features> {
    static FEATURES: OnceLock<Features> = OnceLock::new();
    if let Some(features) = FEATURES.get() {
        return Ok(features);
    }
    let features = Features::probe()?;
    Ok(FEATURES.get_or_init(|| features))
}

/// Names of the algorithms that rules give.
pub fn algorithms(policy: &Policy) -> BTreeSet<String> {
    let arms = policy.rules.iter().flat_map(|rule| &rule.split.arms);
    arms.filter_map(|arm| Some(arm.treatment.algorithm()?.to_owned())).collect()
}

/// Those that are not registered yet, which tccc carries and has to load.
///
/// Errors: a rule names an algorithm that is neither registered nor carried; says the rule's line.
pub fn to_load(policy: &Policy) -> Result<Vec<&'static catalog::Algorithm>> {
    let available = congestion::available()?;
    let mut found: Vec<&'static catalog::Algorithm> = Vec::new();
    for rule in &policy.rules {
        let names = rule.split.arms.iter().filter_map(|arm| arm.treatment.algorithm());
        for name in names.filter(|name| !available.iter().any(|other| other == name)) {
            let algorithm = catalog::find(name).map_err(|why| at_rule(rule, "use", unknown(name, why)))?;
            if !found.iter().any(|other| other.id == algorithm.id) {
                found.push(algorithm);
            }
        }
    }
    Ok(found)
}

/// An algorithm that tccc does not carry may be a module of the kernel, which only a person loads.
fn unknown(name: &str, why: Failure) -> Failure {
    let module = format!("`modprobe tcp_{name}` if it is one of the kernel");
    Failure { hint: Some(why.hint.map_or(module.clone(), |hint| format!("{hint}; {module}"))), ..why }
}

/// A failure, with the rule that it is about.
pub fn at_rule(rule: &Rule, field: &str, why: Failure) -> Failure {
    Failure { what: format!("rule \"{}\", line {}: {field}: {}", rule.name, rule.line, why.what), ..why }
}
