//! Values of a scenario file in one cell of its sweep: literals, and texts in which a `$name` stands for another value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use strum::VariantArray;
use toml::Spanned;
use toml::de::DeValue;

use super::flow::Protocol;
use super::report::Of;
use super::shown::Draw;
use super::table::{Reader, Result, Table};
use crate::nearest::nearest;
use crate::path::acks::AckHold;
use crate::path::loss::LossText;
use crate::path::rate_trace::RateText;
use crate::path::reorder::Reorder;
use crate::plain::shown;
use crate::scenario::reference::{Field, Kind};
use crate::scenario::spec::{Profile, Sender};
use crate::units::{BitsPerSec, Bytes, ParseError, QueueSize, Share, format_duration, parse_duration};
use crate::written::{Mistake, given};

/// A value under its name, for one cell.
#[derive(Clone)]
pub struct Value<'t> {
    pub reader: Reader<'t>,
    /// Dotted name, such as `link.rate`; an item of a list has the list's name.
    pub name: String,
    /// What it is; an item of a list has the list's.
    pub field: Option<&'static Field>,
    pub written: &'t Spanned<DeValue<'t>>,
}

/// A part of a text.
enum Piece<'a> {
    Literal(&'a str),
    /// What a `$` stands before: a variable of the sweep.
    Name(&'a str),
}

/// Splits a text at its `$name`s; `$$` stands for one dollar sign.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut split = text.split('$');
    let mut pieces = vec![Piece::Literal(split.next().unwrap_or_default())];
    while let Some(piece) = split.next() {
        if piece.is_empty() {
            pieces.extend([Piece::Literal("$"), Piece::Literal(split.next().unwrap_or_default())]);
            continue;
        }
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        pieces.extend([Piece::Name(name), Piece::Literal(rest)]);
    }
    pieces
}

/// The variables that a value takes, in the order of its text; those of the items of a list and of a table too.
pub fn names_in<'a>(value: &'a DeValue<'_>) -> Vec<&'a str> {
    match value {
        DeValue::String(text) => {
            let name = |piece| if let Piece::Name(name) = piece { Some(name) } else { None };
            pieces(text).into_iter().filter_map(name).collect()
        }
        DeValue::Array(items) => items.iter().flat_map(|item| names_in(item.get_ref())).collect(),
        DeValue::Table(table) => table.values().flat_map(|value| names_in(value.get_ref())).collect(),
        _ => Vec::new(),
    }
}

