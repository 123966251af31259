//! `tccc evaluate`: the questions of RFC 9743 to one algorithm.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::run::{self, LinkChoice, NetworkChoice, Planned};
use super::stop::Stop;
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results};
use lab::cost::Jobs;
use lab::evaluation::{self, EVALUATION_SCHEMA, Evaluation, Measured, Question, Word};
use lab::report::{self, Report, ReportFormat, drawing};
use lab::results::Finished;
use shared::failure::Failure;
use shared::model::run::Engine;
use shared::sanitize::{count, shown};
use shared::units::format_duration;

/// Runs of each cell with `--quick`, by default, and with `--full`.
const RUNS: [u32; 3] = [5, 10, 30];
/// Seeds of the first measurement, and of the repetition of the worst cells.
const SEEDS: [u64; 2] = [2026, 2027];
/// How many times more runs the repetition has, because it decides.
const AGAIN: u32 = 2;
const SOURCE: &str = ".bpf.c";

/// Answer the questions of RFC 9743 about an algorithm, in virtual time
///
/// Runs the experiments of `scenarios/evaluate` with the kernel's own TCP, beside Reno and CUBIC, and needs no root. Each
/// criterion gets one of the words better, no worse, worse, cannot tell, not measured, does not apply. The worst cell of each
/// criterion is measured again with twice as many fresh seeds, which decide. The words never say that an algorithm is safe:
/// RFC 9743 leaves that to the community.
///
/// The folder then has report.html, report.md for an Internet-Draft, report.json, and a page with all runs of each
/// experiment. Ctrl-C keeps what is done, and the same command continues. The same program gives the same numbers on any
/// machine.
///
/// Example: `tccc evaluate mine.bpf.c --quick --only 5.1`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A source file such as mine.bpf.c, an id of `tccc list`, or the name of a kernel algorithm
    #[arg(value_name = "FILE|ID")]
    algorithm: String,
    /// Algorithms to compare with
    #[arg(long, value_name = "ID,...", value_delimiter = ',', default_value = "reno,cubic")]
    against: Vec<String>,
    /// 5 runs of each cell
    #[arg(long, group = "number")]
    quick: bool,
    /// 30 runs of each cell
    #[arg(long, group = "number")]
    full: bool,
    /// Runs of each cell [default: 10]; three are the fewest that give an interval
    #[arg(long, value_name = "N", group = "number", value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: Option<u32>,
    /// Only criteria of this section, such as 5.1.3 or 5; may be repeated
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    /// Folder for runs and reports [default: runs/evaluate-ALGORITHM]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at once, 1 to 256
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = run::parse_jobs)]
    jobs: Jobs,
    /// Print the experiments and their expected time; change nothing
    #[arg(long)]
    dry_run: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::work(self.dry_run)
    }

    /// Side effects: the folder; those of [`lab::virtual_time::run`].
    ///
    /// # Errors
    /// An unknown algorithm or section (usage); no guest (unmet); runs that could not be measured, although a report of the
    /// others is written; a property of a trace that the candidate breaks and a baseline keeps (outside).
    pub fn run(&self) -> Result<()> {
        let place = Place::new(self)?;
        let questions = self.questions()?;
        let texts = questions.iter().map(|question| question.over(&place.algorithms())).collect::<Result<Vec<_>>>()?;
        // A candidate that cannot run leaves no folder behind.
        let scratch = tempfile::tempdir().context("make a folder for the plan")?;
        place.write(scratch.path(), &questions, &texts)?;
        let call = self.call(&place, scratch.path(), &questions);
        let mut planned = run::all_planned(&call)?;
        for (one, question) in planned.iter_mut().zip(&questions) {
            one.out = place.runs(question);
        }
        let forecast = forecast(&planned, &call)?;
        if self.dry_run {
            return print_plan(&planned, &forecast);
        }
        place.write(&place.out, &questions, &texts)?;
        note(&forecast);
        let stop = Stop::listen()?;
        let first = run::measure(&planned, &stop, &call);
        if stop.is_asked() {
            return first.map_err(continued);
        }
        let again = self.repeat_worst(&place, &questions, &stop);
        if stop.is_asked() {
            return again.map_err(continued);
        }
        let written = self.finish(&place, &questions);
        first.and(again).and(written)
    }

    fn number(&self) -> u32 {
        let [quick, usual, full] = RUNS;
        match (self.runs, self.quick, self.full) {
            (Some(runs), ..) => runs,
            (None, true, _) => quick,
            (None, _, true) => full,
            _ => usual,
        }
    }

    /// The questions of the requested sections.
    fn questions(&self) -> Result<Vec<Question>> {
        let all = evaluation::questions()?;
        let is_in = |question: &Question, part: &str| {
            let section = question.section();
            section == part || section.strip_prefix(part).is_some_and(|rest| rest.starts_with('.'))
        };
        if let Some(part) = self.only.iter().find(|part| !all.iter().any(|question| is_in(question, part))) {
            let mut sections: Vec<&str> = all.iter().map(Question::section).collect();
            sections.sort_unstable();
            sections.dedup();
            let what = format!("no experiment answers section \"{}\"", shown(part));
            return Err(Failure::usage(what).hint(format!("choose from {}", sections.join(", "))).into());
        }
        let is_chosen =
            |question: &Question| self.only.is_empty() || self.only.iter().any(|part| is_in(question, part));
        Ok(all.into_iter().filter(is_chosen).collect())
    }

    /// The call of `tccc run` that measures these questions, whose scenarios are in this folder.
    fn call(&self, place: &Place, folder: &Path, questions: &[Question]) -> run::Args {
        run::Args {
            scenarios: questions.iter().map(|question| place.scenario(folder, question)).collect(),
            out: None,
            jobs: self.jobs,
            runs: Some(self.number()),
            seed: Some(SEEDS[0]),
            only: Vec::new(),
            perturb: None,
            shard: None,
            block: None,
            publish: None,
            profile: None,
            engine: Engine::Virtual,
            kernel: None,
            link: LinkChoice::Auto,
            network: NetworkChoice::Netns,
            progress_file: None,
            dry_run: false,
            explain: None,
            output: OutputFormat::Table,
        }
    }

    /// Measures the worst cell of each criterion on fresh seeds.
    fn repeat_worst(&self, place: &Place, questions: &[Question], stop: &Stop) -> Result<()> {
        let first = place.measured(questions, false)?;
        for criterion in evaluation::criteria(&first, &place.candidate, &self.against, Vec::new()) {
            let Some(worst) = criterion.worst else { continue };
            let question = questions.iter().filter(|question| question.name == worst.question);
            let question: Vec<Question> = question.cloned().collect();
            let call = run::Args {
                seed: Some(SEEDS[1]),
                runs: Some(AGAIN * self.number()),
                only: worst.at.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                ..self.call(place, &place.out, &question)
            };
            let mut planned = run::all_planned(&call)?;
            planned.iter_mut().for_each(|one| one.out = place.again(&worst.question));
            run::measure(&planned, stop, &call)?;
        }
        Ok(())
    }

    /// Writes the reports and prints the table of criteria.
    fn finish(&self, place: &Place, questions: &[Question]) -> Result<()> {
        let measured = place.measured(questions, true)?;
        let evaluation = self.evaluation(place, &measured)?;
        let documents = || std::iter::once(evaluation::document(&evaluation));
        let title = format!("RFC 9743 for {}", place.candidate);
        let json = serde_json::to_string_pretty(&evaluation)? + "\n";
        place.put("report.html", &drawing::html::written(&title, documents()))?;
        place.put("report.md", &drawing::markdown::written(documents()))?;
        place.put("report.json", &json)?;
        for one in &measured {
            let reports: Vec<Report> = one.report.iter().chain(&one.again).cloned().collect();
            if !reports.is_empty() {
                place
                    .put(&format!("{}.html", one.question.name), &report::render_all(&reports, ReportFormat::Html)?)?;
            }
        }
        match self.output {
            OutputFormat::Json => write!(results(), "{json}")?,
            OutputFormat::Table => {
                let overview = std::iter::once(evaluation::overview(&evaluation));
                write!(results(), "{}", drawing::text::written(overview))?;
                writeln!(results(), "\nreport: {}", place.out.join("report.html").display())?;
            }
        }
        broken(&evaluation).map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn evaluation(&self, place: &Place, measured: &[Measured<'_>]) -> Result<Evaluation> {
        let others = if self.only.is_empty() { evaluation::not_measured()? } else { Vec::new() };
        let host = measured.iter().find_map(|one| one.report.as_ref()).map(|report| report.host.clone());
        let (kernel, tools, algorithms) =
            host.map_or_else(Default::default, |host| (host.kernel, host.tools, host.algorithms));
        Ok(Evaluation {
            schema: EVALUATION_SCHEMA,
            candidate: place.candidate.clone(),
            digest: algorithms.get(&place.candidate).cloned(),
            baselines: self.against.clone(),
            only: self.only.clone(),
            runs: self.number(),
            runs_again: AGAIN * self.number(),
            seeds: SEEDS,
            kernel,
            tools,
            criteria: evaluation::criteria(measured, &place.candidate, &self.against, others),
        })
    }
}

fn print_plan(planned: &[Planned], forecast: &str) -> Result<()> {
    for one in planned {
        let criterion = one.scenario.criterion.as_deref().unwrap_or_default();
        writeln!(results(), "{:28} {:9}  {criterion}", one.scenario.name, count(one.plan.runs.len(), "run"))?;
    }
    Ok(writeln!(results(), "{forecast}; nothing was changed")?)
}

/// `51 experiments, 5250 runs: about 12m`.
fn forecast(planned: &[Planned], call: &run::Args) -> Result<String> {
    let (mut runs, mut time) = (0, Duration::ZERO);
    for one in planned {
        let all: Vec<_> = one.plan.runs.iter().collect();
        (runs, time) = (runs + all.len(), time + call.forecast(one, &all)?.expected);
    }
    let time = format_duration(Duration::from_secs(time.as_secs().max(1)));
    Ok(format!("{}, {}: about {time}", count(planned.len(), "experiment"), count(runs, "run")))
}

/// Where an evaluation is.
struct Place {
    out: PathBuf,
    /// The name of its variant.
    candidate: String,
    /// Its source, if it is a file.
    source: Option<PathBuf>,
    against: Vec<String>,
}

impl Place {
    /// # Errors
    /// The file cannot be read; the candidate is one of its baselines; an algorithm is named twice.
    fn new(args: &Args) -> Result<Place> {
        let source = args.algorithm.ends_with(SOURCE).then(|| PathBuf::from(&args.algorithm));
        if let Some(file) = &source {
            fs::metadata(file).with_context(|| format!("read \"{}\"", file.display()))?;
        }
        let name = source.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let candidate = name.unwrap_or_else(|| args.algorithm.clone());
        let mut all = args.against.clone();
        all.push(candidate.clone());
        if let Some((_, twice)) = all.iter().enumerate().find(|(index, name)| all[..*index].contains(name)) {
            let what = format!("\"{}\" would be compared with itself", shown(twice));
            return Err(Failure::usage(what).hint("name other algorithms with `--against`").into());
        }
        let stem = candidate.trim_end_matches(SOURCE);
        let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("evaluate-{stem}")));
        Ok(Place { out, candidate, source, against: args.against.clone() })
    }

    /// The baselines, then the candidate.
    fn algorithms(&self) -> Vec<&str> {
        self.against.iter().chain([&self.candidate]).map(String::as_str).collect()
    }

    fn scenario(&self, folder: &Path, question: &Question) -> PathBuf {
        folder.join("scenarios").join(format!("{}.toml", question.name))
    }

    fn runs(&self, question: &Question) -> PathBuf {
        self.out.join("runs").join(question.name)
    }

    fn again(&self, question: &str) -> PathBuf {
        self.out.join("again").join(question)
    }

    /// Writes the scenarios, and the candidate's source beside them.
    fn write(&self, folder: &Path, questions: &[Question], texts: &[String]) -> Result<()> {
        let scenarios = folder.join("scenarios");
        fs::create_dir_all(&scenarios).with_context(|| format!("make \"{}\"", scenarios.display()))?;
        if let Some(source) = &self.source {
            let copy = scenarios.join(&self.candidate);
            fs::copy(source, &copy).with_context(|| format!("copy \"{}\"", source.display()))?;
        }
        for (question, text) in questions.iter().zip(texts) {
            let file = self.scenario(folder, question);
            fs::write(&file, text).with_context(|| format!("write \"{}\"", file.display()))?;
        }
        Ok(())
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let file = self.out.join(name);
        fs::write(&file, text).with_context(|| format!("write \"{}\"", file.display()))
    }

    /// The reports of all questions. A question without a finished run has none.
    fn measured<'q>(&self, questions: &'q [Question], with_again: bool) -> Result<Vec<Measured<'q>>> {
        let of = |place: PathBuf| {
            let has_run = !Finished::read(&place)?.ids.is_empty();
            has_run.then(|| report::load(&place)).transpose()
        };
        let read = |question: &'q Question| {
            let again = if with_again { of(self.again(question.name))? } else { None };
            Ok(Measured { question, report: of(self.runs(question))?, again })
        };
        questions.iter().map(read).collect()
    }
}

/// An interrupted evaluation, with how to go on.
fn continued(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Failure>() {
        Some(failure) => failure.clone().hint("the same command continues").into(),
        None => error,
    }
}

/// The properties of traces that do not hold.
fn broken(evaluation: &Evaluation) -> Option<Failure> {
    let properties = evaluation.criteria.iter().filter(|criterion| criterion.word == Word::Worse);
    let properties = properties.flat_map(|criterion| &criterion.properties);
    let broken: Vec<String> = properties
        .filter(|property| property.is_broken(evaluation.baselines.len()))
        .map(|property| format!("{} ({})", property.check.title(), property.check.reason))
        .collect();
    let first = broken.first()?;
    let what = format!("{} of the candidate do not hold: {first}", count(broken.len(), "property"));
    Some(Failure::outside(what.replace("propertys", "properties")).hint("report.html has every run"))
}
