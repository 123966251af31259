//! Checks what experiments on the kernel may leave on this host.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::process;

/// Checks that `tccc status` lists no leftovers.
pub(super) fn has_no_leftovers() -> Result<()> {
    let left = leftovers()?;
    let left: Vec<&Value> = left.iter().flat_map(|of_kind| of_kind.as_array().into_iter().flatten()).collect();
    ensure!(left.is_empty(), "this host has leftovers of tccc, which `tccc unload --all` removes: {left:?}");
    Ok(())
}

/// Algorithms without their process, and the cgroups and processes of dead runs.
fn leftovers() -> Result<[Value; 3]> {
    let mut status = process::program(process::tccc());
    let mut status = process::json("look for what is left", status.args(["status", "-o", "json"]))?;
    if let Some(instances) = status["instances"].as_array_mut() {
        instances.retain(|instance| instance["standing"] == "leftover");
    }
    Ok(["instances", "stale_cgroups", "stale_processes"].map(|kind| status[kind].take()))
}

/// Checks that a cancelled task left no cgroup, process or algorithm. Namespaces end with their processes.
pub(super) fn has_nothing_of(processes: &[String]) -> Result<()> {
    let [instances, cgroups, orphans] = leftovers()?.map(|left| left.to_string());
    let left = cgroups + &orphans;
    for process in processes {
        let is_named = [format!("run-{process}-"), format!(":{process},")].iter().any(|name| left.contains(name));
        ensure!(!is_named, "the cancelled task's process {process} left something: {left}");
    }
    ensure!(instances == "[]", "an algorithm is left: {instances}");
    Ok(())
}
