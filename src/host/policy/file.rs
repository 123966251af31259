//! Reads a policy file. Reports all mistakes at once, each with its line and field.
//!
//! `scenarios/policy/README.md` describes the file format.

mod fields;
mod prefixes;
#[cfg(test)]
mod tests;
mod treatment;
mod write;

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use self::fields::{POLICY, RuleFields, RuleName, treatment as treatment_named};
use super::rule::{ARMS_MAX, Match, Policy, RULES_MAX, Rule};
use crate::toml_reader::{Document, Found, Mistakes, Result as Reads, Table, Value, Version, text};
use shared::failure::{Failure, FailureKind};

pub use self::write::write;

const REFERENCE: &str = "scenarios/policy/README.md";
/// Bytes; enough for the largest allowed number of prefixes.
const TEXT_MAX: usize = 8 << 20;

/// What the rules read so far contain.
#[derive(Debug, Default)]
struct PolicyTally {
    /// Rule name to line.
    names: HashMap<String, usize>,
    /// Name and line of the first rule without conditions.
    for_all: Option<(String, usize)>,
    prefixes: usize,
    arms: usize,
}

/// # Errors
/// The file cannot be read; as [`parse`].
pub fn read(path: &Path) -> Result<Policy, Mistakes> {
    read_with(path, |_| Ok(()))
}

/// Like [`read`]. `check` fails for an algorithm that this host does not know.
///
/// # Errors
/// As [`read`]; those of `check`.
pub fn read_with(path: &Path, check: impl Fn(&str) -> Result<(), Failure>) -> Result<Policy, Mistakes> {
    let file = path.display().to_string();
    let text = text::read(path).map_err(|why| Mistakes::unreadable(&file, why, REFERENCE))?;
    parse_with(&file, &text, check)
}

/// Mistakes name `file`. A path in `to_file` is relative to the folder of `file`.
///
/// # Errors
/// Every mistake in the text and in the lists of prefixes that it names.
pub fn parse(file: &str, text: &str) -> Result<Policy, Mistakes> {
    parse_with(file, text, |_| Ok(()))
}

/// Like [`parse`]. `check` fails for an unknown algorithm, and for one that needs a newer kernel.
fn parse_with(file: &str, text: &str, check: impl Fn(&str) -> Result<(), Failure>) -> Result<Policy, Mistakes> {
    policy(file, text, check).map_err(|found| Mistakes::sorted(file, found.into_vec(), REFERENCE))
}

/// SHA-256 of the written rules, in hexadecimal. The current step of a trial does not change it.
pub fn digest(policy: &Policy) -> String {
    hex::encode(Sha256::digest(write(policy)))
}

fn policy(file: &str, text: &str, check: impl Fn(&str) -> Result<(), Failure>) -> Reads<Policy> {
    let is_long = text.len() > TEXT_MAX;
    let document = Document::parse(file, if is_long { "" } else { text })?;
    let document = document.source().document(&POLICY);
    if is_long {
        return Err(document.refuse(format!("expected at most {} MiB of text", TEXT_MAX >> 20)).into());
    }
    let mut found = Found::default();
    if !Version::is_known(&document, &mut found) {
        return Err(found);
    }
    found.add(Found::unknown_in(&document));
    let (mut tally, mut rules) = (PolicyTally::default(), Vec::new());
    for table in rule_tables(&document, &mut found) {
        check_named(&table, &check, &mut found);
        rules.extend(found.keep(rule(&table, &mut tally)));
    }
    found.end().map(|()| Policy { rules })
}

/// Finds the `[[rule]]` tables, at most [`RULES_MAX`].
fn rule_tables<'t>(document: &Table<'t>, found: &mut Found) -> Vec<Table<'t>> {
    let Some(rules) = document.get("rule") else {
        if !document.misspells(&["rule"]) {
            let missing = document.missing("rule", format!("expected 1 to {RULES_MAX} rules, [[rule]]"));
            found.add(missing.or_hint("`tccc policy remove` removes the policy"));
        }
        return Vec::new();
    };
    let (items, is_array) = (rules.items(), rules.written.get_ref().is_array());
    if !is_array {
        found.add(rules.mistake("expected [[rule]], in two pairs of brackets"));
    } else if items.is_empty() {
        found.add(rules.refuse("expected at least one value"));
    }
    if let Some(first) = items.get(RULES_MAX) {
        found.add(first.mistake(format!("expected at most {RULES_MAX} rules")));
    }
    let items = items.into_iter().take(RULES_MAX);
    let (tables, others): (Vec<Value<'_>>, Vec<Value<'_>>) = items.partition(|item| item.written.get_ref().is_table());
    others.iter().filter(|_| is_array).for_each(|item| found.add(item.refuse("expected a table of fields")));
    tables.iter().filter_map(|item| item.table().ok()).collect()
}

