//! What experiments on the kernel could leave on this host.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::trial::tccc;
use crate::process;

/// Namespaces, pinned objects, records of tccc, and what `tccc status` says, as text to compare.
pub(super) fn state() -> Result<String> {
    let namespaces = process::output("list the namespaces", Command::new("ip").args(["netns", "list"]))?;
    let folders = ["/sys/fs/bpf", "/run/tccc"].map(|folder| format!("{folder}: {:?}", names(folder)));
    let status = process::output("look at what is loaded", Command::new(tccc()).arg("status"))?;
    Ok(format!("{namespaces}\n{}\n{status}", folders.join("\n")))
}

/// `tccc status` names no cgroup or process that a cancelled task left, and no algorithm without its process. Namespaces
/// end with the processes in them.
pub(super) fn has_nothing_of(processes: &[String]) -> Result<()> {
    let mut status = Command::new(tccc());
    let status = process::output("look for what is left", status.args(["status", "-o", "json"]))?;
    let status: Value = serde_json::from_str(&status).context("read what is left")?;
    let left = [&status["stale_cgroups"], &status["stale_processes"]].map(Value::to_string).concat();
    for process in processes {
        let is_named = [format!("run-{process}-"), format!(":{process},")].iter().any(|name| left.contains(name));
        ensure!(!is_named, "the cancelled task's process {process} left something: {left}");
    }
    let instances = status["instances"].to_string();
    ensure!(!instances.contains("\"leftover\""), "an algorithm is left: {instances}");
    Ok(())
}

/// The host is as before, at the latest when one more call of `tccc` has swept what a killed one left.
///
/// Errors: it is not; the state cannot be read.
pub(super) fn is_as_before(before: &str) -> Result<()> {
    let after = state().context("look at this host again")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(())
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
