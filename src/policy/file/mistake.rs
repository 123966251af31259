//! Mistakes of a policy file: where each one is, what was written there, and what is allowed.

use std::fmt;

use crate::failure::Failure;
use crate::plain::plain;

/// Most mistakes that one message lists.
pub(super) const MISTAKES_MAX: usize = 100;
/// Longest part of a value that a message repeats, characters.
const GIVEN_CHARS_MAX: usize = 60;

/// One mistake in a policy file, or in a list of prefixes that the file names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Path of the file, as it was given.
    pub file: String,
    /// Line of the mistake, from 1; none when the whole file cannot be read.
    pub line: Option<usize>,
    /// Dotted name of the field, such as `rule.local_port`; empty where the mistake is in no field.
    pub field: String,
    /// The value as written, with its quotes; none where a value is missing or too long to show.
    pub given: Option<String>,
    /// What is allowed there, or why the value is not, as the last clause of the message.
    pub expected: String,
    /// The next step, where one is likely.
    pub hint: Option<String>,
}

impl Mistake {
    /// Suggests a word in place of the one given.
    pub(super) fn suggest(&mut self, meant: Option<impl fmt::Display>) {
        self.hint = meant.map(|meant| format!("did you mean \"{meant}\"?"));
    }
}

/// Shortens a value for a message and makes it safe for a terminal.
pub(super) fn shown(given: &str) -> String {
    let mut chars = given.chars();
    let start: String = chars.by_ref().take(GIVEN_CHARS_MAX).collect();
    plain(&start) + if chars.next().is_some() { "…" } else { "" }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.file))?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
        match (self.field.as_str(), &self.given) {
            ("", None) => write!(f, ": {}", self.expected),
            ("", Some(given)) => write!(f, ": {given}: {}", self.expected),
            (field, None) => write!(f, ": {field}: {}", self.expected),
            (field, Some(given)) => write!(f, ": {field} = {given}: {}", self.expected),
        }
    }
}

/// Every mistake of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyMistakes {
    /// Shape: at least one; those of the policy file first, then those of each list of prefixes; sorted by line.
    pub mistakes: Vec<Mistake>,
    /// How many more there are.
    pub left_out: usize,
}

impl PolicyMistakes {
    /// Sorts mistakes; those of `policy` come before those of other files.
    pub(super) fn sorted(policy: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by(|one, other| {
            let key = |mistake: &Mistake| (mistake.file != policy, mistake.line);
            key(one).cmp(&key(other)).then_with(|| one.cmp(other))
        });
        mistakes.dedup();
        let left_out = mistakes.len().saturating_sub(MISTAKES_MAX);
        mistakes.truncate(MISTAKES_MAX);
        PolicyMistakes { mistakes, left_out }
    }
}

/// One line for each mistake. The first one's hint is left to [`Failure`]; the others' hints end their lines.
impl fmt::Display for PolicyMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            match &mistake.hint {
                _ if index == 0 => write!(f, "{mistake}")?,
                Some(hint) => write!(f, "\n{mistake}; {hint}")?,
                None => write!(f, "\n{mistake}")?,
            }
        }
        if self.left_out > 0 {
            write!(f, "\nand at least {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyMistakes {}

impl From<PolicyMistakes> for Failure {
    fn from(error: PolicyMistakes) -> Failure {
        let first = error.mistakes.first().and_then(|mistake| Some((mistake.line, mistake.hint.as_deref()?)));
        let hint = match first {
            Some((Some(line), hint)) if error.mistakes.len() > 1 => format!("line {line}: {hint}"),
            Some((_, hint)) => hint.to_owned(),
            None => "scenarios/policy/README.md lists every field".to_owned(),
        };
        Failure::usage(error.to_string()).hint(hint)
    }
}
