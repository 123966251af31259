//! Builds the RPM package from the same files as Debian's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::contents::{self, Asset};
use super::tools;
use crate::process;

/// For Debian's tools only.
const OF_DEBIAN: &str = "usr/share/lintian/";

/// Manual pages, which are compressed and marked as documentation.
const MANUAL: &str = "usr/share/man/";

/// Builds the package and checks it with rpmlint.
pub fn build(folder: &Path) -> Result<PathBuf> {
    let places = folder.join("rpm");
    fs::create_dir_all(&places).with_context(|| format!("create {}", places.display()))?;
    let assets: Result<Vec<Asset>> = contents::assets()?.into_iter().map(|asset| prepared(asset, &places)).collect();
    let list = places.join("list.toml");
    fs::write(&list, listed(&assets?)).with_context(|| format!("write {}", list.display()))?;
    let package = places.join("tccc.rpm");
    let mut build = tools::RPM.command()?;
    build.arg("--metadata-overwrite").arg(&list).arg("--output").arg(&package);
    process::run("dist", build.args(["--payload-compress", "zstd"]))?;
    let config = process::workspace().join("xtask/package/rpmlint.toml");
    process::run("dist", process::program("rpmlint").arg("--config").arg(config).arg(&package))?;
    let said = process::output("dist", process::program("rpm").args(["--query", "--package", "--list"]).arg(&package))?;
    ensure!(said.lines().any(|line| line == "/usr/bin/tccc"), "the RPM package holds no program: {said}");
    Ok(package)
}

/// Strips the program and compresses manual pages, as cargo-deb does.
pub fn prepared(asset: Asset, places: &Path) -> Result<Asset> {
    let name = asset.place.file_name().unwrap_or_default();
    if asset.place == Path::new("usr/bin/tccc") {
        let source = places.join(name);
        process::run("dist", process::program("strip").arg("-o").arg(&source).arg(&asset.source))?;
        return Ok(Asset { source, ..asset });
    }
    if !asset.place.starts_with(MANUAL) {
        return Ok(asset);
    }
    let copy = places.join(name);
    fs::copy(&asset.source, &copy).with_context(|| format!("copy {}", asset.source.display()))?;
    process::run("dist", process::program("gzip").args(["--no-name", "--best", "--force"]).arg(&copy))?;
    let compressed = |path: &Path| PathBuf::from(format!("{}.gz", path.display()));
    Ok(Asset { source: compressed(&copy), place: compressed(&asset.place), ..asset })
}

fn listed(assets: &[Asset]) -> String {
    let mut text = String::from("assets = [\n");
    for asset in assets.iter().filter(|asset| !asset.place.starts_with(OF_DEBIAN)) {
        // Only Debian has its own folder for completions.
        let place = asset.place.to_string_lossy().replace("zsh/vendor-completions/", "zsh/site-functions/");
        let config = if place.starts_with("etc/") { ", config = \"noreplace\"" } else { "" };
        let is_doc = place.starts_with("usr/share/doc/") || place.starts_with(MANUAL);
        let doc = if is_doc { ", doc = true" } else { "" };
        let source = asset.source.display();
        let _ = writeln!(
            text,
            "  {{ source = {:?}, dest = \"/{place}\", mode = \"{}\"{config}{doc} }},",
            source.to_string(),
            asset.mode
        );
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_other_distributions() {
        let asset = |place: &str| Asset { source: "a".into(), place: place.into(), mode: "644".into() };
        let text = listed(&[
            asset("etc/tccc/README"),
            asset("usr/share/zsh/vendor-completions/_tccc"),
            asset("usr/share/lintian/overrides/tccc"),
        ]);
        assert_eq!(
            text,
            "assets = [\n  { source = \"a\", dest = \"/etc/tccc/README\", mode = \"644\", config = \"noreplace\" },\n  \
             { source = \"a\", dest = \"/usr/share/zsh/site-functions/_tccc\", mode = \"644\" },\n]\n"
        );
    }
}
