//! Values of a scenario file in one cell of its sweep: literals, and texts in which `$name` stands for another value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use strum::VariantArray;
use toml::Spanned;
use toml::de::DeValue;

use super::table::{CellReader, Result, ScenarioTable};
use crate::path::acks::AckHold;
use crate::path::reorder::Reorder;
use crate::scenario::reference::{Kind, ScenarioField};
use crate::scenario::spec::{BulkSender, Profile};
use host::written::{Mistake, given};
use shared::nearest::nearest;
use shared::plain::shown;
use shared::units::{BitsPerSec, Bytes, ParseError, QueueSize, Share, format_duration, parse_duration};

/// The value of a field in one cell.
#[derive(Clone)]
pub struct ScenarioValue<'t> {
    pub reader: CellReader<'t>,
    /// Dotted name, such as `link.rate`. An item of a list has the name of the list.
    pub name: String,
    /// Declaration of the field, if there is one. An item of a list has that of the list.
    pub field: Option<&'static ScenarioField>,
    pub written: &'t Spanned<DeValue<'t>>,
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

impl<'t> ScenarioValue<'t> {
    /// A text, number or boolean as text, with `$name` as it is written.
    ///
    /// None: any other value.
    pub fn literal(&self) -> Option<Cow<'t, str>> {
        Some(match self.written.get_ref() {
            DeValue::String(text) => Cow::Borrowed(text),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Cow::Borrowed(number.as_str()), |number| number.to_string().into()),
            DeValue::Float(number) => {
                let read = number.as_str().parse::<f64>();
                read.map_or(Cow::Borrowed(number.as_str()), |number| number.to_string().into())
            }
            DeValue::Boolean(is_on) => is_on.to_string().into(),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
        })
    }

    /// Like [`ScenarioValue::literal`], with each `$name` replaced by its value in the cell.
    ///
    /// Errors: a `$name` that is not a variable of the sweep.
    pub fn text(&self) -> Result<Option<Cow<'t, str>>> {
        match self.literal() {
            Some(text) if self.written.get_ref().is_str() && text.contains('$') => self.replaced(&text).map(Some),
            other => Ok(other),
        }
    }

    fn replaced(&self, text: &str) -> Result<Cow<'t, str>> {
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
            let value = self.reader.at.get(name).ok_or_else(|| self.unknown_name(name))?;
            let Some(tuple) = self.reader.tuple(name) else {
                self.reader.used.add(name);
                replaced += value;
                continue;
            };
            let rest = if let Some(TextPiece::Literal(rest)) = pieces.next() { rest } else { "" };
            let (field, rest) = self.tuple_field((name, &tuple), rest)?;
            replaced += &field.literal().unwrap_or_default();
            replaced += rest;
        }
        Ok(replaced.into())
    }

    fn unknown_name(&self, name: &str) -> Box<Mistake> {
        let known: Vec<String> = self.reader.at.keys().map(|key| format!("${key}")).collect();
        let known = if known.is_empty() { "there is no [sweep]".to_owned() } else { known.join(", ") };
        self.no_such_name(name, &known, self.reader.at.keys().map(String::as_str))
    }

    /// `known` lists the variables for a message; `names` are those that a misspelt one may stand for.
    pub(super) fn no_such_name<'n>(
        &self,
        name: &str,
        known: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Box<Mistake> {
        let mut mistake = self.mistake(format!("expected a variable of [sweep]: {known}"));
        mistake.given = Some(format!("\"${name}\""));
        mistake.suggest(nearest(name, names).map(|name| format!("${name}")));
        mistake
    }

    /// Whether its text refers to this sweep variable.
    pub fn takes(&self, variable: &str) -> bool {
        names_in(self.written.get_ref()).contains(&variable)
    }

    /// Errors: a variable of the sweep in the value, or in any value inside it.
    pub fn check_fixed(&self) -> Result<()> {
        match self.written.get_ref() {
            DeValue::Table(_) => self.any_table()?.entries().try_for_each(|(_, value)| value.check_fixed()),
            DeValue::Array(_) => self.list(ScenarioValue::check_fixed).map(drop),
            written => match names_in(written).into_iter().find(|name| self.reader.at.contains_key(*name)) {
                Some(name) => {
                    Err(self.mistake(format!("expected no \"${name}\": this field has one value for all cells")))
                }
                None => Ok(()),
            },
        }
    }

    pub fn line(&self) -> usize {
        self.reader.line_of(self.written.span().start)
    }

    /// The value for a message: as it is written, or with each `$name` replaced.
    fn given(&self) -> Option<String> {
        match self.written.get_ref() {
            DeValue::String(text) if text.contains('$') => {
                let text = self.replaced(text).unwrap_or(Cow::Borrowed(text));
                Some(format!("\"{}\"", shown(&text)))
            }
            _ => given(self.reader.text, self.written),
        }
    }

    fn mistake(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.reader.mistake(self.written.span().start, &self.name, expected)
    }

    fn mistake_near(&self, expected: impl Into<String>, near: Option<impl fmt::Display>) -> Box<Mistake> {
        let mut mistake = self.mistake(expected);
        mistake.given = self.given();
        mistake.suggest(near);
        self.in_sweep(mistake)
    }

    /// A mistake that shows the value.
    pub fn refuse(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.mistake_near(expected, None::<&str>)
    }

    /// A mistake that shows the field without its value.
    pub fn refuse_field(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.in_sweep(self.mistake(expected))
    }

    /// A mistake that was found when the text was parsed.
    pub fn wrong(&self, error: ParseError) -> Box<Mistake> {
        self.mistake_near(error.expected, error.meant)
    }

    /// Moves a mistake to the line of `[sweep]` if the value is just a `$name`; adds a hint if it only contains one.
    fn in_sweep(&self, mut mistake: Box<Mistake>) -> Box<Mistake> {
        let Some(text) = self.written.get_ref().as_str() else { return mistake };
        let names = names_in(self.written.get_ref());
        let sweep = self.reader.document().table("sweep").ok();
        let Some((name, variable)) = names.iter().find_map(|name| Some((*name, sweep.as_ref()?.get(name)?))) else {
            return mistake;
        };
        let field = self.reader.tuple(name).and_then(|tuple| {
            let field = text.strip_prefix('$')?.strip_prefix(name)?.strip_prefix('.')?;
            Some((tuple.get(field)?, field.to_owned()))
        });
        if let Some((place, field)) = field {
            let hint = format!("it is the value of {}, line {}", mistake.field, self.line());
            mistake.given = mistake.given.and_then(|_| place.given());
            (mistake.line, mistake.field) = (Some(place.line()), format!("{}.{field}", variable.name));
            return mistake.or_hint(hint);
        }
        if text != format!("${name}") {
            let hint = format!("\"${name}\" takes its values from [sweep], line {}", variable.line());
            return mistake.or_hint(hint);
        }
        let taken = self.reader.at.get(name).map(String::as_str);
        let listed =
            variable.items().and_then(|items| items.into_iter().find(|item| item.literal().as_deref() == taken));
        let hint = format!("it is the value of {}, line {}", mistake.field, self.line());
        let place = listed.as_ref().unwrap_or(&variable);
        mistake.given = mistake.given.and_then(|_| place.given());
        (mistake.line, mistake.field) = (Some(place.line()), variable.name.clone());
        mistake.or_hint(hint)
    }

    /// None: it is not a list.
    pub fn items(&self) -> Option<Vec<ScenarioValue<'t>>> {
        let items = self.written.get_ref().as_array()?;
        Some(items.iter().map(|written| ScenarioValue { written, ..self.clone() }).collect())
    }

    /// Reads each item of a list.
    pub fn list<T>(&self, read: impl FnMut(&ScenarioValue<'t>) -> Result<T>) -> Result<Vec<T>> {
        let items = self.items().ok_or_else(|| self.refuse("expected a list, such as [1, 2]"))?;
        items.iter().map(read).collect()
    }

    pub fn table(&self) -> Result<ScenarioTable<'t>> {
        self.any_table()?.known()
    }

    /// The table, whatever fields it has.
    pub(super) fn any_table(&self) -> Result<ScenarioTable<'t>> {
        match self.written.get_ref() {
            DeValue::Table(entries) => Ok(ScenarioTable::new(self, entries)),
            DeValue::Array(_) if !self.name.contains('.') => {
                let what = format!("expected [{}], in one pair of brackets: there is one", self.name);
                Err(self.refuse_field(what))
            }
            _ => Err(self.refuse("expected a table, such as { name = 1 }")),
        }
    }

    /// The tables of `[[key]]`, whatever fields they have.
    pub(super) fn any_tables(&self) -> Result<Vec<ScenarioTable<'t>>> {
        let Some(items) = self.items() else {
            let what = format!("expected [[{}]], in two pairs of brackets: there may be several", self.name);
            return Err(self.refuse_field(what));
        };
        items.iter().map(ScenarioValue::any_table).collect()
    }

    pub fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, ParseError>) -> Result<T> {
        let text = self.text()?.unwrap_or_default(); // a list or table is refused like an empty text
        parse(&text).map_err(|error| self.wrong(error))
    }

    /// The value, if it is in the range that its field declares.
    fn within<T: PartialOrd>(&self, value: T, range: Option<[T; 2]>, show: impl Fn(T) -> String) -> Result<T> {
        match range {
            Some([low, high]) if value < low || value > high => {
                Err(self.refuse(format!("outside {}..{}", show(low), show(high))))
            }
            _ => Ok(value),
        }
    }

    /// A whole number written as a number: the value of a field that no sweep sets.
    pub fn unquoted(&self) -> Result<u64> {
        let number = u64::read(self)?;
        if self.written.get_ref().is_str() {
            return Err(self.refuse(format!("{}, without quotes", self.expected_number())));
        }
        Ok(number)
    }

    fn expected_number(&self) -> String {
        let expected = self.field.and_then(|field| field.kind.expected_number());
        expected.unwrap_or_else(|| "expected a whole number".to_owned())
    }

    /// A text that is one of these names. `expected` introduces them in a message.
    pub fn one_of<'n>(&self, names: impl IntoIterator<Item = &'n str>, expected: &str) -> Result<String> {
        let name = String::read(self)?;
        let names: Vec<&str> = names.into_iter().collect();
        if names.contains(&name.as_str()) {
            return Ok(name);
        }
        let begun = names.iter().copied().find(|known| known.starts_with(&name) && !name.is_empty());
        let near = nearest(&name, names.iter().copied()).or(begun);
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        Err(self.mistake_near(format!("expected {expected} {known}"), near))
    }

    /// One of the words of an enum.
    pub(super) fn word<T: Copy + VariantArray + Into<&'static str>>(&self) -> Result<T> {
        let words: Vec<&str> = T::VARIANTS.iter().map(|&meaning| meaning.into()).collect();
        Ok(T::VARIANTS[self.word_of(&words)?])
    }

    /// The index of the value among these words.
    pub(super) fn word_of(&self, words: &[&str]) -> Result<usize> {
        let given = self.text()?.unwrap_or_default();
        let refuse =
            || self.mistake_near(format!("expected {}", words.join(" or ")), nearest(&given, words.iter().copied()));
        words.iter().position(|word| *word == given).ok_or_else(refuse)
    }
}

