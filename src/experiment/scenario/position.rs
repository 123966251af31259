//! Where in a TOML text something stands: from a byte range to line and field, and from a field to its byte range.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One step on the way from the document to a value.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// Into a table.
    Key(&'a str),
    /// Into an array.
    Item(usize),
}

/// Line of a byte offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    line_at_byte(text.as_bytes(), offset)
}

/// As [`line_of`], in bytes that may be no text.
pub fn line_at_byte(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset.min(bytes.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Dotted name of the smallest field that contains a byte range: `link.queue`.
pub fn field_at(table: &DeTable<'_>, range: &Range<usize>) -> String {
    let mut names = Vec::new();
    descend(table, range, &mut names);
    names.join(".")
}

fn descend(table: &DeTable<'_>, range: &Range<usize>, names: &mut Vec<String>) {
    for (key, value) in table.iter() {
        if contains(&key.span(), range) {
            names.push(key.get_ref().to_string());
            return;
        }
        if holds(value, range) {
            names.push(key.get_ref().to_string());
            return descend_value(value.get_ref(), range, names);
        }
    }
}

fn descend_value(value: &DeValue<'_>, range: &Range<usize>, names: &mut Vec<String>) {
    match value {
        DeValue::Table(table) => descend(table, range, names),
        DeValue::Array(items) => {
            if let Some(item) = items.iter().find(|item| holds(item, range)) {
                descend_value(item.get_ref(), range, names);
            }
        }
        _ => {}
    }
}

/// Whether the range lies in this value. A table's own span is only its header, so its entries are asked too.
fn holds(value: &Spanned<DeValue<'_>>, range: &Range<usize>) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => table.iter().any(|(key, value)| contains(&key.span(), range) || holds(value, range)),
        DeValue::Array(items) => items.iter().any(|item| holds(item, range)),
        _ => false,
    };
    inside || contains(&value.span(), range)
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The text that is the value of the smallest field that contains a byte range; none for other values.
pub fn text_at<'a>(table: &'a DeTable<'_>, range: &Range<usize>) -> Option<&'a str> {
    value_in(table, range)?.as_str()
}

/// The value, neither table nor array, that contains a byte range.
pub fn value_in<'a, 'b>(table: &'a DeTable<'b>, range: &Range<usize>) -> Option<&'a DeValue<'b>> {
    table.values().find_map(|value| single_in(value, range))
}

fn single_in<'a, 'b>(value: &'a Spanned<DeValue<'b>>, range: &Range<usize>) -> Option<&'a DeValue<'b>> {
    match value.get_ref() {
        DeValue::Table(table) => value_in(table, range),
        DeValue::Array(items) => items.iter().find_map(|item| single_in(item, range)),
        single => contains(&value.span(), range).then_some(single),
    }
}

/// The value at a path; none when the path leads nowhere.
pub fn value_at<'a, 'b>(table: &'a DeTable<'b>, path: &[Step<'_>]) -> Option<&'a Spanned<DeValue<'b>>> {
    let [Step::Key(first), rest @ ..] = path else { return None };
    rest.iter().try_fold(table.get(*first)?, |value, step| match (step, value.get_ref()) {
        (Step::Key(key), DeValue::Table(table)) => table.get(*key),
        (Step::Item(index), DeValue::Array(items)) => items.get(*index),
        _ => None,
    })
}

/// Byte range of the value at a path; of the deepest part that exists when the path goes further.
pub fn range_of(table: &DeTable<'_>, path: &[Step<'_>]) -> Range<usize> {
    let [Step::Key(first), rest @ ..] = path else { return 0..0 };
    let Some(value) = table.get(*first) else { return 0..0 };
    range_in(value, rest)
}

fn range_in(value: &Spanned<DeValue<'_>>, path: &[Step<'_>]) -> Range<usize> {
    let inner = match (path.first(), value.get_ref()) {
        (Some(Step::Key(key)), DeValue::Table(table)) => table.get(*key),
        (Some(Step::Item(index)), DeValue::Array(items)) => items.get(*index),
        _ => None,
    };
    inner.map_or_else(|| value.span(), |inner| range_in(inner, &path[1..]))
}

/// Dotted name of a path, without positions in arrays.
pub fn field_name(path: &[Step<'_>]) -> String {
    let names = path.iter().filter_map(|step| match step {
        Step::Key(key) => Some(*key),
        Step::Item(_) => None,
    });
    names.collect::<Vec<_>>().join(".")
}
