//! The end of a session, which a server over a recording hears like any verb that works until it is stopped.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::common::{TCCC, poll_until};
use crate::lab::serve::{SERVE, SOON, Server};
use nix::sys::signal::{SigHandler, Signal, signal};
use procfs::process::Process;

/// Waits until it ends; the exit code, none where the signal killed it.
fn end(server: &mut Server) -> Option<i32> {
    let mut ended = None;
    poll_until(SOON, "the server ends", || {
        ended = server.process.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap().code()
}

/// It was as good as `kill -9`: a dropped SSH session left what an experiment had built.
#[test]
fn end_of_the_session_ends_the_work_in_order() {
    let mut command = Command::new(TCCC);
    command.args(SERVE);
    // These tests may themselves have been started to outlive their session, which a child inherits.
    // SAFETY: between fork and exec only `sigaction` is called, which is async-signal-safe.
    unsafe { command.pre_exec(|| Ok(signal(Signal::SIGHUP, SigHandler::SigDfl).map(drop)?)) };
    let mut server = Server::start(command);
    server.signal(Signal::SIGHUP);
    assert_eq!(end(&mut server), Some(0), "{}", server.said());
}

#[test]
fn what_was_started_to_outlive_its_session_does() {
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
