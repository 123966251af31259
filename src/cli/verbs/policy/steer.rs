//! `tccc policy pause`, `resume`, `promote` and `abort`: a person decides about the trial that goes on.

use std::io::{self, Write as _};

use anyhow::Result;

use crate::failure::Failure;
use crate::trial::{end, steer};

/// Stop the steps of the trial; the guard still judges, and reverts when a limit is crossed
///
/// Example: `tccc policy pause`, and `tccc policy resume` when the steps may go on
#[derive(Debug, clap::Args)]
pub struct Pause {}

/// Let the steps of the trial go on
///
/// The time of a step counts from its begin, also while it was paused.
///
/// Example: `tccc policy resume`
#[derive(Debug, clap::Args)]
pub struct Resume {}

/// Go to the next step of the trial at once; after the last step the rule has passed
///
/// Example: `tccc policy promote web`
#[derive(Debug, clap::Args)]
pub struct Promote {
    /// The rule; every rule of the trial when absent
    rule: Option<String>,
}

/// End the trial: new connections are decided as before it
///
/// Open connections keep their algorithm, unless the trial was begun with `--live`.
///
/// Example: `tccc policy abort`
#[derive(Debug, clap::Args)]
pub struct Abort {}

impl Pause {
    pub(super) fn run(&self) -> Result<()> {
        steer::set_paused(true)?;
        Ok(writeln!(io::stdout(), "the steps of the trial are paused; the guard judges on")?)
    }
}

impl Resume {
    pub(super) fn run(&self) -> Result<()> {
        steer::set_paused(false)?;
        Ok(writeln!(io::stdout(), "the steps of the trial go on")?)
    }
}

impl Promote {
    pub(super) fn run(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        for (rule, share) in steer::promote(self.rule.as_deref())? {
            match share {
                Some(share) => writeln!(out, "rule \"{rule}\": the share rises to {share}")?,
                None => writeln!(out, "rule \"{rule}\" has passed")?,
            }
        }
        Ok(())
    }
}

impl Abort {
    pub(super) fn run(&self) -> Result<()> {
        let ended = end::revert("a person ended it")?;
        let ended =
            ended.ok_or_else(|| Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded"))?;
        Ok(writeln!(
            io::stdout(),
            "the trial of {} is over: connections are decided as before",
            ended.subject.phrase()
        )?)
    }
}
