//! Collects the outcomes of all scenarios of one call: a scenario that cannot run does not stop the others.

use anyhow::Result;

use lab::room;
use lab::work::WorkOutcome;
use shared::failure::{Failure, FailureKind};

#[derive(Debug, Default)]
pub struct Ending {
    /// Runs that could not be measured.
    unmeasured: Vec<String>,
    /// The first of these that failed, with the reason; the others were late in every attempt.
    first_failed: Option<(String, String)>,
    /// Scenarios with a path that is not as requested, each with the reason.
    outside: Vec<(String, Failure)>,
    /// Scenarios that failed, or whose requirements this host lacks, each with the reason.
    failed: Vec<(String, Failure)>,
}

impl Ending {
    /// # Errors
    /// Those of the scenario, if the call is `stopped` and no other scenario follows, or if a disk is full.
    pub fn take(&mut self, name: &str, result: Result<WorkOutcome>, stopped: bool) -> Result<()> {
        match result {
            Ok(outcome) => {
                self.first_failed = self.first_failed.take().or_else(|| outcome.failed.first().cloned());
                self.unmeasured.extend(outcome.late);
                self.unmeasured.extend(outcome.failed.into_iter().map(|(id, _)| id));
                self.outside.extend(outcome.outside.map(|failure| (name.to_owned(), failure)));
            }
            Err(error) if stopped || room::is_full(&error) => return Err(error), // the others would fail too
            Err(error) => {
                let known = error.chain().find_map(|cause| cause.downcast_ref::<Failure>()).cloned();
                let what = format!("{error:#}");
                match known {
                    Some(failure) if failure.kind == FailureKind::Outside => {
                        self.outside.push((name.to_owned(), failure))
                    }
                    Some(failure) => self.failed.push((name.to_owned(), Failure { what, ..failure })),
                    None => self.failed.push((name.to_owned(), Failure::failed(what))),
                }
            }
        }
        Ok(())
    }

    /// The failure of the whole call; `None` if everything was measured.
    pub fn failure(&self, scenarios: usize) -> Option<Failure> {
        let each = |failures: &[(String, Failure)]| {
            let each: Vec<String> =
                failures.iter().map(|(name, failure)| format!("{name}: {}", failure.what)).collect();
            each.join("; ")
        };
        if let Some((_, first)) = self.failed.first() {
            let (count, each) = (self.failed.len(), each(&self.failed));
            let is_uniform = self.failed.iter().all(|(_, failure)| failure.kind == first.kind);
            let what = match first.kind {
                FailureKind::Unmet if is_uniform => {
                    format!("{count} of {scenarios} scenarios need something that this host lacks: {each}")
                }
                FailureKind::Again if is_uniform && scenarios == 1 => first.what.clone(),
                FailureKind::Again if is_uniform => format!("{count} of {scenarios} scenarios have to wait: {each}"),
                _ => {
                    let failure = Failure::failed(format!("{count} of {scenarios} scenarios failed: {each}"));
                    return Some(failure.hint("run again with the same `--out`: what is finished stays"));
                }
            };
            return Some(Failure { what, ..first.clone() });
        }
        if !self.unmeasured.is_empty() {
            let what = format!("{} runs could not be measured: {}", self.unmeasured.len(), self.unmeasured.join(", "));
            return Some(match &self.first_failed {
                Some((id, why)) => Failure::failed(format!("{what}; {id}: {why}"))
                    .hint("run again with the same `--out`: what is finished stays"),
                None => Failure::again(what).hint("run again with the same `--out` and `--jobs 1`"),
            });
        }
        let (_, first) = self.outside.first()?;
        if scenarios == 1 {
            return Some(first.clone());
        }
        let (count, each) = (self.outside.len(), each(&self.outside));
        let what = format!("{count} of {scenarios} scenarios need a path that this host cannot provide: {each}");
        Some(Failure { what, ..first.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late() -> Result<WorkOutcome> {
        Ok(WorkOutcome { late: vec!["c-r1".into()], ..WorkOutcome::default() })
    }

    fn error(failure: Failure) -> Result<WorkOutcome> {
        Err(failure.into())
    }

    /// Adds each outcome in turn and compares the failure of the whole call: exit code, and the beginning of its text.
    fn check(outcomes: Vec<(Result<WorkOutcome>, FailureKind, &str)>) {
        let mut ending = Ending::default();
        for (number, (outcome, kind, what)) in (1..).zip(outcomes) {
            ending.take(&format!("s{number}"), outcome, false).unwrap();
            let failure = ending.failure(number).unwrap();
            assert!(failure.kind == kind && failure.what.starts_with(what), "{failure:?}");
        }
    }

    /// The others were tried too, and the end was "2 of 2 scenarios need something that this host lacks".
    #[test]
    fn full_disk_stops_the_call_with_its_own_sentence() {
        let full = std::io::Error::from_raw_os_error(28);
        let full = room::explained(full.into(), std::path::Path::new("out")).context("run a");
        let error = Ending::default().take("a", Err(full), false).unwrap_err();
        assert!(format!("{error:#}").starts_with("run a: the disk of \"out\" is full: No space left"), "{error:#}");
    }

    /// An initial ssthresh that this kernel cannot set used to stop the other scenarios of the folder.
    #[test]
    fn scenario_that_fails_leaves_the_others_and_decides_the_end() {
        let failed = WorkOutcome { failed: vec![("c-r2".into(), "iperf3 ended".into())], ..WorkOutcome::default() };
        let full = || Err(anyhow::Error::msg("disk full"));
        let unmet = anyhow::Error::from(Failure::unmet("no struct_ops links").hint("use a newer kernel"));
        check(vec![
            (error(Failure::outside("the path is wrong")), FailureKind::Outside, "the path is wrong"),
            (Ok(WorkOutcome::default()), FailureKind::Outside, "1 of 2 scenarios need a path that this host"),
            (error(Failure::outside("as well")), FailureKind::Outside, "2 of 3 scenarios need a path that this host"),
            (late(), FailureKind::Again, "1 runs could not be measured: c-r1"),
            (Ok(failed), FailureKind::Failed, "2 runs could not be measured: c-r1, c-r2; c-r2: iperf3 ended"),
            (full(), FailureKind::Failed, "1 of 6 scenarios failed: s6: disk full"),
        ]);
        let lacking = "s1: set the conditions: no struct_ops links";
        check(vec![
            (
                Err(unmet.context("set the conditions")),
                FailureKind::Unmet,
                &format!("1 of 1 scenarios need something that this host lacks: {lacking}"),
            ),
            (
                error(Failure::outside("the path is wrong")),
                FailureKind::Unmet,
                &format!("1 of 2 scenarios need something that this host lacks: {lacking}"),
            ),
            (late(), FailureKind::Unmet, &format!("1 of 3 scenarios need something that this host lacks: {lacking}")),
            (full(), FailureKind::Failed, &format!("2 of 4 scenarios failed: {lacking}; s4: disk full")),
        ]);
        let mut ending = Ending::default();
        ending.take("a", error(Failure::unmet("no links").hint("use a newer kernel")), false).unwrap();
        assert_eq!(ending.failure(1).unwrap().hint.as_deref(), Some("use a newer kernel"));
        let mut ending = Ending::default();
        ending.take("a", Ok(WorkOutcome::default()), false).unwrap();
        assert_eq!(ending.failure(1), None);
        let stopped = ending.take("a", error(Failure::failed("interrupted")), true);
        assert_eq!(stopped.unwrap_err().to_string(), "interrupted");
    }
}
