//! TOML tables, each with its place in the text and its declaration.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declaration::{FieldDeclaration, Kind, Section, Unset};
use super::mistake::{Found, Mistake, Result, each};
use super::value::{Read, Value, Variables};
use shared::sanitize::shown;
use shared::suggest::nearest;

const MISSING: &str = "missing, and it has no default";
/// The only version of the formats.
const VERSION: &str = "1";

/// A file, and what its texts may refer to.
#[derive(Clone, Copy)]
pub struct Source<'t> {
    /// Path as given.
    pub file: &'t str,
    pub text: &'t str,
    /// Byte offset of each line of the text.
    pub lines: &'t [usize],
    pub whole: &'t Spanned<DeTable<'t>>,
    /// `None`: a `$` in a text has no meaning.
    pub variables: Option<&'t dyn Variables>,
}

impl<'t> Source<'t> {
    pub fn document(&self, section: &'static Section) -> Table<'t> {
        let layer = Layer { name: String::new(), start: 0, entries: self.whole.get_ref(), section, hidden: Vec::new() };
        Table { source: *self, layers: vec![layer] }
    }

    /// Line of a byte offset, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset)
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
pub struct Table<'t> {
    pub source: Source<'t>,
    layers: Vec<Layer<'t>>,
}

#[derive(Clone)]
struct Layer<'t> {
    /// Dotted name; empty for the whole file.
    name: String,
    start: usize,
    entries: &'t DeTable<'t>,
    /// Declares the fields that the table may have.
    section: &'static Section,
    /// Keys that are ignored here.
    hidden: Vec<&'static str>,
}

impl<'t> Layer<'t> {
    fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.entries.get(key).filter(|_| !self.hidden.contains(&key))
    }

    fn value(&self, source: Source<'t>, key: &str, written: &'t Spanned<DeValue<'t>>) -> Value<'t> {
        Value { source, name: self.name_of(key), field: self.section.field(key), written }
    }

    fn name_of(&self, key: &str) -> String {
        if self.name.is_empty() { shown(key) } else { format!("{}.{}", self.name, shown(key)) }
    }
}

impl<'t> Table<'t> {
    pub(super) fn new(value: &Value<'t>, entries: &'t DeTable<'t>) -> Self {
        let section = value.field.and_then(FieldDeclaration::section).unwrap_or(Section::OPEN);
        let (name, start) = (value.name.clone(), value.written.span().start);
        let layer = Layer { name, start, entries, section, hidden: Vec::new() };
        Table { source: value.source, layers: vec![layer] }
    }

    pub fn empty(source: Source<'t>) -> Self {
        Table { source, layers: Vec::new() }
    }

    /// Puts this table over another one, which gives the fields that this one leaves out.
    pub fn over(&self, below: &Table<'t>) -> Self {
        Table { source: self.source, layers: [&self.layers[..], &below.layers[..]].concat() }
    }

    /// The table without the values of these fields.
    pub fn without(mut self, hidden: &[&'static str]) -> Self {
        self.layers.iter_mut().for_each(|layer| layer.hidden.extend(hidden));
        self
    }

    /// Texts refer to these variables instead.
    pub fn with<'s>(self, variables: &'s dyn Variables) -> Table<'s>
    where
        't: 's,
    {
        let source = Source { variables: Some(variables), ..self.source };
        Table { source, layers: self.layers }
    }

    /// Dotted name; empty for the whole file.
    pub fn name(&self) -> &str {
        self.layers.last().map_or("", |layer| &layer.name)
    }

    pub fn line(&self) -> usize {
        self.source.line_of(self.start())
    }

