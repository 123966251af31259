//! Makes the README's pictures: the page of `tccc serve` and the screen of `tccc top` over a recording in the tree, and the
//! report of an evaluation.

use anyhow::{Result, ensure};
use fs_err as fs;

use crate::evaluate;
use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};
use crate::web;

const FOLDER: &str = "xtask/pictures";
const RECORDING: &str = "tests/fixtures/recording-format-1.tccc";
/// The evaluated algorithm in the picture: known to be worse in some criteria.
const EVALUATED: &str = "bbr";
/// Largest size of a picture, bytes.
const LARGEST: u64 = 150_000;

/// `cargo xtask pictures`.
///
/// # Errors
/// Chromium or npm is missing; a picture is too large.
pub fn run() -> Result<()> {
    setup::set_up(SetupPurpose::Web)?;
    web::bundle_if_possible();
    process::build_tccc()?;
    let packages = web::install(web::TESTS, "tests")?.join("node_modules");
    let mut node = command!("node {FOLDER}/page.mjs");
    node.env("REPORT", evaluate::quick(EVALUATED)?.join("report.html"));
    node.env("TCCC", process::tccc()).env("RECORDING", RECORDING).env("PICTURES", FOLDER).env("PACKAGES", packages);
    process::run("pictures", node)?;
    for entry in fs::read_dir(process::workspace().join(FOLDER))? {
        let (path, bytes) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.len())))?;
        ensure!(bytes <= LARGEST, "{} has {bytes} bytes, at most {LARGEST}", path.display());
    }
    Ok(())
}
