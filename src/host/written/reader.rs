//! Reads TOML values with their lines, and collects mistakes.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{MISTAKES_MAX, Mistake, Mistakes};
use shared::nearest::nearest;
use shared::plain::shown;
use shared::units::ParseError;

/// The only version of the formats.
const VERSION: &str = "1";

pub struct Reader<'a> {
    /// Path as given.
    pub file: &'a str,
    pub text: &'a str,
    lines: Vec<usize>,
    /// Shape: in the order they were found.
    pub mistakes: Vec<Mistake>,
    /// Where every field is documented.
    reference: &'static str,
}

pub struct TomlTable<'t> {
    /// Dotted name; empty for the whole file.
    pub name: String,
    pub span: Range<usize>,
    entries: &'t DeTable<'t>,
}

/// A named value of the file.
#[derive(Clone)]
pub struct Field<'t> {
    /// Items of a list have the list's name.
    pub name: String,
    pub value: &'t Spanned<DeValue<'t>>,
}

impl<'t> TomlTable<'t> {
    pub fn whole(file: &'t Spanned<DeTable<'t>>) -> Self {
        TomlTable { name: String::new(), span: 0..0, entries: file.get_ref() }
    }

    pub fn field(&self, key: &str) -> Option<Field<'t>> {
        Some(Field { name: self.name_of(key), value: self.entries.get(key)? })
    }

    /// Shape: in the order of the file.
    pub fn fields(&self) -> impl Iterator<Item = (&'t str, Field<'t>)> + use<'t, '_> {
        let entries = self.entries.iter();
        entries.map(|(key, value)| (key.get_ref().as_ref(), Field { name: self.name_of(key.get_ref()), value }))
    }

    /// Whether an unknown key looks like a misspelling of one of `keys`.
    ///
    /// The unknown key is a mistake already, so the intended one need not be reported as missing.
    pub fn misspells(&self, keys: &[&'static str], known: &[&str]) -> bool {
        let unknown = self.entries.keys().map(|key| key.get_ref().as_ref()).filter(|key| !known.contains(key));
        unknown.into_iter().any(|key| nearest(key, keys.iter().copied()).is_some())
    }

    pub fn name_of(&self, key: &str) -> String {
        if self.name.is_empty() { shown(key) } else { format!("{}.{}", self.name, shown(key)) }
    }
}

impl<'t> Field<'t> {
    pub fn table(&self) -> Option<TomlTable<'t>> {
        let entries = self.value.get_ref().as_table()?;
        Some(TomlTable { name: self.name.clone(), span: self.value.span(), entries })
    }

    /// The items of a list, or the single value.
    pub fn items(&self) -> Vec<Field<'t>> {
        let of = |value| Field { name: self.name.clone(), value };
        self.value.get_ref().as_array().map_or(vec![self.clone()], |items| items.iter().map(of).collect())
    }
}

/// A value as written. `None` for tables and lists of several lines.
pub fn given(text: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
    let text = text.get(value.span())?;
    let is_whole = match value.get_ref() {
        DeValue::Table(_) => text.starts_with('{') && !text.contains('\n'),
        DeValue::Array(_) => text.starts_with('[') && text.ends_with(']') && !text.contains('\n'),
        _ => true,
    };
    is_whole.then(|| shown(text))
}

/// Byte offset of each line.
pub fn line_starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect()
}

/// The line of a byte offset, from 1.
pub fn line_at(lines: &[usize], offset: usize) -> usize {
    lines.partition_point(|&start| start <= offset)
}

impl<'a> Reader<'a> {
    /// `reference` is where every field is documented.
    pub fn new(file: &'a str, text: &'a str, reference: &'static str) -> Self {
        let lines = line_starts(text);
        Reader { file, text, lines, mistakes: Vec::new(), reference }
    }

    pub fn refused(self) -> Mistakes {
        Mistakes::sorted(self.file, self.mistakes, self.reference)
    }