    fn start(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.start)
    }

    /// A mistake in the table itself.
    pub fn refuse(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.source.mistake(self.start(), self.name(), expected)
    }

    pub fn get(&self, key: &str) -> Option<Value<'t>> {
        self.layers.iter().find_map(|layer| Some(layer.value(self.source, key, layer.get(key)?)))
    }

    pub fn has(&self, key: &str) -> bool {
        self.layers.iter().any(|layer| layer.get(key).is_some())
    }

    /// A mistake for a field that is not in the table.
    pub fn missing(&self, key: &str, expected: impl Into<String>) -> Box<Mistake> {
        let name = self.layers.last().map_or(key.to_owned(), |layer| layer.name_of(key));
        self.source.mistake(self.start(), &name, expected)
    }

    /// A mistake in a field that the table may lack.
    pub fn refuse_field(&self, key: &str, expected: &str) -> Box<Mistake> {
        self.get(key).map_or_else(|| self.missing(key, expected), |value| value.refuse_field(expected))
    }

    /// # Errors
    /// The field is missing. If an unknown field looks like it, that one is the mistake.
    pub fn need(&self, key: &str) -> Result<Value<'t>> {
        if let Some(value) = self.get(key) {
            return Ok(value);
        }
        if self.misspells(&[key]) {
            return Err(Found::default());
        }
        let kind = self.field(key).map(|field| &field.kind);
        let expected = match kind {
            Some(Kind::Form(what)) => format!("missing: expected {what}"),
            _ => MISSING.to_owned(),
        };
        Err(self.missing(key, expected).into())
    }

    /// Whether an unknown key looks like a misspelling of one of `keys`.
    ///
    /// The unknown key is a mistake already, so the intended one need not be reported as missing.
    pub fn misspells(&self, keys: &[&str]) -> bool {
        let unknown = self.keys().map(|(_, key)| key.get_ref()).filter(|key| self.field(key).is_none());
        unknown.into_iter().any(|key| nearest(key, keys.iter().copied()).is_some())
    }

    /// None: the table leaves the field out.
    ///
    /// # Errors
    /// The value cannot be read.
    pub fn read<T: Read>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| T::read(&value)).transpose()
    }

    /// # Errors
    /// The field is missing or cannot be read.
    pub fn needed<T: Read>(&self, key: &str) -> Result<T> {
        T::read(&self.need(key)?)
    }

    /// Reads the declared default if the field is missing.
    ///
    /// # Errors
    /// The value cannot be read; the field is missing and has no default.
    pub fn declared<T: Read>(&self, key: &str) -> Result<T> {
        match self.field(key).map(|field| field.unset) {
            Some(Unset::Is(default)) => self.read_or(key, default),
            _ => self.needed(key),
        }
    }

    /// Reads a default if the field is missing.
    ///
    /// # Errors
    /// The value or the default cannot be read.
    pub fn read_or<T: Read>(&self, key: &str, default: &str) -> Result<T> {
        if let Some(value) = self.get(key) {
            return T::read(&value);
        }
        let is_text = !default.bytes().all(|byte| byte.is_ascii_digit()) && !["true", "false"].contains(&default);
        let text = || DeValue::String(default.into());
        let written =
            if is_text { text() } else { DeValue::parse(default).map_or_else(|_| text(), Spanned::into_inner) };
        let Source { file, text, lines, whole, .. } = self.source;
        let source = Source { file, text, lines, whole, variables: None };
        T::read(&Value { source, name: key.to_owned(), field: self.field(key), written: &Spanned::new(0..0, written) })
    }

    /// In the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'t str, Value<'t>)> + '_ {
        self.layers.iter().flat_map(|layer| {
            let of = |(key, written): (&'t Spanned<Cow<'t, str>>, &'t Spanned<DeValue<'t>>)| {
                (key.get_ref().as_ref(), layer.value(self.source, key.get_ref(), written))
            };
            layer.entries.iter().map(of)
        })
    }

    /// The table under a key, or an empty one. It has only declared fields.
    ///
    /// # Errors
    /// The value is not a table; as [`Table::known`].
    pub fn table(&self, key: &str) -> Result<Table<'t>> {
        self.get(key).map_or_else(|| Ok(Table::empty(self.source)), |value| value.table()?.known())
    }

    /// Reads `[[key]]`: no table if the key is missing.
    ///
    /// # Errors
    /// The value is not a list of tables.
    pub fn tables(&self, key: &str) -> Result<Vec<Table<'t>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        each(value.tables()?, |item| item.table())
    }

    /// # Errors
    /// The fields that no section of the table declares.
    pub fn known(self) -> Result<Self> {
        Found::unknown_in(&self).end().map(|()| self)
    }

    /// Reads all values, also those of tables inside, only for their mistakes.
    ///
    /// # Errors
    /// The mistakes of all values, and the fields that no section declares.
    pub fn check(&self) -> Result<()> {
        let mut found = Found::unknown_in(self);
        for (_, value) in self.entries() {
            found.keep(check_value(&value));
        }
        found.end()
    }

    /// Reads a field by its declaration, if the table has it.
    ///
    /// # Errors
    /// The mistakes in its value.
    pub fn check_field(&self, key: &str) -> Result<()> {
        self.get(key).map_or(Ok(()), |value| check_value(&value))
    }

    /// Adds the mistakes in all values if the table could not be read.
    ///
    /// # Errors
    /// Those of `read`, and the mistakes in all values.
    pub fn or_checked<T>(&self, read: Result<T>) -> Result<T> {
        read.map_err(|mut found| {
            found.keep(self.check());
            found
        })
    }

    /// A mistake for each field that no section of the table declares.
    pub fn unknown_fields(&self) -> impl Iterator<Item = Box<Mistake>> + use<'_, 't> {
        let is_open = self.layers.iter().any(|layer| layer.section.is_open());
        let expected = || {
            let fields = self.layers.iter().flat_map(|layer| layer.section.fields());
            let names: Vec<&str> = fields.map(|(field, _)| field.name).collect();
            (format!("one of {}", names.join(", ")), names)
        };
        self.unknown_keys(move |key| is_open || self.field(key).is_some(), expected)
    }

    fn keys(&self) -> impl Iterator<Item = (&Layer<'t>, &'t Spanned<Cow<'t, str>>)> {
        self.layers.iter().flat_map(|layer| layer.entries.keys().map(move |key| (layer, key)))
    }

    pub fn field(&self, key: &str) -> Option<&'static FieldDeclaration> {
        self.layers.iter().find_map(|layer| layer.section.field(key))
    }

    /// A mistake for each field that is not known. `expected` is what a message says, and the names that a misspelt
    /// field may stand for.
    pub fn unknown_keys<'n>(
        &self,
        is_known: impl Fn(&str) -> bool,
        expected: impl Fn() -> (String, Vec<&'n str>),
    ) -> impl Iterator<Item = Box<Mistake>> {
        let unknown = self.keys().filter(move |(_, key)| !is_known(key.get_ref()));
        unknown.map(move |(layer, key)| {
            let (expected, meant) = expected();
            let expected = format!("unknown field: expected {expected}");
            let mistake = self.source.mistake(key.span().start, &layer.name_of(key.get_ref()), expected);
            mistake.suggest(nearest(key.get_ref(), meant))
        })
    }
}

