//! `tccc guard`: the process that guards a trial, started by tccc itself; the one that clears what a dead guard left; and
//! what a trial can detect, said before it begins.

use std::fs;
use std::io::{self, Write};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::systemd;
use super::trace::stop_flag;
use crate::cli::output::{naming, note, warn};
use crate::kernel::congestion::connection_rate;
use crate::kernel::privilege;
use crate::kernel::probe::Features;
use crate::kernel::process::Process;
use crate::loader::{Unloaded, confirm};
use crate::model::guard::{ForecastPlan, SPREAD_DEFAULT, detectable};
use crate::policy::rule::{Allowed, Policy, Rule, Treatment};
use crate::trial::journal::KERNEL_LOG;
use crate::trial::judge::limit_of;
use crate::trial::{self, guard};
use crate::units::format_duration;

/// The time a forecast is for where a rule has no deadline.
const FORECAST: Duration = Duration::from_secs(6 * 3600);

/// A lock is waited for less long.
const STUCK_AFTER: Duration = Duration::from_secs(120);
/// How often a process that stands by looks.
const LOOK: Duration = Duration::from_secs(1);

/// Guard the trial that began at this moment: for tccc itself
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// When the trial began, nanoseconds of CLOCK_BOOTTIME
    #[arg(long, requires = "starter", required_unless_present = "stand_by")]
    trial: Option<u64>,
    /// The process that begins it: number and start time
    #[arg(long, value_parser = parse_process)]
    starter: Option<Process>,
    /// Guard no trial: clear what is left of one whose guard is dead, as soon as its lease is over
    #[arg(long, conflicts_with_all = ["trial", "starter"])]
    stand_by: bool,
}

fn parse_process(text: &str) -> Result<Process, String> {
    let numbers = text.split_once('-').and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
    numbers.map(|(pid, started)| Process { pid, started }).ok_or_else(|| "expected NUMBER-STARTED".to_owned())
}

impl Args {
    /// Guards until the trial is over, or stands by until a signal comes.
    ///
    /// Errors: those of [`guard::run`]; nobody sees them but the kernel's log.
    pub fn run(&self) -> Result<()> {
        let (Some(trial), Some(starter)) = (self.trial, self.starter) else { return stand_by() };
        let guarded = guard::run(trial, starter, naming::layouts);
        if let Err(error) = &guarded {
            let _ = fs::write(KERNEL_LOG, format!("<3>tccc: the guard of a trial failed: {error:#}\n"));
        }
        guarded
    }
}

/// Clears what dead guards left. In the kernel the lease has ended their trials already: connections are decided as before.
///
/// Errors: not permitted. What cannot be cleared now is said once, and tried again.
fn stand_by() -> Result<()> {
    let stop = stop_flag()?;
    privilege::require("clear what a dead guard left", &privilege::FOR_LOAD)?;
    let features = Features::probe()?;
    let looked = Arc::new(Mutex::new(Instant::now()));
    let seen = Arc::clone(&looked);
    let is_late = move || {
        let late = seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (late > STUCK_AFTER).then(|| format!("no look for {} s", late.as_secs()))
    };
    systemd::ready("standing by");
    systemd::give_signs(is_late);
    let mut failure = String::new();
    while !stop.load(Ordering::Relaxed) {
        let cleared = clear(&features).err().map(|error| format!("{error:#}")).unwrap_or_default();
        if cleared != failure && !cleared.is_empty() {
            warn(&format!("cannot clear what a dead guard left: {cleared}"), Some("it is tried again each second"));
        }
        failure = cleared;
        *looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        std::thread::sleep(LOOK); // a signal interrupts the work between two looks soon enough
    }
    systemd::stopping();
    Ok(())
}

fn clear(features: &Features) -> Result<()> {
    if let Some(what) = trial::clear_over()? {
        note(&what);
    }
    for Unloaded { name, .. } in confirm::clear_overdue(features)? {
        note(&format!("\"{name}\" is unloaded: nobody confirmed it in time"));
    }
    Ok(())
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
    let guarded: Vec<&Rule> = policy.rules.iter().filter(|rule| rule.is_guarded()).collect();
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
            let plan = ForecastPlan {
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
