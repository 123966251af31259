//! Expands a scenario into an ordered list of runs. Pure, so that a plan can be shown, stored and compared before it
//! runs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::perturb::perturbed;
use crate::path::LinkConfig;
use crate::scenario::{Cell, GuestKernel, PERTURBED, PLANNED_RUNS_MAX, Profile, RUNS_MAX, Scenario, VirtualSpec};
use shared::failure::Failure;
use shared::model::run::{Engine, RESULT_SCHEMA};
use shared::units::{Share, duration_text};

/// Most bytes of the values in a run's id. File names have at most 255 bytes, and folders of attempts add to the id.
const VALUES_MAX: usize = 120;

/// Command-line options that change a scenario's plan; `None` keeps the scenario's value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choices {
    /// Runs per cell.
    pub runs: Option<u32>,
    /// Seed of everything random.
    pub seed: Option<u64>,
    pub profile: Option<Profile>,
    pub engine: Engine,
    /// The kernel of virtual time.
    pub kernel: Option<GuestKernel>,
    /// Also runs each cell on paths that differ by this share.
    pub perturb: Option<Share>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Name of the results folder, unique in the plan.
    pub id: String,
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// From 0.
    pub repeat: u32,
    /// Seed of the links, the same for all variants of a repeat.
    pub seed: u64,
}

/// All runs of an experiment, in order: `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub schema: u32,
    pub scenario: String,
    #[serde(default)]
    pub engine: Engine,
    pub profile: Profile,
    /// Options of virtual time, if that is the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualSpec>,
    /// The kernel of virtual time, if that is the engine.
    #[serde(default, skip_serializing_if = "GuestKernel::is_default")]
    pub kernel: GuestKernel,
    /// Runs per cell.
    pub repeats: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Interval of the traced samples.
    #[serde(with = "duration_text")]
    pub sample: Duration,
    /// Every combination of the sweep, resolved.
    pub cells: Vec<Cell>,
    /// In the order in which they start.
    pub runs: Vec<PlannedRun>,
}

impl Plan {
    /// Plans the repeats one after the other, and the cells of each in random order. A slow change of the host then
    /// affects all cells alike.
    ///
    /// # Errors
    /// More runs than [`RUNS_MAX`] per cell or [`PLANNED_RUNS_MAX`] in all.
    pub fn new(scenario: &Scenario, choices: &Choices) -> Result<Plan, Failure> {
        let mut cells = scenario.cells.clone();
        if let Some(share) = choices.perturb {
            cells.extend(scenario.cells.iter().flat_map(|cell| perturbed(cell, share)));
        }
        let repeats = choices.runs.unwrap_or(scenario.runs);
        if !(1..=RUNS_MAX).contains(&repeats) || cells.len() * repeats as usize > PLANNED_RUNS_MAX {
            let what = format!("{repeats} runs of {} cells are too many", cells.len());
            let most = format!("use at most {RUNS_MAX} runs per cell and {PLANNED_RUNS_MAX} in all");
            return Err(Failure::usage(what).hint(most));
        }
        let profile = choices.profile.unwrap_or(scenario.profile);
        let mut plan = Plan {
            schema: RESULT_SCHEMA,
            scenario: scenario.name.clone(),
            engine: choices.engine,
            profile,
            virtual_time: (choices.engine == Engine::Virtual).then_some(scenario.virtual_time),
            kernel: match choices.engine {
                Engine::Virtual => choices.kernel.or(scenario.kernel).unwrap_or(profile.kernel()),
                Engine::Kernel | Engine::Ns2 => GuestKernel::default(),
            },
            repeats,
            seed: choices.seed.unwrap_or(scenario.seed),
            sample: scenario.sample,
            cells,
            runs: Vec::new(),
        };
        let series = scenario.series_variable();
        plan.runs = (0..repeats).flat_map(|repeat| plan.repeat(repeat, series)).collect();
        Ok(plan)
    }

    /// The same plan with at most this many repeats. A repeat depends on the seed, not on the number of repeats.
    pub(crate) fn limited_to(&self, repeats: u32) -> Plan {
        let mut plan = Plan { repeats: self.repeats.min(repeats), ..self.clone() };
        plan.runs.retain(|run| run.repeat < plan.repeats);
        plan
    }

    /// The runs of one repeat, in random order.
    fn repeat(&self, repeat: u32, series: Option<&str>) -> Vec<PlannedRun> {
        let of_repeat = mix(self.seed, u64::from(repeat));
        let mut runs: Vec<PlannedRun> = Vec::new();
        for (cell, Cell { at, .. }) in self.cells.iter().enumerate() {
            let is_same_path = |name: &str| Some(name) != series && name != PERTURBED;
            let apart_from_series = at.iter().filter(|(name, _)| is_same_path(name));
            let seed = apart_from_series.fold(of_repeat, |seed, (name, value)| mix_text(mix_text(seed, name), value));
            let values: String = at.values().map(|value| format!("-{value}")).collect();
            let id = format!("r{repeat:03}-c{cell:03}{}", file_name(&values));
            runs.push(PlannedRun { id, cell, repeat, seed });
        }
        shuffle(&mut runs, of_repeat);
        runs
    }

