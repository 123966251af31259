//! Processes by id and start time, because ids are reused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
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

/// An environment variable that names the owner of a process. Processes must not outlive their owner.
pub const OWNER: &str = "TCCC_OWNER";
/// The tick of files below /proc (`USER_HZ`).
const NS_PER_TICK: i64 = 10_000_000;
/// A killed process is gone within this time, or the kernel cannot end it.
const GONE_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
}

impl Process {
    /// None: /proc is not mounted.
    pub fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The current process with this id.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Process { pid, started: start_time(pid)? })
    }

    /// Sends SIGTERM if the process still runs.
    pub fn end(&self) {
        if self.lives() {
            let _ = kill(Pid::from_raw(self.pid as i32), Signal::SIGTERM); // it may have ended by itself
        }
    }

    pub fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// The value of [`OWNER`] for processes of this owner.
    pub fn owner_text(&self) -> String {
        format!("{}-{}", self.pid, self.started)
    }

    /// The owner in the process's environment.
    ///
    /// None: it has none, is gone, belongs to another user, or is in a container with other process ids.
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

/// A process that outlives this one once it is released. Dropping it earlier kills the process.
#[derive(Debug)]
pub struct Detached {
    child: Option<Child>,
    pub process: Process,
}

impl Detached {
    /// Starts a process in a new session, without terminal, in the root folder.
    ///
    /// Errors: it cannot be started, or is not visible in /proc.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec only `setsid` is called, which is async-signal-safe.
        unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
        let child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
        let process = Process::of(child.id());
        let started = Detached { child: Some(child), process: process.unwrap_or_default() };
        process.context("see it in /proc").map(|_| started)
    }

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

/// Processes that outlived their owner.
pub fn orphans() -> Vec<Process> {
    let alive = all().into_iter().filter_map(Process::of);
    alive.filter(|process| process.owner().is_some_and(|owner| !owner.lives())).collect()
}

/// Kills the processes that [`orphans`] finds, waits until they are gone, and returns them.
///
/// Errors: not permitted; a process does not end.
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

/// Clock ticks from boot to the start of a process, the same in every time namespace. `None` if it is gone.
fn start_time(pid: u32) -> Option<u64> {
    let ticks_ahead = clock::boottime_offset_ns() / NS_PER_TICK;
    stat(pid)?.starttime.checked_add_signed(-ticks_ahead)
}

/// `None` if the process is gone, or dead and not collected by its parent.
fn stat(pid: u32) -> Option<Stat> {
    let stat = procfs::process::Process::new(pid as i32).and_then(|process| process.stat()).ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat)
}

/// Why a process does not proceed, as the end of a sentence about it, and advice for the user.
pub fn condition(pid: u32) -> (String, String) {
    let Some(stat) = stat(pid) else { return ("has ended".to_owned(), "try again".to_owned()) };
    if let Some(folder) = cgroup::frozen(pid) {
        let folder = folder.display();
        let advice = format!("`echo 0 > {folder}/cgroup.freeze` resumes it; then try again");
        return (format!("is frozen with the cgroup {folder}"), advice);
    }
    let condition = match stat.state {
        'T' => "is stopped",
        't' => "is held by a debugger",
        'D' => "waits for the kernel",
        'R' => "runs",
        _ => "waits",
    };
    let advice = match stat.state {
        'T' => format!("`kill -CONT {pid}` resumes it, `kill -KILL {pid}` ends it; then try again"),
        't' => format!("end the debugger of process {pid}; then try again"),
        _ => format!("try again when it has ended; `ps -fp {pid}` shows it"),
    };
    (format!("{condition} (state {})", stat.state), advice)
}

/// The command of a process as in `ps`, at most 15 characters.
pub fn command(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| plain(name.trim_end()))
}

/// Ids of all visible processes.
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
            command.arg("600").env(OWNER, owner.owner_text()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
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