/// Reads a type from a value of a scenario.
pub trait Read: Sized {
    /// Errors: the value is of another type, malformed, or out of range.
    fn read(value: &ScenarioValue<'_>) -> Result<Self>;
}

macro_rules! read_with {
    ($read:expr => $($name:ty),*) => {$(
        impl Read for $name {
            fn read(value: &ScenarioValue<'_>) -> Result<Self> {
                $read(value)
            }
        }
    )*};
}
read_with!(|value: &ScenarioValue<'_>| value.parsed(FromStr::from_str) => Bytes, QueueSize, Share, Reorder, AckHold);
read_with!(ScenarioValue::word => Profile, BulkSender);
read_with!(whole => u32, u64);

/// A whole number in the range of its field. It may be a text, so that a sweep can set it.
fn whole<T: TryFrom<u64>>(value: &ScenarioValue<'_>) -> Result<T> {
    let number = value.text()?.and_then(|text| text.parse().ok());
    let number = number.filter(|number| value.field.is_none_or(|field| field.kind.takes(*number)));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| value.refuse(value.expected_number()))
}

impl Read for BitsPerSec {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let range = value.field.and_then(|field| if let Kind::Rate(range) = field.kind { Some(range) } else { None });
        value.within(value.parsed(BitsPerSec::from_str)?, range, |rate| rate.to_string())
    }
}

