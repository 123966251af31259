//! What `$name` in a text stands for in one cell of the sweep.
//!
//! A value of a sweep may be a table: `path = [{ rate = "10mbit", delay = "20ms" }]`, read by `$path.rate`. Everywhere
//! else a value is a text, so a tuple has a label: its `name`, or its fields, separated by spaces.

use std::cell::RefCell;
use std::collections::BTreeSet;

use host::toml_reader::{Found, Mistake, Result, Source, Table, Value, Variables};
use shared::model::run::At;
use shared::suggest::nearest;
use toml::de::DeValue;

use crate::scenario::reference::DOCUMENT;

/// Field of a tuple that reports show instead of its other fields.
pub(super) const NAME: &str = "name";
pub(super) const EXAMPLE: &str = "{ rate = \"10mbit\", delay = \"20ms\" }";

/// The sweep variables whose values went into a field. Fields that others override are not read, and use none.
#[derive(Debug, Default)]
pub struct UsedNames(RefCell<BTreeSet<String>>);

impl UsedNames {
    fn add(&self, name: &str) {
        if !self.0.borrow().contains(name) {
            self.0.borrow_mut().insert(name.to_owned());
        }
    }

    pub(super) fn add_all(&self, others: &UsedNames) {
        others.0.borrow().iter().for_each(|name| self.add(name));
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.borrow().contains(name)
    }

    pub(super) fn has_all(&self, others: &UsedNames) -> bool {
        self.0.borrow().is_superset(&others.0.borrow())
    }
}

/// The variables of the sweep in one cell.
pub struct CellVariables<'t> {
    /// The file, without variables.
    pub source: Source<'t>,
    /// The value of each variable. `None`: the sweep cannot be read.
    pub at: Option<&'t At>,
    /// Filled as texts are read.
    pub used: &'t UsedNames,
}

enum TextPiece<'a> {
    Literal(&'a str),
    /// Name of a sweep variable, without its `$`.
    Name(&'a str),
}

/// Splits a text at each `$name`; `$$` stands for one dollar sign.
fn pieces(text: &str) -> Vec<TextPiece<'_>> {
    let mut split = text.split('$');
    let mut pieces = vec![TextPiece::Literal(split.next().unwrap_or_default())];
    while let Some(piece) = split.next() {
        if piece.is_empty() {
            pieces.extend([TextPiece::Literal("$"), TextPiece::Literal(split.next().unwrap_or_default())]);
            continue;
        }
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        pieces.extend([TextPiece::Name(name), TextPiece::Literal(rest)]);
    }
    pieces
}

/// The sweep variables that a value, or any value inside it, refers to.
pub fn names_in<'a>(value: &'a DeValue<'_>) -> Vec<&'a str> {
    match value {
        DeValue::String(text) => {
            let name = |piece| if let TextPiece::Name(name) = piece { Some(name) } else { None };
            pieces(text).into_iter().filter_map(name).collect()
        }
        DeValue::Array(items) => items.iter().flat_map(|item| names_in(item.get_ref())).collect(),
        DeValue::Table(table) => table.values().flat_map(|value| names_in(value.get_ref())).collect(),
        _ => Vec::new(),
    }
}

/// The label of a tuple, which reports, run ids and `--only` use.
///
/// # Errors
/// No field, or one that is neither a text nor a number.
pub(super) fn label(tuple: &Table<'_>, value: &Value<'_>) -> Result<String> {
    let mut label = String::new();
    for (key, field) in tuple.entries() {
        let Some(text) = field.literal() else { return Err(field.refuse("expected a text or a number").into()) };
        if key == NAME {
            label = text.into_owned();
            break;
        }
        label += if label.is_empty() { "" } else { " " };
        label += &text;
    }
    if label.is_empty() {
        return Err(value.refuse_field(format!("expected fields, such as {EXAMPLE}")).into());
    }
    Ok(label)
}

/// Refuses a tuple whose fields are not those of the first, apart from its name.
pub(super) fn check_fields(first: &Table<'_>, tuple: &Table<'_>, value: &Value<'_>) -> Result<()> {
    let missing = first.entries().find(|(key, _)| *key != NAME && !tuple.has(key)).map(|(key, _)| key);
    if let Some(key) = missing {
        let what = format!("expected the fields of the first value, and \"{key}\" is missing");
        return Err(value.refuse_field(what).into());
    }
    match tuple.entries().find(|(key, _)| *key != NAME && !first.has(key)) {
        Some((key, field)) => Err(field.refuse_field(format!("the first value has no \"{key}\"")).into()),
        None => Ok(()),
    }
}

/// Splits `.rate` and what follows it.
fn field_of(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('.')?;
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(text.split_at(end)).filter(|(field, _)| !field.is_empty())
}

