//! What the TOML reader finds wrong, in the words of scenarios: what is allowed, and the likely next step.

use std::ops::Range;

use toml::de::DeValue;

use super::super::ScenarioError;
use super::super::position::{Step, field_at, field_name, line_of, range_of, text_at, value_at, value_in};
use super::Reader;
use crate::experiment::plan::RUNS_MAX;
use crate::model::run::At;
use crate::nearest::nearest;
use crate::path::MTU_RANGE;
use crate::path::named::shown;
use crate::units::MEANT;

/// Tables of which a file may have several.
const REPEATED: [&str; 6] = ["link", "flow", "published", "expected", "figure", "difference"];
/// Tables of which a file has one.
const SINGLE: [&str; 7] = ["sweep", "source", "variant", "report", "selection", "ns2", "virtual"];
/// Types whose values are written without quotes.
const NUMBERS: [&str; 4] = ["u32", "u64", "i64", "f64"];

/// A file that does not read as TOML.
pub(super) fn not_toml(file: &str, text: &str, error: &toml::de::Error) -> ScenarioError {
    let range = error.span().unwrap_or(0..0);
    let (line, message) = (line_of(text, range.start), error.message().lines().collect::<Vec<_>>().join(", "));
    let (field, what, hint) = match text.get(range.clone()).filter(|_| message == "duplicate key") {
        Some(key) => (shown(key), "stands twice in one table: expected each name once".to_owned(), None),
        None => {
            let (what, hint) = not_quoted(text, range.start, message);
            (key_before(text, range.start), what, hint)
        }
    };
    ScenarioError { file: file.to_owned(), line, field, what, hint }
}

/// What is wrong at a byte offset and what to write there: for a text without quotes our words, else the message's.
fn not_quoted(text: &str, offset: usize, message: String) -> (String, Option<String>) {
    if !["string values must be quoted", "invalid boolean"].iter().any(|start| message.starts_with(start)) {
        return (message, None);
    }
    let rest = text.get(offset..).unwrap_or_default();
    let word = shown(rest[..rest.find([',', ']', '}', '#', '"', '\'', '\n']).unwrap_or(rest.len())].trim());
    if word.is_empty() {
        return ("missing: a value is expected here".to_owned(), None);
    }
    (format!("{word} has no quotes: expected a text in quotes or a number"), Some(format!("write \"{word}\"")))
}

/// The field whose value a byte offset of a text that is no TOML lies in, by the `name =` before it in its line and the
/// header above; empty where that line has none.
fn key_before(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or_default();
    let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
    let is_name = |c: char| is_of_a_name(c) || c == '-' || c == '.';
    let left = line.rsplit_once('=').map_or("", |(left, _)| left.trim_end());
    let name = left.rsplit(|c| !is_name(c)).next().unwrap_or_default();
    if name.is_empty() || left.contains('#') {
        return String::new();
    }
    let header = above.lines().rev().find_map(|line| {
        let name = line.trim().strip_prefix('[')?.trim_matches(['[', ']', ' ']);
        (!name.is_empty() && name.chars().all(is_name)).then_some(name)
    });
    header.map_or(name.to_owned(), |header| format!("{header}.{name}"))
}