impl Read for Duration {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let range = value.field.and_then(|field| if let Kind::Time(range) = field.kind { range } else { None });
        value.within(value.parsed(parse_duration)?, range, format_duration)
    }
}

impl Read for String {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let text = value.text()?.filter(|_| value.written.get_ref().is_str());
        text.map(Cow::into_owned).ok_or_else(|| value.refuse("expected a text in quotes"))
    }
}

/// A text, or a number or boolean as text.
pub struct Text(pub String);

impl Read for Text {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let text = value.text()?.map(|text| Text(text.into_owned()));
        text.ok_or_else(|| value.refuse("expected a text or a number"))
    }
}

impl Read for bool {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        value.written.get_ref().as_bool().ok_or_else(|| value.refuse("expected true or false"))
    }
}

/// 0 or 1, or false or true. It may be a text, so that a sweep can set it.
pub struct Switch(pub bool);

impl Read for Switch {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("1" | "true") => Ok(Switch(true)),
            Some("0" | "false") => Ok(Switch(false)),
            _ => Err(value.refuse("expected 1 or 0")),
        }
    }
}

impl Read for f64 {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let number = value.literal().filter(|_| !value.written.get_ref().is_str());
        number.and_then(|number| number.parse().ok()).ok_or_else(|| value.refuse("expected a number"))
    }
}

impl Read for [String; 2] {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let nodes = value.list(String::read)?;
        nodes.try_into().map_err(|_| value.refuse("expected two nodes, such as [\"a\", \"b\"]"))
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        value.list(T::read)
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        let table = value.table()?;
        table.entries().map(|(name, value)| Ok((name.to_owned(), T::read(&value)?))).collect()
    }
}
