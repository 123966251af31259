//! The tables of the kernel program. Each value of a condition has a 64-bit word with one bit per rule.

use std::collections::{BTreeMap, BTreeSet};

use super::hash;
use super::program::types::{algorithm_key, awaited_key, remote_range};
use super::rule::{CgroupName, Policy, Portion, Ports, Rule, SplitBy, Way, folder_of};
use shared::c_text::padded;
use shared::units::prefix::Prefix;

/// One bit per rule.
pub type RuleSet = u64;

/// Rule flags of the kernel program.
const OVERRIDES: u32 = 1;
const OVERRIDES_ROUTE: u32 = 2;
const LABELS_KEPT: u32 = 4;

/// Flag of an arm.
const WANTS_ECN: u32 = 1;

/// The node of a unit's name, which matches at any place.
const ANYWHERE: u32 = 0;
const ROOT_NODE: u32 = 1;

/// What the names in a policy mean on this host.
#[derive(Debug, Default)]
pub struct Resolved {
    /// A network namespace as a rule names it, to its cookie.
    pub netns: BTreeMap<String, u64>,
    pub want_ecn: BTreeSet<String>,
    /// Rule and algorithm (or `keep`), to the arm's number in labels.
    pub slots: BTreeMap<(String, String), u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleTables {
    /// Shape: in the order of the policy.
    pub rules: Vec<RuleEntry>,
    /// Shape: arms of the first rule, of the second, and so on.
    pub arms: Vec<ArmEntry>,
    pub any: AnyRules,
    /// Rules for incoming connections.
    pub rules_in: RuleSet,
    /// Rules for outgoing connections.
    pub rules_out: RuleSet,
    /// Rules with an arm whose algorithm wants ECN.
    pub rules_ecn: RuleSet,
    /// Ranges of remote addresses in IPv6 form, with the rules that match them.
    ///
    /// Shape: sorted from 0; each range ends where the next begins; neighbours differ.
    pub remotes: Vec<(u128, RuleSet)>,
    pub local_ports: BTreeMap<u16, RuleSet>,
    pub remote_ports: BTreeMap<u16, RuleSet>,
    /// By cookie.
    pub netns: BTreeMap<u64, RuleSet>,
    /// By the algorithm that a connection has.
    pub currents: BTreeMap<String, RuleSet>,
    pub cgroups: CgroupTree,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEntry {
    pub salt: u64,
    /// Index of its first arm in the table of arms.
    pub first_arm: u32,
    pub arms: u32,
    pub by: SplitBy,
    pub flags: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmEntry {
    /// Empty for `keep`.
    pub algorithm: String,
    /// The arm has the buckets below this that no earlier arm has.
    pub below: u32,
    /// Number in labels.
    pub slot: u32,
    pub flags: u32,
}

/// The rules that have no condition of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnyRules {
    pub cgroup: RuleSet,
    pub netns: RuleSet,
    pub remote: RuleSet,
    pub local_port: RuleSet,
    pub remote_port: RuleSet,
    pub current: RuleSet,
}

/// What a cgroup means to the rules: those for the cgroup and all below it, and its position (`node`) on the path to a
/// cgroup that a rule names. 0 if it is on none.
pub use super::program::types::cgroup_place as CgroupPlace;

/// The names of cgroups in rules, below a node of a path or anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupTree {
    /// Parent's node and name, to the place of the cgroup.
    pub awaited: BTreeMap<(u32, String), CgroupPlace>,
    nodes: u32,
}

impl RuleTables {
    /// Compiles a policy that [`super::file`] accepts.
    pub fn of(policy: &Policy, resolved: &Resolved) -> Self {
        // Bits without a rule match nothing, because no direction has them. With every bit of `any` set, the kernel
        // program skips a kind of condition.
        let unused = (!0 as RuleSet).checked_shl(policy.rules.len() as u32).unwrap_or(0);
        let [cgroup, netns, remote, local_port, remote_port, current] = [unused; 6];
        let any = AnyRules { cgroup, netns, remote, local_port, remote_port, current };
        let mut tables = RuleTables { any, ..RuleTables::default() };
        let mut prefixes = Vec::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let bit: RuleSet = 1 << index;
            tables.add_rule(rule, resolved, bit);
            tables.add_conditions(rule, resolved, bit);
            prefixes.extend(rule.when.to.iter().map(|prefix| (*prefix, index)));
        }
        tables.remotes = ranges(&prefixes);
        tables
    }

    fn add_rule(&mut self, rule: &Rule, resolved: &Resolved, bit: RuleSet) {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let is_compared = rule.split.arms.len() > 1 || rule.is_guarded();
        self.rules.push(RuleEntry {
            salt: hash::salt(&rule.name),
            first_arm: self.arms.len() as u32,
            arms: rule.split.arms.len() as u32,
            by: rule.split.by,
            flags: flag(rule.overrides, OVERRIDES)
                | flag(rule.overrides_route, OVERRIDES_ROUTE)
                | flag(is_compared, LABELS_KEPT),
        });
        let mut below = 0;
        for arm in &rule.split.arms {
            let Portion(hundredths) = arm.portion;
            below += u32::from(hundredths);
            let algorithm = arm.treatment.algorithm().unwrap_or_default().to_owned();
            let key = (rule.name.clone(), arm.treatment.to_string());
            let slot = resolved.slots.get(&key).copied().unwrap_or(0);
            let flags = flag(resolved.want_ecn.contains(&algorithm), WANTS_ECN);
            self.rules_ecn |= if flags == WANTS_ECN { bit } else { 0 };
            self.arms.push(ArmEntry { algorithm, below, slot, flags });
        }
    }

