//! Parses the TOML of a file, and finds the field of each syntax mistake.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::mistake::MISTAKES_MAX;
use super::reader::{Field, Reader, TomlTable};
use shared::plain::shown;

/// In longer texts, only the first syntax mistake is reported. Bytes.
const RECOVERED_MAX: usize = 1 << 20;

impl<'a> Reader<'a> {
    /// Parses the text. `None` after a mistake, because values may then not be what was meant.
    pub fn syntax(&mut self) -> Option<Spanned<DeTable<'a>>> {
        let text = self.text;
        let (document, errors) = match text.len() > RECOVERED_MAX {
            true => DeTable::parse(text).map_or_else(|error| (None, vec![error]), |table| (Some(table), Vec::new())),
            false => {
                let (document, errors) = DeTable::parse_recoverable(text);
                (Some(document), errors)
            }
        };
        if errors.is_empty() {
            return document;
        }
        let mut errors: Vec<(Range<usize>, Error)> =
            errors.into_iter().map(|error| (error.span().unwrap_or(0..0), error)).collect();
        errors.sort_by_key(|(span, _)| span.start);
        let mut lines = BTreeSet::new();
        for (span, error) in errors {
            if lines.len() <= MISTAKES_MAX && lines.insert(self.line_of(span.start)) {
                let whole = document.as_ref().map(TomlTable::whole);
                let leaf = whole.and_then(|table| table.fields().find_map(|(_, field)| leaf_in(field, &span)));
                self.refuse_syntax(&span, leaf, error.message());
            }
        }
        None
    }

    /// Adds a syntax mistake. Whatever stands in place of a value is probably text without quotes.
    fn refuse_syntax(&mut self, span: &Range<usize>, leaf: Option<Field<'_>>, message: &str) {
        let text = self.text;
        let written = leaf.as_ref().and_then(|leaf| text.get(leaf.value.span())).unwrap_or_default();
        let name = leaf.as_ref().map(|leaf| leaf.name.as_str());
        match (name, written) {
            (Some(name), "") => {
                self.refuse_at(span.start, name, "missing: expected a value");
            }
            (Some(name), written) if !written.starts_with(['"', '\'']) => {
                let mistake = self.refuse_at(span.start, name, "expected a text in quotes, a number, true or false");
                mistake.given = Some(shown(written));
                mistake.hint = Some(format!("write \"{}\"", shown(written))).filter(|_| !written.contains('"'));
            }
            (name, _) => {
                let given = text.get(span.clone()).filter(|given| is_key(given)).map(shown);
                let field = name.map(str::to_owned).or(given).unwrap_or_default();
                let message = shown(&message.lines().collect::<Vec<_>>().join(", "));
                self.refuse_at(span.start, &field, format!("not TOML: {message}"));
            }
        }
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// The scalar value, in a table or list, that contains a byte range.
fn leaf_in<'t>(field: Field<'t>, span: &Range<usize>) -> Option<Field<'t>> {
    let own = field.value.span();
    match field.value.get_ref() {
        DeValue::Table(_) => field.table()?.fields().find_map(|(_, field)| leaf_in(field, span)),
        DeValue::Array(_) => field.items().into_iter().find_map(|item| leaf_in(item, span)),
        _ => (own.start <= span.start && span.end <= own.end).then_some(field),
    }
}
