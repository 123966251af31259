//! Builds and checks what users get: packages, a static program, recipes for clusters, a dashboard and alert rules.

mod cluster;
mod manifest;
mod monitoring;
mod page;
mod role;
mod root;
mod tarball;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fs_err as fs;

use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};
use crate::web;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Also build a package of the host's half alone
    #[arg(long)]
    host: bool,
    /// Also install, use, upgrade and purge the package in a clean Debian, and run Ansible's role; needs root
    #[arg(long)]
    try_package: bool,
    /// Also build the container image and run it; needs root
    #[arg(long)]
    try_image: bool,
}

/// `cargo xtask dist`.
///
/// # Errors
/// A linter finds an error; two builds give different objects; the package leaves something.
///
/// Side effects: installs npm packages below `target/web`, programs of cargo and pip below `target/tools`.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Dist)?;
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder)?;
    cluster::check()?;
    monitoring::check()?;
    let alone = arguments.host.then(host_package).transpose()?; // first, because both build `target/release/tccc`
    let package = package()?;
    let host = alone.as_slice();
    process::run("dist", command!("lintian --fail-on error {package} {host...}"))?;
    let root = folder.join("unpacked");
    process::remove(&root)?;
    process::run("dist", command!("dpkg-deb --extract {package} {root}"))?;
    let rpm = rpm(&folder)?;
    let source = tarball::copy_tree(&folder)?;
    supply(&folder, &source)?;
    let tarball = tarball::build(&folder, &root, &source)?;
    if arguments.try_package {
        root::try_package(&package)?;
        role::try_policies(&process::fast_tccc())?;
    }
    if arguments.try_image {
        cluster::try_image(&tarball.folder)?;
    }
    for file in [&folder, &package, &rpm, &tarball.file].into_iter().chain(&alone) {
        println!("{}", file.display());
    }
    Ok(())
}

/// Builds the Debian package and its contents.
///
/// # Errors
/// The page cannot be bundled, or the program does not serve it.
pub fn package() -> Result<PathBuf> {
    web::bundle()?;
    let package = quick_package()?;
    page::check(&mut process::program(process::fast_tccc()), page::RECORDING)?;
    Ok(package)
}

/// Builds the Debian package with the page that is there.
pub fn quick_package() -> Result<PathBuf> {
    process::build_fast_tccc()?;
    deb("dist", &[])
}

/// Builds the Debian package of the host's half alone: the program without the laboratory and the author's half.
fn host_package() -> Result<PathBuf> {
    web::bundle()?;
    process::run(
        "build",
        process::cargo("build").args(["--release", "--no-default-features", "--features", "parquet"]),
    )?;
    page::check(&mut process::program(process::fast_tccc()), page::RECORDING)?;
    deb("dist/host", &["--variant", "host"])
}

/// Writes the program's assets into a folder of the build, packs what is built, and returns the package's file.
fn deb(assets: &str, options: &[&str]) -> Result<PathBuf> {
    let (program, assets) = (process::fast_tccc(), process::target().join(assets));
    fs::create_dir_all(&assets)?;
    process::run("dist", command!("{program} assets {assets}"))?;
    let deb = tools::cargo_tool("cargo-deb", "3.8.0")?;
    let said = process::output("dist", command!("{deb} --no-build --package tccc {options...}"))?;
    let file = said.lines().map(str::trim).find(|line| line.ends_with(".deb"));
    Ok(file.with_context(|| format!("cargo-deb names no package: {said}"))?.into())
}

/// Builds the RPM package of the files in Debian's package, and checks it with rpmlint.
fn rpm(folder: &Path) -> Result<PathBuf> {
    let package = folder.join("rpm/tccc.rpm");
    let rpm = tools::cargo_tool("cargo-generate-rpm", "0.21.1")?;
    fs::create_dir_all(folder.join("rpm"))?;
    process::run("dist", command!("{rpm} --output {package} --payload-compress zstd"))?;
    process::run("dist", command!("rpmlint --config xtask/package/rpmlint.toml {package}"))?;
    let said = process::output("dist", command!("rpm --query --package --list {package}"))?;
    ensure!(said.lines().any(|line| line == "/usr/bin/tccc"), "the RPM package holds no program: {said}");
    Ok(package)
}

/// Checks the licences and sources of all crates by `deny.toml`, and writes the bill of materials, `tccc.cdx.json`
/// (CycloneDX 1.5).
fn supply(folder: &Path, source: &Path) -> Result<()> {
    // The rules cover the crates of every platform; a build fetches only its own.
    process::run("dist", process::cargo("fetch").arg("--locked"))?;
    // Advisories come from a changing database on the network, so a build does not check them.
    let deny = tools::cargo_tool("cargo-deny", "0.20.2")?;
    process::run("dist", command!("{deny} --offline --config xtask/package/deny.toml check bans licenses sources"))?;
    let bill = tools::cargo_tool("cargo-cyclonedx", "0.5.9")?;
    let options = ["--format", "json", "--spec-version", "1.5", "--override-filename", "tccc.cdx"];
    // The tool writes a bill beside each manifest of the workspace.
    process::run("dist", command!("{bill} cyclonedx {options...}").current_dir(source))?;
    let text = fs::read_to_string(source.join("tccc.cdx.json"))?;
    let bill: serde_json::Value = serde_json::from_str(&text).context("read the bill of materials")?;
    let crates = bill["components"].as_array().map_or(0, Vec::len);
    ensure!(crates > 100, "the bill of materials names {crates} crates");
    Ok(fs::write(folder.join("tccc.cdx.json"), text)?)
}
