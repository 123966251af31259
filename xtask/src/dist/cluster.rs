//! Checks the recipes for many hosts: a container image, a DaemonSet and an Indexed Job of Kubernetes, a role of Ansible.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::page::RunningServer;
use super::{manifest, tools};
use crate::process::{self, remove};

const IMAGE: &str = "tccc:local";
const MANIFEST: &str = include_str!("../../package/kubernetes.yaml");
/// Name of the container that serves the page.
const SERVER: &str = "tccc-try-serve";
/// Content of the DaemonSet's ConfigMap: a declaration, one with another tunable, and one that undoes both.
const DECLARED: &str = "version = 1\n\n[algorithm.dtcp]\n";
const TUNED: &str = "version = 1\n\n[algorithm.dtcp]\ntunables = { keep_avoidance = 900 }\n";
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

/// Builds the image from the unpacked tarball, and uses it as the DaemonSet does: applies declarations, serves the page.
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
        self.run("apply", &["apply"])
    }

    fn run(&self, container: &str, words: &[&str]) -> Result<()> {
        process::run("dist", self.command(container, &[])?.args(words))
    }

    /// Runs the image with the capabilities, namespaces and folders of a container of the DaemonSet.
    ///
    /// It uses runc, because crun refuses hosts with both versions of cgroups, and limits that any host can set.
    fn command(&self, container: &str, options: &[&str]) -> Result<Command> {
        let capabilities = manifest::capabilities(MANIFEST, container).context("find the container's capabilities")?;
        let mut run = process::program("podman");
        run.args(["--runtime", "runc", "run", "--rm", "--read-only", "--network", "host", "--pid", "host"]);
        run.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        run.args(["--security-opt", "no-new-privileges", "--cap-drop", "ALL", "--cap-add", &capabilities.join(",")]);
        run.args(options);
        for (name, to) in [
            ("10-site.toml", "/etc/tccc/10-site.toml:ro"),
            ("pins", "/sys/fs/bpf"),
            ("records", "/run/tccc"),
            ("history", "/var/lib/tccc"),
        ] {
            run.arg("--volume").arg(format!("{}:{to}", self.0.join(name).display()));
        }
        run.args(["--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro", IMAGE]);
        Ok(run)
    }

    fn try_all(&self) -> Result<()> {
        self.declare(DECLARED)?;
        self.declare(TUNED)?;
        for (container, words) in [("apply", &["doctor"][..]), ("serve", &["status"]), ("serve", &["show", "dtcp"])] {
            self.run(container, words)?;
        }
        let mut serve = self.command("serve", &["--name", SERVER])?;
        let server = RunningServer::start(serve.args(["serve", "--listen", "127.0.0.1:0"]));
        let asked = server.and_then(|server| {
            ["/healthz", "/metrics", "/page.js"].into_iter().try_for_each(|path| server.get(path).map(drop))
        });
        // Killing podman leaves its container.
        process::run("dist", process::program("podman").args(["rm", "--force", "--ignore", SERVER]))?;
        asked?;
        ensure!(registered()?.contains("dtcp"), "dtcp is declared, but the kernel does not list it");
        self.declare(NOTHING)?;
        ensure!(!registered()?.contains("dtcp"), "dtcp is no longer declared, but the kernel still lists it");
        // The kernel creates maps.debug and progs.debug in each new BPF file system.
        ensure!(!self.0.join("pins/tccc").exists(), "pins of tccc are left");
        let left = fs::read_dir(self.0.join("records")).context("look for records")?.count();
        ensure!(left == 0, "{left} records are left");
        eprintln!("xtask: dist: the image applied declarations, served the page and undid everything; nothing is left");
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
