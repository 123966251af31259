//! The tables of a scenario file, each with its place in the text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::Files;
use super::value::{Read, Value};
use crate::model::run::At;
use crate::nearest::nearest;
use crate::scenario::reference::{DOCUMENT, Field, OPEN, Section};
use crate::written::{self, Mistake};

/// What reading gives, or the first mistake.
pub type Result<T, E = Box<Mistake>> = std::result::Result<T, E>;

/// Describes every field, and what is around them.
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
        let layer = Layer { name: String::new(), start: 0, entries: self.whole.get_ref(), section: &DOCUMENT };
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
    /// The fields that it may have.
    section: &'static Section,
}

impl<'t> Layer<'t> {
    fn value(&self, reader: Reader<'t>, key: &str, written: &'t Spanned<DeValue<'t>>) -> Value<'t> {
        Value { reader, name: self.name_of(key), field: self.section.field(key), written }
    }

    fn name_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl<'t> Table<'t> {
    /// The table that a value is, where it has none but the fields that it may have.
    pub fn new(value: &Value<'t>, entries: &'t DeTable<'t>) -> Result<Self> {
        let section = value.field.and_then(Field::section).unwrap_or(&OPEN);
        let layer = Layer { name: value.name.clone(), start: value.written.span().start, entries, section };
        Table { reader: value.reader, layers: vec![layer] }.known()
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
        self.layers.iter().find_map(|layer| Some(layer.value(self.reader, key, layer.entries.get(key)?)))
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
                (key.as_ref(), layer.value(self.reader, key, written))
            };
            layer.entries.iter().map(of)
        })
    }

    /// The table under a key; one without any field where there is none.
    pub fn table(&self, key: &str) -> Result<Table<'t>> {
        self.get(key).map_or_else(|| Ok(Table::empty(self.reader)), |value| value.table())
    }

    /// The tables under a key.
    pub fn tables(&self, key: &str) -> Result<Vec<Table<'t>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let Some(items) = value.items() else {
            let what = format!("expected [[{}]], in two pairs of brackets: there may be several", value.name);
            return Err(value.refuse_field(what));
        };
        items.iter().map(Value::table).collect()
    }

    /// The table, where it has none but the fields that it may have.
    pub fn known(self) -> Result<Self> {
        let mut keys = self.layers.iter().flat_map(|layer| layer.entries.keys());
        if keys.all(|key| self.may_have(key.get_ref())) {
            return Ok(self);
        }
        let fields = self.layers.iter().flat_map(|layer| layer.section.fields());
        let known: Vec<&str> = fields.map(|(field, _)| field.name).collect();
        self.check_known(|key| self.may_have(key), &known, || format!("one of {}", known.join(", ")))?;
        Ok(self)
    }

    fn may_have(&self, key: &str) -> bool {
        self.field(key).is_some() || self.layers.iter().any(|layer| layer.section.is_open())
    }

    /// The declaration of a field.
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        self.layers.iter().find_map(|layer| layer.section.field(key))
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
