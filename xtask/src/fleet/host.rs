//! What experiments on the kernel could leave on this host.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::process;

/// `tccc status` names no algorithm without its process, and no cgroup or process of a dead run.
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

/// `tccc status` names no cgroup or process that a cancelled task left, and no algorithm without its process. Namespaces
/// end with the processes in them.
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
