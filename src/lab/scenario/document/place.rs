//! Mistakes that are found after a scenario was read, with the file, line and field that they are in.

use super::files::Files;
use super::variables::UsedNames;
use super::{CellReader, FileReader};
use crate::path::route::LinkSpec;
use crate::scenario::spec::{Cell, FlowSpec, is_copy_or_itself};
use crate::scenario::whole::Scenario;
use host::toml_reader::{Document, Mistake};
use shared::failure::Failure;
use shared::model::run::At;

impl CellReader<'_> {
    /// The field may be of the cell's variant or of the flow itself.
    pub(super) fn mistake_in_flow(&self, flow: &str, field: &str, what: String) -> Box<Mistake> {
        let written = self.written_flows().unwrap_or_default();
        let Some(written) = written.iter().find(|written| is_copy_or_itself(flow, &written.name)) else {
            return self.document().missing(field, what);
        };
        written.table.refuse_field(field, &what)
    }

    fn mistake_in_link(&self, ends: &[String; 2], (side, field): (usize, &str), what: String) -> Box<Mistake> {
        let written = self.written_links().unwrap_or_default();
        let Some(link) = written.iter().find(|link| link.ends == *ends) else {
            return self.document().missing("link", what);
        };
        let value = link.value(side, field).or_else(|| link.value(side, "change"));
        value.map_or_else(|| link.table().missing(field, &*what), |value| value.refuse_field(&*what))
    }
}

impl Scenario {
    /// Adds the place of a mistake in a field of a flow: in the variant that sets the field, in the sweep that lists
    /// its value, or in the flow itself.
    pub fn mistake_in_flow(&self, cell: &Cell, flow: &FlowSpec, field: &str, why: Failure) -> Failure {
        let what = why.what.clone();
        self.placed(&cell.at, why, |reader| reader.mistake_in_flow(&flow.name, field, what))
    }

    /// Adds the place of a mistake in a field of a link, in direction 0 or 1.
    pub fn mistake_in_link(&self, cell: &Cell, link: &LinkSpec, place: (usize, &str), why: Failure) -> Failure {
        let what = why.what.clone();
        self.placed(&cell.at, why, |reader| reader.mistake_in_link(&link.ends, place, what))
    }

    /// A mistake in an item of `report.metrics`.
    ///
    /// None: the scenario was read from another text.
    pub fn mistake_in_metric(&self, index: usize, what: String) -> Option<Box<Mistake>> {
        let read = |reader: &CellReader<'_>| {
            let metrics = reader.document().get("report")?.table().ok()?.get("metrics")?;
            Some(metrics.listed()?.nth(index)?.refuse(what))
        };
        self.read_again(&At::new(), read)?
    }

    fn placed(&self, at: &At, why: Failure, place: impl FnOnce(&CellReader<'_>) -> Box<Mistake>) -> Failure {
        let Some(mistake) = self.read_again(at, place) else { return why };
        Failure { what: mistake.to_string(), hint: why.hint.or(mistake.hint), ..why }
    }

    /// None: the scenario was read from another text.
    fn read_again<T>(&self, at: &At, read: impl FnOnce(&CellReader<'_>) -> T) -> Option<T> {
        let document = Document::parse(&self.file, &self.text).ok()?;
        let (files, used) = (Files::beside(&self.file), UsedNames::default());
        Some(FileReader { source: document.source(), files: &files, used: &used }.at(Some(at), read))
    }
}
