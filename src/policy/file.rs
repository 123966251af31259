//! Reads a policy file: every mistake in it at once, each with its line and field.
//!
//! `scenarios/policy/README.md` describes the file for those who write one.

mod condition;
mod prefixes;
#[cfg(test)]
mod tests;
mod treatment;
mod trial;
mod write;

use std::collections::HashMap;
use std::path::Path;

use super::rule::{ARMS_MAX, Match, Policy, RULE_NAME_MAX, RULES_MAX, Rule};
use crate::loader;
use crate::written::{Field, Mistakes, Reader, TomlTable, text};

pub use self::write::write;

const REFERENCE: &str = "scenarios/policy/README.md";
/// Largest text of a policy, bytes: one with as many prefixes as it may have, written out.
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

#[derive(Debug, Default)]
struct SoFar {
    /// Names, with the line of their rule.
    names: HashMap<String, usize>,
    /// A rule without conditions: its name and line.
    for_all: Option<(String, usize)>,
    prefixes: usize,
    arms: usize,
}

/// Reads a policy file.
///
/// Errors: a file that cannot be read; those of [`parse`].
pub fn read(path: &Path) -> Result<Policy, Mistakes> {
    let file = path.display().to_string();
    let text = text::read(path).map_err(|why| Mistakes::unreadable(&file, why, REFERENCE))?;
    parse(&file, &text)
}

/// Reads the text of a policy; `file` is named in mistakes, and `to_file` is relative to its folder.
///
/// Errors: every mistake in the text, and in the lists of prefixes that it names.
pub fn parse(file: &str, text: &str) -> Result<Policy, Mistakes> {
    let mut reader = Reader::new(file, text, REFERENCE);
    match reader.document() {
        Some(policy) if reader.mistakes.is_empty() => Ok(policy),
        _ => Err(reader.refused()),
    }
}

/// SHA-256 of the rules, in hexadecimal: the same for each step that a share has come to.
pub fn digest(policy: &Policy) -> String {
    loader::digest(write(policy).as_bytes())
}

impl Reader<'_> {
    /// Reads the whole file; none when its text is not that of a policy.
    fn document(&mut self) -> Option<Policy> {
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
        let rules = self.rule_tables(&document);
        let mut so_far = SoFar::default();
        let rules: Vec<Option<Rule>> = rules.iter().map(|rule| self.rule(rule, &mut so_far)).collect();
        Some(Policy { rules: rules.into_iter().flatten().collect() })
    }

    /// Finds the `[[rule]]` tables, at most as many as there may be.
    fn rule_tables<'t>(&mut self, document: &TomlTable<'t>) -> Vec<TomlTable<'t>> {
        let Some(field) = document.field("rule") else {
            if !document.misspells(&["rule"], &FIELDS) {
                let mistake = self.refuse_at(0, "rule", format!("expected 1 to {RULES_MAX} rules, [[rule]]"));
                mistake.hint = Some("`tccc policy remove` removes the policy".to_owned());
            }
            return Vec::new();
        };
        if !field.value.get_ref().is_array() {
            self.refuse_at(field.value.span().start, "rule", "expected [[rule]], in two pairs of brackets");
        }
        let items = self.items(&field);
        if let Some(first) = items.get(RULES_MAX) {
            self.refuse_at(first.value.span().start, "rule", format!("expected at most {RULES_MAX} rules"));
        }
        let mut rules = Vec::new();
        for item in items.iter().take(RULES_MAX) {
            match item.table() {
                Some(table) => rules.push(table),
                None if field.value.get_ref().is_array() => {
                    self.refuse(item, "expected a table of fields");
                }
                None => (),
            }
        }
        rules
    }

    /// Reads one rule; none when something in it is wrong.
    fn rule(&mut self, rule: &TomlTable<'_>, so_far: &mut SoFar) -> Option<Rule> {
        let mistakes_before = self.mistakes.len();
        let line = self.line_of(rule.span.start);
        self.refuse_unknown(rule, &RULE_FIELDS);
        let name = self.name(rule, line, so_far);
        let when = self.conditions(rule, so_far);
        let steps = self.steps(rule);
        let split = self.treatment(rule, &steps);
        let trial = self.trial(rule, split.as_ref(), steps);
        let overrides = rule.field("override").and_then(|field| self.flag(&field)).unwrap_or(false);
        self.check_reached(rule, so_far);
        let (name, split) = (name?, split?);
        self.check_arms_of_all(rule, split.arms.len(), so_far);
        if self.mistakes.len() > mistakes_before {
            return None;
        }
        if when == Match::default() {
            so_far.for_all.get_or_insert((name.clone(), line));
        }
        Some(Rule { name, line, when, split, overrides, overrides_route: true, trial })
    }

    fn name(&mut self, rule: &TomlTable<'_>, line: usize, so_far: &mut SoFar) -> Option<String> {
        let expected = format!("a name of 1 to {RULE_NAME_MAX} letters, digits, _, . and -");
        let Some(field) = rule.field("name") else {
            if !rule.misspells(&["name"], &RULE_FIELDS) {
                self.refuse_at(rule.span.start, "rule.name", format!("missing: expected {expected}"));
            }
            return None;
        };
        let name = self.text(&field, &expected)?;
        if !is_rule_name(name) {
            self.refuse(&field, format!("expected {expected}"));
            return None;
        }
        if let Some(line) = so_far.names.get(name) {
            self.refuse(&field, format!("the rule at line {line} has the same name"));
            return None;
        }
        so_far.names.insert(name.to_owned(), line);
        Some(name.to_owned())
    }

    /// Refuses a rule below one without conditions.
    fn check_reached(&mut self, rule: &TomlTable<'_>, so_far: &SoFar) {
        if let Some((name, line)) = &so_far.for_all {
            let expected = format!("never reached: the rule \"{name}\" at line {line} matches every connection");
            self.refuse_at(rule.span.start, &rule.name, expected).hint =
                Some(format!("move the rule \"{name}\" to the end"));
        }
    }

    /// Refuses the rule whose arms are the first too many of the policy.
    fn check_arms_of_all(&mut self, rule: &TomlTable<'_>, arms: usize, so_far: &mut SoFar) {
        let before = so_far.arms;
        so_far.arms += arms;
        if before <= ARMS_MAX && so_far.arms > ARMS_MAX {
            let expected = format!("expected at most {ARMS_MAX} arms in the whole policy");
            let split = rule.field("split").or(rule.field("use"));
            let start = split.as_ref().map_or(rule.span.start, |field: &Field<'_>| field.value.span().start);
            self.refuse_at(start, &split.map_or(rule.name.clone(), |field| field.name), expected);
        }
    }
}

fn is_rule_name(text: &str) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=RULE_NAME_MAX).contains(&text.len()) && text.chars().all(is_of_a_name)
}
