//! Runs the papers' experiments, and writes their summaries into the tree: published, ns-2, real kernel, virtual time.
//!
//! A result directory becomes a report, the report a small JSON file in the tree, and these files become documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use fs_err as fs;
use serde::Deserialize;
use serde_json::Value;

use crate::made::GeneratedTable;
use crate::process::{self, command};

mod kernels;
mod known;
mod page;
mod store;
mod summary;

/// Default folder of results.
const FOLDER: &str = "target/results";
/// Which experiments are run, from `results/experiments.json`.
#[derive(Deserialize)]
struct Experiments {
    /// The papers' folders, with the runs per cell in virtual time.
    papers: Vec<(String, u32)>,
    /// Parts of scenarios for virtual time, which does not support the companion program of `mswift`.
    virtual_parts: BTreeMap<String, Vec<String>>,
    /// Scenarios for the real kernel: at least forty cells, in half an hour.
    on_the_kernel: Vec<String>,
}

static EXPERIMENTS: LazyLock<Experiments> = LazyLock::new(|| {
    serde_json::from_str(include_str!("results/experiments.json")).expect("a test reads the experiments")
});
const KERNEL_RUNS: u32 = 3;

/// The engines side by side.
const AGREEMENT: GeneratedTable = GeneratedTable { document: "scenarios/agreement.md", command: "cargo xtask results" };

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultsEngine {
    /// The host's kernel in real time; needs root
    Kernel,
    /// Virtual time
    Virtual,
    /// The simulator ns-2
    Ns2,
    /// Virtual time with Linux 6.12, for `scenarios/kernels.md`
    Older,
    /// Virtual time with Linux 7.3, for `scenarios/kernels.md`
    Newer,
}

impl ResultsEngine {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[derive(Debug, Args)]
pub struct Arguments {
    /// Folders of papers [default: all]
    papers: Vec<String>,
    /// Run what is missing with this engine before writing the summaries
    #[arg(long, value_enum)]
    run: Vec<ResultsEngine>,
    /// Folder of the result directories
    #[arg(long, default_value = FOLDER)]
    out: PathBuf,
}

/// `cargo xtask results` runs what `--run` asks for, then writes the summaries and their documents.
///
/// A scenario with results in `--out` gets a new summary, so keep the result directories of all engines there. Without
/// results only the documents are written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let known: Vec<&str> = EXPERIMENTS.papers.iter().map(|(paper, _)| paper.as_str()).collect();
    if let Some(name) = arguments.papers.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("\"{name}\" is not a paper's folder: expected one of {}", known.join(", "));
    }
    process::build_fast_tccc()?;
    let is_chosen = |paper: &String| arguments.papers.is_empty() || arguments.papers.contains(paper);
    for (paper, runs) in EXPERIMENTS.papers.iter().filter(|(paper, _)| is_chosen(paper)) {
        let names = process::names_in(&process::workspace().join("scenarios").join(paper), ".toml");
        for (name, engine) in names.iter().flat_map(|name| arguments.run.iter().map(move |engine| (name, *engine))) {
            run_scenario(&arguments.out, &format!("{paper}/{name}"), engine, *runs)?;
        }
        for name in &names {
            let reports = reports(&arguments.out, &format!("{paper}/{name}"))?;
            if !reports.is_empty() {
                let metrics = if paper == known::FOLDER { known::metrics } else { summary::metrics };
                store::write(paper, name, &reports, &metrics(&reports))?;
            }
        }
    }
    for (document, text) in documents()? {
        fs::write(process::workspace().join(&document), text)?;
    }
    write_kernels(&arguments.out)?;
    write_agreement(&arguments.out)
}

/// Compares the kernels of virtual time where both have results in this folder.
fn write_kernels(out: &Path) -> Result<()> {
    let mut all = Vec::new();
    for (paper, _) in &EXPERIMENTS.papers {
        for name in process::names_in(&process::workspace().join("scenarios").join(paper), ".toml") {
            let places = [ResultsEngine::Older, ResultsEngine::Newer]
                .map(|engine| place(out, &format!("{paper}/{name}"), engine));
            if !places.iter().all(|place| place.join("plan.json").exists()) {
                continue;
            }
            let [older, newer] = places.map(|place| process::report(&process::fast_tccc(), &[place]));
            all.push(kernels::OnBoth { paper: paper.clone(), name, reports: [older?, newer?] });
        }
    }
    if all.is_empty() { Ok(()) } else { kernels::TABLE.settle(&kernels::table(&all), true) }
}

