//! Bundles the page of `tccc serve` with esbuild for the binary, and tests it in a browser.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use clap::Args;
use fs_err as fs;

use crate::bench;
use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};

const SOURCE: &str = "src/host/serve/web";
/// The part of the page that the binary embeds.
pub const BUNDLE: &str = "src/host/serve/web/bundle";
pub const TESTS: &str = "tests/web";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Also test the page in Chromium: two widths, accessibility, pictures in target/web/pictures
    #[arg(long)]
    test: bool,
    /// Also measure how often Chromium draws while 200 flows are plotted
    #[arg(long)]
    frames: bool,
}

/// `cargo xtask web`. Side effects: installs npm packages below `target/web`.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Web)?;
    bundle()?;
    if arguments.test {
        test()?;
    }
    if arguments.frames { frames() } else { Ok(()) }
}

/// Bundles a changed page if npm is installed. The binary also works without a page.
pub fn bundle_if_possible() {
    let done = if process::answers(process::program("npm")) { bundle() } else { Ok(()) };
    if let Err(why) = done {
        eprintln!("xtask: web: the page was not bundled: {why:#}");
    } else if !is_fresh() {
        eprintln!("xtask: web: npm is missing, so this build has no web page; `cargo xtask web` installs npm");
    }
}

/// Bundles the page unless its bundle is fresh.
///
/// # Errors
/// npm is missing or fails.
pub fn bundle() -> Result<()> {
    if is_fresh() {
        return Ok(());
    }
    let modules = install(SOURCE, "page")?.join("node_modules");
    fs::create_dir_all(process::workspace().join(BUNDLE))?;
    process::run("web", command!("cp {SOURCE}/index.html {SOURCE}/icon.svg {BUNDLE}"))?;
    let mut esbuild = command!(
        "{modules}/.bin/esbuild {SOURCE}/main.js --bundle --minify --format=esm --target=es2022 --log-level=warning
         --outfile={BUNDLE}/page.js"
    );
    process::run("web", esbuild.env("NODE_PATH", &modules))
}

/// Whether no source of the page is younger than its bundle.
fn is_fresh() -> bool {
    let bundled = changed(&process::workspace().join(BUNDLE).join("page.js"));
    let sources = fs::read_dir(process::workspace().join(SOURCE)).into_iter().flatten().flatten();
    let mut times = sources.filter(|entry| entry.path().is_file()).filter_map(|entry| changed(&entry.path()));
    bundled.is_some_and(|bundled| times.all(|time| time <= bundled))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Installs the packages of a folder's `package.json` below `target` unless they are there, and returns their folder.
pub fn install(folder: &str, name: &str) -> Result<PathBuf> {
    let place = process::target().join("web").join(name);
    let [wanted, manifest] = [&process::workspace().join(folder), &place].map(|folder| folder.join("package.json"));
    let wanted = fs::read_to_string(&wanted)?;
    if fs::read_to_string(&manifest).is_ok_and(|there| there == wanted) && place.join("node_modules").is_dir() {
        return Ok(place);
    }
    let _ = fs::remove_file(&manifest); // an interrupted install is repeated
    let scratch = place.join("wanted");
    fs::create_dir_all(&scratch)?;
    fs::write(scratch.join("package.json"), &wanted)?;
    let options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"];
    process::run("web", command!("npm install {options...} --prefix {scratch}"))?;
    let modules = place.join("node_modules");
    process::remove(&modules)?;
    fs::rename(scratch.join("node_modules"), &modules)?;
    fs::write(&manifest, &wanted)?;
    Ok(place)
}

/// Tests the pure parts in Node, then the page in Chromium over a recording.
fn test() -> Result<()> {
    process::run("web", command!("node --test tests/web/pure.test.mjs"))?;
    process::build_tccc()?;
    let packages = install(TESTS, "tests")?;
    let pictures = process::target().join("web/pictures");
    fs::create_dir_all(&pictures)?;
    let mut browser = command!("node tests/web/browser.mjs");
    browser.env("TCCC", process::tccc()).env("PICTURES", &pictures).env("PACKAGES", packages.join("node_modules"));
    process::run("web", &mut browser)?;
    eprintln!("xtask: web: pictures in {}", pictures.display());
    Ok(())
}

/// Measures the page in Chromium with more sockets of this host than it plots.
fn frames() -> Result<()> {
    let packages = install(TESTS, "tests")?;
    let mut bench = bench::command("page");
    process::run("web", bench.env("PACKAGES", packages.join("node_modules")))
}