/// Checks the algorithms that a rule gives, also if something else in the rule is wrong.
fn check_named(rule: &Table<'_>, check: impl Fn(&str) -> Result<(), Failure>, found: &mut Found) {
    let mut check = |name: &str, value: &Value<'_>, given: Option<String>| {
        let named = treatment_named(name);
        let named = named.as_ref().and_then(|treatment| treatment.algorithm());
        if found.is_full() {
            return;
        }
        if let Some(Err(why)) = named.map(&check) {
            let what = if why.kind == FailureKind::Unmet { why.what } else { "unknown algorithm".to_owned() };
            let mut mistake = value.mistake(what).given(given);
            mistake.hint = why.hint;
            found.add(mistake);
        }
    };
    if let Some(value) = rule.get("use") {
        check(&value.quoted().unwrap_or_default(), &value, value.given());
    }
    let split = rule.get("split").filter(|_| !rule.has("use"));
    if let Some(split) = split.and_then(|split| split.table().ok()) {
        split.entries().for_each(|(name, value)| check(name, &value, None));
    }
}

/// # Errors
/// Everything in the rule that is wrong.
fn rule(rule: &Table<'_>, tally: &mut PolicyTally) -> Reads<Rule> {
    let (mut found, line) = (treatment::check_presence(rule), rule.line());
    let name = rule.read::<RuleName>("name").ok().flatten().map(|RuleName(name)| name);
    if let Some((name, line)) = &tally.for_all {
        let expected = format!("never reached: the rule \"{name}\" at line {line} matches every connection");
        found.add(rule.refuse(expected).or_hint(format!("move the rule \"{name}\" to the end")));
    }
    if let Some(name) = name {
        match (tally.names.get(&name), rule.get("name")) {
            (Some(line), Some(value)) => found.add(value.refuse(format!("the rule at line {line} has the same name"))),
            _ => drop(tally.names.insert(name, line)),
        }
    }
    let Some(mut fields) = found.keep(RuleFields::of_table(rule)) else { return Err(found) };
    let when = found.keep(conditions(rule, &mut fields, tally));
    let split = found.keep(treatment::split(rule, &mut fields));
    found.add(split.as_ref().map_or_else(Found::default, |split| too_many_arms(rule, split.arms.len(), tally)));
    let (name, overrides) = (fields.name.0.clone(), fields.r#override);
    let trial = split.as_ref().and_then(|split| found.keep(treatment::trial(rule, fields, split)));
    let (Some(when), Some(split), Some(trial)) = (when, split, trial) else { return Err(found) };
    found.end()?;
    if when == Match::default() {
        tally.for_all.get_or_insert((name.clone(), line));
    }
    Ok(Rule { name, line, when, split, overrides, overrides_route: true, trial })
}

fn conditions(rule: &Table<'_>, fields: &mut RuleFields, tally: &mut PolicyTally) -> Reads<Match> {
    let units = std::mem::take(&mut fields.unit).0.into_iter().map(|unit| unit.0);
    let cgroups = std::mem::take(&mut fields.cgroup).0.into_iter().map(|cgroup| cgroup.0);
    Ok(Match {
        cgroups: units.chain(cgroups).collect(),
        netns: std::mem::take(&mut fields.netns).0.into_iter().map(|netns| netns.0).collect(),
        to: prefixes::all(rule, fields, tally)?,
        local_port: std::mem::take(&mut fields.local_port).0,
        remote_port: std::mem::take(&mut fields.remote_port).0,
        direction: fields.direction,
        current: std::mem::take(&mut fields.current).0.into_iter().map(|current| current.0).collect(),
    })
}

/// A mistake in the rule that takes the policy past its limit of arms.
fn too_many_arms(rule: &Table<'_>, arms: usize, tally: &mut PolicyTally) -> Found {
    let before = tally.arms;
    tally.arms += arms;
    if before > ARMS_MAX || tally.arms <= ARMS_MAX {
        return Found::default();
    }
    let expected = format!("expected at most {ARMS_MAX} arms in the whole policy");
    let split = rule.get("split").or(rule.get("use"));
    split.map_or_else(|| rule.refuse(&*expected), |split| split.mistake(&*expected)).into()
}
