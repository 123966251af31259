//! `tccc policy pause`, `resume`, `promote` and `abort`: a person decides about the trial that goes on.

use std::io::{self, Write as _};

use anyhow::Result;

use crate::failure::Failure;
use crate::trial::{end, steer};

#[derive(Debug, clap::Subcommand)]
pub enum Steer {
    /// Stop the steps of the trial; the guard still judges, and reverts when a limit is crossed
    ///
    /// Example: `tccc policy pause`, and `tccc policy resume` when the steps may go on
    Pause,
    /// Let the steps of the trial go on
    ///
    /// The time of a step counts from its begin, also while it was paused.
    ///
    /// Example: `tccc policy resume`
    Resume,
    /// Go to the next step of the trial at once; after the last step the rule has passed
    ///
    /// Example: `tccc policy promote web`
    Promote {
        /// The rule; every rule of the trial when absent
        rule: Option<String>,
    },
    /// End the trial: new connections are decided as before it
    ///
    /// Open connections keep their algorithm, unless the trial was begun with `--live`.
    ///
    /// Example: `tccc policy abort`
    Abort,
}

impl Steer {
    pub(super) fn run(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Steer::Pause => {
                steer::set_paused(true)?;
                writeln!(out, "the steps of the trial are paused; the guard judges on")?;
            }
            Steer::Resume => {
                steer::set_paused(false)?;
                writeln!(out, "the steps of the trial go on")?;
            }
            Steer::Promote { rule } => {
                for (rule, share) in steer::promote(rule.as_deref())? {
                    match share {
                        Some(share) => writeln!(out, "rule \"{rule}\": the share rises to {share}")?,
                        None => writeln!(out, "rule \"{rule}\" has passed")?,
                    }
                }
            }
            Steer::Abort => {
                let nothing = || Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded");
                let ended = end::revert("a person ended it")?.ok_or_else(nothing)?.subject.phrase();
                writeln!(out, "the trial of {ended} is over: connections are decided as before")?;
            }
        }
        Ok(())
    }
}
