//! A guest as a process of this host: one processor, a sandbox, a limit of real time, and its last words.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
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
use super::job::{END, WELL};
use super::sandbox::{self, Reach};
use crate::scratch::Scratch;

/// What the guest's console said, in the shared folder.
pub const CONSOLE: &str = "console.txt";
/// Where the memory of guests is: a file system in memory.
const MEMORY: &str = "/dev/shm";
/// The guest's wall clock at its start, nanoseconds: 2001-09-09T01:46:40Z.
const START_NS: u64 = 1_000_000_000_000_000_000;
/// How often a call that waits for a guest looks whether to go on.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Lines of the console that are last words.
const LAST_LINES: usize = 6;

/// A guest that is to be started.
#[derive(Debug)]
pub struct Launch<'a> {
    pub guest: &'a Guest,
    pub image: &'a Path,
    /// The folder that it shares, with its job.
    pub folder: &'a Path,
    /// Of every random number in it.
    pub seed: u64,
    /// The processor that it is bound to.
    pub processor: usize,
    /// Memory, megabytes; what it does not touch costs nothing.
    pub memory_mb: u32,
    /// Real time that it may take.
    pub limit: Duration,
}

/// The processors that this process may use.
///
/// Errors: the kernel does not say.
pub fn processors() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("ask for the processors of this process")?;
    Ok((0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false)).collect())
}

impl Launch<'_> {
    /// Runs the guest to its end.
    ///
    /// Errors: it cannot be started; it was out of time; `is_stopped`; its job failed, with its own words; it crashed.
    /// Side effects: a process that ends with this one, and a folder in memory for as long as it runs.
    pub fn run(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let memory = memory()?;
        // Their own paths may have characters that separate a kernel's options.
        symlink(self.image, memory.path().join("image")).context("link the guest's first file system")?;
        let folder = self.folder.canonicalize().context("find the guest's folder")?;
        symlink(folder, memory.path().join("job")).context("link the guest's folder")?;
        let reach = Reach {
            kernel: self.guest.kernel(),
            image: self.image.to_owned(),
            memory: memory.path().to_owned(),
            folder: self.folder.to_owned(),
        };
        let console = File::create(self.folder.join(CONSOLE)).context("create the guest's console")?;
        let (tell, told) = mpsc::channel();
        let status = thread::scope(|scope| {
            scope.spawn(|| self.start_and_wait(&reach, console, tell));
            self.attend(&told, is_stopped)
        })?;
        self.verdict(status)
    }

    /// In a thread of its own: it is bound and held for good, and the guest dies with it.
    fn start_and_wait(&self, reach: &Reach, console: File, tell: Sender<Word>) {
        let started = self.bind_and_start(reach, console);
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return drop(tell.send(Word::Ended(Err(error)))), // who asked listens to the end
        };
        let _ = tell.send(Word::Started(Pid::from_raw(child.id() as i32)));
        let _ = tell.send(Word::Ended(child.wait().context("wait for the guest")));
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
                // The guest's memory begins where its heap would: with random addresses its size differs from run to run.
                // A container may forbid it, and nothing that a run measures depends on that size.
                let _ = personality::set(Persona::ADDR_NO_RANDOMIZE);
                prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into)
            })
        };
        command.spawn().context("start the guest")
    }

    fn command(&self, memory: &Path) -> Command {
        let mut command = Command::new(self.guest.kernel());
        command.current_dir(self.folder).env_clear();
        command.env("TCCC_SEED", self.seed.max(1).to_string()).env("TMPDIR", memory).env("HOME", memory);
        command.arg(format!("mem={}M", self.memory_mb));
        command.arg(format!("hostfs={}", memory.join("job").display()));
        command.arg(format!("initrd={}", memory.join("image").display()));
        command.arg(format!("uml_dir={}/uml/", memory.display()));
        command.arg("time-travel=inf-cpu").arg(format!("time-travel-start={START_NS}"));
        command.args(["rdinit=/init", "quiet", "panic=-1", "con=null", "con0=null,fd:1"]);
        // Packets are freed in the order in which they were sent: with more of them on a page, fewer lists are changed.
        command.arg("slub_min_order=5");
        // The first file system is mapped from a file, and its memory is good for nothing else.
        command.args(["retain_initrd", "--", "inside"]);
        command
    }

    fn attend(&self, told: &mpsc::Receiver<Word>, is_stopped: &dyn Fn() -> bool) -> Result<ExitStatus> {
        let deadline = Instant::now() + self.limit;
        let (mut guest, mut why) = (None, None);
        loop {
            match told.recv_timeout(LOOK_UP) {
                Ok(Word::Started(pid)) => guest = Some(pid),
                Ok(Word::Ended(status)) => return why.map_or(status, Err),
                Err(RecvTimeoutError::Disconnected) => bail!("the thread of the guest ended badly"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let reason = match (is_stopped(), Instant::now() >= deadline) {
                (true, _) => Some("interrupted".to_owned()),
                (_, true) => {
                    Some(format!("the guest was not done in {} of real time", humantime::format_duration(self.limit)))
                }
                _ => None,
            };
            if let (Some(reason), Some(pid), None) = (reason, guest, &why) {
                let _ = kill(pid, Signal::SIGKILL); // it may have ended just now
                why = Some(anyhow!("{reason}"));
            }
        }
    }

    /// A guest that was switched off says how its job ended; one that crashed has its console's last words.
    fn verdict(&self, status: ExitStatus) -> Result<()> {
        match fs::read_to_string(self.folder.join(END)) {
            Ok(told) if told == WELL => Ok(()),
            Ok(told) => bail!("{told}"),
            Err(_) => {
                let console = fs::read(self.folder.join(CONSOLE)).unwrap_or_default();
                bail!("the guest ended with {status}: {}", last_words(&String::from_utf8_lossy(&console)))
            }
        }
    }
}

/// What the thread of a guest tells.
enum Word {
    Started(Pid),
    Ended(Result<ExitStatus>),
}

/// From the kernel's panic on, or the last lines.
fn last_words(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = lines.iter().position(|line| line.contains("panic") || line.contains("BUG"));
    let from = from.unwrap_or(lines.len().saturating_sub(LAST_LINES));
    let words: Vec<&str> = lines[from..].iter().take(LAST_LINES).copied().collect();
    if words.is_empty() { "it said nothing".to_owned() } else { words.join("; ") }
}

/// Where a guest's memory is, for as long as it runs.
fn memory() -> Result<Scratch> {
    Scratch::create(&if Path::new(MEMORY).is_dir() { MEMORY.into() } else { std::env::temp_dir() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_begin_with_the_panic() {
        assert_eq!(last_words("a\n\nb\n"), "a; b");
        let console = "start\nKernel panic - not syncing: no\n\nmore\n";
        assert_eq!(last_words(console), "Kernel panic - not syncing: no; more");
        assert_eq!(last_words(""), "it said nothing");
    }
}
