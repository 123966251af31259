//! Tests the package in a clean Debian: install, use, upgrade, purge; nothing is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::page;
use crate::process::{self, remove};
use anyhow::{Context, Result, ensure};

/// Paths that package managers change for any package.
const OF_THE_SYSTEM: [&str; 6] = ["var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "etc/ld.so.cache", "tmp"];

/// Enters the root with the host's `/sys` except for its BPF file system; the mount namespace takes both with it.
const ENTER: &str = r#"mount --rbind /sys "$0/sys" && mount -t bpf bpf "$0/sys/fs/bpf" && exec chroot "$0" "$@""#;

/// Installs, uses, upgrades and purges a package in a new root below `target/dist`, which is removed at the end.
pub fn try_package(package: &Path) -> Result<()> {
    ensure!(process::is_root(), "only root can create a clean Debian: run `cargo xtask dist --try-package` as root");
    let root = process::target().join("dist/root");
    remove(&root)?;
    let mut make = process::program("mmdebstrap");
    process::run("dist", make.args(["--variant=apt", "--include=libelf1,zlib1g", "bookworm"]).arg(&root))?;
    let tried = try_in(&root, package);
    remove(&root)?;
    tried
}

fn try_in(root: &Path, package: &Path) -> Result<()> {
    let proc = format!("--mount-proc={}", root.join("proc").display());
    let command = |words: &[&str]| {
        let mut command = process::program("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", &proc, "sh", "-c", ENTER]).arg(root).args(words);
        command
    };
    let inside =
        |step: &str, words: &[&str]| process::run("dist", &mut command(words)).with_context(|| step.to_owned());
    let before = files(root)?;
    fs::copy(package, root.join("tmp/tccc.deb")).context("copy the package into the root")?;
    inside("install", &["apt-get", "install", "--yes", "/tmp/tccc.deb"])?;
    inside("use", &["tccc", "show", "dtcp"])?;
    fs::copy(process::workspace().join(page::RECORDING), root.join("tmp/recording")).context("copy a recording")?;
    page::check(&mut command(&["tccc"]), "/tmp/recording").context("use")?;
    inside("use", &["tccc", "policy", "check", "/usr/share/doc/tccc/examples/policy/one-service.toml"])?;
    fs::write(root.join("etc/tccc/10-site.toml"), "version = 1\n").context("declare something")?;
    inside("upgrade", &["apt-get", "install", "--yes", "--reinstall", "/tmp/tccc.deb"])?;
    ensure!(root.join("etc/tccc/10-site.toml").is_file(), "the upgrade removed the declaration");
    fs::remove_file(root.join("etc/tccc/10-site.toml")).context("undo it")?;
    inside("purge", &["apt-get", "purge", "--yes", "tccc"])?;
    let left: Vec<PathBuf> = files(root)?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "purging leaves {left:?}");
    eprintln!("xtask: dist: installed, used, upgraded and purged; nothing is left");
    Ok(())
}

/// Every file and folder below the root, except those of package managers.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?.flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(root).context("stay in the root")?.to_owned();
            if OF_THE_SYSTEM.iter().any(|place| inside.starts_with(place)) {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
            found.insert(inside);
        }
    }
    Ok(found)
}
