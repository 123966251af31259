//! The program under test, killed or stopped at one of its fault points.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use tccc::fault::{POINTS, VARIABLE};

use crate::common::{Owned, SOON, Said, begin, poll_until, signal, stderr, stdout, tccc};

/// The fault points whose name begins with a prefix, such as `apply.`.
pub fn points(of: &str) -> Vec<&'static str> {
    let points: Vec<_> = POINTS.into_iter().filter(|point| point.starts_with(of)).collect();
    assert!(!points.is_empty(), "no fault point begins with {of}");
    points
}

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

    pub fn refusal(&self, subject: &str) -> String {
        let pid = self.pid();
        format!(
            "cannot change {subject}: process {pid} (tccc) has held its lock for more than 10s, \
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
    pub fn go_on_to(self, code: i32) -> Said {
        Said::of(code, "the command that was stopped".to_owned(), self.end(Signal::SIGCONT))
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
