//! The package's files on this kernel: its scripts beside a policy, and its recipe for clusters.

#[path = "../../xtask/src/dist/manifest.rs"]
mod manifest;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use tccc::kernel::cgroup;
use toml::Table;

use super::*;
use crate::common::{STATE_FOLDER, TCCC};
use crate::lab::policy::all;
use crate::lab::serve::Server;

const MANIFEST: &str = include_str!("../../xtask/package/kubernetes.yaml");
/// Enters a pod: its own cgroup as the root of the view, `/sys/fs/cgroup` of the node mounted over the pod's own, and
/// `/proc/sys` read-only. The first argument is the place of cgroup v2.
const POD: &str = "mount --make-rprivate / && mkdir -p /run/node && mount --rbind \"$0\" /run/node && \
    mount -t tmpfs pod \"$0\" && mount -t cgroup2 pod \"$0\" && mount --rbind /run/node \"$0\" && umount -l /run/node && \
    mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$@\"";
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/xtask/package");
/// Hides the host's `/run`, as a container with its own systemd does, and runs the rest.
const OWN_RUN: &str =
    "mount --make-rprivate / && mount -t tmpfs run /run && mkdir -p /run/systemd/system && exec \"$@\"";

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
    /// The programs on the script's path: tccc, those that say whether this is a chroot, and stand-ins for systemd's.
    fn path(folder: &Path, in_chroot: bool) -> String {
        let programs = folder.join(if in_chroot { "in-chroot" } else { "on-host" });
        if fs::create_dir(&programs).is_ok() {
            symlink(TCCC, programs.join("tccc")).unwrap();
            for (name, answer) in [
                ("ischroot", i32::from(!in_chroot)),
                ("systemd-detect-virt", i32::from(!in_chroot)),
                ("deb-systemd-invoke", 0),
                ("systemctl", 0),
            ] {
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
fn removal_in_a_chroot_or_container_leaves_the_policy_of_the_host() {
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

/// A command of tccc in a container of the recipe: its capabilities, and namespaces as a pod on the node has them.
fn in_container(name: &str, words: &[&str]) -> Command {
    let capabilities = manifest::capabilities(MANIFEST, name).expect("the manifest has the container");
    let bounds: String = capabilities.iter().map(|name| format!(",+{}", name.to_lowercase())).collect();
    let mut command = Command::new("unshare");
    command.args(["--cgroup", "--mount", "sh", "-c", POD]).arg(cgroup::mount_point().unwrap());
    command.args(["setpriv", "--no-new-privs", "--bounding-set", &format!("-all{bounds}"), TCCC]);
    command.args(words).env("NO_COLOR", "1").env("STATE_DIRECTORY", STATE_FOLDER);
    command
}

/// The recipe gave `serve` no CAP_SYS_ADMIN, so it ended at once on each node, and `apply` could change no tunable.
#[test]
fn containers_of_the_recipe_work_with_its_capabilities() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let pod = TestCgroup::create("/ldk_pod");
    let contained = |name, words: &[&str]| pod.inside(|| check(0, &mut in_container(name, words)));
    let (file, folder) = (lab.file("site.toml", ""), lab.folder().to_str().unwrap());
    let apply = |declared: &str| {
        fs::write(&file, format!("version = 1\n{declared}")).unwrap();
        contained("apply", &["apply", "--config", folder])
    };
    fs::create_dir(lab.folder().join("policies")).unwrap();
    lab.file("policies/all.toml", &format!("version = 1\n{}", all("ldk_pod")));
    let declared = "policy = \"policies/all.toml\"\n[algorithm.ldk_pod]\nuse = \"dtcp\"\naccept_risk = true\n";
    apply(declared);
    let pair = lab.plain();
    assert_eq!(pair.algorithms(), ["ldk_pod", "ldk_pod"], "a connection of the node");
    apply(&format!("{declared}tunables = {{ keep_avoidance = 900 }}\n")).stdout_has("upgrade \"ldk_pod\": done");
    contained("serve", &["status"]).stdout_has("ldk_pod");

    let server = pod.inside(|| Server::start(in_container("serve", &["serve", "--listen", "127.0.0.1:0"])));
    assert_eq!(server.get("/healthz").status, 200);
    let metrics = server.get("/metrics").body;
    let of_another_pod = "tccc_algorithm_sockets{name=\"ldk_pod\"} 2.0\n";
    assert!(metrics.contains(of_another_pod), "{metrics}");
    drop((server, pair));
    apply("");
    assert_nothing_left();
}
