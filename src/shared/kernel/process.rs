//! Processes by id and start time, because ids are reused.
//!
//! An id counts within a PID namespace. A record that is shared with a container says of which namespace its ids are.

use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::FromRead as _;
use procfs::process::Stat;
use serde::{Deserialize, Serialize};

use super::{cgroup, clock};
use crate::poll::{POLL_INTERVAL, poll};
use crate::sanitize::plain;

/// An environment variable that names the owner of a process. Processes must not outlive their owner.
pub const OWNER: &str = "TCCC_OWNER";
/// The process that starts the kernel's threads, in the host's PID namespace.
const KTHREADD: u32 = 2;
/// A flag of the kernel's threads in `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;
/// The tick of files below /proc (`USER_HZ`).
const NS_PER_TICK: i64 = 10_000_000;
/// A killed process is gone within this time, or the kernel cannot end it.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// This program, even if its path now holds another file or none. For this process, and for one that it starts.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// This program as another process finds it, whose `/proc` is this one's.
///
/// # Errors
/// /proc is not mounted.
pub fn own_program_for_others() -> Result<PathBuf> {
    let own = fs::read_link("/proc/self").context("find this process in /proc")?; // its number there
    Ok(Path::new("/proc").join(own).join("exe"))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// In its own PID namespace.
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
    /// Inode of its PID namespace. `None` in records of versions that did not write it: then that of the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

impl Process {
    /// None: /proc is not mounted.
    pub fn this() -> Option<Self> {
        Some(Process { started: start_time("self")?, ..Self::local(std::process::id(), 0) })
    }

    /// The current process with this id in this process's PID namespace.
    pub fn of(pid: u32) -> Option<Self> {
        let process = Self::local(pid, 0);
        let number = if proc_is_own() { pid } else { process.candidates().next()? };
        Some(Process { started: start_time(number)?, ..process })
    }

    fn local(pid: u32, started: u64) -> Self {
        Process { pid, started, pid_namespace: pid_namespace("self") }
    }

    /// Reads [`Process::owner_text`] of a process of this PID namespace.
    pub fn of_text(text: &str) -> Option<Self> {
        let (pid, started) = text.split_once('-')?;
        Some(Self::local(pid.parse().ok()?, started.parse().ok()?))
    }

    /// Sends SIGTERM if the process still runs and can be reached from this PID namespace.
    pub fn end(&self) {
        if let Some(pid) = self.number().filter(|_| proc_is_own()) {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGTERM); // it may have ended by itself
        }
    }

    /// True also for a process of a PID namespace that this process cannot see into.
    pub fn lives(&self) -> bool {
        self.number().is_some() || (self.is_elsewhere() && !sees_all())
    }

    /// Its id in this process's /proc. `None` if it is gone, or not visible from this PID namespace.
    pub fn number(&self) -> Option<u32> {
        let is_it = |number: &u32| start_time(*number) == Some(self.started);
        if !self.is_elsewhere() && proc_is_own() {
            return Some(self.pid).filter(is_it);
        }
        self.candidates().find(is_it)
    }

    /// Whether it belongs to another PID namespace than this process.
    pub fn is_elsewhere(&self) -> bool {
        self.pid_namespace.is_some_and(|inode| pid_namespace("self") != Some(inode))
    }

    /// Tells a person which process it is, such as "pid 17".
    pub fn identity(&self) -> String {
        match (self.number(), self.is_elsewhere()) {
            (None, true) => "in another PID namespace".to_owned(),
            (Some(number), true) => format!("pid {number}, in another PID namespace"),
            (_, false) => format!("pid {}", self.pid),
        }
    }

    /// Numbers in /proc of the processes with this id in this namespace.
    fn candidates(&self) -> impl Iterator<Item = u32> {
        let is_namespace = |number: u32| match (pid_namespace(number), self.pid_namespace) {
            (Some(seen), Some(wanted)) => seen == wanted,
            _ => true, // no right to look, or an old record
        };
        all().into_iter().filter(move |&number| innermost_id(number) == Some(self.pid) && is_namespace(number))
    }

    /// The value of [`OWNER`] for processes of this owner.
    pub fn owner_text(&self) -> String {
        format!("{}-{}", self.pid, self.started)
    }

    /// The owner in the process's environment.
    ///
    /// None: it has none, is gone, belongs to another user, or is in a container with other process ids.
    fn owner(&self) -> Option<Process> {
        if !proc_is_own() || pid_namespace(self.pid)? != pid_namespace("self")? {
            return None;
        }
        let environment = procfs::process::Process::new(self.pid as i32).and_then(|it| it.environ()).ok()?;
        Process::of_text(environment.get(OsStr::new(OWNER))?.to_str()?)
    }
}