/// `known` lists the variables for a message; `names` are those that a misspelt one may stand for.
fn no_such_name<'n>(value: &Value<'_>, name: &str, known: &str, names: impl Iterator<Item = &'n str>) -> Found {
    let mistake = value.mistake(format!("expected a variable of [sweep]: {known}")).given(format!("\"${name}\""));
    mistake.suggest(nearest(name, names).map(|name| format!("${name}"))).into()
}

impl<'t> CellVariables<'t> {
    fn variable(&self, name: &str) -> Option<Value<'t>> {
        self.source.document(&DOCUMENT).get("sweep")?.table().ok()?.get(name)
    }

    /// The tuple that a variable takes in this cell.
    ///
    /// None: its values are not tuples.
    fn tuple(&self, variable: &str) -> Option<Table<'t>> {
        let values = self.variable(variable)?;
        values.written.get_ref().as_array()?.first()?.get_ref().as_table()?; // before the list is copied
        let taken = self.at?.get(variable)?;
        let is_taken = |item: Value<'t>| {
            let tuple = item.table().ok()?;
            label(&tuple, &item).is_ok_and(|label| label == *taken).then_some(tuple)
        };
        values.listed()?.find_map(is_taken)
    }

    /// The field of a tuple that `rest`, the text after a variable's name, begins with, and what follows.
    ///
    /// # Errors
    /// It begins with no field of the tuple.
    fn tuple_field<'r>(
        &self,
        value: &Value<'_>,
        (variable, tuple): (&str, &Table<'t>),
        rest: &'r str,
    ) -> Result<(Value<'t>, &'r str)> {
        let (name, rest) = field_of(rest).unwrap_or(("", rest));
        if let Some(field) = tuple.get(name) {
            self.used.add(&format!("{variable}.{name}"));
            return Ok((field, rest));
        }
        let known: Vec<String> = tuple.entries().map(|(key, _)| format!("${variable}.{key}")).collect();
        let dot = if name.is_empty() { "" } else { "." };
        let names = known.iter().map(|name| &name[1..]);
        Err(no_such_name(value, &format!("{variable}{dot}{name}"), &known.join(", "), names))
    }
}

impl Variables for CellVariables<'_> {
    fn replaced(&self, value: &Value<'_>, text: &str) -> Result<String> {
        let mut replaced = String::new();
        let mut pieces = pieces(text).into_iter();
        while let Some(piece) = pieces.next() {
            let name = match piece {
                TextPiece::Literal(text) => {
                    replaced += text;
                    continue;
                }
                TextPiece::Name(name) => name,
            };
            let at = self.at.ok_or_else(Found::default)?;
            let Some(taken) = at.get(name) else {
                let known: Vec<String> = at.keys().map(|key| format!("${key}")).collect();
                let known = if known.is_empty() { "there is no [sweep]".to_owned() } else { known.join(", ") };
                return Err(no_such_name(value, name, &known, at.keys().map(String::as_str)));
            };
            let Some(tuple) = self.tuple(name) else {
                self.used.add(name);
                replaced += taken;
                continue;
            };
            let rest = if let Some(TextPiece::Literal(rest)) = pieces.next() { rest } else { "" };
            let (field, rest) = self.tuple_field(value, (name, &tuple), rest)?;
            replaced += &field.literal().unwrap_or_default();
            replaced += rest;
        }
        Ok(replaced)
    }

    /// Moves a mistake to the line of `[sweep]` if the value is just a `$name`; adds a hint if it only contains one.
    fn placed(&self, value: &Value<'_>, mut mistake: Box<Mistake>) -> Box<Mistake> {
        let Some(text) = value.written.get_ref().as_str() else { return mistake };
        let names = names_in(value.written.get_ref());
        let Some((name, variable)) = names.iter().find_map(|name| Some((*name, self.variable(name)?))) else {
            return mistake;
        };
        let hint = format!("it is the value of {}, line {}", mistake.field, value.line());
        let field = self.tuple(name).and_then(|tuple| {
            let field = text.strip_prefix('$')?.strip_prefix(name)?.strip_prefix('.')?;
            Some((tuple.get(field)?, format!("{}.{field}", variable.name)))
        });
        let (place, field) = match field {
            Some(field) => field,
            None if text != format!("${name}") => {
                let hint = format!("\"${name}\" takes its values from [sweep], line {}", variable.line());
                return mistake.or_hint(hint);
            }
            None => {
                let taken = self.at.and_then(|at| at.get(name)).map(String::as_str);
                let listed = variable.listed().and_then(|mut items| items.find(|it| it.literal().as_deref() == taken));
                let name = variable.name.clone();
                (listed.unwrap_or(variable), name)
            }
        };
        mistake.given = mistake.given.and_then(|_| place.given());
        (mistake.line, mistake.field) = (Some(place.line()), field);
        mistake.or_hint(hint)
    }
}
