//! Every section and field of a scenario file, each declared once with its text.
//!
//! The reader accepts no other field. `tccc run --explain` and `scenarios/REFERENCE.md` show the same declarations.

mod entry;
mod field;
mod flow;
mod path;
mod report;
mod whole;

pub use self::entry::{Entry, entries, find};
pub use self::field::{Field, Kind, Section, Unset};
pub(super) use self::flow::ONLY_TCP;
pub(super) use self::path::CHANGE_REVERSE;
pub(crate) use self::path::ONE_WAY;
pub(super) use self::whole::DOCUMENT;

/// The next step after a mistake in a field.
pub(super) fn hint(field: &str) -> String {
    match find(field, &entries()).as_slice() {
        [] => "`tccc run --explain` lists every field".to_owned(),
        _ => format!("`tccc run --explain {field}` describes the field"),
    }
}

/// A section whose fields have names of the file's own.
pub(super) static OPEN: Section = Section { own: &[], shared: &[] };
