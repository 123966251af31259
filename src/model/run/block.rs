//! A block that was published: `plan.json` of its directory.

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::machine::Machine;

/// What one published block is: which part of which plan, and nothing of the other parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockPlan {
    /// Version of this file.
    pub schema: u32,
    pub scenario: String,
    pub engine: Engine,
    /// `paper` or `native`.
    pub profile: String,
    /// Runs of each cell in the whole plan.
    pub repeats: u32,
    /// Seed of everything random.
    pub seed: u64,
    pub block: Block,
    /// Its runs, by id.
    pub runs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Digest of the plan; blocks of one plan have the same.
    pub plan: String,
    /// Its number, from 1.
    pub n: usize,
    /// How many blocks the plan has.
    pub of: usize,
    #[serde(default)]
    pub machine: Machine,
}
