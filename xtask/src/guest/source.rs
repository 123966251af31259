//! The kernel's source: Debian's package, installed or downloaded into the build's folder.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fs_err as fs;

use crate::process::{self, command};
use crate::vm::packages::Packages;

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
///
/// `series`: the suffix of the Debian package, such as `linux-source-6.12`.
pub fn find(series: &str, work: &Path) -> Result<KernelSource> {
    let package = format!("linux-source-{series}");
    let within = format!("usr/src/{package}.tar.xz");
    if let Some(version) = installed(&package) {
        return source(package, version, Path::new("/").join(&within));
    }
    let unpacked = work.join(format!("source-{series}"));
    if !unpacked.join(&within).exists() {
        let packages = Packages::open(&work.join("apt"), false)?;
        packages.unpack(std::slice::from_ref(&package), &unpacked, |_| Ok(()))?;
    }
    // The changelog begins with the package's version.
    let changes = unpacked.join(format!("usr/share/doc/{package}/changelog.Debian.gz"));
    let changes = process::output("read the package's changes", command!("zcat {changes}"))?;
    let version = changes.split(['(', ')']).nth(1).unwrap_or("of unknown version").to_owned();
    source(package, version, unpacked.join(&within))
}

/// The version of the installed package; `None` if it is absent or its archive was changed.
fn installed(package: &str) -> Option<String> {
    let format = "--showformat=${db:Status-Status} ${Version}";
    let said = process::output("ask for the package", command!("dpkg-query --show {format} {package}")).ok()?;
    let version = said.strip_prefix("installed ")?.to_owned();
    let changed = process::output("verify the package", command!("dpkg --verify {package}")).ok()?;
    let archive = format!("{package}.tar.xz");
    (!changed.lines().any(|line| line.ends_with(&archive))).then_some(version)
}

fn source(package: String, version: String, archive: PathBuf) -> Result<KernelSource> {
    let sha256 = process::sha256_of(&archive)?;
    Ok(KernelSource { package, version, archive, sha256 })
}

impl KernelSource {
    /// Unpacks the parts that these options of tar choose into an empty folder.
    pub fn unpack(&self, tree: &Path, options: &[String]) -> Result<()> {
        eprintln!("xtask: unpacking {} {}", self.package, self.version);
        let archive = &self.archive;
        process::remove(tree)?;
        fs::create_dir_all(tree)?;
        let tar = command!("tar --extract --file {archive} --directory {tree} --strip-components=1 {options...}");
        process::output("unpack the kernel's source", tar).map(drop)
    }

    /// Unpacks what the guest needs.
    pub fn unpack_for_guest(&self, tree: &Path) -> Result<()> {
        let left_out: Vec<String> = LEFT_OUT.split(' ').map(|pattern| format!("--exclude={pattern}")).collect();
        self.unpack(tree, &left_out)
    }
}
