//! Where a field stands in a scenario that reads without mistakes, for mistakes that only show later.

use super::files::Files;
use super::table::{Reader, syntax};
use crate::failure::Failure;
use crate::model::run::At;
use crate::path::route::LinkSpec;
use crate::scenario::spec::{Cell, FlowSpec, is_copy_or_itself};
use crate::scenario::whole::Scenario;
use crate::written::Mistake;

impl Reader<'_> {
    /// A mistake in the field that gives a flow its value in the cell: its variant's, or its own.
    pub(super) fn mistake_in_flow(&self, flow: &str, field: &str, what: String) -> Box<Mistake> {
        let written = self.written_flows().unwrap_or_default();
        let Some(written) = written.iter().find(|written| is_copy_or_itself(flow, &written.name)) else {
            return self.document().missing(field, what);
        };
        let value = written.table.get(field);
        value.map_or_else(|| written.table.missing(field, &*what), |value| value.refuse_field(&*what))
    }

    fn mistake_in_link(&self, ends: &[String; 2], (side, field): (usize, &str), what: String) -> Box<Mistake> {
        let written = self.written_links().unwrap_or_default();
        let Some(link) = written.iter().find(|link| link.ends == *ends) else {
            return self.document().missing("link", what);
        };
        let value = link.value(side, field).or_else(|| link.value(side, "change"));
        value.map_or_else(|| link.there.missing(field, &*what), |value| value.refuse_field(&*what))
    }
}

impl Scenario {
    /// A mistake in a field of a flow that only shows later, with its place: in the variant that sets the field, in the
    /// sweep that lists its value, or in the flow itself.
    pub fn mistake_in_flow(&self, cell: &Cell, flow: &FlowSpec, field: &str, why: Failure) -> Failure {
        let what = why.what.clone();
        self.placed(&cell.at, why, |reader| reader.mistake_in_flow(&flow.name, field, what))
    }

    /// A mistake in a field of one direction of a link that only shows later, with its place.
    pub fn mistake_in_link(&self, cell: &Cell, link: &LinkSpec, place: (usize, &str), why: Failure) -> Failure {
        let what = why.what.clone();
        self.placed(&cell.at, why, |reader| reader.mistake_in_link(&link.ends, place, what))
    }

    /// A mistake in one of `report.metrics`.
    pub fn mistake_in_metric(&self, index: usize, what: String) -> Option<Box<Mistake>> {
        let whole = syntax(&self.file, &self.text).ok()?;
        let (files, at) = (Files::beside(&self.file), At::new());
        let reader = Reader { file: &self.file, text: &self.text, whole: &whole, files: &files, at: &at };
        let metrics = reader.document().get("report")?.table().ok()?.get("metrics")?.items()?;
        Some(metrics.get(index)?.refuse(what))
    }

    fn placed(&self, at: &At, why: Failure, place: impl FnOnce(&Reader<'_>) -> Box<Mistake>) -> Failure {
        let Ok(whole) = syntax(&self.file, &self.text) else { return why };
        let files = Files::beside(&self.file);
        let mistake = place(&Reader { file: &self.file, text: &self.text, whole: &whole, files: &files, at });
        Failure { what: mistake.to_string(), hint: why.hint.or(mistake.hint), ..why }
    }
}
