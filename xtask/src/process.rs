//! Running other programs from the top of the workspace, with the step's name in every failure.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub fn workspace() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    workspace().join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// The debug build of tccc.
pub fn tccc() -> PathBuf {
    target().join("debug/tccc")
}

/// Builds [`tccc`].
///
/// Errors: it does not build.
pub fn build_tccc() -> Result<()> {
    run("build", cargo("build").args(["--quiet", "--bin", "tccc"]))
}

/// The build of tccc with optimisation.
pub fn fast_tccc() -> PathBuf {
    target().join("release/tccc")
}

/// Builds [`fast_tccc`].
///
/// Errors: it does not build.
pub fn build_fast_tccc() -> Result<()> {
    run("build", cargo("build").arg("--release"))
}

/// Removes a folder that an earlier call may have left.
///
/// Errors: it cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A program that starts at the top of the workspace and asks nothing.
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace()).stdin(Stdio::null());
    command
}

/// The cargo that started us.
pub fn cargo(verb: &str) -> Command {
    let mut command = program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(verb);
    command
}

/// Tests of one module of a test program, with their output, one at a time.
///
/// The whole workspace is named: one package alone would be built again, with the features that it alone asks for.
pub fn tests_of(target: [&str; 2], module: &str) -> Command {
    let mut command = cargo("test");
    command.args(["--quiet", "--workspace"]).args(target).args(["--", module, "--nocapture", "--test-threads=1"]);
    command
}

/// Gives this thread, and the programs that it starts from now on, the lowest priority.
pub fn be_patient() {
    // SAFETY: it only takes a number. On Linux it changes the calling thread alone.
    unsafe { nix::libc::nice(19) };
}

/// Whether this program can be started and answers `--version`.
pub fn answers(command: &mut Command) -> bool {
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a program with its output on the terminal.
///
/// Errors: it cannot be started, or ends with another code than 0; both name the step.
pub fn run(step: &str, command: &mut Command) -> Result<()> {
    eprintln!("xtask: {step}: {}", shown(command));
    let status = command.status().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !status.success() {
        bail!("{step}: `{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and returns what it printed on stdout.
///
/// Errors: it cannot be started, or ends with another code than 0; both name the step and what it said.
pub fn output(step: &str, command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{step}: `{}` ended with {}: {said}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program and returns the JSON that it printed on stdout.
///
/// Errors: as [`output`]; it printed no JSON.
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
