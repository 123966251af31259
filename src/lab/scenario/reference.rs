//! Declares every section and field of a scenario file, with its text and the struct that is read.
//!
//! The reader accepts no other field. `tccc run --explain` and `scenarios/REFERENCE.md` show these declarations.

mod check;
mod flow;
mod path;
mod report;
mod whole;

pub use host::toml_reader::{FieldEntry, Kind, Unset, find};

pub use self::check::{CheckFields, ConditionFields};
pub use self::flow::FlowFields;
pub(super) use self::flow::{ONLY_TCP, ONLY_UDP};
pub(super) use self::path::CHANGE_REVERSE;
pub use self::path::{ChangeFields, LinkFields, ONE_WAY};
pub use self::report::{
    DifferenceSpec, Expected, FigureSpec, MarginSpec, NumberLists, Published, ReportFields, SelectionFields, SourceSpec,
};
pub(super) use self::whole::DOCUMENT;
pub use self::whole::{Ns2Spec, ScenarioFields, VirtualSpec};

/// Every field at every place. The fields of a table follow the table.
pub fn entries() -> Vec<FieldEntry> {
    host::toml_reader::entries(&DOCUMENT)
}

/// The hint of a mistake that has no hint of its own.
pub(super) fn hint(field: &str) -> String {
    match find(field, &entries()).as_slice() {
        [] => "`tccc run --explain` lists every field".to_owned(),
        _ => format!("`tccc run --explain {field}` describes the field"),
    }
}
