//! What every algorithm does to its neighbours and on difficult paths: `scenarios/safety` over all of them, and its table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use self::question::Question;
use self::table::{Entry, Figure, RiskTable};
use crate::made::Block;
use crate::{process, readme};

mod question;
mod table;

/// Where generated scenarios and results go.
const FOLDER: &str = "target/risk";
/// Algorithms of the kernel that are measured too, for comparison.
const OF_THE_KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// The macro by which a header asks for a companion program, which virtual time does not have.
const COMPANION: &str = "\nSHARED_STORAGE(";
/// Runs of each cell on the real kernel: the fewest with an interval.
const KERNEL_RUNS: u32 = 3;

const FIGURES: Block = Block { document: "scenarios/safety/README.md", command: "cargo xtask risk --bless" };
/// The same cells on the real kernel.
const WITNESS: Block = Block { document: "scenarios/safety/README.md", command: "sudo cargo xtask risk --bless" };

/// What to measure.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Runs of each cell in virtual time; three are the fewest with an interval
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..))]
    runs: u32,
    /// Measure this algorithm and leave the figures of the others; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Leave out the real kernel
    #[arg(long)]
    no_kernel: bool,
    /// Write scenarios/safety/risk.json, which the build carries, and the tables of the READMEs
    #[arg(long)]
    bless: bool,
}

/// One way to run the questions: the virtual one over all cells, the kernel's over one of each.
struct Campaign<'a> {
    engine: &'static str,
    runs: u32,
    /// Algorithms, with the kernel's own.
    ids: &'a [String],
}

/// Runs every question over the algorithms and prints what changed: `cargo xtask risk --runs 3 --only msack`.
///
/// The real kernel runs the worst cell of each file as a witness, and all of an algorithm that virtual time does not have;
/// it needs root and is left out without.
///
/// Errors: a run fails; an id is none; the tables cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    process::build_fast_tccc()?;
    let carried = carried()?;
    if let Some(id) = arguments.only.iter().find(|id| !carried.contains_key(*id)) {
        bail!("\"{id}\" is no algorithm of `tccc list`");
    }
    let chosen = |id: &&String| arguments.only.is_empty() || arguments.only.contains(id);
    let (bpf, mut ids): (Vec<String>, Vec<String>) =
        carried.keys().filter(chosen).cloned().partition(|id| has_companion(id));
    if arguments.only.is_empty() {
        ids.extend(OF_THE_KERNEL.map(str::to_owned));
    }
    let questions = question::all()?;
    let mut table = RiskTable::read()?;
    let mut figures = in_virtual_time(&questions, arguments.runs, &ids)?;
    let witness = if arguments.no_kernel || !process::is_root() {
        let why = if arguments.no_kernel { "--no-kernel was given" } else { "it needs root" };
        let only_there = if bpf.is_empty() { String::new() } else { format!(", and all of {}", bpf.join(", ")) };
        eprintln!("xtask: skipped: the real kernel as a witness{only_there} ({why})");
        None
    } else {
        witness(&questions, &bpf, &mut figures)
    };
    for (id, figures) in figures {
        let entry = Entry { code: carried.get(&id).cloned().flatten(), figures };
        table.algorithms.insert(id, entry);
    }
    table.algorithms.retain(|id, _| carried.contains_key(id) || OF_THE_KERNEL.contains(&id.as_str()));
    print!("{}", table.markdown(&questions));
    witness.iter().for_each(|witness| print!("\n{witness}"));
    // A witness of one algorithm is no table of all.
    let witness = witness.filter(|_| arguments.only.is_empty());
    if arguments.bless { bless(&table, &questions, witness.as_deref()) } else { Ok(()) }
}

type Figures = BTreeMap<String, Vec<Figure>>;

fn in_virtual_time(questions: &[Question], runs: u32, ids: &[String]) -> Result<Figures> {
    let campaign = Campaign { engine: "virtual", runs, ids };
    let mut figures = Figures::new();
    for question in questions.iter().filter(|question| !question.is_for_companions && !ids.is_empty()) {
        for (id, figure) in campaign.measure(question, &[])? {
            figures.entry(id).or_default().push(figure);
        }
    }
    Ok(figures)
}

