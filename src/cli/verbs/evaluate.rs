//! `tccc evaluate`: the questions of RFC 9743 to one algorithm.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::run::{self, LinkChoice, NetworkChoice, Planned};
use super::stop::Stop;
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results};
use lab::cost::Jobs;
use lab::evaluation::{self, EVALUATION_SCHEMA, Evaluation, Measured, Question, Word};
use lab::report::{self, Report, ReportFormat, drawing};
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
/// criterion is measured again with twice as many fresh seeds, which decide. The words never say that an algorithm is safe: RFC 9743 leaves
/// that to the community.
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
    /// An unknown algorithm or section (usage); no guest (unmet); runs that could not be measured; a property of a trace
    /// that the candidate breaks and a baseline keeps (outside).
    pub fn run(&self) -> Result<()> {
        let place = Place::new(self)?;
        let questions = self.questions()?;
        let texts = questions.iter().map(|question| question.over(&place.algorithms())).collect::<Result<Vec<_>>>()?;
        let scratch = tempfile::tempdir().context("make a folder for the plan")?;
        let folder = if self.dry_run { scratch.path() } else { &*place.out };
        place.write(folder, &questions, &texts)?;
        let planned = self.planned(&place, folder, &questions)?;
        if self.dry_run {
            return self.print_plan(&planned);
        }
        self.tell(&planned)?;
        let stop = Stop::listen()?;
        let measured = self.measure(&planned, self.call(&place, &questions, SEEDS[0], Vec::new()), &stop);
        let measured = measured.and_then(|()| self.repeat_worst(&place, &questions, &stop));
        measured.map_err(|error| if stop.is_asked() { continued(error) } else { error })?;
        self.finish(&place, &questions)
    }

    fn number(&self) -> u32 {
        let [quick, usual, full] = RUNS;
        self.runs.unwrap_or(if self.quick {
            quick
        } else if self.full {
            full
        } else {
            usual
        })
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

    /// The call of `tccc run` that measures these questions.
    fn call(&self, place: &Place, questions: &[Question], seed: u64, only: Vec<(String, String)>) -> run::Args {
        run::Args {
            scenarios: questions.iter().map(|question| place.scenario(&place.out, question)).collect(),
            out: None,
            jobs: self.jobs,
            runs: Some(self.number()),
            seed: Some(seed),
            only,
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

    fn planned(&self, place: &Place, folder: &Path, questions: &[Question]) -> Result<Vec<Planned>> {
        let mut call = self.call(place, questions, SEEDS[0], Vec::new());
        call.scenarios = questions.iter().map(|question| place.scenario(folder, question)).collect();
        let mut planned = run::all_planned(&call)?;
        for (one, question) in planned.iter_mut().zip(questions) {
            one.out = place.runs(question);
        }
        Ok(planned)
    }

    fn measure(&self, planned: &[Planned], call: run::Args, stop: &Stop) -> Result<()> {
        run::measure(planned, stop, &call)
    }

    /// Measures the worst cell of each criterion on fresh seeds.
    fn repeat_worst(&self, place: &Place, questions: &[Question], stop: &Stop) -> Result<()> {
        let first = place.measured(questions, false)?;
        for criterion in evaluation::criteria(&first, &place.candidate, &self.against, Vec::new()) {
            let Some(worst) = criterion.worst else { continue };
            let question = questions.iter().filter(|question| question.name == worst.question);
            let question: Vec<Question> = question.cloned().collect();
            let only = worst.at.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let call = self.call(place, &question, SEEDS[1], only);
            let call = run::Args { runs: Some(AGAIN * self.number()), ..call };
            let mut planned = run::all_planned(&call)?;
            planned.iter_mut().for_each(|one| one.out = place.again(worst.question.as_str()));
            self.measure(&planned, call, stop)?;
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
            let reports: Vec<Report> = std::iter::once(&one.report).chain(&one.again).cloned().collect();
            place.put(&format!("{}.html", one.question.name), &report::render_all(&reports, ReportFormat::Html)?)?;
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
        let host = measured.first().map(|one| one.report.host.clone());
        let (kernel, tools, algorithms) =
            host.map_or_else(Default::default, |host| (host.kernel, host.tools, host.algorithms));
        Ok(Evaluation {
            schema: EVALUATION_SCHEMA,
            candidate: place.candidate.clone(),
            digest: algorithms.get(&place.candidate).cloned(),
            baselines: self.against.clone(),
            runs: self.number(),
            runs_again: AGAIN * self.number(),
            seeds: SEEDS,
            kernel,
            tools,
            criteria: evaluation::criteria(measured, &place.candidate, &self.against, others),
        })
    }

    fn print_plan(&self, planned: &[Planned]) -> Result<()> {
        for one in planned {
            let runs = one.plan.runs.len();
            let criterion = one.scenario.criterion.as_deref().unwrap_or_default();
            writeln!(results(), "{:28} {:5}  {criterion}", one.scenario.name, count(runs, "run"))?;
        }
        writeln!(results(), "{}; nothing was changed", self.forecast(planned)?)?;
        Ok(())
    }

    fn tell(&self, planned: &[Planned]) -> Result<()> {
        note(&self.forecast(planned)?);
        Ok(())
    }

    /// `28 experiments, 8880 runs: about 12m`.
    fn forecast(&self, planned: &[Planned]) -> Result<String> {
        let call = run::Args { scenarios: Vec::new(), ..self.call(&Place::default(), &[], SEEDS[0], Vec::new()) };
        let (mut runs, mut time) = (0, std::time::Duration::ZERO);
        for one in planned {
            let all: Vec<_> = one.plan.runs.iter().collect();
            let forecast = call.forecast(one, &all)?;
            (runs, time) = (runs + all.len(), time + forecast.expected);
        }
        let time = format_duration(std::time::Duration::from_secs(time.as_secs().max(1)));
        Ok(format!("{}, {}: about {time}", count(planned.len(), "experiment"), count(runs, "run")))
    }
}

/// Where an evaluation is.
#[derive(Default)]
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

    /// The reports of all questions that have a run.
    fn measured<'q>(&self, questions: &'q [Question], with_again: bool) -> Result<Vec<Measured<'q>>> {
        let read = |question: &'q Question| {
            let again = self.again(question.name);
            let again = (with_again && again.join("plan.json").exists()).then(|| report::load(&again)).transpose()?;
            Ok(Measured { question, report: report::load(&self.runs(question))?, again })
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
