//! `tccc guard`: guards a trial; also forecasts what a guard can detect.

use std::ffi::CStr;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::stand_by;
use crate::cli::effect::Effect;
use crate::cli::output::naming;
use host::policy::rule::{Allowed, Policy, Treatment};
use host::trial::guard;
use host::trial::judge::{decisions, limit_of};
use shared::kernel::congestion::connection_rate;
use shared::kernel::process::OWN_PROGRAM;
use shared::kernel::process::{self, Process};
use shared::kernel::system_log::{self, Severity};
use shared::model::guard::{ForecastPlan, SPREAD_DEFAULT, detectable};
use shared::units::format_duration;

/// The name of every guard in `ps`. Otherwise it is "exe", after the path by which tccc starts itself.
pub const GUARD_NAME: &CStr = c"tccc-guard";
/// Forecast period for a rule without a deadline.
const FORECAST: Duration = Duration::from_secs(6 * 3600);

/// Guard a trial (started by tccc itself)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// When the trial began, nanoseconds of CLOCK_BOOTTIME
    #[arg(long, requires = "starter", required_unless_present = "stand_by")]
    trial: Option<u64>,
    /// The process that starts the trial: its id and start time
    #[arg(long, value_parser = parse_process)]
    starter: Option<Process>,
    /// Guard no trial, but clear up after a dead guard as soon as its lease ends
    #[arg(long, conflicts_with_all = ["trial", "starter"])]
    stand_by: bool,
}

fn parse_process(text: &str) -> Result<Process, String> {
    Process::of_text(text).ok_or_else(|| "expected NUMBER-STARTED".to_owned())
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::Work
    }

    /// Guards until the trial ends, or stands by until a signal.
    ///
    /// # Errors
    /// Those of [`guard::run`], also written to the system's log.
    pub fn run(&self) -> Result<()> {
        process::name_this(GUARD_NAME);
        let (Some(trial), Some(starter)) = (self.trial, self.starter) else { return stand_by::run() };
        let guarded = guard::run(trial, starter, naming::layouts);
        if let Err(error) = &guarded {
            system_log::write(Severity::Error, &format!("the guard of a trial failed: {error:#}"));
        }
        guarded
    }
}

/// This program as the guard of a trial.
pub fn guard_command() -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.args(["guard", "--trial"]);
    command
}

/// Prints which effects the guard can detect at this host's rate of connections.
pub fn forecast(out: &mut impl Write, policy: &Policy, patience: Option<Duration>) -> io::Result<()> {
    let guarded = policy.rules.iter().filter(|rule| rule.is_guarded());
    let guarded: Vec<_> = guarded.filter_map(|rule| Some((rule, rule.trial.as_ref()?))).collect();
    if guarded.is_empty() {
        return Ok(());
    }
    let rate = connection_rate().unwrap_or(0.0);
    let decisions = decisions(policy);
    writeln!(
        out,
        "this network namespace made {rate:.1} connections a second since it began, in both directions; if the rule had as \
         many, the guard would detect"
    )?;
    for (rule, trial) in guarded {
        let treated = rule.split.arms.iter().find(|arm| arm.treatment != Treatment::Keep);
        let time = trial.steps.first().map(|step| step.duration).or(trial.deadline).or(patience).unwrap_or(FORECAST);
        let within = format_duration(time);
        let plan = ForecastPlan {
            connections_per_s: rate,
            treated_share: treated.map_or(0.0, |arm| arm.portion.fraction()),
            seconds: time.as_secs_f64(),
            spread: SPREAD_DEFAULT,
        };
        for limit in &trial.limits {
            let Allowed::Relative(value) = limit.allowed else { continue };
            let what = match detectable(&plan, limit_of(limit.metric, value), decisions) {
                Some(ratio) => format!("{} of {ratio:.2} times or worse within {within}", limit.metric),
                None => format!("no effect on {} within {within}: too few connections", limit.metric),
            };
            writeln!(out, "  rule \"{}\", {limit}: {what}", rule.name)?;
        }
    }
    Ok(())
}
