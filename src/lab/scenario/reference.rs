//! Declares every section and field of a scenario file, with its text.
//!
//! The reader accepts no other field. `tccc run --explain` and `scenarios/REFERENCE.md` show these declarations.

mod entry;
mod field;
mod flow;
mod path;
mod report;
mod whole;

pub use self::entry::{FieldEntry, entries, find};
pub use self::field::{Kind, ScenarioField, ScenarioSection, Unset};
pub(super) use self::flow::ONLY_TCP;
pub(super) use self::path::CHANGE_REVERSE;
pub use self::path::ONE_WAY;
pub(super) use self::whole::DOCUMENT;

/// The hint of a mistake that has no hint of its own.
pub(super) fn hint(field: &str) -> String {
    match find(field, &entries()).as_slice() {
        [] => "`tccc run --explain` lists every field".to_owned(),
        _ => format!("`tccc run --explain {field}` describes the field"),
    }
}

/// A section in which the file chooses the names of all fields.
pub(super) static OPEN: ScenarioSection = ScenarioSection { own: &[], shared: &[] };
