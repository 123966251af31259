//! The Debian packages tccc needs, why, and how they get onto this machine.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::process;

/// What to install for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The command that shall be able to run
    #[arg(long = "for", value_enum, default_value_t = Purpose::Ci)]
    purpose: Purpose,
}

/// A command that needs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// `cargo xtask demo`
    Demo,
    /// `cargo xtask test`
    Test,
    /// `cargo xtask ci`
    Ci,
    /// `cargo xtask bench`
    Bench,
    /// `cargo xtask prove`
    Prove,
    /// `cargo xtask fuzz`
    Fuzz,
    /// `cargo xtask virtual`
    Virtual,
    /// `cargo xtask selftests`
    Selftests,
    /// `cargo xtask vm`
    Vm,
    /// `cargo xtask web`
    Web,
    /// `cargo xtask dist`
    Dist,
    /// `cargo xtask fleet`
    Fleet,
}

/// This machine lacks packages, and they could or should not be installed: exit code 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unmet(String);

/// What shows that a package is not needed because its content is there by other means.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Program(String),
    File(String),
    /// How the name of a library begins that clang brings along; the rest is the processor's.
    ClangLibrary(String),
}

#[derive(Debug, Clone, Deserialize)]
struct Package {
    name: String,
    why: String,
    #[serde(flatten)]
    content: Content,
    /// None: whatever builds tccc, which is everything but packaging.
    #[serde(rename = "for")]
    purposes: Option<Vec<Purpose>>,
}

impl Package {
    fn is_for(&self, purpose: Purpose) -> bool {
        self.purposes.as_ref().map_or(purpose != Purpose::Dist, |purposes| purposes.contains(&purpose))
    }
}

/// Names are the same on Debian 12 and 13.
const PACKAGES: &str = include_str!("setup/packages.json");

fn packages() -> Vec<Package> {
    serde_json::from_str(PACKAGES).expect("a test reads the packages")
}

/// Packages without which tests skip and nothing fails: a machine that cannot have them is not held up.
const SKIPPABLE: [&str; 5] = ["mininet", "net-tools", "ns2", "systemd", "shellcheck"];

/// Installs on its own: `cargo xtask setup`.
pub fn run(arguments: &Arguments) -> Result<()> {
    set_up(arguments.purpose)?;
    eprintln!("xtask: setup: everything is here");
    Ok(())
}

/// Whether missing packages are installed.
static MAY_INSTALL: AtomicBool = AtomicBool::new(true);

/// From here on [`set_up`] names missing packages instead of installing them.
pub fn forbid_installing() {
    MAY_INSTALL.store(false, Ordering::Relaxed);
}

/// Makes sure that the packages for `purpose` are there, and says which of those that tests can skip are not.
///
/// Errors: [`Unmet`] when something is missing and may not be installed, apt is not there or this is not root;
/// apt's own failure.
/// Side effects: installs Debian packages.
pub fn set_up(purpose: Purpose) -> Result<()> {
    let missing = missing(purpose);
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

/// Why nothing is installed.
fn obstacle() -> Option<&'static str> {
    let answers = || process::answers(&mut process::program("apt-get"));
    match (MAY_INSTALL.load(Ordering::Relaxed), process::is_root()) {
        (false, _) => Some("shall not be installed"),
        (_, false) => Some("only root may install"),
        _ => (!answers()).then_some("there is no apt-get here"),
    }
}

/// Goes on where tests can skip all that is missing.
fn go_without(missing: &[Package], why: &str) -> Result<()> {
    let names: Vec<&str> = missing.iter().map(|package| package.name.as_str()).collect();
    let by_hand = format!("`apt-get install {}` as root", names.join(" "));
    let count = if names.len() == 1 { "1 package is".to_owned() } else { format!("{} packages are", names.len()) };
    let text = format!("{count} missing, and {why}: {by_hand}");
    if missing.iter().all(|package| SKIPPABLE.contains(&package.name.as_str())) {
        eprintln!("xtask: setup: {text}; without, some tests are skipped");
        return Ok(());
    }
    Err(Unmet(text).into())
}

fn missing(purpose: Purpose) -> Vec<Package> {
    wanted(purpose).filter(|package| !is_there(package)).collect()
}

fn wanted(purpose: Purpose) -> impl Iterator<Item = Package> {
    packages().into_iter().filter(move |package| package.is_for(purpose))
}

fn is_there(package: &Package) -> bool {
    let content = match &package.content {
        Content::Program(name) => is_in_path(name),
        Content::File(path) => Path::new(path).exists(),
        Content::ClangLibrary(name) => has_clang_library(name),
    };
    content || is_installed(&package.name)
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Asks clang where its own libraries lie: the folder holds its version.
fn has_clang_library(name: &str) -> bool {
    let folder = process::program("clang").arg("-print-runtime-dir").stderr(Stdio::null()).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|file| file.file_name().to_string_lossy().starts_with(name))
}

/// Asks dpkg; a machine without dpkg has no package installed.
fn is_installed(name: &str) -> bool {
    let mut query = process::program("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", name]).stderr(Stdio::null());
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

fn install(missing: &[Package]) -> Result<()> {
    let apt = || {
        let mut apt = process::program("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
        apt
    };
    process::run("setup", apt().arg("update"))?;
    let (offered, absent): (Vec<&Package>, Vec<&Package>) =
        missing.iter().partition(|package| !SKIPPABLE.contains(&package.name.as_str()) || is_offered(&package.name));
    for package in absent {
        eprintln!("xtask: setup: this machine's apt has no {}; tests that need it are skipped", package.name);
    }
    let names: Vec<&str> = offered.iter().map(|package| package.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    process::run("setup", apt().args(["install", "-y", "--no-install-recommends"]).args(names))
        .context("install the packages")
}

/// Whether apt could install a package of this name.
fn is_offered(name: &str) -> bool {
    let mut ask = process::program("apt-get");
    ask.args(["install", "--simulate", "-qq", "--no-install-recommends", name]);
    ask.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_reason() {
        assert!(packages().iter().all(|package| package.why.len() > 10));
    }

    #[test]
    fn content_found_by_other_means_is_enough() {
        let package = |content| {
            let [name, why] = ["no-such-package-in-debian", "a shell"].map(str::to_owned);
            Package { name, why, content, purposes: None }
        };
        assert!(is_there(&package(Content::Program("sh".into()))));
        assert!(!is_there(&package(Content::Program("no-such-program".into()))));
        assert!(!is_there(&package(Content::File("/no/such/file".into()))));
    }

    #[test]
    fn what_tests_can_skip_holds_nothing_up() {
        let of = |name: &str| packages().into_iter().find(|package| package.name == name).unwrap();
        assert!(go_without(&[of("mininet"), of("ns2")], "shall not be installed").is_ok());
        let unmet = go_without(&[of("mininet"), of("clang")], "only root may install").unwrap_err().to_string();
        assert_eq!(unmet, "2 packages are missing, and only root may install: `apt-get install mininet clang` as root");
        assert!(!is_offered("no-such-package-in-debian"));
    }

    #[test]
    fn format_checker_is_for_ci_only() {
        let is_wanted = |name: &str, purpose| wanted(purpose).any(|package| package.name == name);
        assert!(is_wanted("clang-format", Purpose::Ci));
        assert!(!is_wanted("clang-format", Purpose::Demo));
        assert!(is_wanted("clang", Purpose::Demo));
    }
}
