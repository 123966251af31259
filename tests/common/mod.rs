//! Shared by the test programs: needs, snapshots of the host, waiting for a condition, processes, the built program.
//!
//! Usage in a test file: `use crate::common::{HostSnapshot, needs, poll_until, tccc};`.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses its own part of this module")]

pub mod experiment;
mod guest;
pub mod host;
pub mod need;
mod netlink;
mod owned;
mod said;
pub mod state;
pub mod tun;
pub mod verdict;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::kernel::netns::Netns;
use tccc::waits;

pub use host::HostSnapshot;
pub use owned::Owned;
pub use said::CommandOutput;

/// The usual limit of [`poll_until`]: long enough for a busy host, and for a guest whose instructions are emulated.
pub const SOON: Duration = Duration::from_secs(60);

/// Skips the test unless this host has every need listed. Must be at the top of a test that returns nothing.
///
/// For the first missing need, `needs!(root, struct_ops);` prints `skipped: <test>: needs <need>: <why>` and returns
/// from the test. It also appends that line to the file named in `TCCC_SKIP_LOG`, so that `cargo xtask test` does not
/// count the test as passed. If only netem is missing, the test runs in the guest of virtual time instead. A missing
/// need that `TCCC_REQUIRE` lists (comma-separated) fails the test.
macro_rules! needs {
    ($($need:ident),+ $(,)?) => {
        if !$crate::common::host_has!($($need),+) {
            return;
        }
    };
}
pub(crate) use needs;

/// Skips the test as [`needs!`] does, or enters a fixture of `lab`: `enter!(Sandbox; root, struct_ops)`.
macro_rules! enter {
    ($fixture:ty; $($need:ident),+) => {{
        $crate::common::needs!($($need),+);
        <$fixture>::enter()
    }};
}
pub(crate) use enter;

/// The answer of [`needs!`] as a `bool`, for a fixture that runs the rest of the test.
macro_rules! host_has {
    ($($need:ident),+ $(,)?) => {
        {
            fn this_test() {}
            let needs: &[$crate::common::need::Need] = &[$((stringify!($need), $crate::common::need::$need)),+];
            !$crate::common::need::must_skip(std::any::type_name_of_val(&this_test), needs)
        }
    };
}
pub(crate) use host_has;

pub const TCCC: &str = env!("CARGO_BIN_EXE_tccc");

/// The folder of the program's lasting state. In the sandbox, it is on the test's own file system.
pub const STATE_FOLDER: &str = "/run/tccc-test-state";

thread_local! {
    static SHORT_WAITS: Cell<&'static str> = const { Cell::new("") };
}

/// The program under test, with the short waits of this thread.
pub fn tccc() -> Command {
    let mut command = Command::new(TCCC);
    command.env("NO_COLOR", "1").env("STATE_DIRECTORY", STATE_FOLDER);
    command.env(waits::VARIABLE, SHORT_WAITS.get());
    command
}

/// Shortens waits, in milliseconds, of the programs that this thread starts until the value is dropped:
/// `guard.look=1000`. `src/host/waits.rs` lists them.
pub fn shorten_waits(waits: &'static str) -> ShortWaits {
    SHORT_WAITS.set(waits);
    ShortWaits
}

#[must_use]
pub struct ShortWaits;

impl Drop for ShortWaits {
    fn drop(&mut self) {
        SHORT_WAITS.set("");
    }
}

/// Runs tccc; the test fails unless it ends with `code`.
#[track_caller]
pub fn run(code: i32, arguments: &str) -> CommandOutput {
    check(code, tccc().args(arguments.split_whitespace()))
}

/// Runs a command; the test fails unless it ends with `code`.
#[track_caller]
pub fn check(code: i32, command: &mut Command) -> CommandOutput {
    let output = command.output().expect("the command starts");
    CommandOutput::of(code, format!("{command:?}"), output)
}

/// Starts a command whose output [`end`] collects.
pub fn begin(command: &mut Command) -> Owned {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts").into()
}

/// Waits for a command that [`begin`] started; the test fails unless it ends with `code`.
#[track_caller]
pub fn end(code: i32, command: Owned) -> CommandOutput {
    CommandOutput::of(code, format!("process {}", command.id()), command.output())
}

pub fn begin_quietly(command: &mut Command) -> Owned {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts").into()
}

#[track_caller]
pub fn signal(process: u32, signal: Signal) {
    kill(Pid::from_raw(process as i32), signal).unwrap();
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Set for a program that another test program starts, and cleans up after (`lab/keeper.rs`).
pub const KEPT: &str = "TCCC_KEPT";

/// A command that runs one test of this program alone, ignored or not.
///
/// `module`: the test's `module_path!()`.
pub fn test_alone(module: &str, test: &str) -> Command {
    let (_, module) = module.split_once("::").expect("every test is in a module");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{test}"), "--include-ignored"]).env(KEPT, "1");
    command
}

/// Keeps a thread in a namespace until the value is dropped, so that sweeps of the host find the namespace.
pub fn inhabit(netns: &Netns) -> Sender<()> {
    let (inside, (stay, until)) = (netns.try_clone().unwrap(), channel());
    let (tell, entered) = channel();
    std::thread::spawn(move || {
        inside.enter_for_good().unwrap();
        tell.send(()).unwrap();
        until.recv().unwrap_err();
    });
    entered.recv().unwrap();
    stay
}

/// Waits until `condition` holds. This module has the only sleep of the tests that waits for a condition.
///
/// Panics: the condition does not hold within `limit`; the message contains `what`.
#[track_caller]
pub fn poll_until(limit: Duration, what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, condition), "not met within {limit:?}: {what}");
}

pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Writes an object file of `dtcp` whose header has the heading `Patents`.
pub fn patented_object(folder: &Path) -> PathBuf {
    let mut object = tccc::catalog::find("dtcp").unwrap().object.to_vec();
    let (was, is) = (b"\nDiffers\n", b"\nPatents\n");
    let at = object.windows(was.len()).position(|bytes| bytes == was).expect("the header has the heading");
    object[at..at + is.len()].copy_from_slice(is);
    let path = folder.join("mine.bpf.o");
    std::fs::write(&path, object).unwrap();
    path
}
