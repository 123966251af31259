//! Packs the package's files and scripts for a guest, without cargo-deb, the page, and the checks of `cargo xtask dist`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::tarball::put;
use super::{contents, rpm};
use crate::process::{self, remove};

const CONTROL: &str = "Package: tccc\nVersion: 0.0.0~quick\nArchitecture: amd64\nMaintainer: nobody <tccc@localhost>\n\
    Depends: libelf1, zlib1g\nDescription: tccc for a guest alone\n";

/// Errors: the program does not build; a file that `Cargo.toml` lists is missing.
pub fn package() -> Result<PathBuf> {
    process::build_fast_tccc()?;
    let folder = process::target().join("quick");
    remove(&folder)?;
    let root = folder.join("root");
    fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
    let dist = process::target().join("dist");
    fs::create_dir_all(&dist).with_context(|| format!("create {}", dist.display()))?;
    process::run("quick", process::program(process::fast_tccc()).arg("assets").arg(&dist))?;
    for asset in contents::assets()? {
        let asset = rpm::prepared(asset, &folder)?;
        put(&asset.source, &root.join(&asset.place), &asset.mode)?;
    }
    let control = root.join("DEBIAN");
    fs::create_dir(&control).context("create the folder of the package's scripts")?;
    fs::write(control.join("control"), CONTROL).context("describe the package")?;
    for script in ["postinst", "prerm", "postrm"] {
        let source = process::workspace().join("xtask/package/debian").join(script);
        put(&source, &control.join(script), "755")?;
    }
    let package = folder.join("tccc.deb");
    let mut build = process::program("dpkg-deb");
    process::run("quick", build.args(["--build", "--root-owner-group", "-Zgzip"]).arg(&root).arg(&package))?;
    Ok(package)
}
