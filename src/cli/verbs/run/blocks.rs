//! The blocks of all requested scenarios, numbered together: the tasks that a cluster's scheduler deals out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::args::Args;
use super::planned::Planned;
use crate::cli::output::results;
use lab::cost::{self, Jobs};
use lab::part::blocks;
use lab::results::Finished;
use shared::catalog;
use shared::model::run::Engine;

const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
struct BlocksDocument {
    schema: u32,
    /// Digest of everything that decides the results: texts, plans, versions, algorithms.
    plan: String,
    engine: &'static str,
    tccc: &'static str,
    /// What a node must have.
    needs: &'static [&'static str],
    /// Longest first.
    blocks: Vec<NumberedBlock>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct NumberedBlock {
    /// From 1; `--block` takes it.
    pub n: usize,
    /// Scenario, repeat and seed.
    id: String,
    /// Index of the scenario.
    #[serde(skip)]
    pub scenario: usize,
    pub runs: BTreeSet<String>,
    /// Distinct paths that are measured first.
    paths: usize,
    /// Expected time with one run at a time.
    seconds: f64,
    /// Processors it keeps busy; `None` if it needs the whole machine.
    cores: Option<u32>,
    /// Largest traffic of one of its runs.
    bits_per_second: u64,
}

/// Shape: longest first, else in the order of the files; numbered from 1.
///
/// # Errors
/// `--only` leaves no cell.
pub(super) fn all(planned: &[Planned], args: &Args) -> Result<Vec<NumberedBlock>> {
    let mut all = Vec::new();
    for (scenario, one) in planned.iter().enumerate() {
        let chosen = args.part().runs(&one.scenario, &one.plan)?;
        for block in blocks(&chosen) {
            // `--jobs auto` would make the order depend on the host.
            let forecast = args.forecast_by(Jobs::Fixed(1), one, &block.runs, &Finished::default());
            let traffic = block.runs.iter().map(|run| cost::load_bps(&one.plan.cells[run.cell]));
            all.push(NumberedBlock {
                n: 0,
                id: format!("{}-r{}-{:016x}", one.scenario.name, block.repeat + 1, block.seed),
                scenario,
                runs: block.runs.iter().map(|run| run.id.clone()).collect(),
                paths: forecast.paths,
                seconds: forecast.expected.as_secs_f64(),
                cores: (args.engine != Engine::Kernel).then_some(1),
                bits_per_second: traffic.fold(0.0, f64::max) as u64,
            });
        }
    }
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    (1..).zip(&mut all).for_each(|(n, block)| block.n = n);
    Ok(all)
}

pub(super) fn print(planned: &[Planned], args: &Args) -> Result<()> {
    let blocks = all(planned, args)?;
    let document = BlocksDocument {
        schema: SCHEMA,
        plan: digest(planned, &blocks)?,
        engine: args.engine.name(),
        tccc: env!("CARGO_PKG_VERSION"),
        needs: match args.engine {
            Engine::Kernel => &["root", "struct_ops", "cgroup2", "iperf3"],
            Engine::Virtual => &["guest"],
            Engine::Ns2 => &["ns"],
        },
        blocks,
    };
    Ok(writeln!(results(), "{}", serde_json::to_string(&document).context("write the plan")?)?)
}

/// Equal digests mean the same blocks of the same experiment by the same program.
pub(super) fn digest(planned: &[Planned], blocks: &[NumberedBlock]) -> Result<String> {
    let mut digest = Sha256::new().chain_update(env!("CARGO_PKG_VERSION"));
    let mut algorithms = BTreeMap::new();
    for one in planned {
        let plan = serde_json::to_vec(&one.plan).context("write the plan")?;
        digest = digest.chain_update(&one.scenario.text).chain_update([0]).chain_update(plan).chain_update([0]);
        for file in &one.scenario.files {
            digest = digest.chain_update(&file.name).chain_update([0]).chain_update(&file.text).chain_update([0]);
        }
        for flow in one.plan.cells.iter().flat_map(|cell| &cell.flows) {
            algorithms.insert(&flow.algorithm, catalog::find(&flow.algorithm).map(|known| &known.object));
        }
    }
    for block in blocks {
        digest = digest.chain_update(&block.id).chain_update([0]);
    }
    for (name, object) in algorithms {
        digest = digest.chain_update(name).chain_update(object.map_or(&[][..], |object| object.as_ref()));
    }
    Ok(hex::encode(digest.finalize()))
}
