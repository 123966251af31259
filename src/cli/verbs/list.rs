//! `tccc list`: the algorithms in this binary, and the kernel's own.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use super::risk::risk_of;
use crate::cli::output::OutputFormat;
use crate::cli::output::plain::{marked_title, row, write_columns};
use host::state::Store;
use shared::catalog::risk::{Level, Risk};
use shared::catalog::{self, KernelNeed, source};
use shared::kernel::probe::Features;
use shared::kernel::{congestion, struct_ops};

/// Show every algorithm: title, source, risk, registered or not
///
/// The risk is that of giving an algorithm to connections that did not ask for it, by `load --default` or a policy. It
/// is the worst of what `tccc evaluate` finds in the criteria of RFC 9743, beside Reno and CUBIC. Low is on average
/// within the margin in all, medium is worse in one or more, and high is worse even if twice as much were allowed. `tccc show ID` has every
/// criterion.
///
/// Works without root, and on kernels that cannot load any of them. The list ends with the kernel's own algorithms and
/// those registered under other names.
///
/// Example: `tccc list -o json`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct AlgorithmLine {
    id: String,
    title: String,
    source: String,
    patented: bool,
    registered: bool,
    /// What this kernel lacks to run it. `None` if it can, and for the kernel's own.
    lacking: Option<String>,
    /// `None` for the kernel's own.
    risk: Option<Level>,
    /// Digest of the code that was measured; `None` for the kernel's own and for users' files.
    code: Option<String>,
    /// "tccc" if this binary has it, "loaded" if tccc registered it under another name, else "kernel".
    from: &'static str,
}

#[derive(Serialize)]
struct ListDocument {
    default: Option<String>,
    algorithms: Vec<AlgorithmLine>,
}

impl Args {
    pub fn run(&self) -> Result<()> {
        let available = congestion::available().unwrap_or_default();
        // Without root, the kernel does not list its maps.
        let features = Features::probe().ok();
        let tables = features.as_ref().and_then(|features| struct_ops::tables(features).ok()).unwrap_or_default();
        let by_bpf = tables.into_iter().map(|table| table.name).collect();
        let has_accurate_ecn = || features.as_ref().is_some_and(|features| features.accurate_ecn);
        let carried = catalog::all().iter().map(|algorithm| AlgorithmLine {
            id: algorithm.id.clone(),
            title: algorithm.title.clone(),
            source: algorithm.source.clone(),
            patented: algorithm.patents().is_some(),
            registered: available.contains(&algorithm.id),
            lacking: algorithm.check_kernel(has_accurate_ecn).err().and(algorithm.need).map(lacking),
            risk: Some(Risk::of(algorithm).level),
            code: source::code_digest(&algorithm.id),
            from: "tccc",
        });
        let others = available.iter().filter(|name| catalog::find(name).is_err()).map(|name| other(name, &by_bpf));
        let document =
            ListDocument { default: congestion::default().ok(), algorithms: carried.chain(others).collect() };
        self.output.print(&document, write_table)
    }
}

/// Such as "needs Linux 7.0".
fn lacking(need: KernelNeed) -> String {
    format!("needs {}", need.release())
}

fn other(name: &str, by_bpf: &BTreeSet<String>) -> AlgorithmLine {
    let (title, source, patented, risk, from) = match Store::of_host().record(name) {
        Some(record) => {
            let patented = catalog::find(&record.algorithm).is_ok_and(|algorithm| algorithm.patents().is_some());
            let risk = Some(risk_of(&record).level);
            (record.title, format!("loaded from {}", record.algorithm), patented, risk, "loaded")
        }
        None if by_bpf.contains(name) => {
            ("congestion control by BPF".to_owned(), "another program".to_owned(), false, None, "kernel")
        }
        None => ("in this kernel".to_owned(), "the kernel".to_owned(), false, None, "kernel"),
    };
    let lacking = None;
    AlgorithmLine { id: name.to_owned(), title, source, patented, registered: true, lacking, risk, code: None, from }
}

fn write_table(out: &mut impl Write, document: &ListDocument) -> io::Result<()> {
    let rows = document.algorithms.iter().map(|line| {
        let is_default = document.default.as_ref() == Some(&line.id);
        let registered = match (line.registered, is_default, &line.lacking) {
            (true, true, _) => "default",
            (true, false, _) => "yes",
            (false, _, Some(lacking)) => lacking,
            (false, _, None) => "no",
        };
        let risk = line.risk.map_or("-".to_owned(), |risk| risk.to_string());
        row([&line.id, registered, &risk, &marked_title(&line.title, line.patented), &line.source])
    });
    write_columns(out, ["algorithm", "registered", "risk", "title", "source"], rows)
}
