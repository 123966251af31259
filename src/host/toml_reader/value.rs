//! Values of a TOML file, and the types that are read from them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use strum::VariantArray;
use toml::Spanned;
use toml::de::DeValue;

use super::declaration::{FieldDeclaration, Kind};
use super::mistake::{Found, Mistake, Result, each};
use super::table::{Source, Table};
use shared::sanitize::shown;
use shared::suggest::nearest;
use shared::units::{BitsPerSec, Bytes, ParseError, QueueSize, Share, format_duration, parse_duration};

/// Mistake of a repeated value.
pub const TWICE: &str = "the list has this value twice";

/// What `$name` in a text stands for.
pub trait Variables {
    /// The text of a value, with each name replaced.
    ///
    /// # Errors
    /// A name without a meaning. No mistake: the meaning cannot be known, because of another mistake.
    fn replaced(&self, value: &Value<'_>, text: &str) -> Result<String>;

    /// Moves a mistake in a value to the place where its text was written.
    fn placed(&self, value: &Value<'_>, mistake: Box<Mistake>) -> Box<Mistake>;
}

/// A named value of the file.
#[derive(Clone)]
pub struct Value<'t> {
    pub source: Source<'t>,
    /// Dotted name, such as `link.rate`. An item of a list has the name of the list.
    pub name: String,
    /// Declaration of the field, if there is one. An item of a list has that of the list.
    pub field: Option<&'static FieldDeclaration>,
    pub written: &'t Spanned<DeValue<'t>>,
}

/// Reads a type from a value.
pub trait Read: Sized {
    /// # Errors
    /// The value is of another type, malformed, or out of range.
    fn read(value: &Value<'_>) -> Result<Self>;
}

/// A value as written. `None` for tables and lists of several lines.
fn given(text: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
    let text = text.get(value.span())?;
    let is_whole = match value.get_ref() {
        DeValue::Table(_) => text.starts_with('{') && !text.contains('\n'),
        DeValue::Array(_) => text.starts_with('[') && text.ends_with(']') && !text.contains('\n'),
        _ => true,
    };
    is_whole.then(|| shown(text))
}

impl<'t> Value<'t> {
    /// A scalar as text, as it is written. `0.001` and `"0.001"` are the same.
    ///
    /// None: a list, table or date.
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

    /// Like [`Value::literal`], with each `$name` replaced.
    ///
    /// # Errors
    /// A `$name` without a meaning.
    pub fn text(&self) -> Result<Option<Cow<'t, str>>> {
        match (self.literal(), self.source.variables) {
            (Some(text), Some(variables)) if self.written.get_ref().is_str() && text.contains('$') => {
                Ok(Some(variables.replaced(self, &text)?.into()))
            }
            (text, _) => Ok(text),
        }
    }

    /// What the declaration of the field expects, if its mistakes repeat that.
    fn form(&self) -> Option<&'static str> {
        match self.field?.kind {
            Kind::Form(what) => Some(what),
            _ => None,
        }
    }

