//! A process by number and start time, because numbers are used again.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::plain::plain;

/// One process, told from later ones with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
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

    /// Whether it still runs.
    pub fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Clock ticks from boot to the start of a process: field 22 of its stat file, the 20th after the name.
///
/// None: it is gone, or dead and not yet collected by its parent.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
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
}
