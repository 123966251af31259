//! A process by number and start time, because numbers are used again.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::Stat;
use serde::{Deserialize, Serialize};

use super::{cgroup, clock};
use crate::plain::plain;

/// Variable in the environment of processes that must not outlive the process that it names; their children inherit it.
pub const OWNER: &str = "TCCC_OWNER";
/// The tick that files below /proc count in (`USER_HZ`).
const NS_PER_TICK: i64 = 10_000_000;
/// A killed process is gone within this time, or the kernel cannot end it.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// One process, told from later ones with the same number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
}

impl Process {
    /// This process.
    ///
    /// None: /proc is not mounted.
    pub fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number now.
    ///
    /// None: there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Process { pid, started: start_time(pid)? })
    }

    /// Asks it to end, if it still runs.
    pub fn end(&self) {
        if self.lives() {
            let _ = kill(Pid::from_raw(self.pid as i32), Signal::SIGTERM); // it may have ended by itself
        }
    }

    pub fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// The value of [`OWNER`] for what belongs to it.
    pub fn owner_text(&self) -> String {
        format!("{}-{}", self.pid, self.started)
    }

    /// The process to which this one belongs, as its environment says.
    ///
    /// None: it belongs to none, is gone, or is another user's; or it is in a container, where numbers mean others.
    fn owner(&self) -> Option<Process> {
        let numbers = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
        if numbers(&self.pid.to_string())? != numbers("self")? {
            return None;
        }
        let environment = procfs::process::Process::new(self.pid as i32).and_then(|it| it.environ()).ok()?;
        let (pid, started) = environment.get(OsStr::new(OWNER))?.to_str()?.split_once('-')?;
        Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

/// A process that goes on when this one ends, once it is released; dropping it before kills it.
#[derive(Debug)]
pub struct Detached {
    child: Option<Child>,
    pub process: Process,
}

impl Detached {
    /// Starts it in a session of its own, without terminal, in the root folder.
    ///
    /// Errors: it cannot be started, or is not seen in /proc.
    /// Side effects: a process.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec only `setsid` is called, which is async-signal-safe.
        unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
        let mut child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
        let process = Process::of(child.id());
        if process.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let process = process.context("see it in /proc")?;
        Ok(Detached { child: Some(child), process })
    }

    /// Lets it go on by itself.
    pub fn release(mut self) {
        self.child = None; // dropping a child neither ends it nor waits for it
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Processes that were to end with one that is dead, and have not.
pub fn orphans() -> Vec<Process> {
    let alive = all().into_iter().filter_map(Process::of);
    alive.filter(|process| process.owner().is_some_and(|owner| !owner.lives())).collect()
}

/// Kills what [`orphans`] finds and returns when it is gone, with what that was.
///
/// Errors: not permitted; the kernel does not end one.
pub fn end_orphans() -> Result<Vec<Process>> {
    let orphans = orphans();
    for process in orphans.iter().filter(|process| process.lives()) {
        match kill(Pid::from_raw(process.pid as i32), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("end the process {}", process.pid)),
        }
    }
    let deadline = Instant::now() + GONE_WITHIN;
    while let Some(process) = orphans.iter().find(|process| process.lives()) {
        ensure!(Instant::now() <= deadline, "the process {} was killed and has not ended", process.pid);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(orphans)
}

/// Clock ticks from boot to the start of a process, as processes of every time namespace see it. None: it is gone.
fn start_time(pid: u32) -> Option<u64> {
    let ticks_ahead = clock::boottime_offset_ns() / NS_PER_TICK;
    stat(pid)?.starttime.checked_add_signed(-ticks_ahead)
}

/// What the kernel shows of a process. None: it is gone, or dead and not yet collected by its parent.
fn stat(pid: u32) -> Option<Stat> {
    let stat = procfs::process::Process::new(pid as i32).and_then(|process| process.stat()).ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat)
}

/// Why a process does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Gone,
    Stopped,
    Traced,
    /// Its cgroup, or one above it, is frozen: the folder of that one.
    Frozen(PathBuf),
    /// It runs, or waits for something; the letter of `ps`.
    Running(char),
}

impl Condition {
    pub fn of(pid: u32) -> Self {
        match (stat(pid).map(|stat| stat.state), cgroup::frozen(pid)) {
            (None, _) => Condition::Gone,
            (_, Some(folder)) => Condition::Frozen(folder),
            (Some('T'), None) => Condition::Stopped,
            (Some('t'), None) => Condition::Traced,
            (Some(letter), None) => Condition::Running(letter),
        }
    }

    /// What a person can do so that it goes on.
    pub fn advice(&self, pid: u32) -> String {
        match self {
            Condition::Gone => "try again".to_owned(),
            Condition::Stopped => {
                format!("`kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it; then try again")
            }
            Condition::Traced => format!("end the debugger of process {pid}; then try again"),
            Condition::Frozen(folder) => {
                format!("`echo 0 > {}/cgroup.freeze` lets it go on; then try again", folder.display())
            }
            Condition::Running(_) => format!("try again when it has ended; `ps -fp {pid}` shows it"),
        }
    }
}

impl fmt::Display for Condition {
    /// The end of a sentence about the process: "is stopped".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Gone => f.write_str("has ended"),
            Condition::Stopped => f.write_str("is stopped (state T)"),
            Condition::Traced => f.write_str("is held by a debugger (state t)"),
            Condition::Frozen(folder) => write!(f, "is frozen with the cgroup {}", folder.display()),
            Condition::Running('D') => f.write_str("waits for the kernel (state D)"),
            Condition::Running('R') => f.write_str("runs (state R)"),
            Condition::Running(letter) => write!(f, "waits (state {letter})"),
        }
    }
}

/// The command of a process as `ps` shows it, at most 15 characters.
pub fn command(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| plain(name.trim_end()))
}

/// Every process that can be seen.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_a_later_one_is_another() {
        let own = Process::this().unwrap();
        assert!(own.lives());
        assert!(!Process { started: own.started + 1, ..own }.lives());
        assert!(all().contains(&own.pid));
    }

    #[test]
    fn process_whose_owner_is_dead_is_an_orphan() {
        let own = Process::this().unwrap();
        let start = |owner: Process| {
            let mut command = Command::new("sleep");
            command
                .arg("600")
                .env(OWNER, owner.owner_text())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let dead = Process { started: own.started + 1, ..own };
        let mut children = [start(own), start(dead)];
        let [kept, orphan] = children.each_ref().map(|child| Process::of(child.id()).unwrap());
        // The kernel shows an environment only some time after it has started the program.
        let deadline = Instant::now() + GONE_WITHIN;
        while [kept, orphan].iter().any(|process| process.owner().is_none()) && Instant::now() < deadline {
            thread::yield_now();
        }
        assert_eq!((kept.owner(), orphan.owner()), (Some(own), Some(dead)));
        let found = orphans();
        assert!(found.contains(&orphan) && !found.contains(&kept), "{found:?}");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!orphans().contains(&orphan));
    }
}