/// The version of a file, of which there is one.
pub struct Version;

impl Read for Version {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.written.get_ref() {
            DeValue::Integer(number) if number.as_str() == VERSION => Ok(Version),
            _ => Err(value.refuse(format!("expected {VERSION}, the only version there is")).into()),
        }
    }
}

impl Version {
    /// Whether the version is known. A missing version is a mistake, but the file is read as the only version.
    pub fn is_known(document: &Table<'_>, found: &mut Found) -> bool {
        if !document.has("version") {
            if !document.misspells(&["version"]) {
                let missing = format!("missing: expected {VERSION}, the only version there is");
                let hint = format!("begin the file with `version = {VERSION}`");
                found.add(document.missing("version", missing).or_hint(hint));
            }
            return true;
        }
        found.keep(document.needed::<Version>("version")).is_some()
    }
}

fn check_value(value: &Value<'_>) -> Result<()> {
    match value.field {
        Some(FieldDeclaration { kind: Kind::Table(_), .. }) => value.table().and_then(|table| table.check()),
        Some(FieldDeclaration { kind: Kind::Tables(_), .. }) => {
            value.tables().and_then(|items| each(items, |item| item.table()?.check()).map(drop))
        }
        Some(field) => (field.check)(value),
        None => Ok(()),
    }
}