impl<'t> Value<'t> {
    /// A text as it is written, or a number or truth value as text; none for anything else.
    pub fn literal(&self) -> Option<Cow<'t, str>> {
        Some(match self.written.get_ref() {
            DeValue::String(text) => Cow::Borrowed(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string().into(),
                Err(_) => Cow::Borrowed(number.as_str()),
            },
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) => number.to_string().into(),
                Err(_) => Cow::Borrowed(number.as_str()),
            },
            DeValue::Boolean(is_on) => is_on.to_string().into(),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => return None,
        })
    }

    /// As [`Value::literal`], with each `$name` replaced by its value in the cell.
    ///
    /// Errors: a `$name` that is no variable of the sweep.
    pub fn text(&self) -> Result<Option<Cow<'t, str>>> {
        match self.literal() {
            Some(text) if self.written.get_ref().is_str() && text.contains('$') => self.replaced(&text).map(Some),
            other => Ok(other),
        }
    }

    fn replaced(&self, text: &str) -> Result<Cow<'t, str>> {
        let mut replaced = String::new();
        for piece in pieces(text) {
            replaced += match piece {
                Piece::Literal(text) => text,
                Piece::Name(name) => self.reader.at.get(name).ok_or_else(|| self.unknown_name(name))?,
            };
        }
        Ok(replaced.into())
    }

    fn unknown_name(&self, name: &str) -> Box<Mistake> {
        let known: Vec<String> = self.reader.at.keys().map(|key| format!("${key}")).collect();
        let known = if known.is_empty() { "there is no [sweep]".to_owned() } else { known.join(", ") };
        let mut mistake = self.mistake(format!("expected a variable of [sweep]: {known}"));
        mistake.given = Some(format!("\"${name}\""));
        let near = nearest(name, self.reader.at.keys().map(String::as_str));
        mistake.suggest(near.map(|name| format!("${name}")));
        mistake
    }

    /// Whether its text takes the value of this variable.
    pub fn takes(&self, variable: &str) -> bool {
        names_in(self.written.get_ref()).contains(&variable)
    }

    pub fn line(&self) -> usize {
        self.reader.line_of(self.written.span().start)
    }

    /// The value for a message: as it is written, or what it stands for in the cell.
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

    /// A mistake in the value.
    pub fn refuse(&self, expected: impl Into<String>) -> Box<Mistake> {
        let mut mistake = self.mistake(expected);
        mistake.given = self.given();
        self.in_sweep(mistake)
    }

    /// A mistake in the field that is none in its value.
    pub fn refuse_field(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.in_sweep(self.mistake(expected))
    }

    /// A mistake in the value that was found while it was read.
    pub fn wrong(&self, error: ParseError) -> Box<Mistake> {
        let mut mistake = self.mistake(error.expected);
        mistake.given = self.given();
        mistake.suggest(error.meant);
        self.in_sweep(mistake)
    }

    /// Moves a mistake to the sweep where that gives the whole value; where it gives a part, the next step names it.
    fn in_sweep(&self, mut mistake: Box<Mistake>) -> Box<Mistake> {
        let Some(text) = self.written.get_ref().as_str() else { return mistake };
        let names = names_in(self.written.get_ref());
        let sweep = self.reader.sweep();
        let Some((name, variable)) = names.iter().find_map(|name| Some((*name, sweep.as_ref()?.get(name)?))) else {
            return mistake;
        };
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

    /// Its items; none where it is no list.
    pub fn items(&self) -> Option<Vec<Value<'t>>> {
        let items = self.written.get_ref().as_array()?;
        Some(items.iter().map(|written| Value { written, ..self.clone() }).collect())
    }

    /// A list, of which each item is read.
    pub fn list<T>(&self, read: impl FnMut(&Value<'t>) -> Result<T>) -> Result<Vec<T>> {
        let items = self.items().ok_or_else(|| self.refuse("expected a list, such as [1, 2]"))?;
        items.iter().map(read).collect()
    }

    /// The value as a table.
    pub fn table(&self) -> Result<Table<'t>> {
        match self.written.get_ref() {
            DeValue::Table(entries) => Table::new(self, entries),
            DeValue::Array(_) if !self.name.contains('.') => {
                let what = format!("expected [{}], in one pair of brackets: there is one", self.name);
                Err(self.refuse_field(what))
            }
            _ => Err(self.refuse("expected a table, such as { name = 1 }")),
        }
    }

    /// A text that a function reads.
    pub fn parsed<T>(&self, read: impl FnOnce(&str) -> Result<T, ParseError>) -> Result<T> {
        let text = self.text()?.unwrap_or_default(); // what is no text reads no better than an empty one
        read(&text).map_err(|error| self.wrong(error))
    }

    /// A whole number in the range of its field, also as text, so that a sweep can set it.
    pub fn whole(&self) -> Result<u64> {
        let number = self.text()?.and_then(|text| text.parse().ok());
        let number = number.filter(|number| self.field.is_none_or(|field| field.kind.takes(*number)));
        number.ok_or_else(|| self.refuse(self.expected_number()))
    }

    /// As [`Value::whole`], of a field that no sweep sets.
    pub fn unquoted(&self) -> Result<u64> {
        let number = self.whole()?;
        if self.written.get_ref().is_str() {
            return Err(self.refuse(format!("{}, without quotes", self.expected_number())));
        }
        Ok(number)
    }

    fn expected_number(&self) -> String {
        let expected = self.field.and_then(|field| field.kind.expected_number());
        expected.unwrap_or_else(|| "expected a whole number".to_owned())
    }

    /// A time in the range of its field.
    pub fn time(&self) -> Result<Duration> {
        let time = Duration::read(self)?;
        match self.field.map(|field| &field.kind) {
            Some(Kind::Time(Some([low, high]))) if !(*low..=*high).contains(&time) => {
                let [low, high] = [*low, *high].map(format_duration);
                Err(self.refuse(format!("outside {low}..{high}")))
            }
            _ => Ok(time),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy + VariantArray + Into<&'static str>>(&self) -> Result<T> {
        let given = self.text()?.unwrap_or_default();
        let found = T::VARIANTS.iter().find(|&&meaning| meaning.into() == given);
        found.copied().ok_or_else(|| {
            let words: Vec<&str> = T::VARIANTS.iter().map(|&meaning| meaning.into()).collect();
            let mut mistake = self.refuse(format!("expected {}", words.join(" or ")));
            mistake.suggest(nearest(&given, words));
            mistake
        })
    }
}

