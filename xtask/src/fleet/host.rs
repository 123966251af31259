//! What experiments on the kernel could leave on this host.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::trial::tccc;
use crate::process;

/// Namespaces, pinned objects, records of tccc, and what `tccc status` says, as text to compare.
pub(super) fn state() -> Result<String> {
    let namespaces = process::output("list the namespaces", Command::new("ip").args(["netns", "list"]))?;
    let folders = ["/sys/fs/bpf", "/run/tccc"].map(|folder| format!("{folder}: {:?}", names(folder)));
    let status = process::output("look at what is loaded", Command::new(tccc()).arg("status"))?;
    Ok(format!("{namespaces}\n{}\n{status}", folders.join("\n")))
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
