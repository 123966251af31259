//! `tccc guard`: the process that guards a trial, started by tccc itself; and what a trial can detect, said before it begins.

use std::fs;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::naming;
use crate::kernel::congestion::connection_rate;
use crate::kernel::process::Process;
use crate::model::guard::{Plan, SPREAD_DEFAULT, detectable};
use crate::policy::rule::{Allowed, Policy, Rule, RuleTrial, Treatment};
use crate::trial::guard;
use crate::trial::judge::limit_of;
use crate::units::format_duration;

/// Where the kernel takes lines of user space into its log, which the journal keeps.
const KERNEL_LOG: &str = "/dev/kmsg";
/// The time a forecast is for where a rule has no deadline.
const FORECAST: Duration = Duration::from_secs(6 * 3600);

/// Guard the trial that began at this moment: for tccc itself
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// When the trial began, nanoseconds of CLOCK_BOOTTIME
    #[arg(long)]
    trial: u64,
    /// The process that begins it: number and start time
    #[arg(long, value_parser = parse_process)]
    starter: Process,
}

fn parse_process(text: &str) -> Result<Process, String> {
    let numbers = text.split_once('-').and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
    numbers.map(|(pid, started)| Process { pid, started }).ok_or_else(|| "expected NUMBER-STARTED".to_owned())
}

impl Args {
    /// Guards until the trial is over.
    ///
    /// Errors: those of [`guard::run`]; nobody sees them but the kernel's log.
    pub fn run(&self) -> Result<()> {
        let guarded = guard::run(self.trial, self.starter, naming::layouts);
        if let Err(error) = &guarded {
            let _ = fs::write(KERNEL_LOG, format!("<3>tccc: the guard of a trial failed: {error:#}\n"));
        }
        guarded
    }
}

/// This program, as the guard of a trial: its own file, also when another has taken its path meanwhile.
pub fn guard_command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["guard", "--trial"]);
    command
}

/// Says which effects the guard can detect at this host's rate of connections.
///
/// Errors: stdout cannot be written.
pub fn forecast(out: &mut impl Write, policy: &Policy, patience: Option<Duration>) -> io::Result<()> {
    let guarded: Vec<&Rule> =
        policy.rules.iter().filter(|rule| rule.trial.as_ref().is_some_and(RuleTrial::is_guarded)).collect();
    if guarded.is_empty() {
        return Ok(());
    }
    let rate = connection_rate().unwrap_or(0.0);
    writeln!(
        out,
        "this host makes {rate:.1} connections a second; if all of them were the rule's, the guard would detect"
    )?;
    for rule in guarded {
        let Some(trial) = &rule.trial else { continue };
        let share = rule
            .split
            .arms
            .iter()
            .find(|arm| arm.treatment != Treatment::Keep)
            .map_or(0.0, |arm| arm.portion.fraction());
        let time = trial.steps.first().map(|step| step.duration).or(trial.deadline).or(patience).unwrap_or(FORECAST);
        for limit in &trial.limits {
            let Allowed::Relative(value) = limit.allowed else { continue };
            let plan = Plan {
                connections_per_s: rate,
                treated_share: share,
                seconds: time.as_secs_f64(),
                spread: SPREAD_DEFAULT,
            };
            let decisions = trial.limits.len() * trial.steps.len().max(1);
            let found = detectable(&plan, limit_of(limit.metric, value), decisions);
            let within = format_duration(time);
            let what = match found {
                Some(ratio) => format!("{} of {ratio:.2} times or worse within {within}", limit.metric),
                None => format!("no effect on {} within {within}: too few connections", limit.metric),
            };
            writeln!(out, "  rule \"{}\", {limit}: {what}", rule.name)?;
        }
    }
    Ok(())
}
