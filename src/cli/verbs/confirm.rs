//! `tccc confirm`: keep what was loaded with `--confirm`.

use std::io::{self, Write as _};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::capabilities;
use crate::kernel::probe::Features;
use crate::loader::confirm::{self, UndoGuard};
use crate::state::Store;
use crate::trial::journal::KERNEL_LOG;
use crate::trial::{self, end};
use crate::units::{format_duration, parse_duration, within};

/// Shortest trial: a person has to see what happens.
const TRIAL_MIN: Duration = Duration::from_secs(5);
const TRIAL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Keep what is on trial: a policy, an upgrade, or what `tccc load --confirm` loaded
///
/// Without it everything is undone when the time of the trial is over; the kernel's log and `tccc status` then say so.
///
/// Example: `tccc load dtcp --default --confirm 60s`, look whether all is well, then `tccc confirm dtcp`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("confirm", ""))]
pub struct Args {
    /// The name under which it was loaded, or `policy`; everything on trial when absent
    name: Option<String>,
    /// Wait until this moment (nanoseconds of CLOCK_BOOTTIME), then undo it: for `tccc load` itself
    #[arg(long, hide = true, requires = "name")]
    undo_at: Option<u64>,
}

impl Args {
    /// Confirms, or waits for the end of the trial.
    ///
    /// Errors: nothing waits; it is too late; not permitted.
    pub fn run(&self) -> Result<()> {
        if let (Some(name), Some(until_ns)) = (&self.name, self.undo_at) {
            return undo_at(name, until_ns);
        }
        let mut out = io::stdout().lock();
        let name = self.name.as_deref();
        let trial = trial::current()?.filter(|trial| name.is_none_or(|name| name == trial.subject.name()));
        if trial.is_some() {
            let kept = end::keep(name)?;
            writeln!(out, "{} is confirmed and stays", kept.subject.phrase())?;
            // Without a name everything is confirmed; that nothing else waits is no mistake then.
            if name.is_some() || !Store::of_host().records().iter().any(|record| record.unconfirmed.is_some()) {
                return Ok(());
            }
        }
        for record in confirm::confirm(name)? {
            writeln!(out, "\"{}\" is confirmed and stays until `tccc unload {}`", record.name, record.name)?;
        }
        Ok(())
    }
}

/// Nobody sees this process: what it did stands in the kernel's log.
fn undo_at(name: &str, until_ns: u64) -> Result<()> {
    let undone = Features::probe().and_then(|features| confirm::expire(name, until_ns, &features));
    let line = match &undone {
        Ok(None) => return Ok(()),
        Ok(Some(_)) => format!("<5>tccc: \"{name}\" was not confirmed in time and is unloaded"),
        Err(error) => format!("<3>tccc: \"{name}\" was not confirmed in time, but is still there: {error:#}"),
    };
    let _ = std::fs::write(KERNEL_LOG, line); // a host may forbid it; what counts is done
    undone.map(drop)
}

/// Starts the process that undoes a load after `patience`.
///
/// Errors: it cannot be started.
pub fn start_guard(name: &str, patience: Duration) -> Result<UndoGuard> {
    // This program's own file, also when another has taken its path meanwhile.
    UndoGuard::start(Command::new("/proc/self/exe").args(["confirm", name, "--undo-at"]), patience)
}

/// A time between [`TRIAL_MIN`] and [`TRIAL_MAX`].
///
/// Errors: no time, or out of that range.
pub fn parse_trial(text: &str) -> Result<Duration, String> {
    let [low, high] = [TRIAL_MIN, TRIAL_MAX].map(format_duration);
    within(parse_duration(text), TRIAL_MIN..=TRIAL_MAX, &format!("{text} is out of range: {low} to {high}"))
}
