//! The tables of a scenario file, each with its place in the text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::Files;
use super::value::{Read, Value};
use crate::model::run::At;
use crate::nearest::nearest;
use crate::written::{self, Mistake};

/// What reading gives, or the first mistake.
pub type Result<T, E = Box<Mistake>> = std::result::Result<T, E>;

/// Describes every field.
pub const REFERENCE: &str = "scenarios/REFERENCE.md";

/// A scenario file, and the cell for which it is read.
#[derive(Clone, Copy)]
pub struct Reader<'t> {
    /// Path of the file, as it was given.
    pub file: &'t str,
    pub text: &'t str,
    pub whole: &'t Spanned<DeTable<'t>>,
    pub files: &'t Files,
    /// Each variable of the sweep with its value in the cell.
    pub at: &'t At,
}

/// Reads a text as TOML.
///
/// Errors: the first mistake of syntax.
pub fn syntax<'t>(file: &'t str, text: &'t str) -> Result<Spanned<DeTable<'t>>> {
    let mut reader = written::Reader::new(file, text, REFERENCE);
    let document = reader.syntax();
    let first = reader.mistakes.into_iter().next();
    first.map_or(Ok(document.unwrap_or(Spanned::new(0..0, DeTable::new()))), |first| Err(Box::new(first)))
}

impl<'t> Reader<'t> {
    /// The whole file.
    pub fn document(&self) -> Table<'t> {
        let layer = Layer { name: String::new(), start: 0, entries: self.whole.get_ref() };
        Table { reader: *self, layers: vec![layer] }
    }

    /// `[sweep]`; none where there is none, or something else of this name.
    pub fn sweep(&self) -> Option<Table<'t>> {
        self.document().get("sweep")?.table().ok()
    }

    /// Line of a byte offset, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    /// A mistake without a value to show.
    pub fn mistake(&self, offset: usize, field: &str, expected: impl Into<String>) -> Box<Mistake> {
        let (file, field) = (self.file.to_owned(), field.to_owned());
        let (line, expected) = (Some(self.line_of(offset)), expected.into());
        Box::new(Mistake { file, line, field, given: None, expected, hint: None })
    }
}

/// A table, or several of which the first that has a field gives its value.
#[derive(Clone)]
pub struct Table<'t> {
    pub reader: Reader<'t>,
    layers: Vec<Layer<'t>>,
}

#[derive(Clone)]
struct Layer<'t> {
    /// Dotted name; empty for the whole file.
    name: String,
    start: usize,
    entries: &'t DeTable<'t>,
}

impl Layer<'_> {
    fn name_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl<'t> Table<'t> {
    /// The table that a value is.
    pub fn new(value: &Value<'t>, entries: &'t DeTable<'t>) -> Self {
        let layer = Layer { name: value.name.clone(), start: value.written.span().start, entries };
        Table { reader: value.reader, layers: vec![layer] }
    }

    /// A table without a field.
    pub fn empty(reader: Reader<'t>) -> Self {
        Table { reader, layers: Vec::new() }
    }

    /// This table, and below it another one that gives what this one leaves out.
    pub fn over(&self, below: &Table<'t>) -> Self {
        Table { reader: self.reader, layers: [&self.layers[..], &below.layers[..]].concat() }
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<Value<'t>> {
        let of = |layer: &Layer<'t>| {
            let written = layer.entries.get(key)?;
            Some(Value { reader: self.reader, name: layer.name_of(key), written })
        };
        self.layers.iter().find_map(of)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A field that is not there.
    pub fn missing(&self, key: &str, expected: impl Into<String>) -> Box<Mistake> {
        let last = self.layers.last();
        let name = last.map_or(key.to_owned(), |layer| layer.name_of(key));
        self.reader.mistake(last.map_or(0, |layer| layer.start), &name, expected)
    }

    /// The value under a key that must be there.
    pub fn need(&self, key: &str) -> Result<Value<'t>> {
        self.get(key).ok_or_else(|| self.missing(key, "missing, and it has no default"))
    }

    /// What a value is read as; none where the table leaves it out.
    pub fn read<T: Read>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| T::read(&value)).transpose()
    }

    /// What a value that must be there is read as.
    pub fn needed<T: Read>(&self, key: &str) -> Result<T> {
        T::read(&self.need(key)?)
    }

    /// Every key with its value, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'t str, Value<'t>)> + '_ {
        self.layers.iter().flat_map(|layer| {
            let of = |(key, written): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
                let key: &'t std::borrow::Cow<'t, str> = key.get_ref();
                (key.as_ref(), Value { reader: self.reader, name: layer.name_of(key), written })
            };
            layer.entries.iter().map(of)
        })
    }

    /// The table under a key, which may have these fields; one without any where there is none.
    pub fn table(&self, key: &str, known: &[&str]) -> Result<Table<'t>> {
        match self.get(key) {
            Some(value) => value.table()?.known(known),
            None => Ok(Table::empty(self.reader)),
        }
    }

    /// The tables under a key, each of which may have these fields.
    pub fn tables(&self, key: &str, known: &[&str]) -> Result<Vec<Table<'t>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let Some(items) = value.items() else {
            let what = format!("expected [[{}]], in two pairs of brackets: there may be several", value.name);
            return Err(value.refuse_field(what));
        };
        items.iter().map(|item| item.table()?.known(known)).collect()
    }

    /// The table, where it has none but these fields.
    pub fn known(self, known: &[&str]) -> Result<Self> {
        self.check_known(|key| known.contains(&key), known, || format!("one of {}", known.join(", ")))?;
        Ok(self)
    }

    /// Checks that it has no other fields; `meant` are those that a misspelt one can be.
    pub fn check_known(
        &self,
        is_known: impl Fn(&str) -> bool,
        meant: &[&str],
        expected: impl Fn() -> String,
    ) -> Result<()> {
        for layer in &self.layers {
            let Some(key) = layer.entries.keys().find(|key| !is_known(key.get_ref())) else { continue };
            let expected = format!("unknown field: expected {}", expected());
            let mut mistake = self.reader.mistake(key.span().start, &layer.name_of(key.get_ref()), expected);
            mistake.suggest(nearest(key.get_ref(), meant.iter().copied()));
            return Err(mistake);
        }
        Ok(())
    }
}
