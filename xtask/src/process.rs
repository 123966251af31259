//! Runs other programs from the top of the workspace, with the step's name in every failure.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub fn workspace() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    workspace().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// The debug build of tccc.
pub fn tccc() -> PathBuf {
    target().join("debug/tccc")
}

pub fn build_tccc() -> Result<()> {
    run("build", cargo("build").args(["--quiet", "--bin", "tccc"]))
}

/// The release build of tccc.
pub fn fast_tccc() -> PathBuf {
    target().join("release/tccc")
}

pub fn build_fast_tccc() -> Result<()> {
    run("build", cargo("build").arg("--release"))
}

/// Removes a folder; one that is missing is no error.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A program that starts at the top of the workspace and reads no input.
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace()).stdin(Stdio::null());
    command
}

/// The cargo that started this program.
pub fn cargo(verb: &str) -> Command {
    let mut command = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(verb);
    command
}

/// Runs the tests of one module one at a time, and shows their output.
///
/// With `--package` instead of `--workspace` cargo would build again, with that package's features only.
pub fn tests_of(target: [&str; 2], module: &str) -> Command {
    let mut command = cargo("test");
    command.args(["--quiet", "--workspace"]).args(target).args(["--", module, "--nocapture", "--test-threads=1"]);
    command
}

/// How far work stands back behind the tests of the kernel ring.
#[derive(Debug, Clone, Copy)]
pub enum Patience {
    /// What the last ring waits for.
    Some = 5,
    /// What nothing waits for.
    Most = 19,
}

/// Lowers the priority of this thread, and of the programs that it starts from now on.
pub fn be_patient(patience: Patience) {
    // SAFETY: `nice` takes no pointer. On Linux it changes the calling thread alone.
    unsafe { nix::libc::nice(patience as i32) };
}

/// Says how long a part of a long command took.
pub fn timed<T>(part: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    eprintln!("xtask: {part} took {:.0} s", begin.elapsed().as_secs_f64());
    done
}

/// Whether the program starts and answers `--version`.
pub fn answers(command: &mut Command) -> bool {
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a program with its output on the terminal. Errors name the step.
pub fn run(step: &str, command: &mut Command) -> Result<()> {
    eprintln!("xtask: {step}: {}", shown(command));
    let status = command.status().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !status.success() {
        bail!("{step}: `{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and returns its stdout. Errors name the step and quote its stderr.
pub fn output(step: &str, command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{step}: `{}` ended with {}: {said}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program and parses its stdout as JSON.
pub fn json(step: &str, command: &mut Command) -> Result<Value> {
    serde_json::from_str(&output(step, command)?).with_context(|| format!("{step}: read JSON of `{}`", shown(command)))
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

pub fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}
