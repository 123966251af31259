//! Evaluates algorithms of the catalogue: the figures and the risk that tccc carries, a page for each, and the table of
//! known offenders.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use fs_err as fs;

use crate::process;

mod claims;
mod offenders;
mod pages;
mod risk;

/// Holds the runs.
const FOLDER: &str = "target/evaluate";
const FIGURES: &str = "scenarios/evaluate/figures";
/// The usual baselines, whose figures every evaluation needs.
const BASELINES: [&str; 2] = ["reno", "cubic"];
/// Runs of each cell of the baselines: those of an evaluation without options.
const RUNS: u32 = 10;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, such as dtcp or bpf_cubic+hystart=2 [default: those with a page, after the baselines]
    #[arg(value_name = "ID[+TUNABLE=VALUE]")]
    ids: Vec<String>,
    /// Runs of each cell [default: 10 for reno and cubic, 5 for others]
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..))]
    runs: Option<u32>,
    /// Only write the tables of the known offenders and of all pages
    #[arg(long, conflicts_with_all = ["ids", "runs"])]
    tables: bool,
    /// Write figures, risk, pages and tables into scenarios/evaluate, and the risk into the README
    #[arg(long)]
    bless: bool,
}

/// `cargo xtask evaluate dtcp --bless` evaluates an algorithm and writes its figures, its risk and its page.
///
/// What is in target/evaluate is continued, so remove it to measure the same code again.
pub fn run(arguments: &Arguments) -> Result<()> {
    process::build_fast_tccc()?;
    let ids = if arguments.ids.is_empty() { pages::all()? } else { arguments.ids.clone() };
    for id in ids.iter().filter(|_| !arguments.tables) {
        let runs = arguments.runs.unwrap_or(if BASELINES.contains(&id.as_str()) { RUNS } else { RUNS / 2 });
        let folder = evaluate(id, &["--runs", &runs.to_string()])?;
        if arguments.bless {
            fs::create_dir_all(process::workspace().join(FIGURES))?;
            if !id.contains('+') {
                fs::copy(folder.join("figures.json"), process::workspace().join(FIGURES).join(format!("{id}.json")))?;
            }
            pages::write(id, &folder)?;
            risk::keep(id, &folder)?;
            // The next one compares with these figures.
            process::build_fast_tccc()?;
        }
    }
    if arguments.bless {
        risk::write_words()?;
    }
    let planted = offenders::planted()?;
    offenders::settle(&planted, arguments.bless)?;
    claims::settle(arguments.bless)?;
    pages::settle(arguments.bless)
}

/// Evaluates an algorithm in some minutes, or continues it; returns the folder with the report.
pub fn quick(id: &str) -> Result<PathBuf> {
    process::build_fast_tccc()?;
    evaluate(id, &["--runs", &(RUNS / 2).to_string()])
}

/// Runs `tccc evaluate`; returns the folder with the report. An algorithm that breaks a property is evaluated too.
fn evaluate(algorithm: &str, flags: &[&str]) -> Result<PathBuf> {
    let id = algorithm.rsplit('/').next().unwrap_or(algorithm).trim_end_matches(".bpf.c");
    let folder = process::workspace().join(FOLDER).join(id);
    let against: Vec<&str> = BASELINES.into_iter().filter(|baseline| *baseline != algorithm).collect();
    let mut command = process::program(process::fast_tccc());
    let (name, setting) = algorithm.split_once('+').map_or((algorithm, None), |(name, setting)| (name, Some(setting)));
    command.args(["evaluate", name, "--against", &against.join(","), "--out"]).arg(&folder).args(flags);
    command.args(setting.into_iter().flat_map(|setting| ["--set", setting]));
    eprintln!("xtask: evaluate {algorithm}");
    let ended = command.status().with_context(|| format!("evaluate {algorithm}"))?;
    match ended.code() {
        Some(0 | 3) => Ok(folder),
        _ => anyhow::bail!("`tccc evaluate {algorithm}` ended with {ended}"),
    }
}
