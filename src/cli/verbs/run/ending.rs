//! What came of the scenarios of one call: one that cannot run does not stop the others.
//!
//! What all of them need of this host is looked for before the first begins.

use anyhow::{Error, Result};

use crate::failure::{Failure, FailureKind};
use crate::lab::work::WorkOutcome;

/// What did not come out as asked.
#[derive(Debug, Default)]
pub struct Ending {
    /// Runs that could not be measured.
    unmeasured: Vec<String>,
    /// Whether one of these failed. The others were late at every attempt.
    has_failed: bool,
    /// Scenarios whose paths, all or some, were not what they ask, with the reason.
    outside: Vec<(String, Failure)>,
    /// Scenarios that failed, or that ask for what this host lacks, with the reason.
    failed: Vec<(String, Failure)>,
}

impl Ending {
    /// Takes in what came of one scenario.
    ///
    /// Errors: what came of it, where the call is `stopped`: no other scenario follows.
    pub fn take(&mut self, name: &str, result: Result<WorkOutcome>, stopped: bool) -> Result<()> {
        match result {
            Ok(outcome) => {
                self.has_failed |= !outcome.failed.is_empty();
                self.unmeasured.extend(outcome.late);
                self.unmeasured.extend(outcome.failed.into_iter().map(|(id, _)| id));
                self.outside.extend(outcome.outside.map(|failure| (name.to_owned(), failure)));
            }
            Err(error) if stopped => return Err(error),
            Err(error) => self.take_failure(name.to_owned(), &error),
        }
        Ok(())
    }

    fn take_failure(&mut self, name: String, error: &Error) {
        let known = error.chain().find_map(|cause| cause.downcast_ref::<Failure>()).cloned();
        match known {
            Some(failure) if failure.kind == FailureKind::Outside => self.outside.push((name, failure)),
            Some(failure) => self.failed.push((name, Failure { what: format!("{error:#}"), ..failure })),
            None => self.failed.push((name, Failure::failed(format!("{error:#}")))),
        }
    }

    /// The failure of the whole call; none when everything was measured.
    pub fn failure(&self, scenarios: usize) -> Option<Failure> {
        if let Some((_, first)) = self.failed.first() {
            let (count, each) = (self.failed.len(), each(&self.failed));
            let are_all = |kind| self.failed.iter().all(|(_, failure)| failure.kind == kind);
            if are_all(FailureKind::Unmet) {
                let what = format!("{count} of {scenarios} scenarios ask for what this host lacks: {each}");
                return Some(Failure { what, ..first.clone() });
            }
            if are_all(FailureKind::Again) {
                let what = if scenarios == 1 {
                    first.what.clone()
                } else {
                    format!("{count} of {scenarios} scenarios have to wait: {each}")
                };
                return Some(Failure { what, ..first.clone() });
            }
            let what = format!("{count} of {scenarios} scenarios failed: {each}");
            return Some(Failure::failed(what).hint("run again with the same `--out`: what is finished stays"));
        }
        if !self.unmeasured.is_empty() {
            let what = format!("{} runs could not be measured: {}", self.unmeasured.len(), self.unmeasured.join(", "));
            let kind = if self.has_failed { FailureKind::Failed } else { FailureKind::Again };
            return Some(Failure {
                kind,
                what,
                hint: Some("run again with the same `--out` and `--jobs 1`".to_owned()),
            });
        }
        let (_, first) = self.outside.first()?;
        if scenarios == 1 {
            return Some(first.clone());
        }
        let (count, each) = (self.outside.len(), each(&self.outside));
        let what = format!("{count} of {scenarios} scenarios ask for a path that this host does not give: {each}");
        Some(Failure { what, ..first.clone() })
    }
}

/// Scenarios with their reasons, as one phrase.
fn each(failures: &[(String, Failure)]) -> String {
    let each: Vec<String> = failures.iter().map(|(name, failure)| format!("{name}: {}", failure.what)).collect();
    each.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_that_fails_leaves_the_others_and_decides_the_end() {
        let mut ending = Ending::default();
        ending.take("a", Ok(WorkOutcome::default()), false).unwrap();
        assert_eq!(ending.failure(1), None);
        ending
            .take("b", Err(Failure::outside("the path is not what the scenario asks: s-r rate").into()), false)
            .unwrap();
        let failure = ending.failure(2).unwrap();
        assert_eq!(failure.kind, FailureKind::Outside);
        assert!(failure.what.starts_with("1 of 2 scenarios ask for a path") && failure.what.contains("b: the path"));
        ending.take("c", Ok(WorkOutcome { late: vec!["c-r1".into()], ..WorkOutcome::default() }), false).unwrap();
        let late = ending.failure(3).unwrap();
        assert_eq!((late.kind, late.what.as_str()), (FailureKind::Again, "1 runs could not be measured: c-r1"));
        let failed = WorkOutcome { failed: vec![("c-r2".into(), "iperf3 ended".into())], ..WorkOutcome::default() };
        ending.take("c", Ok(failed), false).unwrap();
        assert_eq!(ending.failure(3).unwrap().kind, FailureKind::Failed);
        ending.take("d", Err(anyhow::anyhow!("write the record: disk full")), false).unwrap();
        assert_eq!(ending.failure(4).unwrap().what, "1 of 4 scenarios failed: d: write the record: disk full");
    }

    /// An initial ssthresh that this kernel cannot set kept the other scenarios of the folder from being measured.
    #[test]
    fn scenario_that_asks_for_what_this_host_lacks_leaves_the_others_and_decides_the_end() {
        let mut ending = Ending::default();
        let unmet = Failure::unmet("no struct_ops links").hint("use a newer kernel");
        ending.take("a", Err(Error::from(unmet).context("set the conditions")), false).unwrap();
        ending.take("b", Err(Failure::outside("the path is wrong").into()), false).unwrap();
        ending.take("c", Ok(WorkOutcome { late: vec!["c-r1".into()], ..WorkOutcome::default() }), false).unwrap();
        let failure = ending.failure(3).unwrap();
        assert_eq!((failure.kind, failure.hint.as_deref()), (FailureKind::Unmet, Some("use a newer kernel")));
        let lacking = "a: set the conditions: no struct_ops links";
        assert_eq!(failure.what, format!("1 of 3 scenarios ask for what this host lacks: {lacking}"));
        ending.take("d", Err(Error::msg("disk full")), false).unwrap();
        let failure = ending.failure(4).unwrap();
        assert_eq!(failure.kind, FailureKind::Failed);
        assert_eq!(failure.what, format!("2 of 4 scenarios failed: {lacking}; d: disk full"));
    }

    #[test]
    fn wish_to_stop_ends_the_call() {
        let mut ending = Ending::default();
        let stopped = ending.take("a", Err(Failure::failed("interrupted").into()), true);
        assert_eq!(stopped.unwrap_err().to_string(), "interrupted");
    }
}
