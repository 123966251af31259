//! Downloads Debian packages of any release from the mirror that apt is configured for.
//!
//! Lists and downloads stay in a folder of the build; the system's apt is not changed.

use std::borrow::BorrowMut;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use fs_err as fs;

use crate::process::{self, command};

/// Releases with the kernels and emulators; a machine of any of them can read all.
const SUITES: [&str; 5] = ["bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];
/// The keys of Debian's archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt with its own configuration and lists.
#[derive(Debug)]
pub struct Packages {
    folder: PathBuf,
}

impl Packages {
    /// Opens the lists in `folder`, and downloads them if they are missing or to be renewed.
    pub fn open(folder: &Path, is_renewed: bool) -> Result<Self> {
        let packages = Packages { folder: folder.to_path_buf() };
        let complete = folder.join("complete");
        // A build's folder that was moved names its former place.
        let is_here = fs::read_to_string(folder.join("apt.conf")).is_ok_and(|text| text == configuration(folder));
        if complete.exists() && is_here && !is_renewed {
            return Ok(packages);
        }
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("sources.list"), sources(&mirror()?))?;
        fs::write(folder.join("apt.conf"), configuration(folder))?;
        eprintln!("xtask: vm: reading the lists of Debian's releases");
        packages.output(command!("apt-get -q update"))?;
        fs::write(&complete, "")?;
        Ok(packages)
    }

    /// Names of all packages with a prefix.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.output(command!("apt-cache pkgnames {prefix}"))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Downloads packages (`name` or `name/release`) and unpacks them into `place`, which appears when `settle` is done.
    pub fn unpack(&self, names: &[String], place: &Path, settle: fn(&Path) -> Result<()>) -> Result<()> {
        let scratch = tempfile::tempdir_in(&self.folder).context("create the folder of downloads")?;
        let (downloads, fresh) = (scratch.path().join("downloads"), scratch.path().join("fresh"));
        fs::create_dir(&downloads)?;
        eprintln!("xtask: vm: downloading {}", names.join(" "));
        self.output(command!("apt-get -q download {names...}").current_dir(&downloads))?;
        for package in fs::read_dir(&downloads)? {
            let package = package?.path();
            process::output("unpack", command!("dpkg-deb --extract {package} {fresh}"))?;
        }
        settle(&fresh)?;
        process::remove(place)?;
        Ok(fs::rename(&fresh, place)?)
    }

    fn output(&self, mut command: impl BorrowMut<Command>) -> Result<String> {
        process::output("vm", command.borrow_mut().env("APT_CONFIG", self.folder.join("apt.conf")))
    }
}

/// The Debian mirror of this machine's apt.
fn mirror() -> Result<String> {
    let format = "$(SITE) $(RELEASE)";
    let targets = command!("apt-get indextargets --format {format} 'Identifier: Packages'");
    let targets = process::output("ask apt for its mirrors", targets)?;
    let mirror = debian_mirror(&targets).map(str::to_owned);
    mirror.context("apt reads no release of Debian here, so there is no mirror to take kernels from")
}

/// The site of the first complete release of Debian in lines `site release`.
fn debian_mirror(targets: &str) -> Option<&str> {
    const RELEASES: [&str; 8] = ["bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable", "oldstable"];
    let mut lines = targets.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, release)| RELEASES.contains(release)).map(|(site, _)| site)
}

fn sources(mirror: &str) -> String {
    let key = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
    SUITES.iter().map(|suite| format!("deb {key}{mirror} {suite} main\n")).collect()
}

/// The text of apt.conf. Without a status file no package counts as installed.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Dir::Etc::sourcelist \"{folder}/sources.list\";\nDir::Etc::sourceparts \"/nonexistent\";\n\
         Dir::State::lists \"{folder}/lists\";\nDir::Cache \"{folder}/cache\";\nDir::State::status \"/dev/null\";\n\
         Acquire::Languages \"none\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         APT::Sandbox::User \"root\";\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_that_of_a_whole_release() {
        let targets = "http://a/other nodistro\nhttp://b/debian-security bookworm-security\n\
                       http://c/debian bookworm-updates\nhttp://c/debian bookworm\n";
        assert_eq!(debian_mirror(targets), Some("http://c/debian"));
        assert_eq!(debian_mirror("http://a/ubuntu noble\n"), None);
    }

    #[test]
    fn system_lists_are_left_alone() {
        let text = configuration(Path::new("/there"));
        assert!(text.contains("Dir::State::lists \"/there/lists\"") && text.contains("sourceparts \"/nonexistent\""));
    }
}