    /// A text in quotes.
    ///
    /// # Errors
    /// A value of another type; a `$name` without a meaning.
    pub fn quoted(&self) -> Result<Cow<'t, str>> {
        self.quoted_as(self.form())
    }

    /// A text in quotes. `form` is what a mistake says about it.
    pub(crate) fn quoted_as(&self, form: Option<&str>) -> Result<Cow<'t, str>> {
        let text = self.text()?.filter(|_| self.written.get_ref().is_str());
        let form = || form.map_or(String::new(), |form| format!(": {form}"));
        text.ok_or_else(|| self.refuse(format!("expected a text in quotes{}", form())).into())
    }

    /// A mistake in a value that is not of the form that its field declares.
    pub fn unlike(&self) -> Box<Mistake> {
        self.refuse(format!("expected {}", self.form().unwrap_or("another value")))
    }

    /// A whole number without quotes, in any base.
    pub fn integer(&self) -> Option<i64> {
        let DeValue::Integer(number) = self.written.get_ref() else { return None };
        i64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    pub fn line(&self) -> usize {
        self.source.line_of(self.written.span().start)
    }

    /// The value for a message: as it is written, or with each `$name` replaced.
    pub fn given(&self) -> Option<String> {
        match (self.written.get_ref(), self.source.variables) {
            (DeValue::String(text), Some(variables)) if text.contains('$') => {
                let text = variables.replaced(self, text).map_or(Cow::Borrowed(&**text), Cow::Owned);
                Some(format!("\"{}\"", shown(&text)))
            }
            _ => given(self.source.text, self.written),
        }
    }

    fn placed(&self, mistake: Box<Mistake>) -> Box<Mistake> {
        match self.source.variables {
            Some(variables) => variables.placed(self, mistake),
            None => mistake,
        }
    }

    /// A mistake that shows the field without its value, at the place of the value.
    pub fn mistake(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.source.mistake(self.written.span().start, &self.name, expected)
    }

    fn mistake_near(&self, expected: impl Into<String>, near: Option<impl fmt::Display>) -> Box<Mistake> {
        self.placed(self.mistake(expected).given(self.given()).suggest(near))
    }

    /// A mistake that shows the value.
    pub fn refuse(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.mistake_near(expected, None::<&str>)
    }

    /// A mistake that shows the field without its value.
    pub fn refuse_field(&self, expected: impl Into<String>) -> Box<Mistake> {
        self.placed(self.mistake(expected))
    }

    /// A mistake that was found when the text was parsed.
    pub fn wrong(&self, error: ParseError) -> Box<Mistake> {
        self.mistake_near(error.expected, error.meant)
    }

    /// The items of a list. None: it is not a list.
    pub fn listed(&self) -> Option<impl Iterator<Item = Value<'t>>> {
        let items = self.written.get_ref().as_array()?;
        Some(items.iter().map(|written| Value { written, ..self.clone() }))
    }

    /// The items of a list, or the single value.
    pub fn items(&self) -> Vec<Value<'t>> {
        self.listed().map_or_else(|| vec![self.clone()], Iterator::collect)
    }

    /// Reads each item of a list.
    ///
    /// # Errors
    /// The value is not a list; those of `read` for all items.
    pub fn list<T>(&self, mut read: impl FnMut(&Value<'t>) -> Result<T>) -> Result<Vec<T>> {
        let items = self.listed().ok_or_else(|| self.refuse("expected a list, such as [1, 2]"))?;
        each(items, |item| read(&item))
    }

    /// # Errors
    /// The value is not a table.
    pub fn table(&self) -> Result<Table<'t>> {
        match self.written.get_ref() {
            DeValue::Table(entries) => Ok(Table::new(self, entries)),
            DeValue::Array(_) if !self.name.contains('.') => {
                let what = format!("expected [{}], in one pair of brackets: there is one", self.name);
                Err(self.refuse_field(what).into())
            }
            _ => {
                let example = self.field.and_then(|field| field.examples().next()).unwrap_or_default();
                let (_, example) = example.split_once(" = ").unwrap_or(("", example));
                let of_list = example.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                let example = of_list.filter(|item| item.starts_with('{')).unwrap_or(example);
                let example = if ["", "[]"].contains(&example) { "{ name = 1 }" } else { example };
                Err(self.refuse(format!("expected a table, such as {example}")).into())
            }
        }
    }

    /// The items of `[[key]]`.
    ///
    /// # Errors
    /// The value is not a list.
    pub fn tables(&self) -> Result<impl Iterator<Item = Value<'t>>> {
        let refuse = || {
            let what = format!("expected [[{}]], in two pairs of brackets: there may be several", self.name);
            self.refuse_field(what)
        };
        Ok(self.listed().ok_or_else(refuse)?)
    }

    /// # Errors
    /// A `$name` without a meaning; those of `parse`.
    pub fn parsed<T>(&self, parse: impl FnOnce(&str) -> Result<T, ParseError>) -> Result<T> {
        let text = self.text()?.unwrap_or_default(); // a list or table is refused like an empty text
        parse(&text).map_err(|error| self.wrong(error).into())
    }

    /// The value, if it is in the range that its field declares.
    fn within<T: PartialOrd>(&self, value: T, range: Option<[T; 2]>, show: impl Fn(T) -> String) -> Result<T> {
        match range {
            Some([low, high]) if value < low || value > high => {
                Err(self.refuse(format!("outside {}..{}", show(low), show(high))).into())
            }
            _ => Ok(value),
        }
    }

    /// A whole number in the range of its field. It may be a text, so that a variable can set it.
    fn whole<T: TryFrom<u64>>(&self) -> Result<T> {
        let number = self.text()?.and_then(|text| text.parse().ok());
        let number = number.filter(|number| self.field.is_none_or(|field| field.kind.takes(*number)));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.refuse(self.expected_number()).into())
    }

    fn expected_number(&self) -> String {
        let expected = self.field.and_then(|field| field.kind.expected_number());
        expected.unwrap_or_else(|| "expected a whole number".to_owned())
    }

    /// A text that is one of these names. `expected` introduces them in a message.
    ///
    /// # Errors
    /// A `$name` without a meaning; not a text in quotes; none of the names.
    pub fn one_of<'n>(&self, names: impl IntoIterator<Item = &'n str>, expected: &str) -> Result<String> {
        let name = self.quoted()?;
        let names: Vec<&str> = names.into_iter().collect();
        if names.contains(&&*name) {
            return Ok(name.into_owned());
        }
        let begun = names.iter().copied().find(|known| known.starts_with(&*name) && !name.is_empty());
        let near = nearest(&name, names.iter().copied()).or(begun);
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        Err(self.mistake_near(format!("expected {expected} {known}"), near).into())
    }

    /// One of the words of an enum.
    ///
    /// # Errors
    /// A `$name` without a meaning; none of the words.
    pub fn word<T: Copy + VariantArray + Into<&'static str>>(&self) -> Result<T> {
        let words: Vec<&str> = T::VARIANTS.iter().map(|&meaning| meaning.into()).collect();
        let given = self.text()?.unwrap_or_default();
        if let Some(index) = words.iter().position(|word| *word == given) {
            return Ok(T::VARIANTS[index]);
        }
        let (last, others) = words.split_last().expect("an enum of words has some");
        let expected = format!("expected \"{}\" or \"{last}\"", others.join("\", \""));
        Err(self.mistake_near(expected, nearest(&given, words.iter().copied())).into())
    }
}

