//! Tests the package in a clean Debian: install, use, upgrade, purge; nothing is left.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::page;
use crate::process::{self, command};

/// Paths that package managers change for any package.
const OF_THE_SYSTEM: [&str; 6] = ["var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "etc/ld.so.cache", "tmp"];

/// Enters the root with the host's `/sys` except for its BPF file system; the mount namespace takes both with it.
const ENTER: &str = r#"mount --rbind /sys "$0/sys" && mount -t bpf bpf "$0/sys/fs/bpf" && exec chroot "$0" "$@""#;

/// Installs, uses, upgrades and purges a package in a new root below `target/dist`, which is removed at the end.
pub fn try_package(package: &Path) -> Result<()> {
    ensure!(process::is_root(), "only root can create a clean Debian: run `cargo xtask dist --try-package` as root");
    let root = process::target().join("dist/root");
    process::remove(&root)?;
    process::run("dist", command!("mmdebstrap --variant=apt --include=libelf1,zlib1g bookworm {root}"))?;
    let tried = try_in(&root, package);
    process::remove(&root)?;
    tried
}

fn try_in(root: &Path, package: &Path) -> Result<()> {
    let proc = root.join("proc");
    let inside = |words: &str| {
        let words = words.split(' ');
        command!("unshare --mount --pid --fork --kill-child --mount-proc={proc} sh -c {ENTER} {root} {words...}")
    };
    let run = |words: &str| process::run("dist", inside(words)).with_context(|| words.to_owned());
    let before = files(root)?;
    fs::copy(package, root.join("tmp/tccc.deb"))?;
    run("apt-get install --yes /tmp/tccc.deb")?;
    run("tccc show dtcp")?;
    fs::copy(process::workspace().join(page::RECORDING), root.join("tmp/recording"))?;
    page::check(&mut inside("tccc"), "/tmp/recording").context("use")?;
    run("tccc policy check /usr/share/doc/tccc/examples/policy/one-service.toml")?;
    let declaration = root.join("etc/tccc/10-site.toml");
    fs::write(&declaration, "version = 1\n")?;
    run("apt-get install --yes --reinstall /tmp/tccc.deb")?;
    ensure!(declaration.is_file(), "the upgrade removed the declaration");
    fs::remove_file(&declaration)?;
    run("apt-get purge --yes tccc")?;
    let left: Vec<String> = files(root)?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "purging leaves {left:?}");
    eprintln!("xtask: dist: installed, used, upgraded and purged; nothing is left");
    Ok(())
}

/// Every file and folder below the root, except those of package managers.
fn files(root: &Path) -> Result<BTreeSet<String>> {
    let found = process::output("dist", command!("find {root} -printf '%P\n'"))?;
    let is_ours = |path: &&str| !OF_THE_SYSTEM.iter().any(|place| Path::new(path).starts_with(place));
    Ok(found.lines().filter(is_ours).map(str::to_owned).collect())
}
