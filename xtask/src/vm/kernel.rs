//! Chooses and unpacks one of Debian's kernels.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File, os::unix::fs::symlink};

use super::packages::Packages;
use crate::process::{self, command};

/// `newest`, or a series such as `6.12`, which stands for its newest package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelChoice(String);

impl FromStr for KernelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_series = text.split('.').count() == 2 && text.split('.').all(|part| part.parse::<u32>().is_ok());
        match is_series || text == "newest" {
            true => Ok(KernelChoice(text.to_owned())),
            false => Err(format!("{text:?} is neither `newest` nor a series such as 6.1 or 6.12")),
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An unpacked kernel.
#[derive(Debug, Clone)]
pub struct GuestKernel {
    /// The output of `uname -r`.
    pub release: String,
    /// The compressed image.
    pub image: PathBuf,
    /// Holds `lib/modules`, with `modules.dep` for this release.
    pub root: PathBuf,
}

/// Holds all files of the virtual machines.
pub fn folder() -> PathBuf {
    process::target().join("vm")
}

/// The kernel, downloaded and unpacked below [`folder`] if it is missing or to be renewed.
pub fn prepare(choice: &KernelChoice, is_renewed: bool) -> Result<GuestKernel> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let place = folder.join(format!("kernel-{choice}"));
    // A kernel appears complete, so this needs no lock.
    if place.exists() && !is_renewed {
        return open(&place);
    }
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("wait for another process that unpacks kernels")?;
    if !place.exists() || is_renewed {
        let packages = Packages::open(&folder.join("apt"), is_renewed)?;
        let names = packages_of(choice, &packages.names("linux-")?)?;
        packages.unpack(&names, &place, index_modules)?;
    }
    open(&place)
}

/// The packages of a kernel among these names.
///
/// Up to 6.19 a kernel is one package. Later the image, its binary and its modules are three packages.
fn packages_of(choice: &KernelChoice, names: &[String]) -> Result<Vec<String>> {
    let versions = names.iter().filter_map(|name| name.strip_prefix("linux-image-"));
    // `newest` has no numbers, so every version fits.
    let fitting = versions.filter(|version| is_plain(version) && numbers(version).starts_with(&numbers(&choice.0)));
    let Some(version) = fitting.max_by_key(|version| numbers(version)) else {
        bail!("no release of Debian on this mirror packages kernel {choice}");
    };
    let parts = ["linux-image", "linux-binary", "linux-modules"].map(|part| format!("{part}-{version}"));
    Ok(parts.into_iter().filter(|part| names.contains(part)).collect())
}

/// Whether the kernel has no flavour: cloud kernels lack 9p.
fn is_plain(version: &str) -> bool {
    let bare = version.strip_suffix("-amd64").unwrap_or_default();
    bare.starts_with(|c: char| c.is_ascii_digit())
        && !["cloud", "rt", "unsigned"].iter().any(|word| bare.contains(word))
}

/// The numbers in a version, for comparisons: `6.12.95+deb12` gives 6, 12, 95, 12.
fn numbers(version: &str) -> Vec<u32> {
    let version = version.strip_suffix("-amd64").unwrap_or(version);
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Writes `modules.dep`, which packages generate at installation.
fn index_modules(root: &Path) -> Result<()> {
    // depmod does not look below `usr`, where newer releases have the modules.
    if !root.join("lib").exists() {
        symlink("usr/lib", root.join("lib"))?;
    }
    let release = release_in(root)?;
    process::output("index the modules", command!("depmod -b {root} {release}")).map(drop)
}

fn release_in(root: &Path) -> Result<String> {
    let entry = fs::read_dir(root.join("lib/modules"))?.next().context("the packages hold no modules")??;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// Reads an unpacked kernel.
pub fn open(place: &Path) -> Result<GuestKernel> {
    let release = release_in(place)?;
    let images = [format!("boot/vmlinuz-{release}"), format!("lib/modules/{release}/vmlinuz")];
    let image = images.iter().map(|image| place.join(image)).find(|image| image.exists());
    let image = image.with_context(|| format!("{} holds no kernel image", place.display()))?;
    Ok(GuestKernel { release, image, root: place.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "linux-image-6.1.0-47-amd64 linux-image-6.1.0-50-amd64 linux-image-6.1.0-50-cloud-amd64 \
        linux-image-6.1.0-51-rt-amd64 linux-image-6.12.95+deb12-amd64 linux-image-6.12.107+deb13-amd64 \
        linux-image-7.3.4+deb13-amd64 linux-image-7.3.4+deb13-amd64-unsigned linux-image-amd64 \
        linux-binary-7.3.4+deb13-amd64 linux-modules-7.3.4+deb13-amd64";

    #[test]
    fn newest_package_of_the_series_is_chosen() {
        let names: Vec<String> = NAMES.split_whitespace().map(str::to_owned).collect();
        let chosen = |text: &str| packages_of(&text.parse().unwrap(), &names);
        assert_eq!(chosen("6.1").unwrap(), ["linux-image-6.1.0-50-amd64"]);
        assert_eq!(chosen("6.12").unwrap(), ["linux-image-6.12.107+deb13-amd64"]);
        assert_eq!(chosen("newest").unwrap().len(), 3, "image, binary and modules");
        assert!(chosen("5.4").unwrap_err().to_string().contains("kernel 5.4"));
    }

    #[test]
    fn kernel_that_is_no_series_is_refused() {
        for text in ["", "6", "6.1.2", "latest", "six.one"] {
            assert!(text.parse::<KernelChoice>().is_err(), "{text}");
        }
        assert_eq!("6.12".parse::<KernelChoice>().unwrap().to_string(), "6.12");
    }
}
