//! `tccc evaluate`: the questions of RFC 9743 to one algorithm.

mod object;
mod place;
mod results;
mod witness;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use self::place::{FirstAndAgain, Part, Place};
use super::run::{self, LinkChoice, NetworkChoice, Planned};
use super::stop::Stop;
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results};
use lab::cost::Jobs;
use lab::evaluation::{self, JudgedCriterion, Measured, OfAlgorithms, Question, QuestionFigures};
use lab::part::Shard;
use lab::report::{Report, ReportCheck};
use lab::work::interrupted;
use shared::failure::Failure;
use shared::model::run::Engine;
use shared::sanitize::{count, shown};
use shared::units::format_duration;

/// Runs of each cell with `--quick`, by default, and with `--full`.
const RUNS: [u32; 3] = [5, 10, 30];
/// Seed of the first measurement, if none is given. The repetition of the worst cells has the next one.
const SEED: u64 = 2026;
/// How many times more runs the repetition has, because it decides.
const AGAIN: u32 = 2;

/// Answer the questions of RFC 9743 about an algorithm, in virtual time
///
/// Runs the experiments of `scenarios/evaluate` with the kernel's own TCP, beside Reno and CUBIC, and needs no root. Each
/// criterion gets one of the words better, no worse, worse, cannot tell, not measured, does not apply. The worst cell of each
/// criterion is measured again with twice as many fresh seeds, which decide. The words never say that an algorithm is safe:
/// RFC 9743 leaves that to the community.
///
/// The folder then has report.html, report.md for an Internet-Draft with its first table in overview.md, report.json,
/// figures.json with the judged values, risk.json with what `tccc show` and `load --default` say of it, and a page with all
/// runs of each experiment. Ctrl-C keeps what is done, and the same command continues. The same program gives the same
/// numbers on any machine, so it carries those of the usual baselines. Most of the folder is the events of the runs, some
/// 2 GB with --quick; delete it when you have read the report.
///
/// A whole evaluation of mine.bpf.c also writes mine.risk.json beside mine.bpf.o, if that was compiled before. Then
/// `load mine.bpf.o --default` knows the result.
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
    /// Value of a tunable of the algorithm, in its own unit; may be repeated
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    settings: Vec<String>,
    /// 5 runs of each cell
    #[arg(long, group = "number")]
    quick: bool,
    /// 30 runs of each cell
    #[arg(long, group = "number")]
    full: bool,
    /// Runs of each cell [default: 10]; three are the fewest that give an interval
    #[arg(long, value_name = "N", group = "number", value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: Option<u32>,
    /// Seed of everything random; the worst cells are repeated with the next one
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Only criteria of this section, such as 5.1.3 or 5; may be repeated
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    /// Measure only the I-th of N shares of the criteria, for N hosts with one folder; a call without it then reports
    #[arg(long, value_name = "I/N", conflicts_with = "witness")]
    shard: Option<Shard>,
    /// Measure the baselines too, although this program carries their figures
    #[arg(long)]
    afresh: bool,
    /// Repeat the worst cell of each criterion on this host's kernel, three runs each; needs root
    #[arg(long)]
    witness: bool,
    /// Folder for runs and reports [default: below runs, with a name from algorithm, code and tunables]
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
        if self.witness {
            witness::check(&place)?;
        }
        if questions.is_empty() {
            note("there are fewer criteria than shares: this share has none");
            return Ok(());
        }
        let parts = self.parts(&place, &questions)?;
        // A candidate that cannot run leaves no folder behind.
        let scratch = tempfile::tempdir().context("make a folder for the plan")?;
        place.write(scratch.path(), &parts)?;
        let call = self.call(&place, scratch.path(), &parts);
        let planned = planned(&call, &parts, |part| place.runs(part))?;
        let forecast = forecast(&planned, &call, questions.len())?;
        if self.dry_run {
            return print_plan(&planned, &parts, &forecast);
        }
        place.claim(self.seed)?;
        if self.is_whole(&place) {
            place.note_missing_object();
        }
        place.write(&place.out, &parts)?;
        note(&forecast);
        let stop = Stop::listen()?;
        let first = run::measure(&planned, &stop, &call);
        if stop.is_asked() {
            return Err(continued(first.err().unwrap_or_else(interrupted)));
        }
        let reports =
            questions.iter().map(|question| place.report(question, Place::runs)).collect::<Result<Vec<_>>>()?;
        let criteria = self.criteria(&place, &questions, &reports)?;
        let again = self.repeat_worst(&place, &questions, &criteria, &stop);
        if stop.is_asked() {
            return Err(continued(again.err().unwrap_or_else(interrupted)));
        }
        if self.shard.is_some() {
            note("the same command without `--shard` reports when all shares are measured");
            return first.and(again);
        }
        let witnessed = if self.witness { self.ask_witness(&place, &questions, criteria, &stop)? } else { Vec::new() };
        if stop.is_asked() {
            return Err(continued(interrupted()));
        }
        let is_complete = first.is_ok() && again.is_ok();
        let written = self.finish(&place, &questions, reports, witnessed);
        let written = written.and_then(|evaluation| self.conclude(&place, &evaluation, is_complete));
        first.and(again).and(written)
    }

    /// What must run: the candidate in every question, and each baseline whose figures this program does not carry.
    fn parts<'q>(&self, place: &'q Place, questions: &'q [Question]) -> Result<Vec<Part<'q>>> {
        let mut parts = Vec::new();
        for question in questions {
            for algorithm in place.algorithms() {
                let is_candidate = algorithm == place.candidate;
                if is_candidate || self.shipped(question, algorithm)?.is_none() {
                    parts.push(Part { question, algorithm });
                }
            }
        }
        Ok(parts)
    }

    /// Of the first measurement, and of the repetition of the worst cells.
    fn seeds(&self) -> [u64; 2] {
        [self.seed, self.seed.wrapping_add(1)]
    }

    fn shipped(&self, question: &Question, algorithm: &str) -> Result<Option<QuestionFigures>> {
        if self.afresh {
            return Ok(None);
        }
        evaluation::shipped_in(question, algorithm, self.seed, self.number())
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
        let mut chosen: Vec<Question> = all.into_iter().filter(is_chosen).collect();
        if let Some(Shard { number, of }) = self.shard {
            let criteria: BTreeSet<String> = chosen.iter().map(|question| question.criterion().to_owned()).collect();
            let own = criteria.iter().skip(number as usize - 1).step_by(of as usize);
            let own: Vec<&String> = own.collect();
            chosen.retain(|question| own.iter().any(|criterion| *criterion == question.criterion()));
        }
        Ok(chosen)
    }

    /// The call of `tccc run` that measures these parts, whose scenarios are in this folder.
    fn call(&self, place: &Place, folder: &Path, parts: &[Part<'_>]) -> run::Args {
        run::Args {
            scenarios: parts.iter().map(|part| place.scenario(folder, part)).collect(),
            out: None,
            jobs: self.jobs,
            runs: Some(self.number()),
            seed: Some(self.seed),
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

    /// The criteria by the first measurement alone.
    fn criteria(
        &self,
        place: &Place,
        questions: &[Question],
        reports: &[Option<Report>],
    ) -> Result<Vec<JudgedCriterion>> {
        let both: Vec<FirstAndAgain<'_>> = reports.iter().map(|report| [report.as_ref(), None]).collect();
        Ok(evaluation::criteria(&self.measured(place, questions, &both)?, Vec::new()))
    }

    /// Measures the worst cell of each criterion on fresh seeds.
    fn repeat_worst(
        &self,
        place: &Place,
        questions: &[Question],
        criteria: &[JudgedCriterion],
        stop: &Stop,
    ) -> Result<()> {
        let mut ended = Ok(());
        for worst in criteria.iter().filter_map(|criterion| criterion.worst.as_ref()) {
            if stop.is_asked() {
                break;
            }
            let question = questions.iter().filter(|question| question.name == worst.question);
            let parts = question.flat_map(|question| place.algorithms().map(|algorithm| Part { question, algorithm }));
            let parts: Vec<Part<'_>> = parts.collect();
            place.write(&place.out, &parts)?;
            let call = run::Args {
                seed: Some(self.seeds()[1]),
                runs: Some(AGAIN * self.number()),
                only: worst.at.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                ..self.call(place, &place.out, &parts)
            };
            let planned = planned(&call, &parts, |part| place.again(part))?;
            ended = ended.and(run::measure(&planned, stop, &call));
        }
        ended
    }

    /// The figures of all questions: of the runs, else shipped.
    fn measured<'q>(
        &self,
        place: &Place,
        questions: &'q [Question],
        reports: &[FirstAndAgain<'_>],
    ) -> Result<Vec<Measured<'q>>> {
        let of = |(question, [first, again]): (&'q Question, &FirstAndAgain<'_>)| {
            let figures = |report: &Report, seed: u64| self.figures(place, question, report, seed);
            let is_own = |check: &&ReportCheck| check.at.get(&check.series) == Some(&place.candidate);
            let checks = first.iter().flat_map(|report| report.checks.iter().filter(is_own).cloned()).collect();
            let first = first.map(|report| figures(report, self.seed)).transpose()?.unwrap_or_default();
            let again = again.map(|report| figures(report, self.seeds()[1])).transpose()?;
            Ok(Measured { question, first, again, checks })
        };
        questions.iter().zip(reports).map(of).collect()
    }

    fn figures(&self, place: &Place, question: &Question, report: &Report, seed: u64) -> Result<OfAlgorithms> {
        let of = |algorithm: &str| -> Result<Option<QuestionFigures>> {
            let is_tuned = algorithm == place.candidate && !place.has_defaults();
            let origin = if is_tuned { None } else { evaluation::origin(question, algorithm, seed)? };
            let origin = origin.unwrap_or_default();
            // An earlier call may have left runs of a baseline, of another number.
            let may_be_shipped = algorithm != place.candidate && seed == self.seed;
            let shipped = if may_be_shipped { self.shipped(question, algorithm)? } else { None };
            let runs = if seed == self.seed { self.number() } else { AGAIN * self.number() };
            Ok(shipped.or_else(|| Some(QuestionFigures::of(report, algorithm, question, origin).first(runs))))
        };
        let others = self.against.iter().map(|name| Ok((name.clone(), of(name)?))).collect::<Result<_>>()?;
        Ok(OfAlgorithms { own: of(&place.candidate)?, others })
    }
}

/// The plans of parts, each with its own directory.
fn planned(call: &run::Args, parts: &[Part<'_>], out: impl Fn(&Part<'_>) -> PathBuf) -> Result<Vec<Planned>> {
    let mut planned = run::all_planned(call)?;
    for (one, part) in planned.iter_mut().zip(parts) {
        one.out = out(part);
    }
    Ok(planned)
}

fn print_plan(planned: &[Planned], parts: &[Part<'_>], forecast: &str) -> Result<()> {
    for (one, part) in planned.iter().zip(parts) {
        let runs = count(one.plan.runs.len(), "run");
        writeln!(results(), "{:28} {:15} {runs:9}  {}", one.scenario.name, part.algorithm, part.question.criterion())?;
    }
    Ok(writeln!(results(), "{forecast}; nothing was changed")?)
}

/// `51 experiments, 2690 runs: about 6m`.
fn forecast(planned: &[Planned], call: &run::Args, questions: usize) -> Result<String> {
    let (mut runs, mut time) = (0, Duration::ZERO);
    for one in planned {
        let all: Vec<_> = one.plan.runs.iter().collect();
        (runs, time) = (runs + all.len(), time + call.forecast(one, &all)?.expected);
    }
    let time = format_duration(Duration::from_secs(time.as_secs().max(1)));
    Ok(format!("{}, {}: about {time}", count(questions, "experiment"), count(runs, "run")))
}

/// An interrupted evaluation, with how to go on.
fn continued(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Failure>() {
        Some(failure) => failure.clone().hint("the same command continues").into(),
        None => error,
    }
}
