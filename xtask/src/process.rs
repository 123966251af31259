//! Runs other programs from the top of the workspace, with the step's name in every failure.

use std::borrow::BorrowMut;
use std::env;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fs_err as fs;
use nix::libc;
use serde_json::Value;
use xshell::Shell;

/// A command of words, as `xshell::cmd!` reads them: `{name}` is one word, `{names...}` are many. It starts at the top of the
/// workspace and reads no input.
macro_rules! command {
    ($($words:tt)*) => {
        $crate::process::prepared(xshell::cmd!($crate::process::shell(), $($words)*).into())
    };
}
pub(crate) use command;

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

/// Runs a scenario with the release build; finished runs stay. Options of the engine follow its name.
pub fn run_scenario(file: &Path, (engine, runs): (&[&str], u32), out: &Path, only: &[String]) -> Result<()> {
    let (tccc, runs) = (fast_tccc(), runs.to_string());
    let only = only.iter().flat_map(|one| ["--only", one]);
    let mut command = command!("{tccc} run --quiet --engine {engine...} --runs {runs} --out {out} {file} {only...}");
    run("run", command.stdout(Stdio::null()))
}

/// The report of result directories.
pub fn report(tccc: &Path, places: &[PathBuf]) -> Result<Value> {
    json("read the results", command!("{tccc} report {places...} -o json"))
}

/// The names of a folder's entries with this ending, sorted, and then without it. None for a folder that is missing.
pub fn names_in(folder: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names.iter().map(|name| name[..name.len() - ending.len()].to_owned()).collect()
}

/// Removes a folder; one that is missing is no error.
pub fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

pub fn shell() -> &'static Shell {
    thread_local! {
        static SHELL: &'static Shell = Box::leak(Box::new(Shell::new().expect("there is a working folder")));
    }
    SHELL.with(|shell| *shell)
}

pub fn prepared(mut command: Command) -> Command {
    command.current_dir(workspace()).stdin(Stdio::null());
    command
}

/// Writes a file that may be executed.
pub fn write_program(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// A program that starts at the top of the workspace and reads no input.
pub fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    prepared(Command::new(name))
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

/// Priority of a thread, and of the programs that it starts from then on, as a nice value.
#[derive(Debug, Clone, Copy)]
pub enum Priority {
    /// What measures times.
    First = -10,
    /// What the tests of the kernel ring need not wait for.
    Later = 5,
}

/// Gives this thread a priority, if it may have it.
pub fn set_priority(priority: Priority) {
    // SAFETY: `setpriority` takes no pointer. On Linux, 0 is the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority as i32) };
}

/// Says how long a part of a long command took.
pub fn timed<T>(part: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    eprintln!("xtask: {part} took {:.0} s", begin.elapsed().as_secs_f64());
    done
}

/// Whether the program starts and answers `--version`.
pub fn answers(mut command: impl BorrowMut<Command>) -> bool {
    command
        .borrow_mut()
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program with its output on the terminal. Errors name the step.
pub fn run(step: &str, mut command: impl BorrowMut<Command>) -> Result<()> {
    let command = command.borrow_mut();
    eprintln!("xtask: {step}: {}", shown(command));
    let status = command.status().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !status.success() {
        bail!("{step}: `{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and returns its stdout. Errors name the step and quote its stderr.
pub fn output(step: &str, mut command: impl BorrowMut<Command>) -> Result<String> {
    let command = command.borrow_mut();
    let output = command.output().with_context(|| format!("{step}: start `{}`", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{step}: `{}` ended with {}: {said}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program and parses its stdout as JSON.
pub fn json(step: &str, mut command: impl BorrowMut<Command>) -> Result<Value> {
    let command = command.borrow_mut();
    serde_json::from_str(&output(step, &mut *command)?)
        .with_context(|| format!("{step}: read JSON of `{}`", shown(command)))
}

/// The SHA-256 of a file in hexadecimal digits.
pub fn sha256_of(file: &Path) -> Result<String> {
    Ok(output("digest", command!("sha256sum {file}"))?.chars().take(64).collect())
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
