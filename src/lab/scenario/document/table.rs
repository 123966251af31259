//! The tables of a scenario file, each with its place in the text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::Files;
use super::sweep::UsedNames;
use super::value::{Read, ScenarioValue};
use crate::scenario::reference::{DOCUMENT, OPEN, ScenarioField, ScenarioSection, Unset};
use host::written::{self, Mistake, Mistakes};
use shared::model::run::At;
use shared::nearest::nearest;

/// Reading stops at the first mistake; [`super::all`] finds others.
pub type Result<T, E = Box<Mistake>> = std::result::Result<T, E>;

pub const REFERENCE: &str = "scenarios/REFERENCE.md";
const MISSING: &str = "missing, and it has no default";

/// Reads a scenario file for one cell.
#[derive(Clone, Copy)]
pub struct CellReader<'t> {
    /// Path of the file, as it was given.
    pub file: &'t str,
    pub text: &'t str,
    /// Byte offset of each line of the text.
    pub lines: &'t [usize],
    pub whole: &'t Spanned<DeTable<'t>>,
    pub files: &'t Files,
    /// The cell: each variable of the sweep with its value.
    pub at: &'t At,
    /// Filled as the cells are read.
    pub used: &'t UsedNames,
}

/// Errors: the mistakes in the TOML syntax.
pub fn syntax<'t>(file: &'t str, text: &'t str) -> Result<Spanned<DeTable<'t>>, Mistakes> {
    let mut reader = written::Reader::new(file, text, REFERENCE);
    reader.syntax().ok_or_else(|| reader.refused())
}

impl<'t> CellReader<'t> {
    pub fn document(&self) -> ScenarioTable<'t> {
        let layer = Layer { name: String::new(), start: 0, entries: self.whole.get_ref(), section: &DOCUMENT };
        ScenarioTable { reader: *self, layers: vec![layer] }
    }

    /// Line of a byte offset, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        written::line_at(self.lines, offset)
    }

    /// A mistake without a value.
    pub fn mistake(&self, offset: usize, field: &str, expected: impl Into<String>) -> Box<Mistake> {
        let (file, field) = (self.file.to_owned(), field.to_owned());
        let (line, expected) = (Some(self.line_of(offset)), expected.into());
        Box::new(Mistake { file, line, field, given: None, expected, hint: None })
    }
}

/// One table, or several: the first that has a field gives its value.
#[derive(Clone)]
pub struct ScenarioTable<'t> {
    pub reader: CellReader<'t>,
    layers: Vec<Layer<'t>>,
}

#[derive(Clone)]
struct Layer<'t> {
    /// Dotted name; empty for the whole file.
    name: String,
    start: usize,
    entries: &'t DeTable<'t>,
    /// Declares the fields that the table may have.
    section: &'static ScenarioSection,
}

