//! Builds a tarball with a static program, for containers and hosts without a package manager.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::page;
use crate::process::{self, command};
use crate::web;

/// With an explicit target, the flags do not apply to build scripts.
const MACHINE: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug)]
pub struct Tarball {
    pub file: PathBuf,
    pub folder: PathBuf,
}

/// Builds the static program from a copy of the tree, and packs it with the files of Debian's package.
///
/// # Errors
/// The program needs a library or lacks its page; its objects differ from those of the other build.
pub fn build(folder: &Path, root: &Path, source: &Path) -> Result<Tarball> {
    let program = build_static(source)?;
    ensure_same_objects(folder, &program)?;
    page::check(&mut process::program(&program), page::RECORDING)?;
    let name = format!("tccc-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let place = folder.join(&name);
    process::remove(&place)?;
    let (usr, etc, extra) = (root.join("usr"), root.join("etc"), process::workspace().join("xtask/package"));
    process::run("dist", command!("cp --recursive {usr} {place}"))?;
    process::run("dist", command!("cp --recursive {etc} {extra}/ansible {place}"))?;
    process::run("dist", command!("cp {extra}/Containerfile {extra}/kubernetes.yaml {place}"))?;
    process::run("dist", command!("cp {program} {place}/bin/tccc"))?;
    let file = folder.join(format!("{name}.tar.gz"));
    let time = process::output("dist", command!("git log -1 --format=@%ct"))?;
    let options = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime", time.trim()];
    let mut tar = command!("tar --create --gzip {options...} --file {file} --directory {folder} {name}");
    process::run("dist", tar.env("GZIP", "-n"))?;
    Ok(Tarball { file, folder: place })
}

/// Copies the project's files, including uncommitted changes, and the bundled page, which git ignores.
pub fn copy_tree(folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("source");
    process::remove(&copy)?;
    fs::create_dir_all(&copy)?;
    let mut names = crate::tidy::tree::paths()?;
    names.retain(|name| process::workspace().join(name).is_file());
    let bundle = web::BUNDLE;
    process::output("dist", command!("cp --recursive --parents {names...} {bundle} {copy}"))?;
    Ok(copy)
}

fn build_static(copy: &Path) -> Result<PathBuf> {
    let target = process::target().join("static");
    let archive = process::output("dist", command!("cc -print-file-name=libelf.a"))?;
    let libraries = Path::new(archive.trim()).parent().context("the C compiler knows no libelf.a")?.to_owned();
    let mut build = process::cargo("build");
    build.args(["--release", "--package", "tccc", "--features", "static", "--target", MACHINE]);
    build.arg("--manifest-path").arg(copy.join("Cargo.toml")).arg("--target-dir").arg(&target);
    build.env("RUSTFLAGS", "-Ctarget-feature=+crt-static").env("LIBBPF_SYS_LIBRARY_PATH", &libraries);
    process::run("dist", &mut build)?;
    let program = target.join(MACHINE).join("release/tccc");
    let said = process::output("dist", command!("file --brief {program}"))?;
    ensure!(said.contains("static"), "the program is not static: {said}");
    Ok(program)
}

/// Checks that both builds of the source have the same objects.
fn ensure_same_objects(folder: &Path, program: &Path) -> Result<()> {
    let again = folder.join("again");
    process::remove(&again)?;
    process::run("dist", command!("{program} assets {again}"))?;
    let compare = command!("diff --recursive --brief {folder}/objects {again}/objects");
    process::run("dist: compare the objects of two builds", compare)?;
    Ok(process::remove(&again)?)
}
