//! `tccc confirm`: keep what is on trial.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::cli::effect::Effect;
use crate::cli::output::results;
use crate::cli::verbs::guard::GUARD_NAME;
use host::gate;
use host::loader::confirm::UndoGuard;
use host::state::Store;
use host::trial;
use shared::kernel::probe::Features;
use shared::kernel::process::{self, OWN_PROGRAM};
use shared::kernel::system_log::{self, Severity};

/// Shortest and longest trial; a person needs some time to see what happens.
pub const TRIALS: [&str; 2] = ["5s", "30d"];

/// Keep what is on trial: a policy, an upgrade, or what `tccc load --confirm` loaded
///
/// Without a confirmation, the trial is undone when its time is over. The system's log and `tccc status` then say so.
/// After one, `tccc unload`, `tccc policy remove` and `tccc rollback` still undo the change.
///
/// Example: `tccc load dtcp --default --confirm 60s`, check that all is well, then `tccc confirm dtcp`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of the loaded algorithm, or `policy`; without it everything on trial
    name: Option<String>,
    /// Wait until this time (nanoseconds of CLOCK_BOOTTIME), then undo it; started by `tccc load`
    #[arg(long, hide = true, requires = "name")]
    undo_at: Option<u64>,
}

impl Args {
    pub fn effect(&self) -> Effect {
        match self.undo_at {
            Some(_) => Effect::Work,
            None => Effect::change(false, "`tccc unload`, `tccc policy remove` or `tccc rollback` undoes it"),
        }
    }

    /// # Errors
    /// Nothing is on trial; it is too late; not permitted.
    pub fn run(&self) -> Result<()> {
        if let (Some(name), Some(until_ns)) = (&self.name, self.undo_at) {
            return undo_at(name, until_ns);
        }
        let mut out = results();
        let name = self.name.as_deref();
        let trial = trial::current()?.filter(|trial| name.is_none_or(|name| name == trial.subject.name()));
        if trial.is_some() {
            let kept = gate::keep(name, &Features::probe()?)?;
            writeln!(out, "{} is confirmed and stays", kept.subject.phrase())?;
            // Without a name, confirming only the trial is enough.
            if name.is_some() || !Store::of_host().records().iter().any(|record| record.unconfirmed.is_some()) {
                return Ok(());
            }
        }
        for record in gate::confirm(name)? {
            writeln!(out, "\"{}\" is confirmed and stays until `tccc unload {}`", record.name, record.name)?;
        }
        Ok(())
    }
}

/// Undoes a load at its time, and reports that in the system's log because nobody sees this process.
fn undo_at(name: &str, until_ns: u64) -> Result<()> {
    process::name_this(GUARD_NAME);
    let undone = Features::probe().and_then(|features| gate::expire(name, until_ns, &features));
    let (severity, line) = match &undone {
        Ok(None) => return Ok(()),
        Ok(Some(what)) => (Severity::Notice, what.clone()),
        Err(error) => (Severity::Error, format!("\"{name}\" was not confirmed in time, but is still there: {error:#}")),
    };
    system_log::write(severity, &line);
    undone.map(drop)
}

/// Starts the process that undoes a load after `patience`.
pub fn start_guard(name: &str, patience: Duration) -> Result<UndoGuard> {
    UndoGuard::start(Command::new(OWN_PROGRAM).args(["confirm", name, "--undo-at"]), patience)
}
