//! `tccc policy pause`, `resume`, `promote` and `abort`: manual control of the running trial.

use std::io::Write as _;

use anyhow::Result;

use crate::cli::effect::Effect;
use crate::cli::output::results;
use host::gate;
use shared::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub enum Steer {
    /// Pause the steps of the trial; the guard still reverts it if a limit is crossed
    ///
    /// Example: `tccc policy pause`, and later `tccc policy resume`
    Pause,
    /// Continue the steps of the trial
    ///
    /// The time of a step counts from its start and includes the pause.
    ///
    /// Example: `tccc policy resume`
    Resume,
    /// Go to the next step of the trial now; after the last step the rule has passed
    ///
    /// Example: `tccc policy promote web`
    Promote {
        /// The rule; without it every rule of the trial
        rule: Option<String>,
    },
    /// End the trial and restore the previous policy
    ///
    /// Open connections keep their algorithm, unless the trial began with `--live`.
    ///
    /// Example: `tccc policy abort`
    Abort,
}

impl Steer {
    pub fn effect(&self) -> Effect {
        Effect::Change(match self {
            Steer::Pause => "`tccc policy resume` undoes it".to_owned(),
            Steer::Resume => "`tccc policy pause` undoes it".to_owned(),
            Steer::Promote { .. } => "`tccc policy abort` ends the trial".to_owned(),
            Steer::Abort => "`tccc policy apply` begins a trial again".to_owned(),
        })
    }

    pub fn run(&self) -> Result<()> {
        let mut out = results();
        match self {
            Steer::Pause => {
                gate::set_paused(true)?;
                writeln!(out, "the steps of the trial are paused; the guard keeps judging")?;
            }
            Steer::Resume => {
                gate::set_paused(false)?;
                writeln!(out, "the steps of the trial continue")?;
            }
            Steer::Promote { rule } => {
                for (rule, share) in gate::promote(rule.as_deref())? {
                    match share {
                        Some(share) => writeln!(out, "rule \"{rule}\": the share rises to {share}")?,
                        None => writeln!(out, "rule \"{rule}\" has passed")?,
                    }
                }
            }
            Steer::Abort => {
                let nothing = || Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded");
                let ended = gate::abort()?.ok_or_else(nothing)?.subject.phrase();
                writeln!(out, "the trial of {ended} is over: connections are decided as before")?;
            }
        }
        Ok(())
    }
}
