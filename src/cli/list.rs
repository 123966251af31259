//! `tccc list`: every algorithm this binary knows, and the kernel's own.

use std::io::{self, Write};

use anyhow::Result;

use serde::Serialize;

use super::Format;
use super::plain::{marked_title, row, write_columns};
use crate::catalog;
use crate::kernel::congestion;
use crate::state::Store;

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// Show every algorithm: title, source, whether it is registered now
///
/// Works without root and on kernels that can load none of them. Below the carried ones stand those that the kernel
/// has besides: its own, and what was registered under other names.
///
/// Example: `tccc list -o json`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct Line {
    id: String,
    title: String,
    source: String,
    patented: bool,
    registered: bool,
    /// "tccc" for the carried ones, "loaded" for what tccc registered under another name, else "kernel".
    from: &'static str,
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    default: Option<String>,
    algorithms: Vec<Line>,
}

impl Args {
    /// Prints the list.
    ///
    /// Errors: stdout is closed.
    pub fn run(&self) -> Result<()> {
        let document = gather();
        let mut out = io::stdout().lock();
        match self.output {
            Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?,
            Format::Table => write_columns(&mut out, &rows(&document))?,
        }
        Ok(())
    }
}

fn gather() -> Document {
    let available = congestion::available().unwrap_or_default();
    let carried = catalog::all().iter().map(|algorithm| Line {
        id: algorithm.id.clone(),
        title: algorithm.title.clone(),
        source: algorithm.source.clone(),
        patented: algorithm.patents().is_some(),
        registered: available.contains(&algorithm.id),
        from: "tccc",
    });
    let mut algorithms: Vec<Line> = carried.collect();
    let others = available.iter().filter(|name| !catalog::all().iter().any(|algorithm| algorithm.id == **name));
    algorithms.extend(others.map(|name| other(name)));
    Document { schema: SCHEMA, default: congestion::default().ok(), algorithms }
}

fn other(name: &str) -> Line {
    let (title, source, patented, from) = match Store::of_host().record(name) {
        Some(record) => {
            let carried = catalog::all().iter().find(|algorithm| algorithm.id == record.algorithm);
            let patented = carried.is_some_and(|algorithm| algorithm.patents().is_some());
            (record.title, format!("loaded from {}", record.algorithm), patented, "loaded")
        }
        None => ("in this kernel".to_owned(), "the kernel".to_owned(), false, "kernel"),
    };
    Line { id: name.to_owned(), title, source, patented, registered: true, from }
}

fn rows(document: &Document) -> Vec<Vec<String>> {
    let mut rows = vec![row(["algorithm", "registered", "title", "source"])];
    rows.extend(document.algorithms.iter().map(|line| {
        let is_default = document.default.as_ref() == Some(&line.id);
        let registered = match (line.registered, is_default) {
            (true, true) => "default",
            (true, false) => "yes",
            _ => "no",
        };
        row([&line.id, registered, &marked_title(&line.title, line.patented), &line.source])
    }));
    rows
}
