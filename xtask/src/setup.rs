//! Installs the Debian packages that tccc needs, and says why.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::process::{self, command};

#[derive(Debug, Args)]
pub struct Arguments {
    /// The command that needs the packages
    #[arg(long = "for", value_enum, default_value_t = SetupPurpose::Ci)]
    purpose: SetupPurpose,
}

/// A command that needs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetupPurpose {
    Demo,
    Test,
    Ci,
    Bench,
    Prove,
    Fuzz,
    Virtual,
    Selftests,
    Vm,
    Web,
    Dist,
    Fleet,
}

/// Packages are missing and were not installed: exit code 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unmet(pub String);

/// Shows that a package's content is present by other means.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PackageContent {
    Program(String),
    File(String),
    /// Beginning of the name of a library of clang; the rest names the processor.
    ClangLibrary(String),
}

#[derive(Debug, Clone, Deserialize)]
struct Package {
    name: String,
    why: String,
    #[serde(flatten)]
    content: PackageContent,
    /// `None` for every command that builds tccc, which is all but packaging.
    #[serde(rename = "for")]
    purposes: Option<Vec<SetupPurpose>>,
    /// Without it some tests skip and nothing fails.
    #[serde(default, rename = "skippable")]
    is_skippable: bool,
}

/// All packages. Their names are the same on Debian 12 and 13.
fn packages() -> Vec<Package> {
    serde_json::from_str(include_str!("setup/packages.json")).expect("a test reads the packages")
}

pub fn run(arguments: &Arguments) -> Result<()> {
    set_up(arguments.purpose)?;
    eprintln!("xtask: setup: everything is installed");
    Ok(())
}

static MAY_INSTALL: AtomicBool = AtomicBool::new(true);

/// From here on [`set_up`] names missing packages instead of installing them.
pub fn forbid_installing() {
    MAY_INSTALL.store(false, Ordering::Relaxed);
}

/// Installs the missing packages for `purpose`.
///
/// # Errors
/// Apt fails; [`Unmet`] where installing is forbidden or impossible, and a test cannot skip the package.
pub fn set_up(purpose: SetupPurpose) -> Result<()> {
    let missing: Vec<Package> = wanted(purpose).filter(|package| !is_there(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: setup: missing on this machine:");
    for package in &missing {
        eprintln!("  {:14} {}", package.name, package.why);
    }
    match obstacle() {
        Some(why) => go_without(&missing, why),
        None => install(&missing),
    }
}

/// The reason why nothing is installed.
fn obstacle() -> Option<&'static str> {
    let answers = || process::answers(process::program("apt-get"));
    match (MAY_INSTALL.load(Ordering::Relaxed), process::is_root()) {
        (false, _) => Some("`--no-install` was given"),
        (_, false) => Some("only root may install"),
        _ => (!answers()).then_some("there is no apt-get here"),
    }
}

/// Fails unless tests can skip all missing packages.
fn go_without(missing: &[Package], why: &str) -> Result<()> {
    let names: Vec<&str> = missing.iter().map(|package| package.name.as_str()).collect();
    let by_hand = format!("`apt-get install {}` as root", names.join(" "));
    let count = if names.len() == 1 { "1 package is".to_owned() } else { format!("{} packages are", names.len()) };
    let text = format!("{count} missing, and {why}: {by_hand}");
    if missing.iter().all(|package| package.is_skippable) {
        eprintln!("xtask: setup: {text}; without them, some tests are skipped");
        return Ok(());
    }
    Err(Unmet(text).into())
}

fn wanted(purpose: SetupPurpose) -> impl Iterator<Item = Package> {
    let is_for = move |purposes: &Vec<SetupPurpose>| purposes.contains(&purpose);
    packages().into_iter().filter(move |it| it.purposes.as_ref().map_or(purpose != SetupPurpose::Dist, is_for))
}

fn is_there(package: &Package) -> bool {
    let content = match &package.content {
        PackageContent::Program(name) => is_in_path(name),
        PackageContent::File(path) => Path::new(path).exists(),
        PackageContent::ClangLibrary(name) => has_clang_library(name),
    };
    content || is_installed(&package.name)
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Asks clang for the folder of its libraries.
fn has_clang_library(name: &str) -> bool {
    let folder = command!("clang -print-runtime-dir").stderr(Stdio::null()).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    process::names_in(folder.as_ref(), "").iter().any(|file| file.starts_with(name))
}

/// Asks dpkg; without dpkg the answer is no.
fn is_installed(name: &str) -> bool {
    let format = "--showformat=${db:Status-Status}";
    command!("dpkg-query --show {format} {name}")
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

fn install(missing: &[Package]) -> Result<()> {
    let apt = |words: &[&str]| {
        let mut apt = command!("apt-get -q -o DPkg::Lock::Timeout=120 {words...}");
        process::run("setup", apt.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    let (offered, absent): (Vec<&Package>, Vec<&Package>) =
        missing.iter().partition(|package| !package.is_skippable || is_offered(&package.name));
    for package in absent {
        eprintln!("xtask: setup: this machine's apt has no {}; tests that need it are skipped", package.name);
    }
    let names: Vec<&str> = offered.iter().map(|package| package.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    apt(&[&["install", "-y", "--no-install-recommends"], &names[..]].concat()).context("install the packages")
}

/// Whether apt could install a package of this name.
fn is_offered(name: &str) -> bool {
    let mut ask = command!("apt-get install --simulate -qq --no-install-recommends {name}");
    ask.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_found_by_other_means_is_enough() {
        let package = |content| {
            let [name, why] = ["no-such-package-in-debian", "a shell"].map(str::to_owned);
            Package { name, why, content, purposes: None, is_skippable: false }
        };
        assert!(is_there(&package(PackageContent::Program("sh".into()))));
        assert!(!is_there(&package(PackageContent::Program("no-such-program".into()))));
        assert!(!is_there(&package(PackageContent::File("/no/such/file".into()))));
    }

    #[test]
    fn what_tests_can_skip_holds_nothing_up() {
        let of = |name: &str| packages().into_iter().find(|package| package.name == name).unwrap();
        assert!(go_without(&[of("mininet"), of("ns2")], "`--no-install` was given").is_ok());
        let unmet = go_without(&[of("mininet"), of("clang")], "only root may install").unwrap_err().to_string();
        assert_eq!(unmet, "2 packages are missing, and only root may install: `apt-get install mininet clang` as root");
        assert!(!is_offered("no-such-package-in-debian"));
    }

    #[test]
    fn packages_have_reasons_and_purposes() {
        assert!(packages().iter().all(|package| package.why.len() > 10));
        let is_wanted = |(name, purpose)| wanted(purpose).any(|package: Package| package.name == name);
        let cases =
            [("clang-format", SetupPurpose::Ci), ("clang", SetupPurpose::Demo), ("clang-format", SetupPurpose::Demo)];
        assert_eq!(cases.map(is_wanted), [true, true, false]);
    }
}
