//! The experiments of the papers, run to the end, and their summaries in the tree: published, ns-2, real kernel, virtual.
//!
//! A run's result directory becomes a report, the report a small JSON file in the tree, and these files the documents.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::made::Block;
use crate::process;

mod page;
mod store;
mod summary;

/// Where results lie unless the command says otherwise.
const FOLDER: &str = "target/results";
/// The papers' folders, with how many runs of each cell virtual time makes.
const PAPERS: [(&str, u32); 6] = [
    ("dtcp-2018", 30),
    ("msack-2024", 30),
    ("adaptive-2019", 30),
    ("swift-start", 30),
    ("cct-2017", 5),
    ("compare", 5),
];
/// What virtual time does not have is left out: `mswift` needs a BPF program beside it.
const PARTS: [(&str, &[&str]); 7] = [
    ("swift-start/figures-10-11", &["variant=slow start", "variant=swift start"]),
    ("swift-start/figures-4-7", &["variant=slow start", "variant=swift start"]),
    ("swift-start/figures-8-9", &["variant=slow start", "variant=swift start"]),
    ("swift-start/table-2", &["variant=slow start"]),
    ("swift-start/table-3", &["variant=slow start"]),
    ("compare/cellular", &["algorithm=reno", "algorithm=cubic", "algorithm=bbr", "algorithm=dtcp"]),
    ("compare/random-loss", &["algorithm=reno", "algorithm=cubic", "algorithm=bbr", "algorithm=dtcp"]),
];
/// What the real kernel runs too, at three runs a cell: at least forty cells, in half an hour.
const ON_THE_KERNEL: [&str; 7] = [
    "dtcp-2018/table-2",
    "dtcp-2018/table-3",
    "msack-2024/table-1",
    "adaptive-2019/figures-2-5",
    "swift-start/figures-2-3",
    "compare/cct-slow-start",
    "compare/fast-start",
];
const KERNEL_RUNS: u32 = 3;

/// The engines side by side.
const AGREEMENT: Block = Block { document: "scenarios/agreement.md", command: "cargo xtask results" };

/// What carries runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The host's kernel, in real time: needs root
    Kernel,
    /// Virtual time
    Virtual,
    /// The simulator
    Ns2,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Kernel => "kernel",
            Engine::Virtual => "virtual",
            Engine::Ns2 => "ns2",
        }
    }
}

/// What to run and to write.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folders of papers, instead of all
    papers: Vec<String>,
    /// Run what is not run yet, with this engine, before the summaries are written
    #[arg(long, value_enum)]
    run: Vec<Engine>,
    /// Folder of the result directories
    #[arg(long, default_value = FOLDER)]
    out: PathBuf,
}

/// Runs what is asked for, then writes the summaries and the documents made of them: `cargo xtask results`.
///
/// The summary of a scenario is replaced if `--out` has results of it, so keep the result directories of all engines
/// there. Without results only the documents are written: `results.md` beside each paper's scenarios, and the page of
/// all.
///
/// Errors: a run fails; a folder does not belong to a paper.
pub fn run(arguments: &Arguments) -> Result<()> {
    let unknown = arguments.papers.iter().find(|name| PAPERS.iter().all(|(paper, _)| paper != name));
    if let Some(name) = unknown {
        bail!("\"{name}\" is no folder of a paper: {}", PAPERS.map(|(paper, _)| paper).join(", "));
    }
    process::build_fast_tccc()?;
    let is_chosen = |paper: &str| arguments.papers.is_empty() || arguments.papers.iter().any(|name| name == paper);
    for (paper, runs) in PAPERS.into_iter().filter(|(paper, _)| is_chosen(paper)) {
        let names = scenarios(paper)?;
        for (name, engine) in names.iter().flat_map(|name| arguments.run.iter().map(move |engine| (name, *engine))) {
            carry_out(&arguments.out, &format!("{paper}/{name}"), engine, runs)?;
        }
        for name in &names {
            let reports = reports(&arguments.out, &format!("{paper}/{name}"))?;
            if !reports.is_empty() {
                store::write(paper, name, &reports)?;
            }
        }
    }
    for (document, text) in documents()? {
        fs::write(process::workspace().join(&document), text).with_context(|| format!("write {document}"))?;
    }
    write_agreement(&arguments.out)
}