impl<'t> Layer<'t> {
    fn value(&self, reader: CellReader<'t>, key: &str, written: &'t Spanned<DeValue<'t>>) -> ScenarioValue<'t> {
        ScenarioValue { reader, name: self.name_of(key), field: self.section.field(key), written }
    }

    fn name_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl<'t> ScenarioTable<'t> {
    pub fn new(value: &ScenarioValue<'t>, entries: &'t DeTable<'t>) -> Self {
        let section = value.field.and_then(ScenarioField::section).unwrap_or(&OPEN);
        let layer = Layer { name: value.name.clone(), start: value.written.span().start, entries, section };
        ScenarioTable { reader: value.reader, layers: vec![layer] }
    }

    pub fn empty(reader: CellReader<'t>) -> Self {
        ScenarioTable { reader, layers: Vec::new() }
    }

    /// Puts this table over another one, which gives the fields that this one leaves out.
    pub fn over(&self, below: &ScenarioTable<'t>) -> Self {
        ScenarioTable { reader: self.reader, layers: [&self.layers[..], &below.layers[..]].concat() }
    }

    pub fn get(&self, key: &str) -> Option<ScenarioValue<'t>> {
        self.layers.iter().find_map(|layer| Some(layer.value(self.reader, key, layer.entries.get(key)?)))
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A mistake for a field that is not in the table.
    pub fn missing(&self, key: &str, expected: impl Into<String>) -> Box<Mistake> {
        let last = self.layers.last();
        let name = last.map_or(key.to_owned(), |layer| layer.name_of(key));
        self.reader.mistake(last.map_or(0, |layer| layer.start), &name, expected)
    }

    /// A mistake in a field that the table may lack.
    pub fn refuse_field(&self, key: &str, expected: &str) -> Box<Mistake> {
        self.get(key).map_or_else(|| self.missing(key, expected), |value| value.refuse_field(expected))
    }

    /// Errors: the field is missing.
    pub fn need(&self, key: &str) -> Result<ScenarioValue<'t>> {
        self.get(key).ok_or_else(|| self.missing(key, MISSING))
    }

    /// None: the table leaves the field out.
    pub fn read<T: Read>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| T::read(&value)).transpose()
    }

    /// Errors: the field is missing or cannot be read.
    pub fn needed<T: Read>(&self, key: &str) -> Result<T> {
        T::read(&self.need(key)?)
    }

    /// In the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'t str, ScenarioValue<'t>)> + '_ {
        self.layers.iter().flat_map(|layer| {
            let of = |(key, written): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
                let key: &'t std::borrow::Cow<'t, str> = key.get_ref();
                (key.as_ref(), layer.value(self.reader, key, written))
            };
            layer.entries.iter().map(of)
        })
    }

    /// The table under a key, or an empty one.
    pub fn table(&self, key: &str) -> Result<ScenarioTable<'t>> {
        self.get(key).map_or_else(|| Ok(ScenarioTable::empty(self.reader)), |value| value.table())
    }

    /// Reads `[[key]]`: no table if the key is missing.
    pub fn tables(&self, key: &str) -> Result<Vec<ScenarioTable<'t>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        value.any_tables()?.into_iter().map(ScenarioTable::known).collect()
    }

    /// Errors: a field that no section of the table declares.
    pub fn known(self) -> Result<Self> {
        let first = self.unknown_fields().next();
        first.map_or(Ok(self), Err)
    }

    /// A mistake for each field that no section of the table declares.
    pub fn unknown_fields(&self) -> impl Iterator<Item = Box<Mistake>> {
        let fields = self.layers.iter().flat_map(|layer| layer.section.fields());
        let known: Vec<&str> = fields.map(|(field, _)| field.name).collect();
        let may_have = |key: &str| self.field(key).is_some() || self.layers.iter().any(|layer| layer.section.is_open());
        self.unknown_keys(may_have, known.clone(), move || format!("one of {}", known.join(", ")))
    }

    /// A mistake for each field that has no default and is not in the table, unless an unknown field looks like it.
    pub fn missing_fields(&self) -> impl Iterator<Item = Box<Mistake>> {
        let fields = self.layers.iter().flat_map(|layer| layer.section.fields());
        let needed = fields.filter(|(_, unset)| matches!(unset, Unset::Needed)).map(|(field, _)| field.name);
        let is_like = |key: &str, name: &str| self.field(key).is_none() && nearest(key, [name]).is_some();
        let is_missing = move |name: &str| !self.has(name) && !self.entries().any(|(key, _)| is_like(key, name));
        needed.filter(move |name| is_missing(name)).map(|name| self.missing(name, MISSING))
    }

    pub fn field(&self, key: &str) -> Option<&'static ScenarioField> {
        self.layers.iter().find_map(|layer| layer.section.field(key))
    }

    /// A mistake for each field that is not known. `meant` lists the names that a misspelt field may stand for.
    pub fn unknown_keys(
        &self,
        is_known: impl Fn(&str) -> bool,
        meant: Vec<&str>,
        expected: impl Fn() -> String,
    ) -> impl Iterator<Item = Box<Mistake>> {
        let keys = self.layers.iter().flat_map(|layer| layer.entries.keys().map(move |key| (layer, key)));
        keys.filter(move |(_, key)| !is_known(key.get_ref())).map(move |(layer, key)| {
            let expected = format!("unknown field: expected {}", expected());
            let mut mistake = self.reader.mistake(key.span().start, &layer.name_of(key.get_ref()), expected);
            mistake.suggest(nearest(key.get_ref(), meant.iter().copied()));
            mistake
        })
    }
}