/// The real kernel's table; none, with the reason, where it cannot be had: what virtual time gave takes the time, and stays.
fn witness(questions: &[Question], bpf: &[String], figures: &mut Figures) -> Option<String> {
    let rows = on_the_kernel(questions, bpf, figures);
    if let Err(error) = &rows {
        eprintln!("xtask: warning: no witness on the real kernel: {error:#}");
        figures.retain(|id, _| !bpf.contains(id));
    }
    rows.ok()
}

/// Writes the table and, with the words that tccc then gives it, the documents.
fn bless(table: &RiskTable, questions: &[Question], witness: Option<&str>) -> Result<()> {
    table.write()?;
    process::build_fast_tccc()?;
    let words = list()?;
    FIGURES.write(&table.markdown(questions))?;
    witness.map_or(Ok(()), |witness| WITNESS.write(witness))?;
    readme::write(&words)
}

/// The worst cell of each question again, and everything of the algorithms with a companion, one cell a question.
///
/// Returns the table of virtual time beside the real kernel.
fn on_the_kernel(questions: &[Question], bpf: &[String], figures: &mut Figures) -> Result<String> {
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
        let campaign = Campaign { engine: "kernel", runs: KERNEL_RUNS, ids: &ids };
        for (id, figure) in campaign.measure(question, &only)? {
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

impl Campaign<'_> {
    /// Runs a question and returns each algorithm's figures.
    ///
    /// Errors: a run fails; the report has no ratio for a cell.
    fn measure(&self, question: &Question, only: &[String]) -> Result<Vec<(String, Figure)>> {
        let folder = process::workspace().join(FOLDER);
        let scenario = folder.join(format!("{}.toml", question.id));
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&scenario, question.over(self.ids)).with_context(|| format!("write {}", scenario.display()))?;
        let out = folder.join(self.engine).join(&question.id);
        process::remove(&out)?;
        let mut command = process::program(process::fast_tccc());
        command.args(["run", "--quiet", "--engine", self.engine, "--runs", &self.runs.to_string(), "--out"]);
        command.arg(&out).arg(&scenario).args(only.iter().flat_map(|one| ["--only", one]));
        process::run(&question.id, command.stdout(std::process::Stdio::null()))?;
        self.figures(question, &out)
    }

    fn figures(&self, question: &Question, out: &Path) -> Result<Vec<(String, Figure)>> {
        let mut command = process::program(process::fast_tccc());
        let report = process::json("read the results", command.arg("report").arg(out).args(["-o", "json"]))?;
        let cells = report["cells"].as_array().into_iter().flatten();
        let cells = cells.filter(|cell| cell["metric"] == question.metric.as_str());
        let cells = cells.filter(|cell| cell["measured"]["n"].as_u64().is_some_and(|runs| runs > 0));
        let figures = cells.filter_map(|cell| Figure::read(question, self.engine, cell));
        Ok(figures.collect())
    }
}

/// Every algorithm of tccc with the digest of its code.
fn carried() -> Result<BTreeMap<String, Option<String>>> {
    let lines = list()?.into_iter().filter(|line| line["from"] == "tccc");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(lines.filter_map(|line| Some((text(&line["id"])?, text(&line["code"])))).collect())
}

fn list() -> Result<Vec<Value>> {
    readme::listed(&process::fast_tccc())
}

/// Whether an algorithm, or a header that it includes, asks for a companion program.
fn has_companion(id: &str) -> bool {
    let bpf = process::workspace().join("bpf");
    let text = fs::read_to_string(bpf.join(format!("cc/{id}.bpf.c"))).unwrap_or_default();
    let headers = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    let headers = headers.filter_map(|name| fs::read_to_string(bpf.join("include").join(name)).ok());
    headers.chain([text.clone()]).any(|text| text.contains(COMPANION))
}
