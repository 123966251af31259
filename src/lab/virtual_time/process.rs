//! Runs a guest as a process of this host: on one processor, in a sandbox, and within a limit of real time.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::guest::Guest;
use super::image::libraries;
use super::inside::INSIDE;
use super::job::{END, WELL};
use super::sandbox::{self, Reach};
use crate::room::{self, NO_ROOM};
use shared::failure::Failure;
use shared::scratch::Scratch;

/// Output of the guest's console, in the shared folder.
pub const CONSOLE: &str = "console.txt";
/// A file system in memory, for the memory of guests.
const MEMORY: &str = "/dev/shm";
/// The guest's wall clock at its start, nanoseconds. It is 2001-09-09T01:46:40Z.
const START_NS: u64 = 1_000_000_000_000_000_000;
/// Interval at which a call that waits for a guest checks whether to stop it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The words of the guest's kernel when a page of its memory has no room in the host's file system.
const BUS_ERROR: &str = "Kernel mode signal 7";
/// Lines of the console in an error.
const LAST_LINES: usize = 6;

/// A guest to start.
#[derive(Debug)]
pub struct Launch<'a> {
    pub guest: &'a Guest,
    pub image: &'a Path,
    /// The shared folder, which has the job.
    pub folder: &'a Path,
    /// Seed of every random number in the guest.
    pub seed: u64,
    pub processor: usize,
    /// Memory in megabytes. Pages that the guest does not touch cost nothing.
    pub memory_mb: u32,
    /// Limit of real time.
    pub limit: Duration,
}

/// The processors that this process may use.
///
/// # Errors
/// The machine has more processors than a [`CpuSet`] can hold.
pub fn processors() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("ask for the processors of this process")?;
    Ok((0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false)).collect())
}

