//! `tccc run`: experiments from scenarios.

mod args;
mod backend;
mod blocks;
mod disciplines;
mod dry;
mod ending;
mod explain;
mod planned;
mod progress;
mod publish;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use self::backend::Call;
use self::dry::print_plans;
use self::ending::Ending;
use self::planned::{name_places, resumable};
use self::progress::Display;
use self::publish::Publication;
use super::stop::Stop;
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results, warn};
use host::policy::change;
use lab::machine;
use lab::part::RunSelection;
use lab::room;
use shared::model::run::{Engine, PlanBlock};

pub(super) use self::args::parse_jobs;
pub use self::args::{Args, LinkChoice, NetworkChoice};
pub(super) use self::planned::{Planned, all_planned};

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::work(self.dry_run || self.explain.is_some())
    }

    /// Runs every scenario, prints its plan, or explains its fields.
    ///
    /// Side effects: those of [`lab::runner::run`]; the result directories.
    ///
    /// # Errors
    /// Before anything runs, a mistake in a scenario or a missing requirement of the engine; those of
    /// [`lab::runner::run`]; runs that could not be measured. A scenario that fails does not stop the others.
    pub fn run(&self) -> Result<()> {
        if let Some(field) = &self.explain {
            return explain::run(field.as_deref(), self.output);
        }
        self.check()?;
        let planned = all_planned(self)?;
        match self.block {
            _ if self.dry_run && self.output == OutputFormat::Json => blocks::print(&planned, self),
            None => carry_out(planned, &self.part(), self.out.as_deref(), self),
            Some(number) => run_block(number as usize, planned, self),
        }
    }
}

/// A number beyond the last block is not a mistake, because there may be more machines than blocks.
fn run_block(number: usize, planned: Vec<Planned>, args: &Args) -> Result<()> {
    let all = blocks::all(&planned, args)?;
    let (plan, of) = (blocks::digest(&planned, &all)?, all.len());
    let Some(block) = all.into_iter().find(|block| block.n == number) else {
        note(&format!("the plan has no block {number}: there is nothing to do"));
        return Ok(());
    };
    let planned: Vec<Planned> = planned.into_iter().skip(block.scenario).take(1).collect();
    let (runs, part) = (block.runs.clone(), RunSelection { block: Some(block.runs), ..args.part() });
    let Some(folder) = args.publish.as_ref().filter(|_| !args.dry_run) else {
        return carry_out(planned, &part, args.out.as_deref(), args);
    };
    let own = PlanBlock { plan, n: number, of, machine: machine::machine() };
    let Some(publication) = Publication::begin(folder, own)? else {
        note(&format!("block {number} is in \"{}\" already", folder.display()));
        return Ok(());
    };
    carry_out(planned, &part, Some(&publication.scratch()), args)?;
    let published = publication.publish(runs).map_err(|error| room::explained(error, folder))?;
    writeln!(results(), "published: {}", published.display())?;
    Ok(())
}

/// Runs a part of each plan, or prints it.
fn carry_out(mut planned: Vec<Planned>, part: &RunSelection, out: Option<&Path>, args: &Args) -> Result<()> {
    let base = name_places(out, &mut planned);
    if args.dry_run {
        return print_plans(&planned, part, args);
    }
    if args.engine == Engine::Kernel {
        warn_of_policy();
    }
    let stop = Stop::listen()?;
    run_all(&planned, part, &stop, true, args).map_err(|error| {
        // A block leaves nothing to resume, because its scratch directory is removed.
        let is_resumable = stop.is_asked() && args.publish.is_none();
        if is_resumable { resumable(error, &base, args.perturb) } else { error }
    })
}

/// Runs scenarios for another verb, without their reports.
///
/// # Errors
/// As [`Args::run`].
pub(super) fn measure(planned: &[Planned], stop: &Stop, args: &Args) -> Result<()> {
    run_all(planned, &args.part(), stop, false, args)
}

fn run_all(planned: &[Planned], part: &RunSelection, stop: &Stop, reports: bool, args: &Args) -> Result<()> {
    let backend = args.backend(planned)?;
    let file = args.progress_file(planned, part)?;
    let call = Call { part, jobs: args.jobs, backend, file, reports, stop: stop.flag() };
    let expected = |one: &Planned| Ok(args.forecast(one, &part.runs(&one.scenario, &one.plan)?)?.expected);
    let expected = planned.iter().map(expected).collect::<Result<Vec<Duration>>>()?;
    let mut ending = Ending::default();
    for (index, one) in planned.iter().enumerate() {
        let nth = if planned.len() > 1 {
            let left = progress::seconds(expected[index..].iter().sum());
            format!(" ({} of {}, {left} left in all)", index + 1, planned.len())
        } else {
            String::new()
        };
        let title = format!("{}{nth}", one.scenario.name);
        let display = Display::new(title.clone());
        let result = call.run(one, &display);
        stop.renew();
        if let (Err(error), true) = (&result, planned.len() > 1) {
            display.say(&format!("tccc: warning: {title}: {error:#}"));
        }
        ending.take(&one.scenario.name, result, planned.len() == 1 || stop.is_asked())?;
    }
    ending.failure(planned.len()).map_or(Ok(()), |failure| Err(failure.into()))
}

/// Warns of a rule that overrides the algorithms that programs choose, because it would decide the flows too.
fn warn_of_policy() {
    let Ok(Some(generation)) = change::deciding() else { return };
    if let Some(rule) = generation.policy.rules.iter().find(|rule| rule.overrides) {
        let what = format!("rule \"{}\" of this host's policy overrides the algorithms that flows choose", rule.name);
        warn(&what, Some("`tccc policy remove`, or give the rule a cgroup or a network namespace"));
    }
}
