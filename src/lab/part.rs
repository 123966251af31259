//! Selects the part of a plan that one call runs: some cells, and one shard or block of their runs.
//!
//! A result directory always contains the whole plan. So the parts of several calls, or of several directories on
//! several hosts, belong to one experiment.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::plan::{Plan, PlannedRun};
use crate::scenario::Scenario;
use shared::failure::Failure;
use shared::model::run::At;

const SHARDS_MAX: u32 = 10_000;

/// A selection of runs; by default all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSelection {
    /// Variables and values that cells must have; several values of one variable are alternatives.
    pub only: Vec<(String, String)>,
    pub shard: Option<Shard>,
    /// Ids of one block's runs.
    pub block: Option<BTreeSet<String>>,
}

/// One of several equal shares of the runs, such as `2/5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: u32,
    /// The number of shares.
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

impl RunSelection {
    /// Shape: in the plan's order; empty for a shard beyond the last block.
    ///
    /// # Errors
    /// `only` has a variable or value that the scenario does not have, or leaves no cell.
    pub fn runs<'a>(&self, scenario: &Scenario, plan: &'a Plan) -> Result<Vec<&'a PlannedRun>, Failure> {
        self.check_only(scenario)?;
        let chosen: Vec<&PlannedRun> =
            plan.runs.iter().filter(|run| self.is_chosen(&plan.cells[run.cell].at)).collect();
        if chosen.is_empty() {
            return Err(Failure::usage("`--only` leaves no cell of the scenario"));
        }
        let shared = match self.shard {
            // Every `of`-th block; with fewer blocks than shares, some shares are empty.
            Some(Shard { number, of }) => {
                let own = blocks(&chosen).into_iter().skip(number as usize - 1).step_by(of as usize);
                own.flat_map(|block| block.runs).collect()
            }
            None => chosen,
        };
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

    /// Whether a cell has one of the allowed values for every variable in `only`.
    fn is_chosen(&self, at: &At) -> bool {
        let only = &self.only;
        only.iter().all(|(name, _)| only.iter().any(|(other, value)| other == name && at.get(name) == Some(value)))
    }
}

/// All variants of one seed. Different machines may run different blocks, so paired runs share a host.
#[derive(Debug, Clone, PartialEq)]
pub struct RunBlock<'a> {
    /// From 0.
    pub repeat: u32,
    /// Seed of the links: each path of a repeat has its own.
    pub seed: u64,
    /// In the plan's order.
    pub runs: Vec<&'a PlannedRun>,
}

/// Shape: in the order of their first runs.
pub fn blocks<'a>(runs: &[&'a PlannedRun]) -> Vec<RunBlock<'a>> {
    let mut places = std::collections::HashMap::new();
    let mut blocks: Vec<RunBlock> = Vec::new();
    for run in runs {
        let place = *places.entry((run.repeat, run.seed)).or_insert(blocks.len());
        if place == blocks.len() {
            blocks.push(RunBlock { repeat: run.repeat, seed: run.seed, runs: Vec::new() });
        }
        blocks[place].runs.push(run);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Choices;
    use crate::plan::tests::{TEXT, planned};

    fn scenario() -> Scenario {
        Scenario::parse("t.toml", TEXT).unwrap()
    }

    fn plan() -> Plan {
        planned(&Choices::default()).unwrap()
    }

    fn ids(part: &RunSelection) -> Vec<String> {
        part.runs(&scenario(), &plan()).unwrap().into_iter().map(|run| run.id.clone()).collect()
    }

    #[test]
    fn only_chooses_cells_and_names_what_it_does_not_know() {
        let part = |pairs: &[(&str, &str)]| {
            let only = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            RunSelection { only, ..RunSelection::default() }
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
        let plan = plan();
        let sorted = |mut ids: Vec<String>| {
            ids.sort_unstable();
            ids
        };
        for of in [1, 2, 3, 5, 8, 24] {
            let shards: Vec<Vec<String>> = (1..=of)
                .map(|number| ids(&RunSelection { shard: Some(Shard { number, of }), ..RunSelection::default() }))
                .collect();
            assert_eq!(sorted(shards.concat()), sorted(ids(&RunSelection::default())), "{of} shards");
            let seed = |id: &String| plan.runs.iter().find(|run| run.id == *id).unwrap().seed;
            for shard in &shards {
                let pairs = |id| shard.iter().filter(|other| seed(other) == seed(id)).count();
                assert!(shard.iter().all(|id| pairs(id) == 3), "{of} shards of 8 seeds");
            }
            let empty = shards.iter().filter(|shard| shard.is_empty()).count();
            assert_eq!(empty, (of as usize).saturating_sub(8), "{of} shards of 8 seeds");
        }
    }

    #[test]
    fn shard_is_a_number_and_a_total() {
        assert_eq!("2/5".parse(), Ok(Shard { number: 2, of: 5 }));
        for wrong in ["0/5", "6/5", "5", "1/0", "a/b", "-1/2", "1/99999"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
