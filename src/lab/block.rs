//! The units in which machines share a plan: all variants of one seed, so that what is compared in pairs ran on one host.

use crate::lab::plan::PlannedRun;

/// Runs that stay together.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<'a> {
    /// Repeat of its runs, from 0.
    pub repeat: u32,
    /// Seed of its links: every path of a repeat has its own.
    pub seed: u64,
    /// Shape: in the plan's order.
    pub runs: Vec<&'a PlannedRun>,
}

/// The blocks of these runs.
///
/// Shape: in the order of their first runs.
pub fn blocks<'a>(runs: &[&'a PlannedRun]) -> Vec<Block<'a>> {
    let mut places = std::collections::HashMap::new();
    let mut blocks: Vec<Block> = Vec::new();
    for run in runs {
        let place = *places.entry((run.repeat, run.seed)).or_insert(blocks.len());
        if place == blocks.len() {
            blocks.push(Block { repeat: run.repeat, seed: run.seed, runs: Vec::new() });
        }
        blocks[place].runs.push(run);
    }
    blocks
}