/// Every document made of the summaries in the tree, with its path.
///
/// Errors: a summary cannot be read.
fn documents() -> Result<Vec<(String, String)>> {
    let mut documents = Vec::new();
    let mut papers = Vec::new();
    for (paper, _) in PAPERS {
        let summaries = store::read(paper)?;
        let sections: Vec<String> = summaries.iter().map(|(name, reports)| summary::section(name, reports)).collect();
        if !sections.is_empty() {
            let text = format!("{}\n{}", summary::head(paper), sections.join("\n"));
            documents.push((format!("scenarios/{paper}/results.md"), text));
            papers.push((paper, summaries));
        }
    }
    documents.push((page::DOCUMENT.to_owned(), page::text(&papers)));
    Ok(documents)
}

/// Writes the engines side by side, of every scenario that both ran; nothing where there is none.
fn write_agreement(out: &Path) -> Result<()> {
    let mut sections = Vec::new();
    for scenario in ON_THE_KERNEL {
        let places = [Engine::Kernel, Engine::Virtual].map(|engine| place(out, scenario, engine));
        if !places.iter().all(|place| place.join("plan.json").exists()) {
            continue;
        }
        let output =
            process::program(process::fast_tccc()).arg("report").args(&places).args(["-o", "markdown"]).output();
        let output = output.context("start tccc")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let table = text.split("### Side by side: ").nth(1).context("find the table side by side")?;
        let table = table.split("\n#").next().unwrap_or(table).trim();
        sections.push(format!("### {scenario}: {table}\n"));
    }
    if sections.is_empty() { Ok(()) } else { AGREEMENT.write(&sections.join("\n")) }
}

/// Names of a paper's scenarios, sorted.
fn scenarios(paper: &str) -> Result<Vec<String>> {
    let folder = process::workspace().join("scenarios").join(paper);
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn place(out: &Path, scenario: &str, engine: Engine) -> PathBuf {
    out.join(engine.name()).join(scenario.replace('/', "-"))
}

/// Runs one scenario by one engine, where that can; what is there already stays.
fn carry_out(out: &Path, scenario: &str, engine: Engine, runs: u32) -> Result<()> {
    let file = process::workspace().join("scenarios").join(format!("{scenario}.toml"));
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let is_left_out = match engine {
        Engine::Kernel => !ON_THE_KERNEL.contains(&scenario),
        Engine::Ns2 => !text.contains("\n[ns2]"),
        Engine::Virtual => false,
    };
    if is_left_out {
        return Ok(());
    }
    let runs = if engine == Engine::Kernel { KERNEL_RUNS } else { runs };
    let mut command = process::program(process::fast_tccc());
    command.args(["run", "--quiet", "--engine", engine.name(), "--runs", &runs.to_string()]).arg("--out");
    command.arg(place(out, scenario, engine)).arg(&file);
    let part = PARTS.iter().find(|(name, _)| *name == scenario && engine == Engine::Virtual);
    for value in part.iter().flat_map(|(_, only)| only.iter()) {
        command.args(["--only", value]);
    }
    process::run(scenario, command.stdout(std::process::Stdio::null()))
}

/// The reports of one scenario, by engine; the simulator's runs are in those of the others.
fn reports(out: &Path, scenario: &str) -> Result<Vec<Value>> {
    let places = [Engine::Kernel, Engine::Virtual, Engine::Ns2].map(|engine| place(out, scenario, engine));
    let there: Vec<&PathBuf> = places.iter().filter(|place| place.join("plan.json").exists()).collect();
    if there.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = process::program(process::fast_tccc());
    match process::json("read the results", command.arg("report").args(there).args(["-o", "json"]))? {
        Value::Array(reports) => Ok(reports),
        report => Ok(vec![report]),
    }
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
