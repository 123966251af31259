//! The declarations as a list of fields with their places, to look up and to print.

use super::field::{Field, Section, Unset, is_open};
use super::whole::DOCUMENT;

/// A field at one place of the file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Dotted, such as `link.reverse.rate`.
    pub path: String,
    pub field: &'static Field,
    pub unset: Unset,
    /// An earlier section has the same fields.
    pub is_repeated: bool,
}

/// Every field at every place, those of a table behind the table.
pub fn entries() -> Vec<Entry> {
    let mut walk = Walk::default();
    walk.enter("", &DOCUMENT);
    walk.entries
}

#[derive(Default)]
struct Walk {
    entries: Vec<Entry>,
    seen: Vec<&'static Section>,
}

impl Walk {
    fn enter(&mut self, place: &str, section: &'static Section) {
        let is_repeated = self.seen.iter().any(|seen| std::ptr::eq(*seen, section));
        self.seen.push(section);
        for (field, unset) in section.fields() {
            let path = if place.is_empty() { field.name.to_owned() } else { format!("{place}.{}", field.name) };
            self.entries.push(Entry { path: path.clone(), field, unset, is_repeated });
            if let Some(section) = field.section() {
                self.enter(&path, section);
            }
        }
    }
}

impl Entry {
    /// The place of the section that it is in; empty at the top of the file.
    pub fn place(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(place, _)| place)
    }

    /// Whether a dotted name means it: a whole path, or the end of one.
    fn is_meant(&self, name: &str) -> bool {
        let given: Vec<&str> = name.split('.').collect();
        let own: Vec<&str> = self.path.split('.').collect();
        let is_own = |(own, given): (&&str, &&str)| own == given || is_open(own);
        own.ends_with(&given) || own.len() == given.len() && own.iter().zip(&given).all(is_own)
    }
}

/// The fields that a name means: all of the name, each once.
pub fn find<'a>(name: &str, entries: &'a [Entry]) -> Vec<&'a Entry> {
    let mut found: Vec<&Entry> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_meant(name)) {
        if !found.iter().any(|other| std::ptr::eq(other.field, entry.field)) {
            found.push(entry);
        }
    }
    found
}
