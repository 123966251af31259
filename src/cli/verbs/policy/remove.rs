//! `tccc policy remove`: no rule decides any more.

use std::io::{self, Write as _};

use anyhow::Result;

use super::apply::write_moves;
use crate::cli::output::note;
use crate::cli::verbs::capabilities;
use crate::policy::change;
use crate::trial::end;

/// Remove the policy, and the algorithms that were loaded with it
///
/// New connections are then decided as without a policy. Open connections keep their algorithm until they close, unless
/// `--live` gives them back what they had. Ends a trial of a policy.
///
/// Example: `tccc policy remove --live`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("policy remove", ""))]
pub struct Args {
    /// Also give open connections back the algorithm that they had; needs CAP_SYS_ADMIN
    #[arg(long)]
    live: bool,
    /// Print each change that would be made; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// Removes, and says what was done.
    ///
    /// Errors: not permitted; the BPF file system is read-only.
    pub fn run(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.dry_run {
            let plan = change::removal_plan(self.live)?;
            if plan.is_empty() {
                writeln!(out, "there is no policy")?;
            } else {
                writeln!(out, "removing the policy would")?;
            }
            plan.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            return Ok(());
        }
        let removed = end::remove_policy(self.live)?;
        let what = if removed.was_there { "the policy is removed" } else { "there is no policy" };
        writeln!(out, "{what}")?;
        removed.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unloaded"))?;
        match &removed.moves {
            Some(moves) => write_moves(&mut out, moves)?,
            None if removed.was_there => note("open connections keep their algorithm until they close"),
            None => {}
        }
        Ok(())
    }
}
