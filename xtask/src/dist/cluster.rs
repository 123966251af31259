//! Checks the recipes for many hosts: a container image, a DaemonSet and an Indexed Job of Kubernetes, a role of Ansible.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::tools;
use crate::process::{self, remove};

const IMAGE: &str = "tccc:local";
/// Content of the DaemonSet's ConfigMap: a declaration, and one that undoes it.
const DECLARED: &str = "version = 1\n\n[algorithm.dtcp]\n";
const NOTHING: &str = "version = 1\n";

/// Checks DaemonSet and Job against the schema of Kubernetes, and the role with Ansible's linter, both offline.
pub fn check() -> Result<()> {
    let programs = tools::python()?;
    let manifests = ["xtask/package/kubernetes.yaml", "scenarios/fleet/job.yaml"];
    let mut schema = process::program(programs.join("kubernetes-validate"));
    process::run("dist", schema.arg("--strict").args(manifests.map(|file| process::workspace().join(file))))?;
    let path = std::env::join_paths(
        std::iter::once(programs.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )?;
    let mut lint = process::program(programs.join("ansible-lint"));
    lint.env("PATH", path).current_dir(process::workspace().join("xtask/package/ansible"));
    lint.args(["--offline", "--strict", "-q", "--profile", "production", "site.yml", "tccc"]);
    process::run("dist", &mut lint)
}

/// Builds the image from the unpacked tarball, and loads, shows and undoes a declaration in it, as the DaemonSet does.
///
/// Side effects: an image of podman, a BPF file system and records, which are removed at the end.
pub fn try_image(folder: &Path) -> Result<()> {
    ensure!(process::is_root(), "the image needs root, as on a node: run `cargo xtask dist --try-image` as root");
    let place = process::target().join("dist/node");
    let podman = |words: &[&str]| process::run("dist", process::program("podman").args(words));
    let file = folder.join("Containerfile");
    podman(&["build", "--tag", IMAGE, "--file", &file.to_string_lossy(), &folder.to_string_lossy()])?;
    let tried = ContainerNode::make(&place).and_then(|node| node.try_all());
    podman(&["image", "rm", "--force", IMAGE])?;
    tried
}

/// A folder with the files of a node that the container sees.
struct ContainerNode<'a>(&'a Path);

impl ContainerNode<'_> {
    fn make(place: &Path) -> Result<ContainerNode<'_>> {
        // An earlier call that was killed may have left it mounted.
        let _ = process::program("umount").arg(place.join("pins")).stderr(Stdio::null()).status();
        remove(place)?;
        for name in ["pins", "records", "history"] {
            let folder = place.join(name);
            fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        }
        process::run("dist", process::program("mount").args(["-t", "bpf", "bpf"]).arg(place.join("pins")))?;
        Ok(ContainerNode(place))
    }

    fn declare(&self, text: &str) -> Result<()> {
        fs::write(self.0.join("10-site.toml"), text).context("write the declaration")?;
        self.run(&["apply"])
    }

    /// Runs the image with the capabilities and folders of the DaemonSet.
    ///
    /// It uses runc, because crun refuses hosts with both versions of cgroups, and limits that any host can set.
    fn run(&self, words: &[&str]) -> Result<()> {
        let mut run = process::program("podman");
        run.args(["--runtime", "runc", "run", "--rm", "--read-only", "--network", "host"]);
        run.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        run.args(["--security-opt", "seccomp=unconfined", "--cap-drop", "ALL", "--cap-add", "BPF,PERFMON,NET_ADMIN"]);
        for (name, to) in [
            ("10-site.toml", "/etc/tccc/10-site.toml:ro"),
            ("pins", "/sys/fs/bpf"),
            ("records", "/run/tccc"),
            ("history", "/var/lib/tccc"),
        ] {
            run.arg("--volume").arg(format!("{}:{to}", self.0.join(name).display()));
        }
        process::run("dist", run.args(["--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro", IMAGE]).args(words))
    }

    fn try_all(&self) -> Result<()> {
        self.declare(DECLARED)?;
        for words in [&["doctor"][..], &["status"], &["show", "dtcp"]] {
            self.run(words)?;
        }
        ensure!(registered()?.contains("dtcp"), "dtcp is declared, but the kernel does not list it");
        self.declare(NOTHING)?;
        ensure!(!registered()?.contains("dtcp"), "dtcp is no longer declared, but the kernel still lists it");
        // The kernel creates maps.debug and progs.debug in each new BPF file system.
        ensure!(!self.0.join("pins/tccc").exists(), "pins of tccc are left");
        let left = fs::read_dir(self.0.join("records")).context("look for records")?.count();
        ensure!(left == 0, "{left} records are left");
        eprintln!("xtask: dist: the image applied the declaration and undid it; nothing is left");
        Ok(())
    }
}

impl Drop for ContainerNode<'_> {
    fn drop(&mut self) {
        let _ = process::run("dist", process::program("umount").arg(self.0.join("pins")));
        let _ = remove(self.0);
    }
}

fn registered() -> Result<String> {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(file).with_context(|| format!("read {file}"))
}
