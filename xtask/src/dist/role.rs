//! Runs the part of Ansible's role that writes policies, on this machine with folders that only the play sees.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::tools;
use crate::process::{self, command};

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
/// # Errors
/// A policy with a list beside it is refused; a second play changes something; a mistake reaches `/etc/tccc`.
pub fn try_policies(tccc: &Path) -> Result<()> {
    let folder = process::target().join("dist/role");
    process::remove(&folder)?;
    let programs = folder.join("programs");
    fs::create_dir_all(&programs)?;
    process::write_program(&programs.join("systemctl"), SYSTEMCTL)?;
    let python = tools::python()?;
    let interpreter = python.join("python").display().to_string();
    let hosts = format!("[web]\nlocalhost ansible_connection=local ansible_python_interpreter={interpreter}\n");
    fs::write(folder.join("hosts"), hosts)?;
    let path = tools::path_with(&[programs, python, tccc.parent().context("find the program's folder")?.to_owned()])?;
    let play = |options: &[&str]| {
        let ansible = "ansible-playbook --tags policies --inventory".split(' ');
        let mut play =
            command!("unshare --mount sh -c {ENTER} {folder} {ansible...} {folder}/hosts site.yml {options...}");
        play.env("PATH", &path).env("LC_ALL", "C.UTF-8");
        play.current_dir(process::workspace().join("xtask/package/ansible"));
        play
    };
    process::run("dist", play(&[]))?;
    let again = process::output("dist", play(&[]))?;
    ensure!(again.contains("changed=0"), "the second play changes something: {again}");
    let place = folder.join("etc/tccc/policies/web.toml");
    let before = fs::read_to_string(&place)?;
    let refused = play(&["--extra-vars", MISTAKE]).output().context("start the play")?;
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    ensure!(!refused.status.success() && said.contains("near.txt"), "a missing list is not refused: {said}");
    ensure!(fs::read_to_string(&place)? == before, "the mistake reached {}", place.display());
    Ok(process::remove(&folder)?)
}
