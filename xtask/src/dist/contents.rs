//! The files that every package carries: the list in `Cargo.toml`, under `package.metadata.deb.assets`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process;

/// A file of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Where it is now, below the top of the workspace, or in the folder for what is built.
    pub source: PathBuf,
    /// Where it goes, below the root.
    pub place: PathBuf,
    /// Permissions, octal.
    pub mode: String,
}

/// Every file of the list, patterns replaced by the files that they name.
///
/// Errors: cargo does not say what the list is; a pattern names no file.
pub fn assets() -> Result<Vec<Asset>> {
    let said = process::output("dist", process::cargo("metadata").args(["--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&said).context("read what cargo says of the workspace")?;
    let packages = metadata["packages"].as_array().context("cargo names no package")?;
    let package = packages.iter().find(|package| package["name"] == "tccc").context("cargo names no tccc")?;
    let list = package["metadata"]["deb"]["assets"].as_array().context("the package lists no assets")?;
    let mut assets = Vec::new();
    for entry in list {
        let word = |place: usize| entry[place].as_str().with_context(|| format!("asset {entry} has three words"));
        assets.extend(expand(word(0)?, word(1)?, word(2)?)?);
    }
    Ok(assets)
}

/// The files of one line of the list: `*` stands for any text in a file's name, and a place that ends in `/` keeps the name.
fn expand(pattern: &str, place: &str, mode: &str) -> Result<Vec<Asset>> {
    let source = match pattern.strip_prefix("target/") {
        Some(built) => process::target().join(built),
        None => process::workspace().join(pattern),
    };
    let folder = source.parent().context("an asset lies in a folder")?;
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("look for {pattern}"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file() && fits(&name, &path.file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    found.sort();
    ensure!(!found.is_empty(), "no file is {pattern}, which Cargo.toml lists");
    let goes_to = |source: &Path| match place.ends_with('/') {
        true => Path::new(place).join(source.file_name().unwrap_or_default()),
        false => PathBuf::from(place),
    };
    Ok(found.into_iter().map(|source| Asset { place: goes_to(&source), source, mode: mode.to_owned() }).collect())
}

/// Whether a name has the parts of the pattern between its stars, in order.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let (last, middle) = parts.split_last().expect("splitting gives a part");
    for part in middle {
        let Some(found) = left.find(part) else { return false };
        left = &left[found + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files() {
        assert!(fits("*.1", "tccc-load.1") && fits("*.*", "a.toml") && fits("*", "a") && fits("tccc", "tccc"));
        assert!(!fits("*.1", "tccc.7") && !fits("*.*", "README") && !fits("tccc", "tccc2"));
    }

    #[test]
    fn every_file_in_the_tree_that_the_list_names_is_there() {
        let units = expand("xtask/package/*.service", "usr/lib/systemd/system/", "644").unwrap();
        assert!(units.iter().any(|unit| unit.place == Path::new("usr/lib/systemd/system/tccc.service")));
        let error = expand("xtask/package/*.nothing", "usr/", "644").unwrap_err().to_string();
        assert_eq!(error, "no file is xtask/package/*.nothing, which Cargo.toml lists");
    }
}
