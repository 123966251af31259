//! Looks up on this host what a policy names: network namespaces, algorithms, numbers of arms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use anyhow::Result;

use super::decide;
use super::record::PolicyRecord;
use super::rule::{CgroupName, GuardMetric, Policy, Rule};
use super::table::Resolved;
use shared::catalog;
use shared::failure::{Failure, FailureKind};
use shared::kernel::cgroup;
use shared::kernel::netns::Netns;
use shared::kernel::probe::Features;
use shared::kernel::{congestion, struct_ops};
use shared::suggest::nearest;

/// A host with more cgroups is not searched for names.
const CGROUPS_MAX: usize = 100_000;

/// # Errors
/// A network namespace does not exist, or cannot be entered.
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

/// One phrase for each network namespace of a rule that does not exist now.
pub fn absent_namespaces(policy: &Policy) -> Vec<String> {
    let of_rule = |rule: &Rule| -> Vec<String> {
        let absent = rule.when.netns.iter().filter_map(|name| Netns::find(name).err());
        let absent = absent.filter(|why| why.kind == FailureKind::Usage); // otherwise it cannot be seen
        absent.map(|why| at_rule(rule, "netns", why).what).collect()
    };
    policy.rules.iter().flat_map(of_rule).collect()
}

/// One phrase for each unit or cgroup of a rule that does not exist now. Empty if the cgroups cannot be listed.
pub fn absent_cgroups(policy: &Policy) -> Vec<String> {
    let named = || policy.rules.iter().flat_map(|rule| rule.when.cgroups.iter().map(move |name| (rule, name)));
    if named().next().is_none() {
        return Vec::new();
    }
    let Ok(all) = cgroup::paths(CGROUPS_MAX).map(|all| all.into_iter().map(|(_, path)| path).collect::<Vec<_>>())
    else {
        return Vec::new();
    };
    if all.len() == CGROUPS_MAX {
        return Vec::new();
    }
    let is_there = |name: &CgroupName| all.iter().any(|path| decide::contains(name, path));
    let folders = || all.iter().filter_map(|path| path.rsplit('/').next());
    let phrase = |(rule, name): (&Rule, &CgroupName)| {
        let near = match name {
            CgroupName::Unit(unit) => nearest(unit, folders()).map(str::to_owned),
            CgroupName::Path(path) => {
                nearest(&path.display().to_string(), all.iter().map(String::as_str)).map(str::to_owned)
            }
        };
        let near = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        format!("rule \"{}\" matches nothing now: there is no cgroup of \"{name}\"{near}", rule.name)
    };
    named().filter(|(_, name)| !is_there(name)).map(phrase).collect()
}

/// Like [`resolve`], but a namespace that is gone matches nothing.
///
/// # Errors
/// This kernel provides no type information.
pub fn resolve_present(policy: &Policy, record: &PolicyRecord) -> Result<Resolved> {
    let names = policy.rules.iter().flat_map(|rule| &rule.when.netns);
    let cookie = |name: &String| Some((name.clone(), Netns::find(name).ok()?.cookie().ok()?));
    resolved(policy, record, names.filter_map(cookie).collect())
}

fn resolved(policy: &Policy, record: &PolicyRecord, netns: BTreeMap<String, u64>) -> Result<Resolved> {
    let tables = struct_ops::tables(features()?).unwrap_or_default();
    let slots = record.slots.iter().zip(1..).map(|(slot, number)| ((slot.rule.clone(), slot.arm.clone()), number));
    let want_ecn = algorithms(policy).into_iter().filter(|name| struct_ops::wants_ecn(&tables, name)).collect();
    Ok(Resolved { netns, want_ecn, slots: slots.collect() })
}

/// Cached, because a guard asks at each step.
///
/// # Errors
/// This kernel provides no type information.
pub(super) fn features() -> Result<&'static Features> {
    static FEATURES: OnceLock<Features> = OnceLock::new();
    if let Some(features) = FEATURES.get() {
        return Ok(features);
    }
    let features = Features::probe()?;
    Ok(FEATURES.get_or_init(|| features))
}

/// Names of all algorithms in the arms of a policy.
pub fn algorithms(policy: &Policy) -> BTreeSet<String> {
    let arms = policy.rules.iter().flat_map(|rule| &rule.split.arms);
    arms.filter_map(|arm| Some(arm.treatment.algorithm()?.to_owned())).collect()
}

/// Checks names of algorithms as they are registered now.
///
/// # Errors
/// The kernel has no TCP. The check fails for a name that is neither registered nor in the catalogue, and for an algorithm
/// that needs a newer kernel.
pub fn known() -> Result<impl Fn(&str) -> Result<(), Failure>> {
    let available = congestion::available()?;
    Ok(move |name: &str| match available.iter().any(|other| other == name) {
        true => Ok(()),
        false => loadable(name),
    })
}

fn loadable(name: &str) -> Result<(), Failure> {
    let algorithm = catalog::find(name).map_err(|why| unknown(name, why))?;
    algorithm.check_kernel(|| features().is_ok_and(|features| features.accurate_ecn))
}

/// The catalogue's algorithms that a policy names and that are not registered yet.
///
/// # Errors
/// An algorithm is neither registered nor in the catalogue. The error names the rule's line.
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

/// # Errors
/// A limit on timeouts, which sockets do not count before Linux 6.7. The error names the rule's line.
pub fn check_limits(policy: &Policy) -> Result<()> {
    limits_are_counted(policy, features()?.counts_timeouts)
}

fn limits_are_counted(policy: &Policy, counts_timeouts: bool) -> Result<()> {
    for rule in &policy.rules {
        let limits = rule.trial.iter().flat_map(|trial| &trial.limits);
        let limit = limits.into_iter().find(|limit| limit.metric == GuardMetric::Timeouts && !counts_timeouts);
        if let Some(limit) = limit {
            let what = format!("\"{limit}\" would never be crossed: sockets count timeouts from Linux 6.7 on");
            let failure =
                Failure::unmet(what).hint("a limit on \"retransmitted\" also counts retransmissions by timeout");
            return Err(at_rule(rule, "guard", failure).into());
        }
    }
    Ok(())
}

/// Suggests loading a kernel module. Only a person may do that.
fn unknown(name: &str, why: Failure) -> Failure {
    let module = format!("`modprobe tcp_{name}` if it is a kernel module");
    Failure { hint: Some(why.hint.map_or(module.clone(), |hint| format!("{hint}; {module}"))), ..why }
}

pub fn at_rule(rule: &Rule, field: &str, why: Failure) -> Failure {
    Failure { what: format!("rule \"{}\", line {}: {field}: {}", rule.name, rule.line, why.what), ..why }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn limit_on_what_the_kernel_does_not_count_is_refused_by_line() {
        let rule = "[[rule]]\nname = \"web\"\nlocal_port = 443\nsplit = { dtcp = 5, keep = 95 }\nguard = ";
        let policy = |limits: &str| file::parse("p.toml", &format!("version = 1\n{rule}{limits}\n")).unwrap();
        let timeouts = policy("[\"retransmitted<1.2x\", \"timeouts<2x\"]");
        assert!(limits_are_counted(&timeouts, true).is_ok());
        assert!(limits_are_counted(&policy("\"retransmitted<1.2x\""), false).is_ok());
        let refused = limits_are_counted(&timeouts, false).unwrap_err().to_string();
        let expected = "rule \"web\", line 2: guard: \"timeouts<2x\" would never be crossed";
        assert!(refused.starts_with(expected), "{refused}");
    }
}
