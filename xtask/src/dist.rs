//! Builds and checks what users get: packages, a static program, recipes for clusters, a dashboard and alert rules.

mod cluster;
mod contents;
mod manifest;
mod monitoring;
mod page;
pub mod quick;
mod role;
mod root;
mod rpm;
mod supply;
mod tarball;
mod tools;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::setup::{self, SetupPurpose};
use crate::{process, web};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Also install, use, upgrade and purge the package in a clean Debian, and run Ansible's role; needs root
    #[arg(long)]
    try_package: bool,
    /// Also build the container image and run it; needs root
    #[arg(long)]
    try_image: bool,
}

/// `cargo xtask dist`. Errors: a linter finds an error; two builds give different objects; the package leaves something.
///
/// Side effects: installs npm packages below `target/web`, programs of cargo and pip below `target/tools`.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Dist)?;
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    cluster::check()?;
    supply::check(&folder)?;
    let package = package()?;
    process::run("dist", process::program("lintian").args(["--fail-on", "error"]).arg(&package))?;
    let rpm = rpm::build(&folder)?;
    let tarball = tarball::build(&folder, &process::fast_tccc())?;
    if arguments.try_package {
        root::try_package(&package)?;
        role::try_policies(&process::fast_tccc())?;
    }
    if arguments.try_image {
        cluster::try_image(&tarball.folder)?;
    }
    for file in [&folder, &package, &rpm, &tarball.file] {
        println!("{}", file.display());
    }
    Ok(())
}

/// Builds the Debian package and its contents.
///
/// Errors: the page cannot be bundled, or the program does not serve it.
pub fn package() -> Result<PathBuf> {
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    monitoring::check()?;
    web::bundle()?;
    process::build_fast_tccc()?;
    page::check(&mut process::program(process::fast_tccc()), page::RECORDING)?;
    process::run("dist", process::program(process::fast_tccc()).arg("assets").arg(&folder))?;
    let said = process::output("dist", tools::DEB.command()?.args(["--no-build", "--package", "tccc"]))?;
    let Some(line) = said.lines().map(str::trim).find(|line| line.ends_with(".deb")) else {
        bail!("cargo-deb names no package: {said}");
    };
    Ok(PathBuf::from(line))
}