/// The documents generated from the summaries in the tree, with their paths.
fn documents() -> Result<Vec<(String, String)>> {
    let mut documents = Vec::new();
    let mut papers = Vec::new();
    for (paper, _) in &EXPERIMENTS.papers {
        let summaries = store::read(paper)?;
        if paper == known::FOLDER {
            documents.push((known::TABLE.document.to_owned(), known::TABLE.filled(&known::table(&summaries))?));
            continue;
        }
        let sections: Vec<String> = summaries.iter().map(|(name, reports)| summary::section(name, reports)).collect();
        if !sections.is_empty() {
            let text = format!("{}\n{}", summary::head(paper), sections.join("\n"));
            documents.push((format!("scenarios/{paper}/results.md"), text));
            papers.push((paper.as_str(), summaries));
        }
    }
    documents.push((page::TABLE.document.to_owned(), page::TABLE.filled(&page::text(&papers))?));
    Ok(documents)
}

/// Compares the engines for every scenario that both ran. The others keep their tables.
fn write_agreement(out: &Path) -> Result<()> {
    let shown = AGREEMENT.shown()?;
    let earlier = |scenario: &str| {
        let mut sections = shown.split("### ").filter(|section| section.starts_with(&format!("{scenario}:")));
        sections.next().map(|section| format!("### {}\n", section.trim()))
    };
    let mut sections = Vec::new();
    for scenario in &EXPERIMENTS.on_the_kernel {
        let places = [ResultsEngine::Kernel, ResultsEngine::Virtual].map(|engine| place(out, scenario, engine));
        if !places.iter().all(|place| place.join("plan.json").exists()) {
            sections.extend(earlier(scenario));
            continue;
        }
        let tccc = process::fast_tccc();
        let output = command!("{tccc} report {places...} -o markdown").output().context("start tccc")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let table = text.split("### Side by side: ").nth(1).context("find the table side by side")?;
        let table = table.split("\n#").next().unwrap_or(table).trim();
        sections.push(format!("### {scenario}: {table}\n"));
    }
    AGREEMENT.settle(&sections.join("\n"), true)
}

fn place(out: &Path, scenario: &str, engine: ResultsEngine) -> PathBuf {
    out.join(engine.name()).join(scenario.replace('/', "-"))
}

/// Runs a scenario with an engine that supports it; finished runs stay.
fn run_scenario(out: &Path, scenario: &str, engine: ResultsEngine, runs: u32) -> Result<()> {
    let file = process::workspace().join("scenarios").join(format!("{scenario}.toml"));
    let is_left_out = match engine {
        ResultsEngine::Kernel => EXPERIMENTS.on_the_kernel.iter().all(|one| one != scenario),
        ResultsEngine::Ns2 => !fs::read_to_string(&file)?.contains("\n[ns2]"),
        // What it asks for, Linux 6.12 lacks.
        ResultsEngine::Older => fs::read_to_string(&file)?.contains("\nkernel = \"7.3\"\n"),
        ResultsEngine::Virtual | ResultsEngine::Newer => false,
    };
    if is_left_out {
        return Ok(());
    }
    let runs = if engine == ResultsEngine::Kernel { KERNEL_RUNS } else { runs };
    let is_virtual = !matches!(engine, ResultsEngine::Kernel | ResultsEngine::Ns2);
    let part = EXPERIMENTS.virtual_parts.get(scenario).filter(|_| is_virtual);
    let part = part.map_or(&[][..], Vec::as_slice);
    let engine_options = match engine {
        ResultsEngine::Older => &["virtual", "--kernel", "6.12"][..],
        ResultsEngine::Newer => &["virtual", "--kernel", "7.3"],
        ResultsEngine::Kernel => &["kernel"],
        ResultsEngine::Virtual => &["virtual"],
        ResultsEngine::Ns2 => &["ns2"],
    };
    process::run_scenario(&file, (engine_options, runs), &place(out, scenario, engine), part)
}

/// The reports of a scenario by engine; the other engines' reports include the simulator's runs.
fn reports(out: &Path, scenario: &str) -> Result<Vec<Value>> {
    let engines = [ResultsEngine::Kernel, ResultsEngine::Virtual, ResultsEngine::Ns2];
    let mut places = engines.map(|engine| place(out, scenario, engine)).to_vec();
    places.retain(|place| place.join("plan.json").exists());
    if places.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match process::report(&process::fast_tccc(), &places)? {
        Value::Array(reports) => reports,
        report => vec![report],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_the_tree_are_made_of_the_summaries() {
        for (document, text) in documents().unwrap() {
            let there = fs::read_to_string(process::workspace().join(&document)).unwrap();
            assert!(there == text, "{document} differs: `cargo xtask results` writes it");
        }
    }
}
