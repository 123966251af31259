//! Checks the licences and sources of all crates, and writes the bill of materials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{contents, tools};
use crate::process;

/// Checks the rules of `deny.toml`, and writes `tccc.cdx.json` (CycloneDX 1.5).
pub fn check(folder: &Path) -> Result<()> {
    // The rules cover the crates of every platform; a build fetches only its own.
    process::run("dist", process::cargo("fetch").arg("--locked"))?;
    // Advisories come from a changing database on the network, so a build does not check them.
    let rules = process::workspace().join("xtask/package/deny.toml");
    let mut deny = tools::DENY.command()?;
    deny.args(["--offline", "--config"]).arg(rules).args(["check", "bans", "licenses", "sources"]);
    process::run("dist", &mut deny)?;
    let mut bill = tools::CYCLONEDX.command()?;
    bill.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--override-filename", "tccc.cdx"]);
    process::run("dist", &mut bill)?;
    // The tool writes a bill beside each manifest of the workspace.
    for package in contents::packages()? {
        let manifest = PathBuf::from(package["manifest_path"].as_str().context("cargo names a manifest")?);
        let written = manifest.with_file_name("tccc.cdx.json");
        let text = fs::read_to_string(&written).with_context(|| format!("read {}", written.display()))?;
        fs::remove_file(&written).with_context(|| format!("remove {}", written.display()))?;
        if package["name"] == "tccc" {
            let bill: serde_json::Value = serde_json::from_str(&text).context("read the bill of materials")?;
            let crates = bill["components"].as_array().map_or(0, Vec::len);
            ensure!(crates > 100, "the bill of materials names {crates} crates");
            fs::write(folder.join("tccc.cdx.json"), text).context("write the bill of materials")?;
        }
    }
    Ok(())
}