/// Reads a type with an expression.
#[macro_export]
macro_rules! read_with {
    ($read:expr => $($name:ty),*) => {$(
        impl $crate::toml_reader::Read for $name {
            fn read(value: &$crate::toml_reader::Value<'_>) -> $crate::toml_reader::Result<Self> {
                $read(value)
            }
        }
    )*};
}
read_with!(|value: &Value<'_>| value.parsed(FromStr::from_str) => Bytes, QueueSize, Share);
read_with!(Value::whole => u32, u64);

impl Read for BitsPerSec {
    fn read(value: &Value<'_>) -> Result<Self> {
        let range = value.field.and_then(|field| if let Kind::Rate(range) = field.kind { Some(range) } else { None });
        value.within(value.parsed(BitsPerSec::from_str)?, range, |rate| rate.to_string())
    }
}

impl Read for Duration {
    fn read(value: &Value<'_>) -> Result<Self> {
        let range = value.field.and_then(|field| if let Kind::Time(range) = field.kind { range } else { None });
        value.within(value.parsed(parse_duration)?, range, format_duration)
    }
}

impl Read for String {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.field.map(|field| &field.kind) {
            Some(Kind::Named(_, names)) => value.one_of(names(), "one of"),
            _ => value.quoted().map(Cow::into_owned),
        }
    }
}

impl Read for bool {
    fn read(value: &Value<'_>) -> Result<Self> {
        let written = value.written.get_ref();
        let is_variable = written.as_str().is_some_and(|text| text.contains('$'));
        let of_variable = value.text()?.filter(|_| is_variable).and_then(|text| text.parse().ok());
        let refuse = || value.refuse("expected true or false, without quotes").into();
        written.as_bool().or(of_variable).ok_or_else(refuse)
    }
}

impl Read for f64 {
    fn read(value: &Value<'_>) -> Result<Self> {
        let number = value.literal().filter(|_| !value.written.get_ref().is_str());
        number.and_then(|number| number.parse().ok()).ok_or_else(|| value.refuse("expected a number").into())
    }
}

/// A whole number that is written without quotes: the value of a field that no variable sets.
pub struct Unquoted<T>(pub T);

impl<T: TryFrom<u64>> Read for Unquoted<T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        let number = value.whole()?;
        match value.written.get_ref().is_str() {
            true => Err(value.refuse(format!("{}, without quotes", value.expected_number())).into()),
            false => Ok(Unquoted(number)),
        }
    }
}

/// A text, or a number or boolean as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl Read for Text {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = value.text()?.map(|text| Text(text.into_owned()));
        text.ok_or_else(|| value.refuse("expected a text or a number").into())
    }
}

/// 0 or 1, or false or true. It may be a text, so that a variable can set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch(pub bool);

impl Read for Switch {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("1" | "true") => Ok(Switch(true)),
            Some("0" | "false") => Ok(Switch(false)),
            _ => Err(value.refuse("expected 1 or 0").into()),
        }
    }
}

/// A field that is declared here and read elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart;

impl Read for Apart {
    fn read(_: &Value<'_>) -> Result<Self> {
        Ok(Apart)
    }
}

/// A list, or for tables `[[key]]`.
impl<T: Read> Read for Vec<T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.field.map(|field| &field.kind) {
            Some(Kind::Tables(_)) => each(value.tables()?, |item| T::read(&item)),
            _ => value.list(T::read),
        }
    }
}

/// A table whose keys the file chooses.
impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        let entries = |table: Table<'_>| each(table.entries(), |(name, value)| Ok((name.to_owned(), T::read(&value)?)));
        Ok(entries(value.table()?)?.into_iter().collect())
    }
}

/// A list of distinct values, or one of them.
///
/// An empty list is a mistake, because a missing condition matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        OneOrMore(Vec::new())
    }
}

impl<T: Read + fmt::Display> Read for OneOrMore<T> {
    fn read(value: &Value<'_>) -> Result<Self> {
        let items = value.items();
        if items.is_empty() {
            return Err(value.refuse("expected at least one value").into());
        }
        let mut seen = std::collections::HashSet::new();
        let read = |item: &Value<'_>| {
            let one = T::read(item)?;
            if seen.insert(one.to_string()) { Ok(one) } else { Err(Found::from(item.refuse(TWICE))) }
        };
        each(&items, read).map(OneOrMore)
    }
}
