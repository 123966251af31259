//! Lists every declared field with its place in the file.

use super::field::{ScenarioField, ScenarioSection, Unset, is_open};
use super::whole::DOCUMENT;

/// A field at one place of the file.
#[derive(Debug, Clone)]
pub struct FieldEntry {
    /// Dotted, such as `link.reverse.rate`.
    pub path: String,
    pub field: &'static ScenarioField,
    pub unset: Unset,
    section: &'static ScenarioSection,
    /// Whether an earlier place has the same section.
    pub is_repeated: bool,
}

/// Every field at every place. The fields of a table follow the table.
pub fn entries() -> Vec<FieldEntry> {
    let mut entries = Vec::new();
    add("", &DOCUMENT, &mut entries);
    entries
}

fn add(place: &str, section: &'static ScenarioSection, entries: &mut Vec<FieldEntry>) {
    let is_repeated = entries.iter().any(|entry| std::ptr::eq(entry.section, section));
    for (field, unset) in section.fields() {
        let path = if place.is_empty() { field.name.to_owned() } else { format!("{place}.{}", field.name) };
        entries.push(FieldEntry { path: path.clone(), field, unset, section, is_repeated });
        if let Some(section) = field.section() {
            add(&path, section, entries);
        }
    }
}

impl FieldEntry {
    /// The path of the table that has the field; empty at the top of the file.
    pub fn place(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(place, _)| place)
    }

    /// Whether a dotted name is the whole path, or the end of it.
    fn has_name(&self, name: &str) -> bool {
        let given: Vec<&str> = name.split('.').collect();
        let own: Vec<&str> = self.path.split('.').collect();
        let is_own = |(own, given): (&&str, &&str)| own == given || is_open(own);
        own.ends_with(&given) || own.len() == given.len() && own.iter().zip(&given).all(is_own)
    }
}

/// The different fields that a dotted name may mean.
pub fn find<'a>(name: &str, entries: &'a [FieldEntry]) -> Vec<&'a FieldEntry> {
    let mut found: Vec<&FieldEntry> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.has_name(name)) {
        if !found.iter().any(|other| std::ptr::eq(other.field, entry.field)) {
            found.push(entry);
        }
    }
    found
}