impl Reader<'_> {
    /// A mistake that the TOML reader found, in our form.
    pub(super) fn translate(&self, error: &toml::de::Error) -> ScenarioError {
        let range: Range<usize> = error.span().unwrap_or(0..0);
        // What the whole file lacks has no place in it.
        let mut field = if range.is_empty() { String::new() } else { field_at(self.written(), &range) };
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        if message.starts_with("missing field") {
            let missing = quoted(&message).first().map_or(String::new(), |name| name.to_string());
            field = [field, missing].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
        }
        let (what, hint) =
            self.wrong_brackets(&field).map_or_else(|| in_our_words(&field, message), |what| (what, None));
        let line = line_of(self.text, range.start);
        self.placed(&range, ScenarioError { file: self.file.to_owned(), line, field, what, hint })
    }

    /// A table of the file in too few pairs of brackets, or in too many.
    fn wrong_brackets(&self, field: &str) -> Option<String> {
        match self.written().get(field)?.get_ref() {
            DeValue::Table(_) if REPEATED.contains(&field) => {
                Some(format!("expected [[{field}]], in two pairs of brackets: there may be several"))
            }
            DeValue::Array(_) if SINGLE.contains(&field) => {
                Some(format!("expected [{field}], in one pair of brackets: there is one"))
            }
            _ => None,
        }
    }

    /// A mistake in what a field takes from `[sweep]` is one there; any other stays where it is. A number that is
    /// written without quotes is shown without.
    pub(super) fn placed(&self, range: &Range<usize>, error: ScenarioError) -> ScenarioError {
        let Some((name, text)) = self.taken_from_sweep(range) else {
            return as_number(error, value_in(self.written(), range));
        };
        let list = [Step::Key("sweep"), Step::Key(name)];
        let line_at = |path: &[Step<'_>]| line_of(self.text, range_of(self.written(), path).start);
        if text != format!("${name}") {
            let hint = format!("\"${name}\" takes its values from [sweep], line {}", line_at(&list));
            return ScenarioError { hint: error.hint.or(Some(hint)), ..error };
        }
        let given = text_at(self.table.get_ref(), range);
        let values = value_at(self.written(), &list).and_then(|values| values.get_ref().as_array());
        let place = values.and_then(|values| values.iter().position(|value| written_as(value.get_ref()) == given));
        let line = place.map_or(line_at(&list), |place| line_at(&[list[0], list[1], Step::Item(place)]));
        let listed = place.and_then(|place| Some(values?.get(place)?.get_ref()));
        let hint = format!("it is the value of {}, line {}", error.field, error.line);
        let error = ScenarioError { line, field: field_name(&list), ..error }.or_hint(hint);
        as_number(error, listed)
    }

    /// The variable of `[sweep]` that the smallest field at a byte range takes, and that field's text.
    fn taken_from_sweep(&self, range: &Range<usize>) -> Option<(&str, &str)> {
        let text = text_at(self.written(), range)?;
        let sweep = self.written().get("sweep")?.get_ref().as_table()?;
        let is_taken = |name: &&str| {
            let mut rests = text.split('$').skip(1);
            rests.any(|rest| rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_of_a_name)))
        };
        Some((sweep.keys().map(|key| key.get_ref().as_ref()).find(is_taken)?, text))
    }

    /// A `$name` that nothing stands for.
    pub(super) fn unknown_name(&self, range: &Range<usize>, name: &str, at: &At) -> ScenarioError {
        let known: Vec<String> = at.keys().map(|key| format!("${key}")).collect();
        let known = if known.is_empty() { "there is no [sweep]".to_owned() } else { known.join(", ") };
        let field = field_at(self.table.get_ref(), range);
        let what = format!("\"${name}\": expected a variable of [sweep]: {known}");
        let meant = nearest(name, at.keys().map(String::as_str)).map(|name| format!("did you mean \"${name}\"?"));
        let hint = meant.or_else(|| self.misspelt_sweep().filter(|_| at.is_empty()));
        ScenarioError { file: self.file.to_owned(), line: line_of(self.text, range.start), field, what, hint }
    }

    fn misspelt_sweep(&self) -> Option<String> {
        let table = self.table.get_ref();
        let name = nearest("sweep", table.keys().map(|key| key.get_ref().as_ref()))?;
        let line = line_of(self.text, range_of(table, &[Step::Key(name)]).start);
        Some(format!("line {line} has [{name}]: did you mean [sweep]?"))
    }
}

/// A text or a number as it is written; none for anything else.
pub(super) fn written_as<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    match value {
        DeValue::String(text) => Some(text),
        DeValue::Integer(number) => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        _ => None,
    }
}