/// What a value of a scenario can be read as.
pub trait Read: Sized {
    /// Errors: the value is not one of these.
    fn read(value: &Value<'_>) -> Result<Self>;
}

macro_rules! read_from_text {
    ($($name:ty),*) => {$(
        impl Read for $name {
            fn read(value: &Value<'_>) -> Result<Self> {
                value.parsed(<$name>::from_str)
            }
        }
    )*};
}
read_from_text!(BitsPerSec, Bytes, QueueSize, Share, RateText, Reorder, AckHold);

macro_rules! read_word {
    ($($name:ty),*) => {$(
        impl Read for $name {
            fn read(value: &Value<'_>) -> Result<Self> {
                value.word()
            }
        }
    )*};
}
read_word!(Profile, Protocol, Sender, Of, Draw);

impl Read for Duration {
    fn read(value: &Value<'_>) -> Result<Self> {
        value.parsed(parse_duration)
    }
}

/// A list stands for the numbers of the packets that are lost.
impl Read for LossText {
    fn read(value: &Value<'_>) -> Result<Self> {
        if value.written.get_ref().is_array() {
            let positions = value.list(|item| Ok(item.text()?.unwrap_or_default()))?;
            return format!("positions:{}", positions.join(",")).parse().map_err(|error| value.wrong(error));
        }
        value.parsed(LossText::from_str)
    }
}

impl Read for String {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = value.text()?.filter(|_| value.written.get_ref().is_str());
        text.map(Cow::into_owned).ok_or_else(|| value.refuse("expected a text in quotes"))
    }
}

/// A text, or a number or truth value as text.
pub struct Text(pub String);

impl Read for Text {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = value.text()?.map(|text| Text(text.into_owned()));
        text.ok_or_else(|| value.refuse("expected a text or a number"))
    }
}

impl Read for bool {
    fn read(value: &Value<'_>) -> Result<Self> {
        value.written.get_ref().as_bool().ok_or_else(|| value.refuse("expected true or false"))
    }
}

/// On or off: true or false, 1 or 0; also as text, so that a sweep can set it.
pub struct Switch(pub bool);

impl Read for Switch {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("1" | "true") => Ok(Switch(true)),
            Some("0" | "false") => Ok(Switch(false)),
            _ => Err(value.refuse("expected 1 or 0")),
        }
    }
}

impl Read for f64 {
    fn read(value: &Value<'_>) -> Result<Self> {
        let number = value.literal().filter(|_| !value.written.get_ref().is_str());
        number.and_then(|number| number.parse().ok()).ok_or_else(|| value.refuse("expected a number"))
    }
}

impl Read for [String; 2] {
    fn read(value: &Value<'_>) -> Result<Self> {
        let nodes = value.list(String::read)?;
        nodes.try_into().map_err(|_| value.refuse("expected two nodes, such as [\"a\", \"b\"]"))
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        value.list(T::read)
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        let table = value.table()?;
        table.entries().map(|(name, value)| Ok((name.to_owned(), T::read(&value)?))).collect()
    }
}
