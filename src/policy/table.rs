//! What the kernel program looks up: each condition of the rules as a word of 64 bits, one bit a rule.
//!
//! Pure: names that mean something on this host only, such as network namespaces, are resolved before.

use std::collections::{BTreeMap, BTreeSet};

use super::hash;
use super::rule::{CgroupName, Policy, Portion, Ports, Rule, RuleTrial, SplitBy, Way};
use crate::units::prefix::Prefix;

/// A set of rules, one bit each.
pub type RuleSet = u64;

/// Rule flags of the kernel program.
const OVERRIDES: u32 = 1;
const OVERRIDES_ROUTE: u32 = 2;
const LABELS_KEPT: u32 = 4;

/// Flag of an arm.
const WANTS_ECN: u32 = 1;
/// Bytes of an algorithm's name, and of a cgroup's, each with a closing zero.
const ALGORITHM_BYTES: usize = 16;
const CGROUP_BYTES: usize = 128;

/// Instead of a place on the way to a cgroup: the name of a unit, wherever it is.
const ANYWHERE: u32 = 0;
/// The root of the cgroups.
pub const ROOT_NODE: u32 = 1;

/// What names of a policy mean on this host.
#[derive(Debug, Default)]
pub struct Resolved {
    /// A network namespace as a rule names it, to the kernel's cookie of it.
    pub netns: BTreeMap<String, u64>,
    pub want_ecn: BTreeSet<String>,
    /// Numbers of arms in labels: rule and algorithm (or `keep`) to number.
    pub slots: BTreeMap<(String, String), u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleTables {
    /// Shape: in the order of the policy.
    pub rules: Vec<RuleEntry>,
    /// Shape: arms of the first rule, of the second, and so on.
    pub arms: Vec<ArmEntry>,
    /// Rules without a condition of a kind.
    pub any: AnyRules,
    /// Rules for connections that others began.
    pub rules_in: RuleSet,
    /// Rules for connections that this host began.
    pub rules_out: RuleSet,
    /// Rules with an arm whose algorithm wants ECN.
    pub rules_ecn: RuleSet,
    /// Ranges of remote addresses in their IPv6 form, with the rules that let them pass.
    ///
    /// Shape: begins at 0, sorted; each ends where the next begins; neighbours differ.
    pub remotes: Vec<(u128, RuleSet)>,
    pub local_ports: BTreeMap<u16, RuleSet>,
    pub remote_ports: BTreeMap<u16, RuleSet>,
    /// Rules by the cookie of the network namespace.
    pub netns: BTreeMap<u64, RuleSet>,
    /// Rules by the algorithm that a connection has.
    pub currents: BTreeMap<String, RuleSet>,
    /// Names of cgroups that rules wait for.
    pub cgroups: CgroupTree,
}

/// One rule, as the kernel program has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleEntry {
    pub salt: u64,
    /// Its first place in the table of arms.
    pub first_arm: u32,
    pub arms: u32,
    pub by: SplitBy,
    pub flags: u32,
}

/// One arm, as the kernel program has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmEntry {
    /// Empty: keep.
    pub algorithm: String,
    /// Buckets below this belong to it, unless they belong to an arm before.
    pub below: u32,
    /// Its number in labels.
    pub slot: u32,
    pub wants_ecn: bool,
}

/// For each kind of condition the rules that have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnyRules {
    pub cgroup: RuleSet,
    pub netns: RuleSet,
    pub remote: RuleSet,
    pub local_port: RuleSet,
    pub remote_port: RuleSet,
    pub current: RuleSet,
}

/// What a cgroup means to the rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupPlace {
    /// Rules for it and all below it.
    pub rules: RuleSet,
    /// Its place on the way to cgroups that rules name by path; 0: on none.
    pub node: u32,
}

/// Names of cgroups that rules wait for, below a node of the way or anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupTree {
    /// Node and name to what a cgroup of that name means there.
    pub awaited: BTreeMap<(u32, String), CgroupPlace>,
    nodes: u32,
}

