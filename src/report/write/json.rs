//! The report as JSON: one document a directory, an array when there are several.
//!
//! The shape is that of [`Report`] and is never changed without raising its schema number; keys may be added.

use anyhow::{Context, Result};

use crate::report::judge::report::Report;

/// Writes the reports.
///
/// Errors: the text cannot be written.
pub fn write(reports: &[Report]) -> Result<String> {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    text.map(|text| text + "\n").context("write JSON")
}
