//! What the program is made of: licences and sources of all crates, and the bill of materials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{contents, tools};
use crate::process;

/// Checks `deny.toml`'s rules, and writes `tccc.cdx.json` (CycloneDX 1.5).
///
/// Errors: a crate has a licence or a source that is not allowed; the bill names no crate.
pub fn check(folder: &Path) -> Result<()> {
    // The rules look at the crates for every platform, of which a build has fetched its own alone.
    process::run("dist", process::cargo("fetch").arg("--locked"))?;
    // Advisories are a database on the network that changes by itself: a release asks it, a build does not.
    let rules = process::workspace().join("xtask/package/deny.toml");
    let mut deny = tools::DENY.command()?;
    deny.args(["--offline", "--config"]).arg(rules).args(["check", "bans", "licenses", "sources"]);
    process::run("dist", &mut deny)?;
    let mut bill = tools::CYCLONEDX.command()?;
    bill.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--override-filename", "tccc.cdx"]);
    process::run("dist", &mut bill)?;
    // The tool writes one beside each manifest of the workspace.
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
