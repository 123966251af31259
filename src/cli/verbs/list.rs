//! `tccc list`: every algorithm this binary knows, and the kernel's own.

use std::io::{self, Write};

use anyhow::Result;

use serde::Serialize;

use super::capabilities;
use crate::catalog::risk::{Level, Risk};
use crate::catalog::{self, source};
use crate::cli::output::Format;
use crate::cli::output::plain::{marked_title, row, write_columns};
use crate::kernel::congestion;
use crate::state::Store;

/// Show every algorithm: title, source, risk, registered or not
///
/// The risk is that of giving it to connections that did not ask for it, by `load --default` or a policy. It is measured
/// against Reno on the paths of scenarios/safety. Where a neighbour, or the host itself, is at least 2 times worse off, it
/// is high; from 1.25 times on it is medium. The README there has the rule, `tccc show ID` the figures.
///
/// Works without root and on kernels that can load none of them. At the end it lists the kernel's own algorithms, and what
/// was registered under other names.
///
/// Example: `tccc list -o json`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("list", ""))]
pub struct Args {
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct AlgorithmLine {
    id: String,
    title: String,
    source: String,
    patented: bool,
    registered: bool,
    /// As the default of a host; none for the kernel's own.
    risk: Option<Level>,
    /// Digest of the code, for whoever measures it; none for the kernel's own, and for files of users.
    code: Option<String>,
    /// "tccc" for the carried ones, "loaded" for what tccc registered under another name, else "kernel".
    from: &'static str,
}

#[derive(Serialize)]
struct Document {
    default: Option<String>,
    algorithms: Vec<AlgorithmLine>,
}

impl Args {
    /// Prints the list.
    ///
    /// Errors: stdout is closed.
    pub fn run(&self) -> Result<()> {
        self.output.print(&gather(), write_table)
    }
}

fn gather() -> Document {
    let available = congestion::available().unwrap_or_default();
    let carried = catalog::all().iter().map(|algorithm| AlgorithmLine {
        id: algorithm.id.clone(),
        title: algorithm.title.clone(),
        source: algorithm.source.clone(),
        patented: algorithm.patents().is_some(),
        registered: available.contains(&algorithm.id),
        risk: Some(Risk::of(algorithm).level),
        code: source::code_digest(&algorithm.id),
        from: "tccc",
    });
    let mut algorithms: Vec<AlgorithmLine> = carried.collect();
    let others = available.iter().filter(|name| !catalog::all().iter().any(|algorithm| algorithm.id == **name));
    algorithms.extend(others.map(|name| other(name)));
    Document { default: congestion::default().ok(), algorithms }
}

fn other(name: &str) -> AlgorithmLine {
    let (title, source, patented, risk, from) = match Store::of_host().record(name) {
        Some(record) => {
            let carried = catalog::all().iter().find(|algorithm| algorithm.id == record.algorithm);
            let patented = carried.is_some_and(|algorithm| algorithm.patents().is_some());
            let risk = Some(super::risk::risk_of(&record).level);
            (record.title, format!("loaded from {}", record.algorithm), patented, risk, "loaded")
        }
        None => ("in this kernel".to_owned(), "the kernel".to_owned(), false, None, "kernel"),
    };
    AlgorithmLine { id: name.to_owned(), title, source, patented, registered: true, risk, code: None, from }
}

fn write_table(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let rows = document.algorithms.iter().map(|line| {
        let is_default = document.default.as_ref() == Some(&line.id);
        let registered = match (line.registered, is_default) {
            (true, true) => "default",
            (true, false) => "yes",
            _ => "no",
        };
        let risk = line.risk.map_or("-".to_owned(), |risk| risk.to_string());
        row([&line.id, registered, &risk, &marked_title(&line.title, line.patented), &line.source])
    });
    write_columns(out, ["algorithm", "registered", "risk", "title", "source"], rows)
}
