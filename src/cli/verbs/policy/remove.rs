//! `tccc policy remove`: remove all rules.

use std::io::Write as _;

use anyhow::Result;

use super::apply::write_moves;
use crate::cli::effect::Effect;
use crate::cli::output::{note, results};
use host::gate;
use host::policy::change;

/// Remove the policy, and the algorithms that were loaded with it
///
/// New connections then get the algorithm that they would have without a policy. Open connections keep theirs until
/// they close; `--live` gives them back their previous one, and keeps their labels, so that a later policy with `--live`
/// can move them again. It does so also after the policy has ended, for example with `tccc policy abort`. Without `--live`,
/// their labels are removed. `tccc policy show -o toml` saves the rules first.
///
/// A running trial is interrupted: `tccc apply` may begin it again. `tccc policy abort` ends it with a verdict.
///
/// Example: `tccc policy remove --live`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also give open connections back their previous algorithm; needs CAP_SYS_ADMIN
    #[arg(long)]
    live: bool,
    /// Print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::change(self.dry_run, "`tccc policy apply` applies a policy again")
    }

    /// # Errors
    /// Not permitted; the BPF file system is read-only.
    pub fn run(&self) -> Result<()> {
        let mut out = results();
        if self.dry_run {
            let plan = change::removal_plan(self.live)?;
            let what = if plan.is_empty() { "there is no policy" } else { "removing the policy would" };
            writeln!(out, "{what}")?;
            plan.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            return Ok(());
        }
        let removed = gate::remove_policy(self.live, gate::removed())?;
        let what = match (removed.was_there, &removed.moves) {
            (true, _) => "the policy is removed",
            (false, Some(_)) => "there is no policy; connections that an earlier one changed get back what they had",
            (false, None) => "there is no policy",
        };
        writeln!(out, "{what}")?;
        removed.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unloaded"))?;
        match &removed.moves {
            Some(moves) => write_moves(&mut out, moves)?,
            None if removed.was_there => note("open connections keep their algorithm until they close"),
            None => {}
        }
        removed.whole().map(drop)
    }
}
