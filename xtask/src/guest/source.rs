//! The kernel's source: Debian's package, installed or downloaded into the build's folder.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::process;
use crate::vm::packages::Packages;

/// Suffix of the Debian package `linux-source-6.12`.
const SERIES: &str = "6.12";
/// Parts of the tree that the guest never compiles: most of its size.
const LEFT_OUT: &str = "*/Documentation/*.rst */Documentation/*.txt */Documentation/*.yaml */arch/*.dts* \
                        */drivers/gpu/*.[ch] */drivers/infiniband/*.[ch] */drivers/media/*.[ch] \
                        */drivers/net/ethernet/*.[ch] */drivers/net/wireless/*.[ch] */drivers/scsi/*.[ch] \
                        */drivers/staging/*.[ch] */sound/*.[ch] */tools/testing/*";

/// An archive of the kernel's source, as signed by Debian.
pub struct KernelSource {
    pub package: String,
    pub version: String,
    pub archive: PathBuf,
    pub sha256: String,
}

/// The installed source if it is unchanged, else a downloaded one below `work`.
pub fn find(work: &Path) -> Result<KernelSource> {
    let package = format!("linux-source-{SERIES}");
    let within = format!("usr/src/{package}.tar.xz");
    if let Some(version) = installed(&package) {
        return source(package, version, Path::new("/").join(&within));
    }
    let unpacked = work.join("source");
    if !unpacked.join(&within).exists() {
        let packages = Packages::open(&work.join("apt"), false)?;
        let fresh = work.join("unpacking");
        let _ = fs::remove_dir_all(&fresh);
        packages.unpack(std::slice::from_ref(&package), &fresh)?;
        let _ = fs::remove_dir_all(&unpacked);
        fs::rename(&fresh, &unpacked).context("keep the kernel's source")?;
    }
    // The changelog begins with the package's version.
    let changes = unpacked.join(format!("usr/share/doc/{package}/changelog.Debian.gz"));
    let changes = process::output("read the package's changes", process::program("zcat").arg(&changes))?;
    let version = changes.split(['(', ')']).nth(1).unwrap_or("of unknown version").to_owned();
    source(package, version, unpacked.join(&within))
}

/// The version of the installed package; `None` if it is absent or its archive was changed.
fn installed(package: &str) -> Option<String> {
    let mut query = process::program("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status} ${Version}", package]);
    let said = process::output("ask for the package", &mut query).ok()?;
    let version = said.strip_prefix("installed ")?.to_owned();
    let changed = process::output("verify the package", process::program("dpkg").args(["--verify", package])).ok()?;
    let archive = format!("{package}.tar.xz");
    (!changed.lines().any(|line| line.ends_with(&archive))).then_some(version)
}

fn source(package: String, version: String, archive: PathBuf) -> Result<KernelSource> {
    let mut file = BufReader::new(File::open(&archive).with_context(|| format!("open {}", archive.display()))?);
    let (mut digest, mut part) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut part).context("read the kernel's source")? {
            0 => break,
            length => digest.update(&part[..length]),
        }
    }
    let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(KernelSource { package, version, archive, sha256 })
}

/// Unpacks the parts that the guest needs into an empty folder `tree`.
pub fn unpack(source: &KernelSource, tree: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(tree);
    fs::create_dir_all(tree).with_context(|| format!("create {}", tree.display()))?;
    let mut tar = process::program("tar");
    tar.arg("--extract").arg("--file").arg(&source.archive).arg("--directory").arg(tree).arg("--strip-components=1");
    tar.args(LEFT_OUT.split(' ').map(|pattern| format!("--exclude={pattern}")));
    process::output("unpack the kernel's source", &mut tar).map(drop)
}