/// A mistake that shows a number as text, where the file has it as a number.
fn as_number(error: ScenarioError, value: Option<&DeValue<'_>>) -> ScenarioError {
    let written = value.filter(|value| !value.is_str()).and_then(written_as);
    let parts = error.what.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    match (written, parts) {
        (Some(number), Some((given, rest))) if number.parse::<f64>() == given.parse::<f64>() => {
            ScenarioError { what: format!("{number}{rest}"), ..error }
        }
        _ => error,
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The parts of a message between back quotes.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// What is wrong and what is allowed, and what was probably meant.
fn in_our_words(field: &str, message: String) -> (String, Option<String>) {
    let quoted = quoted(&message);
    let meant = |name: &str| format!("did you mean \"{name}\"?");
    if let (true, [given, allowed @ ..]) = (message.starts_with("unknown field"), &quoted[..]) {
        let hint = nearest(given, allowed.iter().copied()).map(meant);
        return (format!("no such field: expected one of {}", allowed.join(", ")), hint);
    }
    if let (true, [given, allowed @ ..]) = (message.starts_with("unknown variant"), &quoted[..]) {
        let hint = nearest(given, allowed.iter().copied()).map(meant);
        return (format!("\"{given}\": expected {}", allowed.join(" or ")), hint);
    }
    if message.starts_with("missing field") {
        return ("missing, and it has no default".to_owned(), None);
    }
    let is_of_type =
        ["invalid type: ", "invalid value: ", "invalid length "].iter().any(|key| message.starts_with(key));
    match message.split_once(", expected ").filter(|_| is_of_type) {
        Some((given, wanted)) => {
            let unquoted = if is_number_in_quotes(given, wanted) { ", without quotes" } else { "" };
            (format!("{}expected {}{unquoted}", given_value(given, &quoted), allowed(field, wanted)), None)
        }
        None => match message.split_once(MEANT) {
            Some((what, meant)) => (what.to_owned(), Some(format!("did you mean {meant}"))),
            None => (message, None),
        },
    }
}

/// The value that was given, where the message has it: a text between double quotes, anything else between back quotes.
fn given_value(given: &str, quoted: &[&str]) -> String {
    match (given.split_once('"'), quoted.first()) {
        (Some((_, text)), _) => format!("\"{text}: "),
        (None, Some(value)) => format!("\"{value}\": "),
        (None, None) => String::new(),
    }
}

fn is_number_in_quotes(given: &str, wanted: &str) -> bool {
    let text = given.split_once('"').map_or("", |(_, text)| text.trim_end_matches('"'));
    NUMBERS.contains(&wanted) && text.parse::<f64>().is_ok()
}

/// What a field takes: by its name where its type does not say it all, else by the type's name.
fn allowed(field: &str, wanted: &str) -> String {
    let [smallest, largest] = MTU_RANGE;
    match (field.rsplit('.').next().unwrap_or_default(), wanted) {
        ("runs", _) => format!("a whole number from 1 to {RUNS_MAX}"),
        ("seed", _) => format!("a whole number from 0 to {}", i64::MAX),
        ("mtu", _) => format!("a whole number of bytes from {smallest} to {largest}"),
        ("ends", _) => "two nodes, such as [\"a\", \"b\"]".to_owned(),
        (_, "u32" | "u64" | "i64") => "a whole number from 0".to_owned(),
        (_, "a boolean") => "true or false".to_owned(),
        (_, "a string") => "a text in quotes".to_owned(),
        (_, "f64") => "a number".to_owned(),
        (_, "a sequence") => "a list, such as [1, 2]".to_owned(),
        (_, wanted) if wanted.starts_with("struct ") || wanted == "a map" => "a table, such as { name = 1 }".to_owned(),
        (_, wanted) => wanted.to_owned(),
    }
}
