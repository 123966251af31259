//! Values of a sweep that are tables: `path = [{ rate = "10mbit", delay = "20ms" }]`, read by `$path.rate`.
//!
//! Everywhere else a value is a text, so a tuple has a label: its `name`, or its fields, separated by spaces.

use super::table::{CellReader, Result, ScenarioTable};
use super::value::ScenarioValue;

/// Field of a tuple that reports show instead of its other fields.
pub(super) const NAME: &str = "name";
pub(super) const EXAMPLE: &str = "{ rate = \"10mbit\", delay = \"20ms\" }";

/// The label of a tuple, which reports, run ids and `--only` use.
///
/// Errors: no field, or one that is neither a text nor a number.
pub(super) fn label(tuple: &ScenarioTable<'_>, value: &ScenarioValue<'_>) -> Result<String> {
    let mut label = String::new();
    for (key, field) in tuple.entries() {
        let Some(text) = field.literal() else { return Err(field.refuse("expected a text or a number")) };
        if key == NAME {
            label = text.into_owned();
            break;
        }
        label += if label.is_empty() { "" } else { " " };
        label += &text;
    }
    if label.is_empty() {
        return Err(value.refuse_field(format!("expected fields, such as {EXAMPLE}")));
    }
    Ok(label)
}

/// Refuses a tuple whose fields are not those of the first, apart from its name.
pub(super) fn check_fields(
    first: &ScenarioTable<'_>,
    tuple: &ScenarioTable<'_>,
    value: &ScenarioValue<'_>,
) -> Result<()> {
    let missing = first.entries().find(|(key, _)| *key != NAME && !tuple.has(key)).map(|(key, _)| key);
    if let Some(key) = missing {
        return Err(value.refuse_field(format!("expected the fields of the first value, and \"{key}\" is missing")));
    }
    match tuple.entries().find(|(key, _)| *key != NAME && !first.has(key)) {
        Some((key, field)) => Err(field.refuse_field(format!("the first value has no \"{key}\""))),
        None => Ok(()),
    }
}

/// Splits `.rate` and what follows it.
fn field_of(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('.')?;
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(text.split_at(end)).filter(|(field, _)| !field.is_empty())
}

impl<'t> CellReader<'t> {
    /// The tuple that a variable takes in this cell.
    ///
    /// None: its values are not tuples.
    pub(super) fn tuple(&self, variable: &str) -> Option<ScenarioTable<'t>> {
        let values = self.document().table("sweep").ok()?.get(variable)?;
        values.written.get_ref().as_array()?.first()?.get_ref().as_table()?; // before the list is copied
        let taken = self.at.get(variable)?;
        let is_taken = |item: &ScenarioValue<'t>| {
            let tuple = item.any_table().ok()?;
            label(&tuple, item).is_ok_and(|label| label == *taken).then_some(tuple)
        };
        values.items()?.iter().find_map(is_taken)
    }
}

impl<'t> ScenarioValue<'t> {
    /// The field of a tuple that `rest`, the text after a variable's name, begins with, and what follows.
    ///
    /// Errors: it begins with no field of the tuple.
    pub(super) fn tuple_field<'r>(
        &self,
        (variable, tuple): (&str, &ScenarioTable<'t>),
        rest: &'r str,
    ) -> Result<(ScenarioValue<'t>, &'r str)> {
        let (name, rest) = field_of(rest).unwrap_or(("", rest));
        if let Some(field) = tuple.get(name) {
            self.reader.used.add(&format!("{variable}.{name}"));
            return Ok((field, rest));
        }
        let known: Vec<String> = tuple.entries().map(|(key, _)| format!("${variable}.{key}")).collect();
        let dot = if name.is_empty() { "" } else { "." };
        Err(self.no_such_name(
            &format!("{variable}{dot}{name}"),
            &known.join(", "),
            known.iter().map(|name| &name[1..]),
        ))
    }
}