impl Launch<'_> {
    /// Runs the guest to its end.
    ///
    /// Side effects: a process that ends with this one, and a folder in memory while it runs.
    ///
    /// # Errors
    /// It cannot be started, takes too long, is stopped, or crashes; its job fails, with the guest's error.
    pub fn run(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let memory = memory()?;
        // The real paths may contain characters that separate kernel options.
        symlink(self.image, memory.path().join("image")).context("link the guest's first file system")?;
        let folder = self.folder.canonicalize().context("find the guest's folder")?;
        symlink(folder, memory.path().join("job")).context("link the guest's folder")?;
        let reach = Reach {
            kernel: self.guest.program(),
            image: self.image.to_owned(),
            memory: memory.path().to_owned(),
            folder: self.folder.to_owned(),
        };
        let console = File::create(self.folder.join(CONSOLE)).context("create the guest's console")?;
        let (sender, states) = mpsc::channel();
        let status = thread::scope(|scope| {
            // A thread of its own, because the binding and the sandbox are permanent. The guest ends with it.
            scope.spawn(move || {
                let ended = self.bind_and_start(&reach, console).and_then(|mut child| {
                    let _ = sender.send(GuestState::Started(Pid::from_raw(child.id() as i32)));
                    child.wait().context("wait for the guest")
                });
                let _ = sender.send(GuestState::Ended(ended)); // the receiver waits for this
            });
            self.attend(&states, is_stopped)
        })?;
        self.verdict(status, room::left(memory.path()))
    }

    /// The cause if the file system of the guest's memory was too small: the guest dies by a bus error, or cannot write at
    /// its start. It frees its memory when it ends.
    fn short_of_memory(&self, left: Option<u64>, console: &str, ended: &str) -> Option<Failure> {
        let (needed, left_mb) = (self.memory_mb, left? >> 20);
        // Without room for its results, the guest uses the second words too.
        let is_short = console.contains(BUS_ERROR) || console.contains(NO_ROOM) && left_mb < needed.into();
        let why = format!(
            "a guest's memory needs up to {needed} MB there, and without this guest {left_mb} MB are left; {ended}"
        );
        is_short.then(|| room::full(&memory_place(), &why).hint("give it more room, or lower `--jobs`"))
    }

    fn bind_and_start(&self, reach: &Reach, console: File) -> Result<Child> {
        let mut command = self.command(&reach.memory);
        command.stdin(Stdio::null()).stdout(console.try_clone().context("use the console twice")?).stderr(console);
        let mut set = CpuSet::new();
        set.set(self.processor).context("name a processor")?;
        sched_setaffinity(Pid::from_raw(0), &set).context("bind the guest to a processor")?;
        sandbox::enter(reach, &libraries())?;
        // SAFETY: two system calls, which do not allocate and take no lock.
        unsafe {
            command.pre_exec(|| {
                // The guest's memory begins at its heap, so with random addresses its size differs between runs. A
                // container may forbid this call; no result depends on that size.
                let _ = personality::set(Persona::ADDR_NO_RANDOMIZE);
                prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into)
            })
        };
        command.spawn().context("start the guest")
    }

    fn command(&self, memory: &Path) -> Command {
        let mut command = Command::new(self.guest.program());
        command.current_dir(self.folder).env_clear();
        command.env("TCCC_SEED", self.seed.max(1).to_string()).env("TMPDIR", memory).env("HOME", memory);
        command.arg(format!("mem={}M", self.memory_mb));
        command.arg(format!("hostfs={}", memory.join("job").display()));
        command.args(["root=/dev/root", "rootfstype=hostfs", "init=/init"]);
        command.arg(format!("rootflags={}", memory.join("image").display()));
        command.arg(format!("uml_dir={}/uml/", memory.display()));
        command.arg("time-travel=inf-cpu").arg(format!("time-travel-start={START_NS}"));
        command.args(["quiet", "panic=-1", "con=null", "con0=null,fd:1"]);
        // Packets are freed in the order of sending. With more of them on a page, fewer lists change.
        command.arg("slub_min_order=5");
        command.args(["--", INSIDE]);
        command
    }

    /// Waits for the end of the guest, and kills it if it is stopped or takes too long.
    fn attend(&self, states: &mpsc::Receiver<GuestState>, is_stopped: &dyn Fn() -> bool) -> Result<ExitStatus> {
        let deadline = Instant::now() + self.limit;
        let (mut running, mut why) = (None, None);
        loop {
            match states.recv_timeout(POLL_INTERVAL) {
                Ok(GuestState::Started(pid)) => running = Some(pid),
                Ok(GuestState::Ended(status)) => return why.map_or(status, Err),
                Err(RecvTimeoutError::Disconnected) => bail!("the thread of the guest panicked"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_late = Instant::now() >= deadline;
            if let Some(pid) = running.take_if(|_| is_late || is_stopped()) {
                let _ = kill(pid, Signal::SIGKILL); // it may have ended already
                why = Some(match is_stopped() {
                    true => anyhow!("interrupted"),
                    false => {
                        let limit = humantime::format_duration(self.limit);
                        Crashed(format!(
                            "the guest had not finished after {limit}: it hangs, or this host is overloaded"
                        ))
                        .into()
                    }
                });
            }
        }
    }

    /// The result that the guest wrote, or the end of its console if it crashed.
    ///
    /// `left` is the room for the memory of guests once this one ended, bytes.
    fn verdict(&self, status: ExitStatus, left: Option<u64>) -> Result<()> {
        match fs::read_to_string(self.folder.join(END)) {
            Ok(told) if told == WELL => Ok(()),
            // It could create the file, and nothing else keeps a guest from writing to it.
            Ok(told) if told.is_empty() => bail!("the guest cannot write its result: {NO_ROOM}"),
            Ok(told) => bail!("{told}"),
            Err(_) => {
                let console = fs::read(self.folder.join(CONSOLE)).unwrap_or_default();
                let console = String::from_utf8_lossy(&console);
                let ended = format!("the guest ended with {status}: {}", last_words(&console));
                match self.short_of_memory(left, &console, &ended) {
                    Some(short) => Err(short.into()),
                    None => Err(Crashed(ended).into()),
                }
            }
        }
    }
}

/// A guest that ended or was killed before it could report a result.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Crashed(String);

/// Sent by the thread of a guest.
enum GuestState {
    Started(Pid),
    Ended(Result<ExitStatus>),
}

/// The kernel's own words. Its command line has "panic" too.
fn is_of_kernel_crash(line: &str) -> bool {
    line.contains("Kernel panic") || line.contains("BUG")
}

/// The lines from the kernel's panic onwards, or the last lines.
fn last_words(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().position(|line| is_of_kernel_crash(line));
    let from = from.unwrap_or(lines.len().saturating_sub(LAST_LINES));
    let words: Vec<&str> = lines[from..].iter().take(LAST_LINES).copied().collect();
    if words.is_empty() { "its console is empty".to_owned() } else { words.join("; ") }
}

fn memory_place() -> PathBuf {
    if Path::new(MEMORY).is_dir() { MEMORY.into() } else { std::env::temp_dir() }
}

/// A folder for the memory of a running guest.
fn memory() -> Result<Scratch> {
    let place = memory_place();
    Scratch::create(&place).map_err(|error| room::explained(error, &place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_begin_with_the_panic() {
        assert_eq!(last_words("a\n\nb\n"), "a; b");
        let console = "start\nKernel panic - not syncing: no\n\nmore\n";
        assert_eq!(last_words(console), "Kernel panic - not syncing: no; more");
        let command_line = "Kernel command line: quiet panic=-1\nlast\n";
        assert_eq!(last_words(command_line), "Kernel command line: quiet panic=-1; last");
        assert!(!command_line.lines().any(is_of_kernel_crash));
        assert_eq!(last_words(""), "its console is empty");
    }
}
