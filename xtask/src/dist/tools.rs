//! Programs of cargo and pip for packaging, with fixed versions, below `target/tools`.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{self, command};

const PYTHON: [&str; 2] = ["kubernetes-validate==1.37.0", "ansible-lint==26.10.1"];

/// A program of cargo, built on first use.
pub fn cargo_tool(name: &str, version: &str) -> Result<PathBuf> {
    let folder = process::target().join("tools");
    let program = folder.join("bin").join(name);
    if !program.is_file() {
        let options = ["--locked", name, "--version", version, "--root"];
        process::run("dist", process::cargo("install").args(options).arg(&folder))?;
    }
    Ok(program)
}

/// The folder of programs that pip installs.
pub fn python() -> Result<PathBuf> {
    let folder = process::target().join("tools/python");
    let programs = folder.join("bin");
    if !programs.join("ansible-lint").is_file() {
        process::run("dist", command!("python3 -m venv {folder}"))?;
        process::run("dist", command!("{folder}/bin/pip install --quiet {PYTHON...}"))?;
    }
    Ok(programs)
}

/// The search path of programs, with these folders first.
pub fn path_with(folders: &[PathBuf]) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(folders.iter().cloned().chain(std::env::split_paths(&path)))?)
}
