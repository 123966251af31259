//! What is given to others: a Debian package, a Grafana dashboard and Prometheus alert rules.

mod monitoring;
mod root;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;
use crate::setup::{self, Purpose};

/// Builds Debian packages from what `Cargo.toml` lists under `package.metadata.deb`.
const TOOL: &str = "cargo-deb";
const TOOL_VERSION: &str = "3.8.0";

/// What to make.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
    /// Also install, use, upgrade and purge the package in a clean Debian of its own; needs root
    #[arg(long)]
    try_package: bool,
}

/// Writes everything below `target/dist` and has it checked: `cargo xtask dist`.
///
/// Errors: a step fails; lintian finds an error; the package leaves something behind.
/// Side effects: installs packages of npm below `target/web`, and cargo-deb below `target/tools`.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Dist, arguments.no_install)?;
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    monitoring::write(&folder)?;
    let package = build_package(&folder)?;
    process::run("dist", process::program("lintian").args(["--fail-on", "error"]).arg(&package))?;
    if arguments.try_package {
        root::try_package(&package)?;
    }
    println!("{}\n{}", folder.display(), package.display());
    Ok(())
}

/// Builds the program, has it write what goes with it, and packs both.
fn build_package(folder: &Path) -> Result<PathBuf> {
    process::run("dist", process::cargo("build").args(["--release", "--package", "tccc"]))?;
    let program = process::target().join("release/tccc");
    process::run("dist", process::program(&program).arg("assets").arg(folder))?;
    let tools = process::target().join("tools");
    let tool = tools.join("bin").join(TOOL);
    if !tool.is_file() {
        let arguments = ["--locked", TOOL, "--version", TOOL_VERSION, "--root"];
        process::run("dist", process::cargo("install").args(arguments).arg(&tools))?;
    }
    let said = process::output("dist", process::program(&tool).args(["--no-build", "--package", "tccc"]))?;
    match said.lines().map(str::trim).find(|line| line.ends_with(".deb")) {
        Some(line) => Ok(PathBuf::from(line)),
        None => bail!("{TOOL} names no package: {said}"),
    }
}
