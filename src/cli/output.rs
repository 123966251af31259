//! What verbs print: sockets and streams in every format, tables, and messages. It knows no verb.

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::plain::plain_lines;

pub mod arms;
pub mod columns;
pub mod document;
mod json;
pub mod naming;
mod parquet;
pub mod plain;
pub mod stream;

/// Whether `--quiet` was given; set once, before a verb runs.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Keeps warnings and notes to itself from now on, or not.
pub fn set_quiet(is_quiet: bool) {
    QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Version of the JSON that verbs print.
pub const SCHEMA: u32 = 1;

/// How a query prints its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    Table,
    /// One JSON document with a schema number
    Json,
}

impl Format {
    /// Prints a document as JSON, or as `table` writes it.
    ///
    /// Errors: stdout cannot be written.
    pub fn print<D: Serialize>(
        self,
        document: &D,
        table: impl FnOnce(&mut StdoutLock<'static>, &D) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Format::Json => write_json(&mut out, document),
            Format::Table => Ok(table(&mut out, document)?),
        }
    }
}

/// A document behind its schema number.
#[derive(Serialize)]
struct Numbered<'a, D> {
    schema: u32,
    #[serde(flatten)]
    document: &'a D,
}

/// Writes one JSON document, with the schema number before its fields.
///
/// Errors: `out` cannot be written.
pub fn write_json(out: &mut impl Write, document: &impl Serialize) -> Result<()> {
    let document = Numbered { schema: SCHEMA, document };
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?)
}

/// Writes to stderr. What nobody can read there, on a closed pipe or a full disk, is lost, and the work goes on.
pub fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Whether stderr shall have errors only.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
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
