//! The guest's initial file system: one program, a few modules and the job.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use fs_err as fs;

use super::archive::Archive;
use super::kernel::GuestKernel;
use crate::process::{self, command};

const INIT: &str = include_str!("init.sh");
/// Modules for the host's files and the ports of the job's output; some kernels have them built in.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];
/// The first program of a guest with a disk.
const INIT_DISK: &str = include_str!("init-disk.sh");
/// Modules for the disk and the host's folder.
const MODULES_DISK: [&str; 7] =
    ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "9pnet_virtio", "9p", "tcp_diag"];
/// Mount points of the first program.
const FOLDERS: [&str; 8] = ["bin", "dev", "host", "memory", "modules", "proc", "root", "sys"];
/// Ports of stdout, stderr and the exit code, as in `init.sh`.
const PORTS: [&str; 3] = ["/run/vm/stdout", "/run/vm/stderr", "/run/vm/code"];

#[derive(Debug, Clone, Default)]
pub struct GuestJob {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The working folder.
    pub folder: PathBuf,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
}

impl GuestJob {
    /// A command that starts in the workspace with the variables that tccc and its tests read.
    pub fn new(command: Vec<String>) -> Self {
        let is_ours = |name: &str| {
            ["PATH", "HOME", "LANG", "TERM", "USER", "NO_COLOR"].contains(&name)
                || ["TCCC_", "RUST", "CARGO"].iter().any(|prefix| name.starts_with(prefix))
        };
        let environment = std::env::vars().filter(|(name, _)| is_ours(name)).collect();
        GuestJob { command, folder: process::workspace(), environment }
    }

    /// A shell script of tests, without the host's variables for tests, because the guest runs nothing else.
    pub fn in_a_guest_alone(script: String) -> Self {
        let mut job = GuestJob::new(vec!["sh".into(), "-c".into(), script]);
        job.environment.retain(|(name, _)| !name.starts_with("TCCC_") && name != "RUST_BACKTRACE");
        job
    }

    /// The script that becomes the guest's first process after its file systems are mounted.
    fn script(&self) -> String {
        let [stdout, stderr, code] = PORTS;
        let variables = self.environment.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        format!(
            "(\n{}cd {} || exit 127\nexec {}\n) </dev/null >{stdout} 2>{stderr}\necho $? >{code}\n/run/vm/busybox poweroff -f\n",
            variables.collect::<String>(),
            quoted(&self.folder.to_string_lossy()),
            words.join(" "),
        )
    }
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The archive of the initial file system.
pub fn first_file_system(kernel: &GuestKernel, job: &GuestJob) -> Result<Vec<u8>> {
    let mut archive = beginning(kernel, INIT, &MODULES)?;
    archive.program("job", job.script().as_bytes());
    let place = fs::canonicalize(kernel.root.join("lib/modules"))?;
    archive.program("modules/place", place.to_string_lossy().as_bytes());
    Ok(archive.finish())
}

/// The archive of an initial file system that switches to the system on a disk.
pub fn first_file_system_for_disk(kernel: &GuestKernel) -> Result<Vec<u8>> {
    Ok(beginning(kernel, INIT_DISK, &MODULES_DISK)?.finish())
}

/// An archive with a first program, its modules and busybox.
fn beginning(kernel: &GuestKernel, init: &str, modules: &[&str]) -> Result<Archive> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.folder(folder));
    archive.program("bin/busybox", &fs::read("/bin/busybox")?);
    archive.program("init", init.as_bytes());
    let mut order = String::new();
    for (name, content) in loaded(kernel, modules)? {
        archive.program(&format!("modules/{name}"), &content);
        order += &format!("{name}\n");
    }
    archive.program("modules/order", order.as_bytes());
    Ok(archive)
}

/// Names and contents of the modules and of what they need, in loading order. Those that are built in are left out.
fn loaded(kernel: &GuestKernel, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
    let GuestKernel { root, release, .. } = kernel;
    let mut modules: Vec<(String, Vec<u8>)> = Vec::new();
    for name in wanted {
        let mut modprobe =
            command!("modprobe --config /dev/null --dirname {root} --set-version {release} --show-depends {name}");
        // It fails for a module that this kernel does not have.
        let said = modprobe.output().context("start modprobe, which the package kmod has")?.stdout;
        for file in
            String::from_utf8_lossy(&said).lines().filter_map(|line| line.strip_prefix("insmod ")).map(str::trim)
        {
            let name = file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
            if !modules.iter().any(|(there, _)| there == name) {
                modules.push((name.to_owned(), uncompressed(file)?));
            }
        }
    }
    Ok(modules)
}

fn uncompressed(module: &str) -> Result<Vec<u8>> {
    let unpack = match module.rsplit('.').next() {
        Some("xz") => command!("xz -dc {module}"),
        Some("zst") => command!("zstd -dc {module}"),
        _ => command!("cat {module}"),
    }
    .output()?;
    ensure!(unpack.status.success(), "{module} cannot be read: {}", String::from_utf8_lossy(&unpack.stderr));
    Ok(unpack.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_keeps_its_words_and_its_exit_code() {
        let job = GuestJob {
            command: ["sh", "-c", "printf '%s|' \"$0\" \"$WORD\" a\\ b; exit 7", "it's"].map(str::to_owned).to_vec(),
            folder: "/".into(),
            environment: vec![("WORD".into(), "a 'b' $c".into()), ("PATH".into(), "/usr/bin:/bin".into())],
        };
        let folder = tempfile::tempdir().unwrap();
        let (mut script, mut files) = (job.script(), Vec::new());
        for (number, port) in PORTS.iter().enumerate() {
            files.push(folder.path().join(number.to_string()));
            script = script.replace(port, &files[number].to_string_lossy());
        }
        let script = script.replace("/run/vm/busybox poweroff -f", "true");
        assert!(process::program("sh").arg("-c").arg(script).status().unwrap().success());
        let said: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        assert_eq!(said, ["it's|a 'b' $c|a b|", "", "7\n"]);
    }
}