/// The inode of a process's PID namespace. `None` without the right to look at it.
fn pid_namespace(process: impl Display) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/pid")).ok().map(|file| file.ino())
}

/// The id of a process in its own PID namespace, which is the last of its ids.
fn innermost_id(number: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// Whether the numbers in /proc are those of this process's PID namespace. Not so after `unshare --pid` alone.
fn proc_is_own() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_none_or(|link| link.as_os_str() == OsStr::new(&std::process::id().to_string()))
}

/// Whether /proc shows this user every process of the host. Only then does it show the kernel's own.
pub fn sees_all() -> bool {
    stat(KTHREADD).is_some_and(|stat| stat.flags & PF_KTHREAD != 0)
}

/// Whether this process is the first of a PID namespace below that of the host. Its mount namespace may end with it.
pub fn is_process_1_of_a_container() -> bool {
    std::process::id() == 1 && proc_is_own() && !sees_all()
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
    /// # Errors
    /// It cannot be started, or is not visible in /proc.
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
/// # Errors
/// Not permitted; a process does not end.
pub fn end_orphans() -> Result<Vec<Process>> {
    let orphans = orphans();
    for process in orphans.iter().filter(|process| process.lives()) {
        match kill(Pid::from_raw(process.pid as i32), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("end the process {}", process.pid)),
        }
    }
    let living = || orphans.iter().find(|process| process.lives());
    if poll(GONE_WITHIN, POLL_INTERVAL, || living().is_none()) {
        return Ok(orphans);
    }
    let pid = living().map_or(0, |process| process.pid);
    bail!("the process {pid} was killed and has not ended")
}

/// Clock ticks from boot to the start of a process, the same in every time namespace. `None` if it is gone.
fn start_time(process: impl Display) -> Option<u64> {
    let ticks_ahead = clock::boottime_offset_ns() / NS_PER_TICK;
    stat(process)?.starttime.checked_add_signed(-ticks_ahead)
}

/// `None` if the process is gone, or dead and not collected by its parent.
fn stat(process: impl Display) -> Option<Stat> {
    let stat = Stat::from_file(format!("/proc/{process}/stat")).ok()?;
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

/// Names this process in `ps`, `top` and `pgrep`. Call it in the first thread; at most 15 bytes are kept.
pub fn name_this(name: &CStr) {
    let _ = nix::sys::prctl::set_name(name); // only people see it
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
    fn process_of_another_namespace_is_dead_only_to_those_who_see_all() {
        let own = Process::this().unwrap();
        let foreign = Process { pid_namespace: Some(1), ..own };
        assert_eq!((foreign.lives(), foreign.number()), (!sees_all(), None));
        assert_eq!(foreign.identity(), "in another PID namespace");
        assert_eq!((own.number(), own.identity()), (Some(own.pid), format!("pid {}", own.pid)));
    }

    #[test]
    fn record_without_a_namespace_counts_in_that_of_its_reader() {
        let own = Process::this().unwrap();
        let text = serde_json::json!({ "pid": own.pid, "started": own.started }).to_string();
        let read: Process = serde_json::from_str(&text).unwrap();
        assert!(read.lives() && !read.is_elsewhere());
        assert!(!Process { started: own.started + 1, ..read }.lives());
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
        poll(GONE_WITHIN, POLL_INTERVAL, || [kept, orphan].iter().all(|process| process.owner().is_some()));
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
