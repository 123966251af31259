//! Recipes for many hosts: a container image, a DaemonSet and an Indexed Job of Kubernetes, a role of Ansible.

use std::path::Path;

use anyhow::{Result, ensure};

use super::tools;
use crate::process;

const IMAGE: &str = "tccc:local";

/// Checks DaemonSet and Job against the schema of Kubernetes, and the role by Ansible's linter; both without network.
///
/// Errors: pip cannot install a checker; a recipe has a mistake.
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

/// Builds the image from the unpacked tarball, has it verify and run with the DaemonSet's capabilities, and removes it.
///
/// Errors: not root; podman cannot build or run here; the program fails inside.
pub fn try_image(folder: &Path) -> Result<()> {
    ensure!(process::is_root(), "the image runs as root does on a node: run `cargo xtask dist --try-image` as root");
    let podman = || process::program("podman");
    let file = folder.join("Containerfile");
    process::run("dist", podman().args(["build", "--tag", IMAGE, "--file"]).arg(file).arg(folder))?;
    let run = |words: &[&str]| {
        let mut run = podman();
        run.args(["run", "--rm", "--read-only", "--network", "host", "--security-opt", "seccomp=unconfined"]);
        run.args(["--cap-drop", "ALL", "--cap-add", "BPF,PERFMON,NET_ADMIN", "--volume", "/sys/fs/bpf:/sys/fs/bpf"]);
        process::run("dist", run.args(["--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro", IMAGE]).args(words))
    };
    let tried = run(&["show", "dtcp"]).and_then(|()| run(&["doctor"]));
    process::run("dist", podman().args(["image", "rm", "--force", IMAGE]))?;
    tried
}
