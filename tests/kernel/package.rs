//! The package's files on this kernel: its scripts beside a policy, and its recipe for clusters.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use toml::Table;

use super::*;
use crate::common::TCCC;
use crate::lab::policy::all;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/xtask/package");
/// Hides the host's `/run`, as a chroot does, and runs the rest.
const OWN_RUN: &str = "mount --make-rprivate / && mount -t tmpfs run /run && exec \"$@\"";

/// A script that the package manager runs before it removes the package, with the words that say so.
struct Removal {
    script: PathBuf,
    word: &'static str,
}

/// The scripts of both packages, below `folder`.
fn removals(folder: &Path) -> [Removal; 2] {
    let manifest = include_str!("../../Cargo.toml").parse::<Table>().unwrap();
    let text = manifest["package"]["metadata"]["generate-rpm"]["pre_uninstall_script"].as_str().unwrap();
    let rpm = folder.join("preun");
    fs::write(&rpm, text).unwrap();
    let debian = Path::new(PACKAGE).join("debian/prerm");
    [Removal { script: debian, word: "remove" }, Removal { script: rpm, word: "0" }]
}

impl Removal {
    /// The programs on the script's path: tccc, and those that say whether this is a chroot.
    fn path(folder: &Path, in_chroot: bool) -> String {
        let programs = folder.join(if in_chroot { "in-chroot" } else { "on-host" });
        if fs::create_dir(&programs).is_ok() {
            symlink(TCCC, programs.join("tccc")).unwrap();
            for name in ["ischroot", "systemd-detect-virt"] {
                let answer = if in_chroot { 0 } else { 1 };
                fs::write(programs.join(name), format!("#!/bin/sh\nexit {answer}\n")).unwrap();
                fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
    }

    fn command(&self, path: &str, has_own_run: bool) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", if has_own_run { OWN_RUN } else { "exec \"$@\"" }, "sh", "sh"]);
        command.arg(&self.script).arg(self.word).env("PATH", path);
        command
    }
}

/// The package was removed in a chroot with the host's `/sys`, and the host's policy and algorithms were gone.
#[test]
fn removal_in_a_chroot_leaves_the_policy_of_the_host() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for removal in removals(lab.folder()) {
        lab.apply(&all("dtcp"));
        let decides = || lab.plain().algorithms()[0] == "dtcp";
        for (in_chroot, has_own_run) in [(false, true), (true, true), (true, false)] {
            let path = Removal::path(lab.folder(), in_chroot);
            check(0, &mut removal.command(&path, has_own_run));
            assert!(decides(), "{:?} in a chroot: known {in_chroot}, own /run {has_own_run}", removal.script);
        }
        check(0, &mut removal.command(&Removal::path(lab.folder(), false), false));
        assert!(!decides(), "{:?} on the host", removal.script);
        assert_nothing_left();
    }
}
