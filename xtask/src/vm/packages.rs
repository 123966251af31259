//! Downloads Debian packages of any release from the mirror that apt is configured for.
//!
//! Lists and downloads stay in a folder of the build; the system's apt is not changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

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
        if complete.exists() && !is_renewed {
            return Ok(packages);
        }
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("create {}", part.display()))?;
        }
        fs::write(folder.join("sources.list"), sources(&mirror()?)).context("write the list of sources")?;
        fs::write(folder.join("apt.conf"), configuration(folder)).context("write apt's configuration")?;
        eprintln!("xtask: vm: reading the lists of Debian's releases");
        process::output("read the package lists", packages.program("apt-get").args(["-q", "update"]))?;
        fs::write(&complete, "").with_context(|| format!("write {}", complete.display()))?;
        Ok(packages)
    }

    /// Names of all packages with a prefix.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = process::output("list the packages", self.program("apt-cache").args(["pkgnames", prefix]))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Downloads packages (`name` or `name/release`) and unpacks them into `target`, which must not exist yet.
    pub fn unpack(&self, names: &[String], target: &Path) -> Result<()> {
        let downloads = tempfile::tempdir_in(&self.folder).context("create the folder of downloads")?;
        eprintln!("xtask: vm: downloading {}", names.join(" "));
        let mut download = self.program("apt-get");
        download.current_dir(&downloads).args(["-q", "download"]).args(names);
        process::output("download packages", &mut download)?;
        for entry in fs::read_dir(&downloads).context("list the downloads")? {
            let package = entry.context("list the downloads")?.path();
            process::output("unpack", process::program("dpkg-deb").arg("--extract").arg(&package).arg(target))?;
        }
        Ok(())
    }

    fn program(&self, name: &str) -> Command {
        let mut command = process::program(name);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }
}

/// The Debian mirror of this machine's apt.
fn mirror() -> Result<String> {
    let mut targets = process::program("apt-get");
    targets.args(["indextargets", "--format", "$(SITE) $(RELEASE)", "Identifier: Packages"]);
    let targets = process::output("ask apt for its mirrors", &mut targets)?;
    let Some(mirror) = debian_mirror(&targets) else {
        bail!("apt reads no release of Debian here, so there is no mirror to take kernels from");
    };
    Ok(mirror.to_owned())
}

/// The site of the first complete release of Debian in lines `site release`.
fn debian_mirror(targets: &str) -> Option<&str> {
    const RELEASES: [&str; 8] = ["bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable", "oldstable"];
    let whole = |line: &str| line.split_once(' ').is_some_and(|(_, release)| RELEASES.contains(&release));
    targets.lines().find(|line| whole(line)).and_then(|line| line.split(' ').next())
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
