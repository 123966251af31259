//! Reads a policy file. Reports all mistakes at once, each with its line and field.
//!
//! `scenarios/policy/README.md` describes the file format.

mod condition;
mod prefixes;
#[cfg(test)]
mod tests;
mod treatment;
mod trial;
mod write;

use std::collections::HashMap;
use std::path::Path;

use toml::de::DeValue;

use super::rule::{ARMS_MAX, Match, Policy, RULE_NAME_MAX, RULES_MAX, Rule, Treatment};
use crate::loader;
use crate::written::{Field, MISTAKES_MAX, Mistakes, Reader, TomlTable, given, text};
use shared::failure::Failure;

pub use self::write::write;

const REFERENCE: &str = "scenarios/policy/README.md";
/// Bytes; enough for the largest allowed number of prefixes.
const TEXT_MAX: usize = 8 << 20;

const FIELDS: [&str; 2] = ["version", "rule"];
const RULE_FIELDS: [&str; 19] = [
    "name",
    "unit",
    "cgroup",
    "netns",
    "to",
    "to_file",
    "local_port",
    "remote_port",
    "direction",
    "current",
    "use",
    "split",
    "by",
    "override",
    "guard",
    "deadline",
    "undecided",
    "on_fail",
    "steps",
];

/// What the rules read so far contain.
#[derive(Debug, Default)]
struct PolicyTally {
    /// Rule name to line.
    names: HashMap<String, usize>,
    /// Name and line of the first rule without conditions.
    for_all: Option<(String, usize)>,
    prefixes: usize,
    arms: usize,
    named: Vec<NamedAlgorithm>,
}

/// An algorithm that a rule gives, and its place.
#[derive(Debug)]
struct NamedAlgorithm {
    name: String,
    offset: usize,
    field: String,
    given: Option<String>,
}

/// Errors: the file cannot be read; as [`parse`].
pub fn read(path: &Path) -> Result<Policy, Mistakes> {
    read_with(path, |_| Ok(()))
}

/// Like [`read`]. `check` fails for an algorithm that this host does not know.
pub fn read_with(path: &Path, check: impl Fn(&str) -> Result<(), Failure>) -> Result<Policy, Mistakes> {
    let file = path.display().to_string();
    let text = text::read(path).map_err(|why| Mistakes::unreadable(&file, why, REFERENCE))?;
    parse_with(&file, &text, check)
}

/// Mistakes name `file`. A path in `to_file` is relative to the folder of `file`.
///
/// Errors: every mistake in the text and in the lists of prefixes that it names.
pub fn parse(file: &str, text: &str) -> Result<Policy, Mistakes> {
    parse_with(file, text, |_| Ok(()))
}

/// Like [`parse`]. `check` fails for an unknown algorithm.
pub fn parse_with(file: &str, text: &str, check: impl Fn(&str) -> Result<(), Failure>) -> Result<Policy, Mistakes> {
    let mut reader = Reader::new(file, text, REFERENCE);
    let mut tally = PolicyTally::default();
    let policy = reader.document(&mut tally);
    reader.check_named(tally.named, check);
    match policy {
        Some(policy) if reader.mistakes.is_empty() => Ok(policy),
        _ => Err(reader.refused()),
    }
}

/// SHA-256 of the written rules, in hexadecimal. The current step of a trial does not change it.
pub fn digest(policy: &Policy) -> String {
    loader::digest(write(policy).as_bytes())
}

