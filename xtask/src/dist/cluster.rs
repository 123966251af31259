//! Checks the recipes for many hosts: a container image, a DaemonSet and an Indexed Job of Kubernetes, a role of Ansible.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::page::RunningServer;
use super::{manifest, tools};
use crate::process::{self, command};

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
    let python = tools::python()?;
    let manifests = ["xtask/package/kubernetes.yaml", "scenarios/fleet/job.yaml"];
    process::run("dist", command!("{python}/kubernetes-validate --strict {manifests...}"))?;
    let mut lint = command!("{python}/ansible-lint --offline --strict -q --profile production site.yml tccc");
    lint.env("PATH", tools::path_with(&[python])?);
    process::run("dist", lint.current_dir(process::workspace().join("xtask/package/ansible")))
}

/// Builds the image from the unpacked tarball, and uses it as the DaemonSet does: applies declarations, serves the page.
///
/// Side effects: an image of podman, a BPF file system and records, which are removed at the end.
pub fn try_image(folder: &Path) -> Result<()> {
    ensure!(process::is_root(), "the image needs root, as on a node: run `cargo xtask dist --try-image` as root");
    let place = process::target().join("dist/node");
    process::run("dist", command!("podman build --tag {IMAGE} --file {folder}/Containerfile {folder}"))?;
    let tried = ContainerNode::make(&place).and_then(|node| node.try_all());
    process::run("dist", command!("podman image rm --force {IMAGE}"))?;
    tried
}

/// A folder with the files of a node that the container sees.
struct ContainerNode<'a>(&'a Path);

impl ContainerNode<'_> {
    fn make(place: &Path) -> Result<ContainerNode<'_>> {
        // An earlier call that was killed may have left it mounted.
        let _ = command!("umount {place}/pins").stderr(Stdio::null()).status();
        process::remove(place)?;
        ["pins", "records", "history"].iter().try_for_each(|name| fs::create_dir_all(place.join(name)))?;
        process::run("dist", command!("mount -t bpf bpf {place}/pins"))?;
        Ok(ContainerNode(place))
    }

    fn declare(&self, text: &str) -> Result<()> {
        fs::write(self.0.join("10-site.toml"), text)?;
        self.run("apply", &["apply"])
    }

    fn run(&self, container: &str, words: &[&str]) -> Result<()> {
        process::run("dist", self.command(container, &[])?.args(words))
    }

    /// Runs the image with the capabilities, namespaces and folders of a container of the DaemonSet.
    ///
    /// It uses runc, because crun refuses hosts with both versions of cgroups, and limits that any host can set.
    fn command(&self, container: &str, options: &[&str]) -> Result<Command> {
        let capabilities =
            manifest::capabilities(MANIFEST, container).context("find the container's capabilities")?.join(",");
        let (options, folder) = (options.iter(), self.0.display());
        let volumes = [
            format!("--volume={folder}/10-site.toml:/etc/tccc/10-site.toml:ro"),
            format!("--volume={folder}/pins:/sys/fs/bpf"),
            format!("--volume={folder}/records:/run/tccc"),
            format!("--volume={folder}/history:/var/lib/tccc"),
            "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro".to_owned(),
        ];
        let fixed = "--rm --read-only --network host --pid host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
                     --security-opt no-new-privileges --cap-drop ALL"
            .split_whitespace();
        Ok(command!("podman --runtime runc run {fixed...} --cap-add {capabilities} {options...} {volumes...} {IMAGE}"))
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
        process::run("dist", command!("podman rm --force --ignore {SERVER}"))?;
        asked?;
        ensure!(registered()?.contains("dtcp"), "dtcp is declared, but the kernel does not list it");
        self.declare(NOTHING)?;
        ensure!(!registered()?.contains("dtcp"), "dtcp is no longer declared, but the kernel still lists it");
        // The kernel creates maps.debug and progs.debug in each new BPF file system.
        ensure!(!self.0.join("pins/tccc").exists(), "pins of tccc are left");
        let left = process::names_in(&self.0.join("records"), "");
        ensure!(left.is_empty(), "records are left: {left:?}");
        eprintln!("xtask: dist: the image applied declarations, served the page and undid everything; nothing is left");
        Ok(())
    }
}

impl Drop for ContainerNode<'_> {
    fn drop(&mut self) {
        let place = self.0;
        let _ = process::run("dist", command!("umount {place}/pins"));
        let _ = process::remove(place);
    }
}

fn registered() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_of_the_container() {
        let of = |container| manifest::capabilities(MANIFEST, container);
        assert!(["apply", "serve"].iter().all(|container| of(container).unwrap().contains(&"BPF")));
        assert_ne!(of("apply"), of("serve"));
        assert_eq!(of("nothing"), None);
    }
}
