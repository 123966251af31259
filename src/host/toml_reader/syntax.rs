//! Parses the TOML of a file, and finds the field of each syntax mistake.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::declaration::Section;
use super::mistake::{Found, MISTAKES_MAX, Mistake, Result};
use super::table::Source;
use super::value::Value;
use shared::sanitize::shown;

/// In longer texts, only the first syntax mistake is reported. Bytes.
const RECOVERED_MAX: usize = 1 << 20;

/// A parsed file.
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    /// Byte offset of each line.
    lines: Vec<usize>,
    whole: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// # Errors
    /// The mistakes in the syntax. Values may then not be what was meant.
    pub fn parse(file: &'a str, text: &'a str) -> Result<Self> {
        let (whole, errors) = match text.len() > RECOVERED_MAX {
            true => DeTable::parse(text).map_or_else(|error| (None, vec![error]), |table| (Some(table), Vec::new())),
            false => {
                let (document, errors) = DeTable::parse_recoverable(text);
                (Some(document), errors)
            }
        };
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect();
        let whole = whole.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
        let document = Document { file, text, lines, whole };
        if errors.is_empty() { Ok(document) } else { Err(document.syntax_mistakes(errors)) }
    }

    pub fn source(&self) -> Source<'_> {
        Source { file: self.file, text: self.text, lines: &self.lines, whole: &self.whole, variables: None }
    }

    /// The first mistake of each line.
    fn syntax_mistakes(&self, errors: Vec<Error>) -> Found {
        let mut errors: Vec<(Range<usize>, Error)> =
            errors.into_iter().map(|error| (error.span().unwrap_or(0..0), error)).collect();
        errors.sort_by_key(|(span, _)| span.start);
        let (mut found, mut lines) = (Found::default(), BTreeSet::new());
        let table = self.source().document(Section::OPEN);
        for (span, error) in errors {
            if lines.len() <= MISTAKES_MAX && lines.insert(self.source().line_of(span.start)) {
                let leaf = table.entries().find_map(|(_, value)| leaf_in(value, &span));
                found.add(self.syntax_mistake(&span, leaf, error.message()));
            }
        }
        found
    }

    /// Whatever stands in place of a value is probably text without quotes.
    fn syntax_mistake(&self, span: &Range<usize>, leaf: Option<Value<'_>>, message: &str) -> Box<Mistake> {
        let mistake = |field: &str, expected: &str| self.source().mistake(span.start, field, expected);
        let written = leaf.as_ref().and_then(|leaf| self.text.get(leaf.written.span())).unwrap_or_default();
        let name = leaf.as_ref().map(|leaf| leaf.name.as_str());
        match (name, written) {
            (Some(name), "") => mistake(name, "missing: expected a value"),
            (Some(name), written) if !written.starts_with(['"', '\'']) => {
                let mut mistake = mistake(name, "expected a text in quotes, a number, true or false");
                mistake.hint = Some(format!("write \"{}\"", shown(written))).filter(|_| !written.contains('"'));
                mistake.given(shown(written))
            }
            (name, _) => {
                let given = self.text.get(span.clone()).filter(|given| is_key(given)).map(shown);
                let field = name.map(str::to_owned).or(given).unwrap_or_default();
                let message = shown(&message.lines().collect::<Vec<_>>().join(", "));
                mistake(&field, &format!("not TOML: {message}"))
            }
        }
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// The scalar value, in a table or list, that contains a byte range.
fn leaf_in<'t>(value: Value<'t>, span: &Range<usize>) -> Option<Value<'t>> {
    let own = value.written.span();
    match value.written.get_ref() {
        DeValue::Table(_) => value.table().ok()?.entries().find_map(|(_, value)| leaf_in(value, span)),
        DeValue::Array(_) => value.items().into_iter().find_map(|item| leaf_in(item, span)),
        _ => (own.start <= span.start && span.end <= own.end).then_some(value),
    }
}
