//! Builds a tarball with a static program, for containers and hosts without a package manager.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::contents;
use crate::process::{self, remove};

/// With an explicit target, the flags do not apply to build scripts.
const MACHINE: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug)]
pub struct Tarball {
    pub file: PathBuf,
    pub folder: PathBuf,
}

/// Builds the static program from a copy of the tree, and packs it with the packages' files.
///
/// Errors: the program needs a library; its objects differ from those of the other build.
pub fn build(folder: &Path, dynamic: &Path) -> Result<Tarball> {
    let copy = copy_tree(folder)?;
    let program = build_static(&copy)?;
    ensure_same_objects(folder, &program)?;
    let place = folder.join(format!("tccc-{}-x86_64-linux", env!("CARGO_PKG_VERSION")));
    remove(&place)?;
    for asset in contents::assets()? {
        let within = asset.place.strip_prefix("usr").unwrap_or(&asset.place);
        let source = if asset.source == *dynamic { &program } else { &asset.source };
        put(source, &place.join(within), &asset.mode)?;
    }
    let extra = process::workspace().join("xtask/package");
    for name in ["Containerfile", "kubernetes.yaml"] {
        put(&extra.join(name), &place.join(name), "644")?;
    }
    process::run("dist", process::program("cp").arg("-r").args([extra.join("ansible"), place.join("ansible")]))?;
    let file = place.with_extension("tar.gz");
    let time = process::output("dist", process::program("git").args(["log", "-1", "--format=@%ct"]))?;
    let mut tar = process::program("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime"]);
    tar.arg(time.trim()).arg("--file").arg(&file).arg("--directory").arg(folder);
    process::run("dist", tar.env("GZIP", "-n").arg(place.file_name().unwrap_or_default()))?;
    Ok(Tarball { file, folder: place })
}

/// Copies the project's files, including uncommitted changes.
fn copy_tree(folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("source");
    remove(&copy)?;
    let names = process::output(
        "dist",
        process::program("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]),
    )?;
    for name in names.split('\0').filter(|name| process::workspace().join(name).is_file()) {
        let source = process::workspace().join(name);
        let mode = fs::metadata(&source).with_context(|| format!("read {name}"))?.permissions().mode();
        put(&source, &copy.join(name), &format!("{:o}", mode & 0o777))?;
    }
    Ok(copy)
}

fn build_static(copy: &Path) -> Result<PathBuf> {
    let target = process::target().join("static");
    let archive = process::output("dist", process::program("cc").arg("-print-file-name=libelf.a"))?;
    let libraries = Path::new(archive.trim()).parent().context("the C compiler knows no libelf.a")?.to_owned();
    let mut build = process::cargo("build");
    build.args(["--release", "--package", "tccc", "--features", "static", "--target", MACHINE]);
    build.arg("--manifest-path").arg(copy.join("Cargo.toml")).arg("--target-dir").arg(&target);
    build.env("RUSTFLAGS", "-Ctarget-feature=+crt-static").env("LIBBPF_SYS_LIBRARY_PATH", &libraries);
    process::run("dist", &mut build)?;
    let program = target.join(MACHINE).join("release/tccc");
    let said = process::output("dist", process::program("file").arg("--brief").arg(&program))?;
    ensure!(said.contains("static"), "the program is not static: {said}");
    Ok(program)
}

/// Checks that both builds of the source have the same objects.
fn ensure_same_objects(folder: &Path, program: &Path) -> Result<()> {
    let again = folder.join("again");
    remove(&again)?;
    process::run("dist", process::program(program).arg("assets").arg(&again))?;
    let (first, second) = (contents_of(&folder.join("objects"))?, contents_of(&again.join("objects"))?);
    for (name, bytes) in &first {
        ensure!(second.get(name) == Some(bytes), "{name:?} differs between two builds of the same source");
    }
    ensure!(first.len() == second.len(), "two builds make {} and {} objects", first.len(), second.len());
    eprintln!("xtask: dist: {} objects are the same bytes from two builds in two folders", first.len());
    remove(&again)
}

fn contents_of(folder: &Path) -> Result<BTreeMap<OsString, Vec<u8>>> {
    let files = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?.flatten();
    let content = |file: DirEntry| {
        let bytes = fs::read(file.path()).with_context(|| format!("read {}", file.path().display()))?;
        Ok((file.file_name(), bytes))
    };
    files.map(content).collect()
}

fn put(source: &Path, place: &Path, mode: &str) -> Result<()> {
    let mode = u32::from_str_radix(mode, 8).with_context(|| format!("permissions of {}: {mode}", source.display()))?;
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    fs::copy(source, place).with_context(|| format!("copy {} to {}", source.display(), place.display()))?;
    fs::set_permissions(place, fs::Permissions::from_mode(mode)).with_context(|| format!("permit {}", place.display()))
}
