//! `tccc serve --replay` ends with its session, like any verb that runs until it is stopped.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::common::{TCCC, poll_until};
use crate::lab::serve::{SERVE, SOON, Server};
use nix::sys::signal::{SigHandler, Signal, signal};
use procfs::process::Process;

/// Waits for the end; returns the exit code, `None` if a signal killed the server.
fn end(server: &mut Server) -> Option<i32> {
    let mut ended = None;
    poll_until(SOON, "the server ends", || {
        ended = server.process.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap().code()
}

/// A dropped SSH session once acted like `kill -9` and left an experiment's namespaces.
#[test]
fn end_of_the_session_ends_the_work_in_order() {
    let mut command = Command::new(TCCC);
    command.args(SERVE);
    // This process may ignore SIGHUP, and a child inherits that.
    // SAFETY: between fork and exec only `sigaction` is called, which is async-signal-safe.
    unsafe { command.pre_exec(|| Ok(signal(Signal::SIGHUP, SigHandler::SigDfl).map(drop)?)) };
    let mut server = Server::start(command);
    server.signal(Signal::SIGHUP);
    assert_eq!(end(&mut server), Some(0), "{}", server.said());
}

#[test]
fn server_started_with_hangup_ignored_outlives_its_session() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", TCCC]).args(SERVE);
    let mut server = Server::start(command);
    let status = Process::new(server.process.id() as i32).and_then(|process| process.status()).unwrap();
    let hangup = 1 << (Signal::SIGHUP as u32 - 1);
    assert_eq!(status.sigign & hangup, hangup, "still ignored");
    server.signal(Signal::SIGHUP);
    assert_eq!(server.get("/").status, 200);
    server.signal(Signal::SIGTERM);
    assert_eq!(end(&mut server), Some(0), "{}", server.said());
}
