//! The files in every package, as listed in `Cargo.toml` under `package.metadata.deb.assets`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Path in the workspace or in the target folder.
    pub source: PathBuf,
    /// Path in the package, relative to the root.
    pub place: PathBuf,
    /// Permissions, octal.
    pub mode: String,
}

/// Cargo's metadata of each package of the workspace.
pub fn packages() -> Result<Vec<serde_json::Value>> {
    let metadata = process::json("dist", process::cargo("metadata").args(["--no-deps", "--format-version", "1"]))?;
    metadata["packages"].as_array().cloned().context("cargo names no package")
}

/// Every file of the list. Errors: a pattern matches no file.
pub fn assets() -> Result<Vec<Asset>> {
    let packages = packages()?;
    let package = packages.iter().find(|package| package["name"] == "tccc").context("cargo names no tccc")?;
    let list = package["metadata"]["deb"]["assets"].as_array().context("the package lists no assets")?;
    let mut assets = Vec::new();
    for entry in list {
        let word = |place: usize| entry[place].as_str().with_context(|| format!("asset {entry} has three words"));
        assets.extend(expand(word(0)?, word(1)?, word(2)?)?);
    }
    Ok(assets)
}

/// The sorted files of one line of the list; a place that ends in `/` keeps the file's name.
fn expand(pattern: &str, place: &str, mode: &str) -> Result<Vec<Asset>> {
    let source = match pattern.strip_prefix("target/") {
        Some(built) => process::target().join(built),
        None => process::workspace().join(pattern),
    };
    let found = glob::glob(&source.to_string_lossy()).with_context(|| format!("read the pattern {pattern}"))?;
    let found: Vec<PathBuf> = found.flatten().filter(|path| path.is_file()).collect();
    ensure!(!found.is_empty(), "no file matches {pattern}, which Cargo.toml lists");
    let goes_to = |source: &Path| match place.ends_with('/') {
        true => Path::new(place).join(source.file_name().unwrap_or_default()),
        false => PathBuf::from(place),
    };
    Ok(found.into_iter().map(|source| Asset { place: goes_to(&source), source, mode: mode.to_owned() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_tree_that_the_list_names_is_there() {
        let units = expand("xtask/package/*.service", "usr/lib/systemd/system/", "644").unwrap();
        assert!(units.iter().any(|unit| unit.place == Path::new("usr/lib/systemd/system/tccc.service")));
        let error = expand("xtask/package/*.nothing", "usr/", "644").unwrap_err().to_string();
        assert_eq!(error, "no file matches xtask/package/*.nothing, which Cargo.toml lists");
    }
}
