//! The program under test, killed or stopped at a point of its own.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::fault::{POINTS, VARIABLE};

use crate::common::{Owned, begin, poll_until, tccc};
use crate::lab::sandbox::{stderr, stdout};

/// A command comes to its point within this time.
const SOON: Duration = Duration::from_secs(30);

/// The points of commands whose name begins so: `apply.`.
pub fn points(of: &str) -> Vec<&'static str> {
    let points: Vec<_> = POINTS.into_iter().filter(|point| point.starts_with(of)).collect();
    assert!(!points.is_empty(), "no point begins with {of}");
    points
}

/// Runs a command that kills itself at a point.
///
/// Panics: when it does not come to the point.
#[track_caller]
pub fn killed_at(point: &str, words: &[&str]) {
    let output: Output = tccc().args(words).env(VARIABLE, point).output().expect("the command starts");
    let why = format!("{words:?} at {point}: {}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32), "{why}");
}

/// A command that stops itself at a point.
pub struct Stopped(Owned);

impl Stopped {
    #[track_caller]
    pub fn at(point: &str, words: &[&str]) -> Self {
        let mut command = tccc();
        command.args(words).env(VARIABLE, format!("{point}:stop"));
        let stopped = Stopped(begin(&mut command));
        let process = procfs::process::Process::new(stopped.pid() as i32).unwrap();
        poll_until(SOON, "the command stops", || process.stat().is_ok_and(|stat| stat.state == 'T'));
        stopped
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How a command that waits for this one fails.
    pub fn refusal(&self, subject: &str) -> String {
        let pid = self.pid();
        format!(
            "cannot change {subject}: process {pid} (tccc) holds its lock for more than 10s, and is stopped (state T)\n  \
             hint: `kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it; then try again"
        )
    }

    /// Lets it go on, and waits until it ends; the test fails unless it succeeds.
    #[track_caller]
    pub fn go_on(self) {
        let output = self.end(Signal::SIGCONT);
        assert!(output.status.success(), "the command that was stopped: {}{}", stdout(&output), stderr(&output));
    }

    /// Kills it where it stands.
    #[track_caller]
    pub fn kill(self) {
        assert_eq!(self.end(Signal::SIGKILL).status.signal(), Some(Signal::SIGKILL as i32));
    }

    fn end(self, signal: Signal) -> Output {
        kill(Pid::from_raw(self.pid() as i32), signal).unwrap();
        self.0.output()
    }
}