impl RuleTables {
    /// Compiles a policy.
    ///
    /// Shape of the policy: what [`super::file`] accepts.
    pub fn of(policy: &Policy, resolved: &Resolved) -> Self {
        let mut tables = RuleTables::default();
        let mut prefixes = Vec::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let bit: RuleSet = 1 << index;
            tables.add_rule(rule, resolved, bit);
            tables.add_conditions(rule, resolved, bit);
            prefixes.extend(rule.when.to.iter().map(|prefix| (*prefix, index)));
        }
        tables.remotes = ranges(&prefixes);
        // Bits without a rule match nothing, since no direction has them; with all set a kind without conditions is seen.
        let unused = if policy.rules.len() < 64 { !0 << policy.rules.len() } else { 0 };
        let any = &mut tables.any;
        let ports = [&mut any.local_port, &mut any.remote_port];
        let others = [&mut any.cgroup, &mut any.netns, &mut any.remote, &mut any.current];
        ports.into_iter().chain(others).for_each(|set| *set |= unused);
        tables
    }

    fn add_rule(&mut self, rule: &Rule, resolved: &Resolved, bit: RuleSet) {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let is_compared = rule.split.arms.len() > 1 || rule.trial.as_ref().is_some_and(RuleTrial::is_guarded);
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
            let wants_ecn = resolved.want_ecn.contains(&algorithm);
            self.rules_ecn |= if wants_ecn { bit } else { 0 };
            self.arms.push(ArmEntry { algorithm, below, slot, wants_ecn });
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
            CgroupName::Unit(unit) => self.awaited.entry((ANYWHERE, unit.clone())).or_default().rules |= bit,
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
        CgroupPlace { rules: 0, node: ROOT_NODE }
    }

    /// What a cgroup of this name means below one that means `parent`, as the kernel program decides it.
    pub fn place(&self, parent: CgroupPlace, name: &str) -> CgroupPlace {
        let at = |node: u32| self.awaited.get(&(node, name.to_owned())).copied().unwrap_or_default();
        let (anywhere, here) = (at(ANYWHERE), if parent.node == 0 { CgroupPlace::default() } else { at(parent.node) });
        CgroupPlace { rules: parent.rules | anywhere.rules | here.rules, node: here.node }
    }
}

/// Prefixes as ranges that do not overlap.
///
/// Shape: prefixes with the index of their rule, in any order; one may contain another.
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

/// Key and value of an entry of a kernel map.
pub type MapEntry = (Vec<u8>, Vec<u8>);

/// The bytes of the kernel program's tables.
impl RuleTables {
    /// `struct remote_range`, by place.
    pub fn remote_entries(&self) -> Vec<MapEntry> {
        let ranges = self.remotes.iter().zip(0u32..);
        let entries = ranges.map(|((begin, rules), index)| {
            let value = [(begin >> 64) as u64, *begin as u64, *rules].map(u64::to_ne_bytes).concat();
            (index.to_ne_bytes().to_vec(), value)
        });
        entries.collect()
    }

    /// Of remote addresses, local ports, remote ports, namespaces and algorithms that connections have.
    pub fn entries(&self) -> [Vec<MapEntry>; 5] {
        let of_ports = |ports| entries(ports, |port: &u16| port.to_ne_bytes().to_vec());
        [
            self.remote_entries(),
            of_ports(&self.local_ports),
            of_ports(&self.remote_ports),
            entries(&self.netns, |cookie| cookie.to_ne_bytes().to_vec()),
            entries(&self.currents, |name| padded(name, ALGORITHM_BYTES)),
        ]
    }
}

impl CgroupTree {
    /// `struct awaited_key` to `struct cgroup_place`.
    pub fn entries(&self) -> Vec<MapEntry> {
        let key = |(node, name): &(u32, String)| [node.to_ne_bytes().to_vec(), padded(name, CGROUP_BYTES)].concat();
        self.awaited.iter().map(|(at, place)| (key(at), place.bytes().to_vec())).collect()
    }
}

impl CgroupPlace {
    /// `struct cgroup_place`.
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.rules.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.node.to_ne_bytes());
        bytes
    }
}

impl ArmEntry {
    pub fn flags(&self) -> u32 {
        if self.wants_ecn { WANTS_ECN } else { 0 }
    }
}

fn entries<K>(table: &BTreeMap<K, RuleSet>, key: impl Fn(&K) -> Vec<u8>) -> Vec<MapEntry> {
    table.iter().map(|(at, rules)| (key(at), rules.to_ne_bytes().to_vec())).collect()
}

/// A text with zeros after it; the kernel program's names are shorter than their place.
fn padded(text: &str, bytes: usize) -> Vec<u8> {
    let mut padded = text.as_bytes().to_vec();
    padded.resize(bytes, 0);
    padded
}

#[cfg(test)]
mod tests;
