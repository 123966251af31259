//! Builds a tarball with a static program, for containers and hosts without a package manager.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{contents, page};
use crate::process::{self, remove};
use crate::web;

/// With an explicit target, the flags do not apply to build scripts.
const MACHINE: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug)]
pub struct Tarball {
    pub file: PathBuf,
    pub folder: PathBuf,
}

/// Builds the static program from a copy of the tree, and packs it with the packages' files.
///
/// Errors: the program needs a library or lacks its page; its objects differ from those of the other build.
pub fn build(folder: &Path, dynamic: &Path) -> Result<Tarball> {
    let copy = copy_tree(folder)?;
    let program = build_static(&copy)?;
    ensure_same_objects(folder, &program)?;
    page::check(&mut process::program(&program), page::RECORDING)?;
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

/// Copies the project's files, including uncommitted changes, and the bundled page, which git ignores.
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
    let bundle = copy.join(web::BUNDLE);
    for entry in fs::read_dir(process::workspace().join(web::BUNDLE)).context("list the bundled page")?.flatten() {
        put(&entry.path(), &bundle.join(entry.file_name()), "644")?;
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
    let mut diff = process::program("diff");
    diff.args(["--recursive", "--brief"]).args([folder, &again].map(|build| build.join("objects")));
    process::run("dist: compare the objects of two builds", &mut diff)?;
    remove(&again)
}

pub fn put(source: &Path, place: &Path, mode: &str) -> Result<()> {
    let mode = u32::from_str_radix(mode, 8).with_context(|| format!("permissions of {}: {mode}", source.display()))?;
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    fs::copy(source, place).with_context(|| format!("copy {} to {}", source.display(), place.display()))?;
    fs::set_permissions(place, fs::Permissions::from_mode(mode)).with_context(|| format!("permit {}", place.display()))
}
