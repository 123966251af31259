//! Mistakes in a file: their place, the given value and what is allowed.

use std::collections::BTreeSet;
use std::fmt;

use super::table::Table;
use super::text::{NOT_TEXT, Unreadable};
use shared::failure::Failure;
use shared::sanitize::plain;

pub const MISTAKES_MAX: usize = 100;
/// Most mistakes that are met in a list, because many may have the same line and text.
const MET_MAX: usize = 20 * MISTAKES_MAX;

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
    /// Replaces the hint by what was probably meant.
    pub fn suggest(mut self: Box<Self>, meant: Option<impl fmt::Display>) -> Box<Self> {
        self.hint = meant.map(|meant| format!("did you mean \"{meant}\"?"));
        self
    }

    /// Shows this value instead of the written one.
    pub fn given(mut self: Box<Self>, given: impl Into<Option<String>>) -> Box<Self> {
        self.given = given.into();
        self
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

pub type Result<T, E = Found> = std::result::Result<T, E>;

/// The mistakes of a part of a file, each once. Mistakes beyond one more than [`MISTAKES_MAX`] are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found(BTreeSet<Mistake>);

impl Found {
    /// A mistake for each field that no section of the table declares.
    pub fn unknown_in(table: &Table<'_>) -> Self {
        table.unknown_fields().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether more mistakes would not be shown.
    pub fn is_full(&self) -> bool {
        self.0.len() > MISTAKES_MAX
    }

    pub fn add(&mut self, more: impl Into<Found>) {
        for mistake in more.into().0 {
            if self.is_full() {
                return;
            }
            self.0.insert(mistake);
        }
    }

    /// The value, or `None` after its mistakes were added.
    pub fn keep<T>(&mut self, read: Result<T, impl Into<Found>>) -> Option<T> {
        read.map_err(|more| self.add(more)).ok()
    }

    pub fn retain(&mut self, keep: impl FnMut(&Mistake) -> bool) {
        self.0.retain(keep);
    }

    /// # Errors
    /// The mistakes, if there is one.
    pub fn end(self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    pub fn into_vec(self) -> Vec<Mistake> {
        self.0.into_iter().collect()
    }
}

impl From<Box<Mistake>> for Found {
    fn from(mistake: Box<Mistake>) -> Found {
        Found([*mistake].into())
    }
}

impl FromIterator<Box<Mistake>> for Found {
    fn from_iter<I: IntoIterator<Item = Box<Mistake>>>(mistakes: I) -> Found {
        let mut found = Found::default();
        for mistake in mistakes {
            found.0.insert(*mistake);
            if found.is_full() {
                break;
            }
        }
        found
    }
}

/// Reads each item.
///
/// # Errors
/// The mistakes of all items.
pub fn each<I, T>(items: impl IntoIterator<Item = I>, mut read: impl FnMut(I) -> Result<T>) -> Result<Vec<T>> {
    let (mut found, mut values, mut met) = (Found::default(), Vec::new(), 0);
    for item in items {
        match read(item) {
            Ok(value) => values.push(value),
            Err(more) => {
                met += more.len().max(1);
                found.add(more);
            }
        }
        if found.is_full() || met > MET_MAX {
            break;
        }
    }
    if met == 0 { Ok(values) } else { Err(found) }
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