    fn add_conditions(&mut self, rule: &Rule, resolved: &Resolved, bit: RuleSet) {
        let when = &rule.when;
        let any = &mut self.any;
        let note = |set: &mut RuleSet, is_empty: bool| *set |= if is_empty { bit } else { 0 };
        note(&mut any.cgroup, when.cgroups.is_empty());
        note(&mut any.netns, when.netns.is_empty());
        note(&mut any.remote, when.to.is_empty());
        note(&mut any.local_port, when.local_port.is_empty());
        note(&mut any.remote_port, when.remote_port.is_empty());
        note(&mut any.current, when.current.is_empty());
        note(&mut self.rules_in, when.direction != Some(Way::Out));
        note(&mut self.rules_out, when.direction != Some(Way::In));
        add_ports(&mut self.local_ports, &when.local_port, bit);
        add_ports(&mut self.remote_ports, &when.remote_port, bit);
        let cookies = when.netns.iter().filter_map(|name| resolved.netns.get(name));
        cookies.for_each(|&cookie| *self.netns.entry(cookie).or_default() |= bit);
        when.current.iter().for_each(|name| *self.currents.entry(name.clone()).or_default() |= bit);
        when.cgroups.iter().for_each(|name| self.cgroups.add(name, bit));
    }
}

fn add_ports(table: &mut BTreeMap<u16, RuleSet>, ports: &[Ports], bit: RuleSet) {
    for port in ports.iter().flat_map(|ports| ports.0.clone()) {
        *table.entry(port).or_default() |= bit;
    }
}

impl CgroupTree {
    fn add(&mut self, name: &CgroupName, bit: RuleSet) {
        match name {
            CgroupName::Unit(unit) => {
                self.awaited.entry((ANYWHERE, folder_of(unit).into_owned())).or_default().rules |= bit;
            }
            CgroupName::Path(path) => {
                let names = path.components().filter_map(|part| match part {
                    std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                    _ => None,
                });
                let names: Vec<String> = names.collect();
                let Some((last, above)) = names.split_last() else { return };
                let parent = above.iter().fold(ROOT_NODE, |node, name| self.node_below(node, name));
                self.awaited.entry((parent, last.clone())).or_default().rules |= bit;
            }
        }
    }

    fn node_below(&mut self, node: u32, name: &str) -> u32 {
        let place = self.awaited.entry((node, name.to_owned())).or_default();
        if place.node == 0 {
            self.nodes += 1;
            place.node = ROOT_NODE + self.nodes;
        }
        place.node
    }

    pub fn root(&self) -> CgroupPlace {
        CgroupPlace { node: ROOT_NODE, ..CgroupPlace::default() }
    }

    /// The place of a cgroup below `parent`, as the kernel program computes it.
    pub fn place(&self, parent: CgroupPlace, name: &str) -> CgroupPlace {
        let at = |node: u32| self.awaited.get(&(node, name.to_owned())).copied().unwrap_or_default();
        let (anywhere, here) = (at(ANYWHERE), if parent.node == 0 { CgroupPlace::default() } else { at(parent.node) });
        CgroupPlace { rules: parent.rules | anywhere.rules | here.rules, ..here }
    }
}

/// Shape: prefixes with the index of their rule, in any order; prefixes may overlap, the ranges do not.
fn ranges(prefixes: &[(Prefix, usize)]) -> Vec<(u128, RuleSet)> {
    let mut changes: Vec<(u128, usize, i32)> = Vec::with_capacity(2 * prefixes.len());
    for (prefix, rule) in prefixes {
        let (address, bits) = prefix.mapped();
        let begin = address.to_bits();
        let last = begin | u128::MAX.checked_shr(bits).unwrap_or(0);
        changes.push((begin, *rule, 1));
        changes.extend(last.checked_add(1).map(|end| (end, *rule, -1)));
    }
    changes.sort_unstable_by_key(|&(at, ..)| at);
    let mut depth = [0i32; 64];
    let mut ranges: Vec<(u128, RuleSet)> = vec![(0, 0)];
    for (at, rule, change) in changes {
        depth[rule] += change;
        let (begin, latest) = *ranges.last().expect("it begins with one");
        let bit = 1 << rule;
        let rules = if depth[rule] > 0 { latest | bit } else { latest & !bit };
        if begin == at {
            ranges.pop();
        }
        if ranges.last().is_none_or(|(_, before)| *before != rules) {
            ranges.push((at, rules));
        }
    }
    ranges
}

impl RuleTables {
    /// The map of remote addresses.
    pub fn remote_ranges(&self) -> impl Iterator<Item = (u32, remote_range)> {
        (0..)
            .zip(&self.remotes)
            .map(|(index, &(begin, rules))| (index, remote_range { hi: (begin >> 64) as u64, lo: begin as u64, rules }))
    }

    /// The map of the algorithms that connections have.
    pub fn current_names(&self) -> impl Iterator<Item = (algorithm_key, RuleSet)> {
        self.currents.iter().map(|(name, rules)| (algorithm_key { name: padded(name) }, *rules))
    }
}

impl CgroupTree {
    pub fn entries(&self) -> impl Iterator<Item = (awaited_key, CgroupPlace)> {
        self.awaited.iter().map(|((node, name), place)| (awaited_key { node: *node, name: padded(name) }, *place))
    }
}

#[cfg(test)]
mod tests;
