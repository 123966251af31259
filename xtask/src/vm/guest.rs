//! The guest's initial file system: one program, a few modules and the job.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::archive::Archive;
use super::kernel::GuestKernel;
use crate::process;

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
    let place = kernel.modules.parent().unwrap_or(&kernel.modules);
    let place = place.canonicalize().with_context(|| format!("find {}", place.display()))?;
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
    let busybox = busybox()?;
    archive.program("bin/busybox", &fs::read(&busybox).with_context(|| format!("read {}", busybox.display()))?);
    archive.program("init", init.as_bytes());
    let mut order = String::new();
    for module in closure(&kernel.modules, modules)? {
        let name = module.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.trim_end_matches(".ko").to_owned();
        archive.program(&format!("modules/{name}"), &uncompressed(&module)?);
        order += &format!("{name}\n");
    }
    archive.program("modules/order", order.as_bytes());
    Ok(archive)
}

fn busybox() -> Result<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    places.into_iter().find(|place| place.exists()).context("find busybox, from Debian's package busybox-static")
}

/// The modules and their dependencies, in loading order.
fn closure(modules: &Path, wanted: &[&str]) -> Result<Vec<PathBuf>> {
    let path = modules.join("modules.dep");
    let dependencies = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(loading_order(&dependencies, wanted).iter().map(|module| modules.join(module)).collect())
}

/// Reads `module: dependencies` lines of modules.dep. A module without a line is built in.
fn loading_order<'a>(dependencies: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for name in wanted {
        let is_it = |module: &str| module.rsplit('/').next().is_some_and(|file| file.split('.').next() == Some(name));
        let line = dependencies.lines().filter_map(|line| line.split_once(':')).find(|(module, _)| is_it(module));
        let Some((module, needs)) = line else { continue };
        let needs = needs.split_whitespace().rev().chain([module]);
        order.extend(needs.filter(|module| seen.insert(*module)));
    }
    order
}

fn uncompressed(module: &Path) -> Result<Vec<u8>> {
    let program = match module.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => return fs::read(module).with_context(|| format!("read {}", module.display())),
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => bail!("{} has an unknown compression", module.display()),
    };
    let output = process::program(program).arg("-dc").arg(module).output();
    let output = output.with_context(|| format!("start `{program}`"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => bail!("`{program}` cannot read {}", module.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_after_what_they_need() {
        let dependencies = "kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz\n\
             kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n\
             kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\n";
        let order = loading_order(dependencies, &["virtio_pci", "9pnet_virtio", "9p"]);
        let names: Vec<&str> = order.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["netfs.ko.xz", "9pnet.ko.xz", "9pnet_virtio.ko.xz", "9p.ko.xz"]);
    }

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
