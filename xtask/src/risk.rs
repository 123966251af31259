//! Measures each algorithm's effect on its neighbours and on difficult paths: `scenarios/safety` over all algorithms.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use fs_err as fs;
use serde_json::Value;

use self::question::SafetyQuestion;
use self::table::{MeasuredFigure, MeasuredRisk, RiskTable};
use crate::made::GeneratedTable;
use crate::{process, readme};

mod question;
mod table;

/// Holds generated scenarios and results.
const FOLDER: &str = "target/risk";
/// The kernel's algorithms that are measured for comparison.
const OF_THE_KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// The macro of algorithms with a companion program, which virtual time does not support.
const COMPANION: &str = "\nSHARED_STORAGE(";
/// Runs of each cell on the real kernel: the fewest that give a confidence interval.
const KERNEL_RUNS: u32 = 3;

const FIGURES: GeneratedTable =
    GeneratedTable { document: "scenarios/safety/README.md", command: "cargo xtask risk --bless" };
/// Compares the worst cells in virtual time with the real kernel.
const WITNESS: GeneratedTable =
    GeneratedTable { document: "scenarios/safety/README.md", command: "sudo cargo xtask risk --bless" };

#[derive(Debug, Args)]
pub struct Arguments {
    /// Runs of each cell in virtual time; three are the fewest that give a confidence interval
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..))]
    runs: u32,
    /// Measure this algorithm and keep the figures of the others; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Leave out the real kernel
    #[arg(long)]
    no_kernel: bool,
    /// Keep the figures of virtual time, and repeat the worst cells on the real kernel
    #[arg(long, conflicts_with_all = ["runs", "only", "no_kernel"])]
    kernel_only: bool,
    /// Write scenarios/safety/risk.json, which the build carries, and the tables of the READMEs
    #[arg(long)]
    bless: bool,
}

/// `cargo xtask risk --runs 3 --only msack` runs every question over the algorithms and prints the table.
///
/// With root, the real kernel repeats the worst cell of each file as a witness, also for algorithms that virtual time does
/// not support.
pub fn run(arguments: &Arguments) -> Result<()> {
    process::build_fast_tccc()?;
    let carried = carried()?;
    if let Some(id) = arguments.only.iter().find(|id| !carried.contains_key(*id)) {
        bail!("\"{id}\" is not an algorithm in `tccc list`");
    }
    let chosen = |id: &&String| arguments.only.is_empty() || arguments.only.contains(id);
    let (bpf, mut ids): (Vec<String>, Vec<String>) =
        carried.keys().filter(chosen).cloned().partition(|id| has_companion(id));
    if arguments.only.is_empty() {
        ids.extend(OF_THE_KERNEL.map(str::to_owned));
    }
    let questions = question::all()?;
    let mut table = RiskTable::read()?;
    let mut figures = match arguments.kernel_only {
        true => table.algorithms.iter().map(|(id, risk)| (id.clone(), risk.figures.clone())).collect(),
        false => in_virtual_time(&questions, arguments.runs, &ids)?,
    };
    figures.retain(|id, _| !bpf.contains(id));
    let witness = if arguments.no_kernel || !process::is_root() {
        let why = if arguments.no_kernel { "--no-kernel was given" } else { "it needs root" };
        let only_there = if bpf.is_empty() { String::new() } else { format!(", and all of {}", bpf.join(", ")) };
        eprintln!("xtask: skipped: the real kernel as a witness{only_there} ({why})");
        None
    } else {
        let rows = on_the_kernel(&questions, &bpf, &mut figures);
        if let Err(error) = &rows {
            // The slow results of virtual time stay.
            eprintln!("xtask: warning: no witness on the real kernel: {error:#}");
            figures.retain(|id, _| !bpf.contains(id));
        }
        rows.ok()
    };
    for (id, figures) in figures.into_iter().filter(|(id, _)| !arguments.kernel_only || bpf.contains(id)) {
        let entry = MeasuredRisk { code: carried.get(&id).cloned().flatten(), figures };
        table.algorithms.insert(id, entry);
    }
    table.algorithms.retain(|id, _| carried.contains_key(id) || OF_THE_KERNEL.contains(&id.as_str()));
    print!("{}", table.markdown(&questions));
    witness.iter().for_each(|witness| print!("\n{witness}"));
    // The witness of some algorithms does not replace the table of all.
    let witness = witness.filter(|_| arguments.only.is_empty());
    if arguments.bless { bless(&table, &questions, witness.as_deref()) } else { Ok(()) }
}

type RiskFigures = BTreeMap<String, Vec<MeasuredFigure>>;

