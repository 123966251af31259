//! The journal of ended trials: one line each, in a file that survives a reboot.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::policy::record::TrialEnd;

/// Set by systemd for a service.
const STATE_VARIABLE: &str = "STATE_DIRECTORY";
const STATE_FOLDER: &str = "/var/lib/tccc";
/// Lines. At twice as many, the older half is dropped.
const KEPT: usize = 200;
/// Accepts lines for the kernel's log.
pub const KERNEL_LOG: &str = "/dev/kmsg";

pub fn folder() -> PathBuf {
    let given = std::env::var(STATE_VARIABLE).ok().and_then(|list| Some(PathBuf::from(list.split(':').next()?)));
    given.filter(|folder| folder.is_absolute()).unwrap_or_else(|| STATE_FOLDER.into())
}

/// Adds the end of a trial to the journal, which `tccc status` reads, and to the kernel's log.
pub fn note(end: &TrialEnd) -> Result<()> {
    let line = format!("<5>tccc: the trial of {} is over: {}\n", end.subject.phrase(), end.why);
    let _ = fs::write(KERNEL_LOG, line); // a host may forbid it
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let path = folder.join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() >= 2 * KEPT {
        let rest = lines[lines.len() - KEPT..].join("\n") + "\n";
        let fresh = path.with_extension("new");
        fs::write(&fresh, rest).and_then(|()| fs::rename(&fresh, &path)).context("shorten the list of trials")?;
    }
    let line = serde_json::to_string(end).context("write how the trial ended")? + "\n";
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).with_context(|| format!("write {}", path.display()))
}

/// The latest end of a trial. `None` also without the right to read the journal.
pub fn last() -> Option<TrialEnd> {
    let text = fs::read_to_string(folder().join("trials.jsonl")).ok()?;
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}
