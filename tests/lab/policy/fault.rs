//! The program under test, killed or stopped at one of its fault points.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use tccc::fault::VARIABLE;

use crate::common::{CommandOutput, Owned, SOON, begin, poll_until, signal, stderr, stdout, tccc};

/// Runs a command of tccc that kills itself at a fault point.
///
/// Panics: the command does not reach the point.
#[track_caller]
pub fn killed_at(point: &str, words: &[&str]) {
    die_at(point, tccc().args(words));
}

#[track_caller]
pub fn die_at(point: &str, command: &mut Command) {
    let output = command.env(VARIABLE, point).output().expect("the command starts");
    let why = format!("{command:?} at {point}: {}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32), "{why}");
}

/// For commands that wait without success for the lock of a stopped one.
pub const SHORT_LOCK: &str = "lock=1000";

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

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// What another command says that wants to change the subject and waits for a second ([`SHORT_LOCK`]).
    pub fn refusal(&self, subject: &str) -> String {
        let pid = self.pid();
        format!(
            "cannot change {subject}: process {pid} (tccc) has held its lock for more than 1s, \
             and is stopped (state T)\n  \
             hint: `kill -CONT {pid}` resumes it, `kill -KILL {pid}` ends it; then try again"
        )
    }

    /// Continues the command and waits until it ends; the test fails unless it succeeds.
    #[track_caller]
    pub fn go_on(self) {
        self.go_on_to(0);
    }

    /// Continues the command; the test fails unless it ends with `code`.
    #[track_caller]
    pub fn go_on_to(self, code: i32) -> CommandOutput {
        CommandOutput::of(code, "the command that was stopped".to_owned(), self.end(Signal::SIGCONT))
    }

    #[track_caller]
    pub fn kill(self) {
        assert_eq!(self.end(Signal::SIGKILL).status.signal(), Some(Signal::SIGKILL as i32));
    }

    fn end(self, number: Signal) -> Output {
        signal(self.pid(), number);
        self.0.output()
    }
}
