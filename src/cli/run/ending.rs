//! What came of the scenarios of one call: one that cannot be carried out does not keep the others from it.

use anyhow::Result;

use crate::experiment::runner::Outcome;
use crate::failure::{Failure, Kind};

/// What did not come out as asked.
#[derive(Debug, Default)]
pub struct Ending {
    /// Runs that could not be measured.
    unmeasured: Vec<String>,
    /// Scenarios whose paths, all or some, were not what they ask, with the reason.
    outside: Vec<(String, Failure)>,
    /// Scenarios that failed, with the reason.
    failed: Vec<(String, String)>,
}

impl Ending {
    /// Takes in what came of one scenario.
    ///
    /// Errors: what keeps every other from being carried out too: a need of this host, or a wish to stop.
    pub fn take(&mut self, name: &str, result: Result<Outcome>, stopped: bool) -> Result<()> {
        let error = match result {
            Ok(outcome) => {
                self.unmeasured.extend(outcome.late);
                self.unmeasured.extend(outcome.failed.into_iter().map(|(id, _)| id));
                self.outside.extend(outcome.outside.map(|failure| (name.to_owned(), failure)));
                return Ok(());
            }
            Err(error) if stopped => return Err(error),
            Err(error) => error,
        };
        match error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
            Some(failure) if failure.kind == Kind::Unmet => return Err(error),
            Some(failure) if failure.kind == Kind::Outside => self.outside.push((name.to_owned(), failure.clone())),
            _ => self.failed.push((name.to_owned(), format!("{error:#}"))),
        }
        Ok(())
    }

    /// The failure of the whole call; none when everything was measured.
    pub fn failure(&self, scenarios: usize) -> Option<Failure> {
        if !self.failed.is_empty() {
            let each: Vec<String> = self.failed.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            let what = format!("{} of {scenarios} scenarios failed: {}", self.failed.len(), each.join("; "));
            return Some(Failure::failed(what).hint("run again with the same `--out`: what is finished stays"));
        }
        if !self.unmeasured.is_empty() {
            let what = format!("{} runs could not be measured: {}", self.unmeasured.len(), self.unmeasured.join(", "));
            return Some(Failure::failed(what).hint("run again with the same `--out` and `--jobs 1`"));
        }
        let (_, first) = self.outside.first()?;
        if scenarios == 1 {
            return Some(first.clone());
        }
        let each: Vec<String> =
            self.outside.iter().map(|(name, failure)| format!("{name}: {}", failure.what)).collect();
        let what = format!("{} of {scenarios} scenarios ask for a path that this host does not give", each.len());
        Some(Failure { what: format!("{what}: {}", each.join("; ")), ..first.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_that_fails_leaves_the_others_and_decides_the_end() {
        let mut ending = Ending::default();
        ending.take("a", Ok(Outcome::default()), false).unwrap();
        assert_eq!(ending.failure(1), None);
        ending
            .take("b", Err(Failure::outside("the path is not what the scenario asks: s-r rate").into()), false)
            .unwrap();
        let failure = ending.failure(2).unwrap();
        assert_eq!(failure.kind, Kind::Outside);
        assert!(failure.what.starts_with("1 of 2 scenarios ask for a path") && failure.what.contains("b: the path"));
        ending.take("c", Ok(Outcome { late: vec!["c-r1".into()], ..Outcome::default() }), false).unwrap();
        assert_eq!(ending.failure(3).unwrap().what, "1 runs could not be measured: c-r1");
        ending.take("d", Err(anyhow::anyhow!("write the record: disk full")), false).unwrap();
        assert_eq!(ending.failure(4).unwrap().what, "1 of 4 scenarios failed: d: write the record: disk full");
    }

    #[test]
    fn what_holds_for_all_scenarios_ends_the_call() {
        let mut ending = Ending::default();
        let unmet = ending.take("a", Err(Failure::unmet("no iperf3").into()), false);
        assert_eq!(unmet.unwrap_err().to_string(), "no iperf3");
        let stopped = ending.take("a", Err(Failure::failed("interrupted").into()), true);
        assert_eq!(stopped.unwrap_err().to_string(), "interrupted");
    }
}