    /// Line of a byte offset, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        line_at(&self.lines, offset)
    }

    pub fn refuse_at(&mut self, offset: usize, field: &str, expected: impl Into<String>) -> &mut Mistake {
        let line = Some(self.line_of(offset));
        let (file, field) = (self.file.to_owned(), field.to_owned());
        let index = self.mistakes.len();
        self.mistakes.push(Mistake { file, line, field, given: None, expected: expected.into(), hint: None });
        &mut self.mistakes[index]
    }

    pub fn refuse(&mut self, field: &Field<'_>, expected: impl Into<String>) -> &mut Mistake {
        let given = given(self.text, field.value);
        let mistake = self.refuse_at(field.value.span().start, &field.name, expected);
        mistake.given = given;
        mistake
    }

    pub fn refuse_unknown(&mut self, table: &TomlTable<'_>, known: &[&'static str]) {
        let unknown = table.entries.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        for key in unknown.take(MISTAKES_MAX + 1) {
            let name = key.get_ref();
            let expected = format!("unknown field: expected one of {}", known.join(", "));
            self.refuse_at(key.span().start, &table.name_of(name), expected)
                .suggest(nearest(name, known.iter().copied()));
        }
    }

    pub fn text<'t>(&mut self, field: &Field<'t>, expected: &str) -> Option<&'t str> {
        let text = field.value.get_ref().as_str();
        if text.is_none() {
            self.refuse(field, format!("expected a text in quotes: {expected}"));
        }
        text
    }

    pub fn parsed<T: FromStr<Err = ParseError>>(&mut self, field: &Field<'_>, expected: &str) -> Option<T> {
        let text = self.text(field, expected)?;
        let refuse = |error: ParseError| self.refuse_parse(field, error);
        text.parse().map_err(refuse).ok()
    }

    pub fn refuse_parse(&mut self, field: &Field<'_>, error: ParseError) {
        self.refuse(field, error.expected).suggest(error.meant);
    }

    pub fn word<T: Copy>(&mut self, field: &Field<'_>, words: &[(&'static str, T)]) -> Option<T> {
        let given = field.value.get_ref().as_str().unwrap_or_default();
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
            return Some(*meaning);
        }
        let words: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last()?;
        let expected = format!("expected \"{}\" or \"{last}\"", others.join("\", \""));
        self.refuse(field, expected).suggest(nearest(given, words.iter().copied()));
        None
    }

    /// Whether the file's version is known. A missing version is a mistake, but the file is read as the only version.
    pub fn is_known_version(&mut self, document: &TomlTable<'_>, known: &[&'static str]) -> bool {
        let expected = format!("expected {VERSION}, the only version there is");
        match document.field("version") {
            None if document.misspells(&["version"], known) => true,
            None => {
                let mistake = self.refuse_at(0, "version", format!("missing: {expected}"));
                mistake.hint = Some(format!("begin the file with `version = {VERSION}`"));
                true
            }
            Some(field) => {
                let is_known = matches!(field.value.get_ref(), DeValue::Integer(number) if number.as_str() == VERSION);
                if !is_known {
                    self.refuse(&field, expected);
                }
                is_known
            }
        }
    }

    pub fn flag(&mut self, field: &Field<'_>) -> Option<bool> {
        let flag = field.value.get_ref().as_bool();
        if flag.is_none() {
            self.refuse(field, "expected true or false, without quotes");
        }
        flag
    }

    /// The items of a list, or the single value. An empty list is a mistake, because a missing condition
    /// matches everything.
    pub fn items<'t>(&mut self, field: &Field<'t>) -> Vec<Field<'t>> {
        let items = field.items();
        if items.is_empty() {
            self.refuse(field, "expected at least one value");
        }
        items
    }

    /// Reads a list of distinct values.
    pub fn list<'t, T: fmt::Display>(
        &mut self,
        field: Option<Field<'t>>,
        mut read: impl FnMut(&mut Self, &Field<'t>) -> Option<T>,
    ) -> Vec<T> {
        let Some(field) = field else { return Vec::new() };
        let (mut values, mut seen) = (Vec::new(), HashSet::new());
        let enough = self.mistakes.len() + MISTAKES_MAX;
        for item in self.items(&field) {
            if self.mistakes.len() > enough {
                break;
            }
            let Some(value) = read(self, &item) else { continue };
            if seen.insert(value.to_string()) {
                values.push(value);
            } else {
                self.refuse(&item, TWICE);
            }
        }
        values
    }
}

/// Mistake of a repeated value.
pub const TWICE: &str = "the list has this value twice";