    /// The links of a run with their seeds.
    pub(crate) fn link_configs(&self, run: &PlannedRun) -> Vec<LinkConfig> {
        let cell = &self.cells[run.cell];
        let links = cell.links.iter().enumerate().map(|(index, link)| {
            let mut config = link.config(cell.mtu);
            for (side, direction) in config.directions.iter_mut().enumerate() {
                direction.seed = mix(run.seed, 2 * index as u64 + side as u64);
            }
            config
        });
        links.collect()
    }
}

/// Part of a name that is valid on every file system: one byte for each of the first [`VALUES_MAX`] characters.
fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%=".contains(c);
    text.chars().take(VALUES_MAX).map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Hashes two numbers by the output function of SplitMix64.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014, figure 16.
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    let golden_ratio = 0x9e37_79b9_7f4a_7c15_u64;
    let z = seed.wrapping_add(golden_ratio.wrapping_mul(number.wrapping_add(1)));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn mix_text(seed: u64, text: &str) -> u64 {
    text.bytes().fold(mix(seed, text.len() as u64), |seed, byte| mix(seed, u64::from(byte)))
}

/// The Fisher-Yates shuffle; the bias of the remainder is below 1e-16 for lists of this size.
fn shuffle<T>(items: &mut [T], seed: u64) {
    for last in (1..items.len()).rev() {
        let other = mix(seed, last as u64) % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use shared::model::run::UNFINISHED;

    /// Six cells of four runs.
    pub const TEXT: &str = include_str!("../../tests/fixtures/scenarios/plan.toml");

    pub fn planned(choices: &Choices) -> Result<Plan, Failure> {
        Plan::new(&Scenario::parse("t.toml", TEXT).unwrap(), choices)
    }

    #[test]
    fn plan_makes_each_repeat_whole_before_the_next_in_random_order() {
        let plan = planned(&Choices::default()).unwrap();
        assert!(plan.runs.is_sorted_by_key(|run| run.repeat));
        let cells = |runs: &[PlannedRun]| runs.iter().map(|run| run.cell).collect::<Vec<usize>>();
        let orders: Vec<Vec<usize>> = plan.runs.chunks(6).map(cells).collect();
        assert!(orders.iter().all(|order| BTreeSet::from_iter(order).len() == 6), "{orders:?}");
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "{orders:?}");
    }

    #[test]
    fn runs_of_one_repeat_share_their_seed_over_the_algorithms_only() {
        let plan = planned(&Choices::default()).unwrap();
        let seeds = |loss: &str, repeat: u32| {
            let of = plan.runs.iter().filter(|run| run.repeat == repeat && plan.cells[run.cell].at["loss"] == loss);
            let mut seeds: Vec<u64> = of.map(|run| run.seed).collect();
            seeds.dedup();
            seeds
        };
        assert_eq!(seeds("1%", 0).len(), 1);
        assert_ne!(seeds("1%", 0), seeds("1%", 1));
        assert_ne!(seeds("1%", 0), seeds("0", 0));
        let [forward, backward] = &plan.link_configs(&plan.runs[0])[0].directions;
        assert_ne!(forward.seed, backward.seed);
    }

    #[test]
    fn the_same_seed_plans_the_same_and_fewer_repeats_are_the_first_of_more() {
        let of = |seed, runs| planned(&Choices { seed: Some(seed), runs: Some(runs), ..Choices::default() }).unwrap();
        assert_eq!(of(7, 4), of(7, 4));
        assert_ne!(of(7, 4).runs, of(8, 4).runs);
        assert_eq!(of(7, 9).limited_to(4), of(7, 4));
        assert_eq!(of(7, 4).limited_to(9), of(7, 4));
    }

    #[test]
    fn more_runs_than_anybody_waits_for_are_refused_before_they_are_listed() {
        let refused = |runs| planned(&Choices { runs: Some(runs), ..Choices::default() }).unwrap_err().what;
        assert_eq!(refused(u32::MAX), "4294967295 runs of 6 cells are too many");
        assert_eq!(refused(0), "0 runs of 6 cells are too many");
    }

    #[test]
    fn ids_are_unique_and_plain() {
        let plan = planned(&Choices::default()).unwrap();
        let ids: BTreeSet<&str> = plan.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!((ids.len(), ids.first(), ids.last()), (24, Some(&"r000-c000-reno-0"), Some(&"r003-c005-bbr-1%")));
        assert_eq!(file_name("-a b/c"), "-a_b_c");
    }

    /// Names that were too long for the file system once failed only after the calibration.
    #[test]
    fn long_values_leave_ids_that_are_short_and_unique() {
        let mut scenario = Scenario::parse("t.toml", TEXT).unwrap();
        for value in scenario.cells.iter_mut().flat_map(|cell| cell.at.values_mut()) {
            *value = format!("{value}é").repeat(100);
        }
        let plan = Plan::new(&scenario, &Choices::default()).unwrap();
        let ids: BTreeSet<&str> = plan.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), 24);
        assert!(ids.iter().all(|id| id.len() == "r000-c000".len() + VALUES_MAX), "{ids:?}");
        assert!(ids.iter().any(|id| id.starts_with("r000-c000-reno_reno_")), "{ids:?}");
        let place = tempfile::tempdir().unwrap();
        for id in ids {
            std::fs::create_dir(place.path().join(format!("{UNFINISHED}{id}-99"))).unwrap();
        }
    }
}
