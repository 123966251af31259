//! Runs the part of Ansible's role that writes policies, on this machine with folders that only the play sees.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tools;
use crate::process::{self, remove};

/// Covers `/etc` and `/var/cache` with layers below the folder `$0`, and runs the rest.
const ENTER: &str = r#"set -e
for place in etc var/cache; do
	mkdir -p "$0/$place" "$0/work/$place"
	mount -t overlay -o "lowerdir=/$place,upperdir=$0/$place,workdir=$0/work/$place" overlay "/$place"
done
exec "$@""#;

/// Stands in for systemd: every unit is loaded and active.
const SYSTEMCTL: &str = "#!/bin/sh\n[ \"$1\" != show ] || printf 'LoadState=loaded\\nActiveState=active\\n'\n";

/// The example's policy, with a mistake.
const MISTAKE: &str = r#"{"tccc_policies": {"web.toml": "version = 1\n[[rule]]\nname = \"web\"\nto_file = \"near.txt\"\nuse = \"keep\"\n"}}"#;

/// Runs the play of `site.yml` twice, then with a policy that names a missing list. Needs root.
///
/// Errors: a policy with a list beside it is refused; a second play changes something; a mistake reaches `/etc/tccc`.
pub fn try_policies(tccc: &Path) -> Result<()> {
    let folder = process::target().join("dist/role");
    remove(&folder)?;
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).with_context(|| format!("create {}", programs.display()))?;
    let systemctl = programs.join("systemctl");
    fs::write(&systemctl, SYSTEMCTL).context("write a stand-in for systemctl")?;
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).context("permit the stand-in")?;
    let python = tools::python()?.join("python").display().to_string();
    let hosts = format!("[web]\nlocalhost ansible_connection=local ansible_python_interpreter={python}\n");
    fs::write(folder.join("hosts"), hosts).context("write the inventory")?;
    let play = |options: &[&str]| -> Result<Command> {
        let own = [programs.clone(), tools::python()?, tccc.parent().context("find the program's folder")?.to_owned()];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?;
        let mut command = process::program("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(&folder).env("PATH", path).env("LC_ALL", "C.UTF-8");
        command.current_dir(process::workspace().join("xtask/package/ansible"));
        command.args(["ansible-playbook", "--tags", "policies", "--inventory"]).arg(folder.join("hosts"));
        command.args(["site.yml"]).args(options);
        Ok(command)
    };
    process::run("dist", &mut play(&[])?)?;
    let again = process::output("dist", &mut play(&[])?)?;
    ensure!(again.contains("changed=0"), "the second play changes something: {again}");
    let place = folder.join("etc/tccc/policies/web.toml");
    let before = fs::read_to_string(&place).context("read the policy that the play wrote")?;
    let refused = play(&["--extra-vars", MISTAKE])?.output().context("start the play")?;
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    ensure!(!refused.status.success() && said.contains("near.txt"), "a missing list is not refused: {said}");
    ensure!(fs::read_to_string(&place)? == before, "the mistake reached {}", place.display());
    remove(&folder)
}
