//! Output shared by several verbs: sockets and event streams in every format, tables, and messages.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use shared::sanitize::plain_lines;

pub mod arms;
pub mod columns;
pub mod document;
mod json;
pub mod naming;
pub mod plain;
pub mod stdout;
pub mod stream;

pub use stdout::{Results, results};

/// Whether `--quiet` was given; set once, before a verb runs.
static QUIET: AtomicBool = AtomicBool::new(false);

pub fn set_quiet(is_quiet: bool) {
    QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Whether only errors may go to stderr.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Version of the JSON that verbs print.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Columns for people
    Table,
    /// One JSON document with a schema number
    Json,
}

impl OutputFormat {
    /// Prints a document as JSON, or as `table` writes it.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn print<D: Serialize>(
        self,
        document: &D,
        table: impl FnOnce(&mut Results, &D) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = results();
        match self {
            OutputFormat::Json => write_json(&mut out, document),
            OutputFormat::Table => Ok(table(&mut out, document)?),
        }
    }
}

/// Puts the schema number before the document's own fields.
#[derive(Serialize)]
struct WithSchema<'a, D> {
    schema: u32,
    #[serde(flatten)]
    document: &'a D,
}

/// Writes one JSON document with its schema number.
pub fn write_json(out: &mut impl Write, document: &impl Serialize) -> Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&WithSchema { schema: SCHEMA, document })?)?)
}

/// Writes to stderr. Ignores errors, such as a closed pipe or a full disk, so that the work continues.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints `tccc: warning: what` and the next step, unless `--quiet` was given.
pub fn warn(what: &str, hint: Option<&str>) {
    if !is_quiet() {
        tell(&format!("tccc: warning: {}\n", plain_lines(what)));
        hint.iter().for_each(|hint| tell(&format!("  hint: {}\n", plain_lines(hint))));
    }
}

/// Prints `tccc: note: what`, unless `--quiet` was given.
pub fn note(what: &str) {
    if !is_quiet() {
        tell(&format!("tccc: note: {}\n", plain_lines(what)));
    }
}
