//! Which part of a plan one call runs: chosen cells, and one shard or block of their runs.
//!
//! The plan in a result directory is always the whole one, so that parts made by several calls, or in several
//! directories on several hosts, are parts of the same experiment.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::failure::Failure;
use crate::lab::block::blocks;
use crate::lab::plan::{Plan, PlannedRun};
use crate::model::run::At;
use crate::scenario::Scenario;

/// Most shards of a plan.
const SHARDS_MAX: u32 = 10_000;

/// The part of a plan to run; by default all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Only cells with these values of these variables; several values of one variable widen the choice.
    pub only: Vec<(String, String)>,
    /// One of so many equal shares of the runs.
    pub shard: Option<Shard>,
    /// The runs of one block, by id.
    pub block: Option<BTreeSet<String>>,
}

/// One of equal shares: `2/5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let expected = || format!("expected I/N, such as 2/5: I from 1 to N, N at most {SHARDS_MAX}");
        let (number, of) = text.split_once('/').ok_or_else(expected)?;
        let shard = Shard { number: number.parse().map_err(|_| expected())?, of: of.parse().map_err(|_| expected())? };
        let is_one = (1..=shard.of).contains(&shard.number) && shard.of <= SHARDS_MAX;
        is_one.then_some(shard).ok_or_else(expected)
    }
}

impl Part {
    /// The runs of the part.
    ///
    /// Shape: in the plan's order; empty for a shard beyond the last block.
    /// Errors: `only` names a variable or value that the scenario does not have, or leaves no cell.
    pub fn runs<'a>(&self, scenario: &Scenario, plan: &'a Plan) -> Result<Vec<&'a PlannedRun>, Failure> {
        self.check_only(scenario)?;
        let chosen: Vec<&PlannedRun> =
            plan.runs.iter().filter(|run| self.is_chosen(&plan.cells[run.cell].at)).collect();
        if chosen.is_empty() {
            return Err(Failure::usage("`--only` leaves no cell of the scenario"));
        }
        let shared = self.shard.map_or(chosen.clone(), |shard| shard.deal(&chosen));
        let is_of_block = |run: &&PlannedRun| self.block.as_ref().is_none_or(|ids| ids.contains(&run.id));
        Ok(shared.into_iter().filter(is_of_block).collect())
    }

    fn check_only(&self, scenario: &Scenario) -> Result<(), Failure> {
        for (name, value) in &self.only {
            let values = scenario.values_of(name);
            if values.is_empty() {
                let known: Vec<&str> = scenario.sweep.iter().map(|variable| variable.name.as_str()).collect();
                let what = format!("`--only {name}={value}`: the scenario sweeps no \"{name}\"");
                let sweeps = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
                return Err(Failure::usage(what).hint(format!("it sweeps {sweeps}")));
            }
            if !values.contains(value) {
                let what = format!("`--only {name}={value}`: \"{name}\" does not take the value \"{value}\"");
                return Err(Failure::usage(what).hint(format!("it takes {}", values.join(", "))));
            }
        }
        Ok(())
    }

    /// Whether a cell has, for every variable that is limited, one of the chosen values.
    fn is_chosen(&self, at: &At) -> bool {
        let only = &self.only;
        only.iter().all(|(name, _)| only.iter().any(|(other, value)| other == name && at.get(name) == Some(value)))
    }
}

impl Shard {
    /// The share's runs: every so-manieth block. With fewer blocks than shares, some shares are empty.
    fn deal<'a>(self, runs: &[&'a PlannedRun]) -> Vec<&'a PlannedRun> {
        let own = blocks(runs).into_iter().skip(self.number as usize - 1).step_by(self.of as usize);
        own.flat_map(|block| block.runs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plan::Choices;
    use crate::lab::plan::tests::{TEXT, planned};

    fn scenario() -> Scenario {
        Scenario::parse("t.toml", TEXT).unwrap()
    }

    fn plan() -> Plan {
        planned(&Choices::default()).unwrap()
    }

    fn ids(part: &Part) -> Vec<String> {
        part.runs(&scenario(), &plan()).unwrap().into_iter().map(|run| run.id.clone()).collect()
    }

    #[test]
    fn only_chooses_cells_and_names_what_it_does_not_know() {
        let part = |pairs: &[(&str, &str)]| {
            let only = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            Part { only, ..Part::default() }
        };
        let cells = |pairs: &[(&str, &str)]| ids(&part(pairs)).len() / 4;
        assert_eq!(cells(&[("algorithm", "reno")]), 2);
        assert_eq!(cells(&[("algorithm", "reno"), ("algorithm", "bbr"), ("loss", "0")]), 2);
        let hint = |pairs: &[(&str, &str)]| part(pairs).runs(&scenario(), &plan()).unwrap_err().hint.unwrap();
        assert!(hint(&[("loss", "2%")]).contains("it takes 0, 1%"));
        assert!(hint(&[("delay", "2")]).contains("it sweeps algorithm, loss"));
    }

    #[test]
    fn shards_share_all_runs_and_keep_pairs_together() {
        for of in [1, 2, 3, 5, 8, 24] {
            let shards: Vec<Vec<String>> =
                (1..=of).map(|number| ids(&Part { shard: Some(Shard { number, of }), ..Part::default() })).collect();
            let mut all: Vec<String> = shards.concat();
            all.sort_unstable();
            let mut planned = ids(&Part::default());
            planned.sort_unstable();
            assert_eq!(all, planned, "{of} shards");
            let plan = plan();
            let seed = |id: &String| plan.runs.iter().find(|run| run.id == *id).unwrap().seed;
            let pairs = |shard: &Vec<String>| {
                shard.iter().all(|id| shard.iter().filter(|other| seed(other) == seed(id)).count() == 3)
            };
            assert!(shards.iter().all(pairs), "{of} shards of 8 seeds");
            let empty = shards.iter().filter(|shard| shard.is_empty()).count();
            assert_eq!(empty, (of as usize).saturating_sub(8), "{of} shards of 8 seeds");
        }
    }

    #[test]
    fn shards_are_written_as_one_of_so_many() {
        assert_eq!("2/5".parse(), Ok(Shard { number: 2, of: 5 }));
        for wrong in ["0/5", "6/5", "5", "1/0", "a/b", "-1/2", "1/99999"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
