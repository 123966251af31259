//! Mistakes in a file: their place, the given value and what is allowed.

use std::fmt;

use super::text::{NOT_TEXT, Unreadable};
use shared::failure::Failure;
use shared::plain::plain;

pub const MISTAKES_MAX: usize = 100;

/// One mistake in a file, or in another file that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Path as given.
    pub file: String,
    /// From 1; `None` if the whole file cannot be read.
    pub line: Option<usize>,
    /// Dotted name of the field, such as `rule.local_port`; empty if no field is wrong.
    pub field: String,
    /// The value as written, with its quotes. `None` if it is missing or too long to show.
    pub given: Option<String>,
    /// What is allowed, or why the value is wrong, as the last clause of the message.
    pub expected: String,
    pub hint: Option<String>,
}

impl Mistake {
    pub fn suggest(&mut self, meant: Option<impl fmt::Display>) {
        self.hint = meant.map(|meant| format!("did you mean \"{meant}\"?"));
    }

    /// Adds a hint, unless it has one.
    pub fn or_hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }
}

impl std::error::Error for Mistake {}

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    /// Shape: at least one; first those of the main file, then those of files that it names; sorted by line.
    pub mistakes: Vec<Mistake>,
    /// Number of mistakes beyond [`MISTAKES_MAX`].
    pub left_out: usize,
    /// Where every field is documented.
    pub reference: &'static str,
}

impl Mistakes {
    /// Sorts mistakes, those of `main` first.
    pub fn sorted(main: &str, mut mistakes: Vec<Mistake>, reference: &'static str) -> Self {
        mistakes.sort_by(|one, other| {
            let key = |mistake: &Mistake| (mistake.file != main, mistake.line);
            key(one).cmp(&key(other)).then_with(|| one.cmp(other))
        });
        mistakes.dedup();
        let left_out = mistakes.len().saturating_sub(MISTAKES_MAX);
        mistakes.truncate(MISTAKES_MAX);
        Mistakes { mistakes, left_out, reference }
    }

    pub fn unreadable(file: &str, why: Unreadable, reference: &'static str) -> Self {
        let (line, expected) = match why {
            Unreadable::File(why) => (None, format!("cannot be read: {why}")),
            Unreadable::NotText(line) => (Some(line), NOT_TEXT.to_owned()),
        };
        let field = String::new();
        let mistake = Mistake { file: file.to_owned(), line, field, given: None, expected, hint: None };
        Mistakes::sorted(file, vec![mistake], reference)
    }
}

/// One line per mistake. The first one's hint becomes the hint of [`Failure`]; the others' hints end their lines.
impl fmt::Display for Mistakes {
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

impl std::error::Error for Mistakes {}

impl From<Mistakes> for Failure {
    fn from(error: Mistakes) -> Failure {
        let first = error.mistakes.first().and_then(|mistake| Some((mistake.line, mistake.hint.as_deref()?)));
        let hint = match first {
            Some((Some(line), hint)) if error.mistakes.len() > 1 => format!("line {line}: {hint}"),
            Some((_, hint)) => hint.to_owned(),
            None => format!("{} lists every field", error.reference),
        };
        Failure::usage(error.to_string()).hint(hint)
    }
}
