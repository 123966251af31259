//! What `tccc policy check` and `tccc policy apply` admit: a file with the limits, the trial and the risk that options add.

use std::time::Duration;

use anyhow::Result;

use super::file::PolicyFile;
use crate::cli::verbs::confirm::TRIALS;
use crate::cli::verbs::risk::{Acceptance, AlgorithmRisk};
use host::policy::resolve;
use host::policy::rule::{Allowed, GuardLimit, Policy, RuleTrial, Treatment};
use shared::failure::Failure;
use shared::units::time_within;

#[derive(Debug, clap::Args)]
pub(super) struct Admission {
    /// Undo everything after this time, such as 10m, unless you run `tccc confirm` first
    #[arg(long, value_name = "TIME", value_parser = time_within(TRIALS))]
    pub trial: Option<Duration>,
    /// End the trial when a rule's connections cross this limit, such as retransmitted<1.2x; may be repeated
    #[arg(long = "guard", value_name = "LIMIT", requires = "trial")]
    limits: Vec<GuardLimit>,
    #[command(flatten)]
    acceptance: Acceptance,
}

impl Admission {
    /// Reads a policy and adds the limits. Notes or returns the risk of each algorithm by `tell`.
    ///
    /// # Errors
    /// Mistakes in the file; a limit that cannot be judged here; a risk is high, and neither accepted nor on trial.
    pub fn admit(&self, file: &PolicyFile, tell: &mut dyn FnMut(&AlgorithmRisk)) -> Result<Policy> {
        let mut policy = file.read()?;
        guard_all(&mut policy, &self.limits)?;
        self.check_risks(&policy, tell).map_err(|failure| file.blame(failure.into()))?;
        resolve::check_limits(&policy).map_err(|error| file.blame(error))?;
        Ok(policy)
    }

    pub fn is_trial(&self, policy: &Policy) -> bool {
        self.trial.is_some() || policy.rules.iter().any(|rule| rule.trial.is_some())
    }

    fn check_risks(&self, policy: &Policy, tell: &mut dyn FnMut(&AlgorithmRisk)) -> Result<(), Failure> {
        let is_allowed = self.acceptance.accepts || self.trial.is_some();
        let (on_trial, permanent) = policy.rules.iter().cloned().partition(|rule| rule.trial.is_some());
        for (rules, is_trial) in [(permanent, false), (on_trial, true)] {
            for risk in AlgorithmRisk::of_rules(&Policy { rules }) {
                let what = format!("give \"{}\" to connections", risk.name);
                risk.check(&what, "try it with `--trial 10m`", is_allowed || is_trial)?;
                tell(&risk);
            }
        }
        Ok(())
    }
}

/// Adds limits to every rule that changes an algorithm.
///
/// # Errors
/// A relative limit for a rule that keeps no connection's algorithm.
fn guard_all(policy: &mut Policy, limits: &[GuardLimit]) -> Result<(), Failure> {
    let relative = limits.iter().find(|limit| matches!(limit.allowed, Allowed::Relative(_)));
    for rule in &mut policy.rules {
        let arms = &rule.split.arms;
        if limits.is_empty() || arms.iter().all(|arm| arm.treatment == Treatment::Keep) {
            continue;
        }
        let keeps = arms.iter().any(|arm| arm.treatment == Treatment::Keep && arm.portion.0 > 0);
        if let Some(limit) = relative.filter(|_| !keeps) {
            let what = format!(
                "--guard {limit}: rule \"{}\" changes every connection, so that none is left to compare with",
                rule.name
            );
            let hint = "give `keep` a share of the split, or use an absolute limit such as retransmitted<2%";
            return Err(Failure::usage(what).hint(hint));
        }
        let trial = rule.trial.get_or_insert_with(RuleTrial::default);
        let added: Vec<GuardLimit> = limits.iter().filter(|limit| !trial.limits.contains(limit)).copied().collect();
        trial.limits.extend(added);
    }
    Ok(())
}