impl Reader<'_> {
    /// `None` if the text is not a policy at all.
    fn document(&mut self, tally: &mut PolicyTally) -> Option<Policy> {
        if self.text.len() > TEXT_MAX {
            self.refuse_at(0, "", format!("expected at most {} MiB of text", TEXT_MAX >> 20));
            return None;
        }
        let document = self.syntax()?;
        let document = TomlTable::whole(&document);
        if !self.is_known_version(&document, &FIELDS) {
            return None;
        }
        self.refuse_unknown(&document, &FIELDS);
        let tables = self.rule_tables(&document);
        Some(Policy { rules: tables.iter().filter_map(|rule| self.rule(rule, tally)).collect() })
    }

    fn check_named(&mut self, named: Vec<NamedAlgorithm>, check: impl Fn(&str) -> Result<(), Failure>) {
        for NamedAlgorithm { name, offset, field, given } in named {
            if self.mistakes.len() > MISTAKES_MAX {
                return;
            }
            if let Err(why) = check(&name) {
                let mistake = self.refuse_at(offset, &field, "unknown algorithm");
                (mistake.given, mistake.hint) = (given, why.hint);
            }
        }
    }

    /// Finds the `[[rule]]` tables, at most [`RULES_MAX`].
    fn rule_tables<'t>(&mut self, document: &TomlTable<'t>) -> Vec<TomlTable<'t>> {
        let Some(field) = document.field("rule") else {
            if !document.misspells(&["rule"], &FIELDS) {
                let mistake = self.refuse_at(0, "rule", format!("expected 1 to {RULES_MAX} rules, [[rule]]"));
                mistake.hint = Some("`tccc policy remove` removes the policy".to_owned());
            }
            return Vec::new();
        };
        let is_array = field.value.get_ref().is_array();
        if !is_array {
            self.refuse_at(field.value.span().start, "rule", "expected [[rule]], in two pairs of brackets");
        }
        let items = self.items(&field);
        if let Some(first) = items.get(RULES_MAX) {
            self.refuse_at(first.value.span().start, "rule", format!("expected at most {RULES_MAX} rules"));
        }
        let items = items.iter().take(RULES_MAX);
        items.clone().filter(|item| is_array && item.table().is_none()).for_each(|item| {
            self.refuse(item, "expected a table of fields");
        });
        items.filter_map(Field::table).collect()
    }

    /// `None` if something in the rule is wrong.
    fn rule(&mut self, rule: &TomlTable<'_>, tally: &mut PolicyTally) -> Option<Rule> {
        let mistakes_before = self.mistakes.len();
        let line = self.line_of(rule.span.start);
        self.refuse_unknown(rule, &RULE_FIELDS);
        let name = self.name(rule, line, tally);
        let when = self.conditions(rule, tally);
        let steps = self.steps(rule);
        let split = self.treatment(rule, &steps, &mut tally.named);
        let trial = self.trial(rule, split.as_ref(), steps);
        let overrides = rule.field("override").and_then(|field| self.flag(&field)).unwrap_or(false);
        if let Some((name, line)) = &tally.for_all {
            let expected = format!("never reached: the rule \"{name}\" at line {line} matches every connection");
            let mistake = self.refuse_at(rule.span.start, &rule.name, expected);
            mistake.hint = Some(format!("move the rule \"{name}\" to the end"));
        }
        let (name, split) = (name?, split?);
        self.check_arms_of_all(rule, split.arms.len(), tally);
        if self.mistakes.len() > mistakes_before {
            return None;
        }
        if when == Match::default() {
            tally.for_all.get_or_insert((name.clone(), line));
        }
        Some(Rule { name, line, when, split, overrides, overrides_route: true, trial })
    }

    fn name(&mut self, rule: &TomlTable<'_>, line: usize, tally: &mut PolicyTally) -> Option<String> {
        let expected = format!("a name of 1 to {RULE_NAME_MAX} letters, digits, _, . and -");
        let Some(field) = rule.field("name") else {
            if !rule.misspells(&["name"], &RULE_FIELDS) {
                self.refuse_at(rule.span.start, "rule.name", format!("missing: expected {expected}"));
            }
            return None;
        };
        let name = self.text(&field, &expected)?;
        if !is_name(name, RULE_NAME_MAX) {
            self.refuse(&field, format!("expected {expected}"));
            return None;
        }
        if let Some(line) = tally.names.get(name) {
            self.refuse(&field, format!("the rule at line {line} has the same name"));
            return None;
        }
        tally.names.insert(name.to_owned(), line);
        Some(name.to_owned())
    }

    /// Refuses the rule that takes the policy past its limit of arms.
    fn check_arms_of_all(&mut self, rule: &TomlTable<'_>, arms: usize, tally: &mut PolicyTally) {
        let before = tally.arms;
        tally.arms += arms;
        if before <= ARMS_MAX && tally.arms > ARMS_MAX {
            let expected = format!("expected at most {ARMS_MAX} arms in the whole policy");
            let split = rule.field("split").or(rule.field("use"));
            let start = split.as_ref().map_or(rule.span.start, |field: &Field<'_>| field.value.span().start);
            self.refuse_at(start, &split.map_or(rule.name.clone(), |field| field.name), expected);
        }
    }
}

impl NamedAlgorithm {
    /// `keep` is no algorithm. `is_key`: the name is the field's own, not its value.
    fn of(treatment: &Treatment, field: &Field<'_>, text: &str, is_key: bool) -> Option<Self> {
        let given = if is_key { None } else { given(text, field.value) };
        let name = treatment.algorithm()?.to_owned();
        Some(NamedAlgorithm { name, offset: field.value.span().start, field: field.name.clone(), given })
    }
}

fn integer(field: &Field<'_>) -> Option<i64> {
    let DeValue::Integer(number) = field.value.get_ref() else { return None };
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Whether a text is a name of at most `longest` bytes. Rules allow the same characters as the kernel's algorithms.
fn is_name(text: &str, longest: usize) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=longest).contains(&text.len()) && text.chars().all(is_of_a_name)
}
