//! Reports as JSON: one document, or an array of several.
//!
//! The shape is that of [`Report`]. Keys may be added; any other change raises the schema number.

use anyhow::{Context, Result};

use crate::report::judge::report::Report;

pub fn write(reports: &[Report]) -> Result<String> {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    text.map(|text| text + "\n").context("write JSON")
}