fn in_virtual_time(questions: &[SafetyQuestion], runs: u32, ids: &[String]) -> Result<RiskFigures> {
    let mut figures = RiskFigures::new();
    for question in questions.iter().filter(|question| !question.is_for_companions && !ids.is_empty()) {
        for (id, figure) in measure(question, ids, ("virtual", runs), &[])? {
            figures.entry(id).or_default().push(figure);
        }
    }
    Ok(figures)
}

/// Writes the table, rebuilds tccc with it, and writes the documents.
fn bless(table: &RiskTable, questions: &[SafetyQuestion], witness: Option<&str>) -> Result<()> {
    table.write()?;
    process::build_fast_tccc()?;
    let words = readme::listed(&process::fast_tccc())?;
    FIGURES.settle(&table.markdown(questions), true)?;
    witness.map_or(Ok(()), |witness| WITNESS.settle(witness, true))?;
    readme::write(&words)
}

/// Repeats the worst cell of each question, also for the algorithms with a companion.
///
/// Returns the table that compares virtual time with the real kernel.
fn on_the_kernel(questions: &[SafetyQuestion], bpf: &[String], figures: &mut RiskFigures) -> Result<String> {
    let mut rows = String::from("| question | algorithm | virtual time | real kernel |\n| --- | --- | ---: | ---: |\n");
    for question in questions.iter().filter(|question| !question.is_for_companions || !bpf.is_empty()) {
        let of_question = figures.iter().flat_map(|(id, all)| all.iter().map(move |figure| (id, figure)));
        let of_question =
            of_question.filter(|(id, figure)| figure.question == question.id && !OF_THE_KERNEL.contains(&id.as_str()));
        let worst = of_question.max_by(|(_, one), (_, other)| question.harm(one).total_cmp(&question.harm(other)));
        let worst = worst.map(|(id, figure)| (id.clone(), figure.clone()));
        let mut ids = bpf.to_vec();
        ids.extend(worst.iter().map(|(id, _)| id.clone()));
        let at = worst.as_ref().map_or("", |(_, figure)| figure.at.as_str());
        let only: Vec<String> =
            at.split(", ").filter_map(|one| one.split_once(' ')).map(|(key, value)| format!("{key}={value}")).collect();
        for (id, figure) in measure(question, &ids, ("kernel", KERNEL_RUNS), &only)? {
            match worst.as_ref().filter(|(worst, _)| *worst == id) {
                Some((_, simulated)) => {
                    let what = [question.id.as_str(), at].join(" ");
                    rows += &format!("| {} | `{id}` | {} | {} |\n", what.trim(), simulated.shown(), figure.shown());
                }
                None => figures.entry(id).or_default().push(figure),
            }
        }
    }
    Ok(rows)
}

/// Runs a question over algorithms by an engine with runs per cell; returns each algorithm's figures.
fn measure(
    question: &SafetyQuestion,
    ids: &[String],
    (engine, runs): (&str, u32),
    only: &[String],
) -> Result<Vec<(String, MeasuredFigure)>> {
    let folder = process::workspace().join(FOLDER);
    let scenario = folder.join(format!("{}.toml", question.id));
    fs::create_dir_all(&folder)?;
    fs::write(&scenario, question.over(ids))?;
    let out = folder.join(engine).join(&question.id);
    process::remove(&out)?;
    process::run_scenario(&scenario, (&[engine], runs), &out, only)?;
    let report = process::report(&process::fast_tccc(), &[out])?;
    let cells = report["cells"].as_array().into_iter().flatten();
    let cells = cells.filter(|cell| cell["metric"] == question.metric.as_str());
    let cells = cells.filter(|cell| cell["measured"]["n"].as_u64().is_some_and(|runs| runs > 0));
    Ok(cells.filter_map(|cell| MeasuredFigure::read(question, engine, cell)).collect())
}

/// Digest of the code of every algorithm of tccc.
fn carried() -> Result<BTreeMap<String, Option<String>>> {
    let lines = readme::listed(&process::fast_tccc())?.into_iter().filter(|line| line["from"] == "tccc");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(lines.filter_map(|line| Some((text(&line["id"])?, text(&line["code"])))).collect())
}

/// Whether an algorithm or a header that it includes has a companion program.
fn has_companion(id: &str) -> bool {
    let bpf = process::workspace().join("bpf");
    let text = fs::read_to_string(bpf.join(format!("cc/{id}.bpf.c"))).unwrap_or_default();
    let headers = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    let headers = headers.filter_map(|name| fs::read_to_string(bpf.join("include").join(name)).ok());
    headers.chain([text.clone()]).any(|text| text.contains(COMPANION))
}
