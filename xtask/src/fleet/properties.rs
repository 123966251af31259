//! Properties of a cluster's results, one function each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use fs_err as fs;
use serde_json::Value;

use super::trial::Trial;
use crate::process::{self, command};

/// Confidence intervals on the kernel may lie apart by this share of the mean, because of other work on the machine.
const SLACK: f64 = 0.01;

/// A lost node and a cancelled task cost at most the cancelled block, which the report names.
pub(super) fn only_the_cancelled_block_is_missing(trial: &Trial<'_>) -> Result<()> {
    let missing = report_of(&trial.results())?["fleet"]["blocks"][0]["missing"].clone();
    let cancelled = trial.cancelled.map(|task| task.to_string());
    ensure!(missing.as_str() == cancelled.as_deref(), "blocks {missing} are missing, {cancelled:?} was cancelled");
    Ok(())
}

pub(super) fn refused_tasks_moved(trial: &Trial<'_>) -> Result<()> {
    let starts = trial.starts()?;
    let refused: BTreeSet<usize> = starts.iter().filter(|(_, node)| node == "node1").map(|(task, _)| *task).collect();
    ensure!(!refused.is_empty(), "no task began on node1");
    for task in refused {
        ensure!(trial.nodes_of(task)?.len() > 1, "task {task} began on node1 alone");
    }
    Ok(())
}

pub(super) fn lost_task_moved(trial: &Trial<'_>, task: usize) -> Result<()> {
    let lost = trial.lost.as_deref().context("no node was lost")?;
    let last = trial.starts()?.into_iter().filter(|(other, _)| *other == task).map(|(_, node)| node).next_back();
    ensure!(last.as_deref() != Some(lost) && trial.nodes_of(task)?.contains(lost), "task {task} ended on {last:?}");
    Ok(())
}

/// Each task published its block once, and the next submission found it.
pub(super) fn each_block_is_made_once(trial: &Trial<'_>) -> Result<()> {
    for task in 1..=trial.blocks {
        let log = trial.results().join(format!("task-{task}.log"));
        let log = fs::read_to_string(log)?;
        ensure!(log.matches("published: ").count() == 1, "task {task} did not publish its block once:\n{log}");
        let is_found = log.contains(" already");
        ensure!(is_found != (trial.cancelled == Some(task)), "task {task} was made twice:\n{log}");
    }
    Ok(())
}

/// `slurm.sh` wrote the output of `tccc report`, as text and as a page.
pub(super) fn report_is_written(trial: &Trial<'_>) -> Result<()> {
    for (name, format) in [("report.log", "text"), ("report.html", "html")] {
        let written = fs::read_to_string(trial.results().join(name))?;
        let wanted = call_report(trial, &["-o", format])?;
        let wanted = String::from_utf8_lossy(&wanted.stdout);
        ensure!(!wanted.is_empty() && written.contains(&*wanted), "{name} is not the report:\n{written}");
    }
    Ok(())
}

/// All blocks are there, and `report --check` ends with 0.
pub(super) fn nothing_is_missing(trial: &Trial<'_>) -> Result<()> {
    let blocks = report_of(&trial.results())?["fleet"]["blocks"].clone();
    ensure!(blocks[0]["missing"] == "", "blocks are missing: {blocks}");
    let checked = call_report(trial, &["--check"])?;
    ensure!(checked.status.success(), "report --check ended with {}", checked.status);
    Ok(())
}

/// The report has the digest and the cells of one machine's report.
pub(super) fn is_same_result(one: &Value, other: &Value) -> Result<()> {
    for part in ["digest", "cells"] {
        ensure!(one[part] == other[part], "{part} differs: {} and {}", one[part], other[part]);
    }
    Ok(())
}

/// Reports on the kernel have the same cells and n, and their confidence intervals overlap.
pub(super) fn is_like_result(one: &Value, other: &Value) -> Result<()> {
    let (one, other) = (cells(one)?, cells(other)?);
    ensure!(one.keys().eq(other.keys()), "the cells differ: {:?} and {:?}", one.keys(), other.keys());
    for (cell, measured) in &one {
        let [a, b] = [measured, &other[cell]];
        ensure!(a["n"] == b["n"], "{cell}: n is {} and {}", a["n"], b["n"]);
        println!("{cell}: {} and {}, n {}", a["mean"], b["mean"], a["n"]);
        let slack = SLACK * a["mean"].as_f64().unwrap_or(f64::NAN);
        let overlap = bound(a, 0) <= bound(b, 1) + slack && bound(b, 0) <= bound(a, 1) + slack;
        ensure!(overlap, "{cell}: {} and {} lie apart", a["ci95"], b["ci95"]);
    }
    Ok(())
}

/// The lower (0) or upper (1) end of the interval.
fn bound(measured: &Value, end: usize) -> f64 {
    measured["ci95"][end].as_f64().unwrap_or(f64::NAN)
}

/// Measured values by cell and metric.
fn cells(report: &Value) -> Result<BTreeMap<String, Value>> {
    let cells = report["cells"].as_array().context("the report has no cells")?;
    Ok(cells.iter().map(|cell| (format!("{} {}", cell["at"], cell["metric"]), cell["measured"].clone())).collect())
}

/// The report of a folder as JSON.
pub(super) fn report_of(results: &Path) -> Result<Value> {
    process::report(&process::tccc(), &[results.to_owned()])
}

fn call_report(trial: &Trial<'_>, options: &[&str]) -> Result<Output> {
    let (tccc, results) = (process::tccc(), trial.results());
    command!("{tccc} report {results} {options...}").output().context("start `tccc report`")
}
