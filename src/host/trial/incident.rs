//! Incidents: the evidence that a limit was crossed, and a recording of the time before.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};

use super::journal;
use super::judge::RuleJudgement;
use super::view::{LookHistory, LookPoint};
use crate::policy::file;
use crate::policy::record::{GenerationRecord, TrialRecord, TrialSubject, folder as policy_folder};
use crate::state::Store;
use crate::trace::filter::Filter;
use crate::trace::gather::Layouts;
use crate::trace::live::RING_BYTES;
use crate::trace::record::{Head, Recorder, Rotation};
use crate::trace::source::EventSource as _;
use crate::trace::watch::{Watch, WatchSettings};
use shared::read_limited;

pub const SCHEMA: u32 = 1;
pub const DOCUMENT: &str = "incident.json";
/// The name of the earlier part ends in `.1`.
pub const RECORDING: &str = "recording.tccc";
/// Keeps two parts, so that the recording is not short just after a new part began. The size depends on the free space.
const PART: Rotation = Rotation { bytes: Some(PART_BYTES_MAX), age: Some(Duration::from_secs(60)), keep: 1 };
const PARTS: u64 = 2;
const PART_BYTES_MAX: u64 = 32 << 20;
/// A smaller part holds too little to be worth its space.
const PART_BYTES_MIN: u64 = 256 << 10;
/// The recording takes at most this fraction of the space that was free when it began: its folder is in memory.
const FREE_FRACTION: u64 = 10;
/// Newest incidents that are kept.
const INCIDENTS_MAX: usize = 20;
/// Bytes of all incidents together. The newest one is kept in any case.
const INCIDENTS_BYTES_MAX: u64 = 512 << 20;
/// Largest document, bytes. A policy may have many prefixes.
const BYTES_MAX: u64 = 64 << 20;
const INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    pub schema: u32,
    pub subject: TrialSubject,
    pub title: String,
    /// When the limit was crossed, RFC 3339.
    pub at: String,
    pub why: String,
    pub generation: u32,
    /// When the generation was applied, RFC 3339.
    pub since: String,
    pub file: Option<PathBuf>,
    /// Name of the host and release of its kernel.
    pub host: [String; 2],
    /// Arms and limits of each rule when the limit was crossed.
    pub rules: Vec<RuleJudgement>,
    /// The looks so far, oldest first.
    pub history: Vec<LookPoint>,
    /// The rules on trial, as a policy file.
    pub policy: String,
    /// Names of files in the incident's folder, oldest first.
    pub recordings: Vec<String>,
    /// Why `recordings` is empty.
    #[serde(default)]
    pub why_no_recording: Option<String>,
}

/// The folder of an incident that happens now.
pub fn new_folder() -> PathBuf {
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace(':', "-");
    journal::folder().join("incidents").join(now)
}

/// Latest first.
pub fn folders() -> Vec<PathBuf> {
    folders_in(&journal::folder().join("incidents"))
}

fn folders_in(incidents: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(incidents).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join(DOCUMENT).is_file());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort_by(|one, other| other.cmp(one));
    folders
}

/// `path` is the incident's folder or its document.
///
/// # Errors
/// No such file; not an incident, or one of another version of tccc.
pub fn read(path: &Path) -> Result<Incident> {
    let file = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    let bytes = read_limited::read(&file, BYTES_MAX).with_context(|| format!("read {}", file.display()))?;
    let incident: Incident =
        serde_json::from_slice(&bytes).with_context(|| format!("read the incident {}", file.display()))?;
    anyhow::ensure!(
        incident.schema == SCHEMA,
        "the incident {} was written by another version of tccc",
        file.display()
    );
    Ok(incident)
}

/// Removes the oldest incidents, so that the rest and another one stay within both limits.
fn make_room(incidents: &Path, count_max: usize, bytes_max: u64) {
    let size_of = |folder: &Path| -> u64 {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    };
    let mut bytes = 0;
    for (at, folder) in folders_in(incidents).iter().enumerate() {
        bytes += size_of(folder);
        if at + 1 >= count_max || bytes > bytes_max {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Writes the document of an incident, and copies the recording beside it. Removes the oldest incidents.
pub(super) fn write(
    folder: &Path,
    why: &str,
    (trial, generation): (&TrialRecord, &GenerationRecord),
    (judgements, history): (&[RuleJudgement], &LookHistory),
    recent: Option<Recent>,
) -> Result<()> {
    if let Some(incidents) = folder.parent() {
        make_room(incidents, INCIDENTS_MAX, INCIDENTS_BYTES_MAX - PARTS * PART_BYTES_MAX);
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(folder)
        .with_context(|| format!("make {}", folder.display()))?;
    let (recordings, why_no_recording) = recent.map(|recent| recent.move_to(folder)).unwrap_or_default();
    let name = nix::sys::utsname::uname().context("ask for the name of this host")?;
    let incident = Incident {
        schema: SCHEMA,
        subject: trial.subject.clone(),
        title: trial.subject.phrase(),
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        why: why.to_owned(),
        generation: generation.number,
        since: generation.since.clone(),
        file: generation.file.clone(),
        host: [name.nodename(), name.release()].map(|text| text.to_string_lossy().into_owned()),
        rules: judgements.to_vec(),
        history: history.points(),
        policy: file::write(&generation.policy),
        recordings,
        why_no_recording,
    };
    let text = serde_json::to_vec_pretty(&incident).context("write an incident")?;
    fs::write(folder.join(DOCUMENT), text).with_context(|| format!("write {}", folder.join(DOCUMENT).display()))
}

/// Files of a running guard's recording, beside the policy's record.
pub const TRANSIENT: [&str; 2] = ["recent.tccc", "recent.tccc.1"];

/// Records every connection into two files that take turns, so that they cover only the latest time.
///
/// Another process may need the space more. The recording ends and its files are deleted at the first error of writing, or
/// when less space is free than they may take.
pub struct Recent {
    stop: Arc<AtomicBool>,
    /// Returns why the recording ended before it was stopped.
    thread: Option<JoinHandle<Option<String>>>,
    folder: PathBuf,
    /// Why nothing is recorded.
    why_not: Option<String>,
}

impl Recent {
    /// Records every connection into up to 64 MiB, less if little space is free.
    ///
    /// An incident needs no recording, so an error is only noted for the incident's document.
    ///
    /// Side effects: programs on the kernel's TCP tracepoints, a thread, and two files.
    pub fn start(layouts: Layouts) -> Recent {
        let folder = policy_folder(&Store::of_host());
        remove_files(&folder);
        let stop = Arc::new(AtomicBool::new(false));
        let (thread, why_not) = match record(layouts, folder.clone(), Arc::clone(&stop)) {
            Ok(thread) => (Some(thread), None),
            Err(error) => {
                remove_files(&folder);
                (None, Some(format!("{error:#}")))
            }
        };
        Recent { stop, thread, folder, why_not }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            self.why_not = thread.join().unwrap_or_else(|_| Some("the recorder failed".to_owned()));
        }
    }

    /// Ends the recording and copies its files into a folder. Returns their names, oldest first, and why there are none.
    fn move_to(mut self, folder: &Path) -> (Vec<String>, Option<String>) {
        self.end();
        let mut why_not = self.why_not.take();
        let mut names = Vec::new();
        for (from, name) in TRANSIENT.iter().rev().zip([format!("{RECORDING}.1"), RECORDING.to_owned()]) {
            let (from, to) = (self.folder.join(from), folder.join(&name));
            match from.exists().then(|| fs::copy(&from, &to)) {
                None => {}
                Some(Ok(_)) => names.push(name),
                Some(Err(error)) => {
                    let _ = fs::remove_file(&to); // an incomplete copy
                    why_not = Some(format!("cannot copy it to {}: {error}", to.display()));
                }
            }
        }
        let why_not = why_not.filter(|_| names.is_empty());
        (names, why_not)
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.end();
        remove_files(&self.folder);
    }
}

fn remove_files(folder: &Path) {
    TRANSIENT.iter().for_each(|name| drop(fs::remove_file(folder.join(name))));
}

/// Starts the thread of a recording.
///
/// # Errors
/// Something that the tracer needs is missing; the folder has too little space or cannot be written.
fn record(layouts: Layouts, folder: PathBuf, stop: Arc<AtomicBool>) -> Result<JoinHandle<Option<String>>> {
    let free = free_bytes(&folder)?;
    let bytes = part_bytes(free).with_context(|| format!("{} has only {} KiB free", folder.display(), free >> 10))?;
    let settings = WatchSettings { filter: Filter::default(), interval: INTERVAL, ring_bytes: RING_BYTES, layouts };
    let mut watch = Watch::start(settings)?;
    let head = Head::of_this_host(INTERVAL, "every socket, before a limit of a trial was crossed".to_owned())?;
    let rotation = Rotation { bytes: Some(bytes), ..PART };
    let mut recorder = Recorder::create(&folder.join(TRANSIENT[0]), head, rotation)?;
    let until_stopped = move |folder: &Path| -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let mut written = Ok(());
            watch.poll(POLL_INTERVAL, &mut |arrival| {
                if written.is_ok() {
                    written = recorder.write(&arrival);
                }
            })?;
            written?;
            recorder.flush_due()?;
            let free = free_bytes(folder)?;
            ensure!(free >= PARTS * bytes, "{} has only {} KiB left", folder.display(), free >> 10);
        }
        recorder.finish().map(drop)
    };
    let thread = std::thread::spawn(move || {
        let error = until_stopped(&folder).err()?;
        remove_files(&folder);
        Some(format!("{error:#}"))
    });
    Ok(thread)
}

/// The size of a part where so much space is free. `None`: too little for a recording.
fn part_bytes(free: u64) -> Option<u64> {
    let bytes = (free / FREE_FRACTION / PARTS).min(PART_BYTES_MAX);
    (bytes >= PART_BYTES_MIN).then_some(bytes)
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let found = statvfs(folder).with_context(|| format!("ask for the free space of {}", folder.display()))?;
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_takes_at_most_a_tenth_of_the_free_space() {
        let check = |free: u64, expected: Option<u64>| assert_eq!(part_bytes(free), expected, "{free}");
        check(0, None);
        check(5 << 20, Some(256 << 10));
        check((5 << 20) - 1, None);
        check(20 << 20, Some(1 << 20));
        check(u64::MAX, Some(32 << 20));
    }

    /// Nothing removed incidents, and each may take 64 MiB.
    #[test]
    fn oldest_incidents_make_room_for_another() {
        let place = tempfile::tempdir().unwrap();
        let names = || -> Vec<String> {
            let name = |folder: PathBuf| folder.file_name().unwrap().to_string_lossy().into_owned();
            folders_in(place.path()).into_iter().map(name).collect()
        };
        for day in 1..=5 {
            let folder = place.path().join(format!("2026-01-0{day}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(DOCUMENT), [0; 100]).unwrap();
            fs::write(folder.join(RECORDING), [0; 900]).unwrap();
        }
        make_room(place.path(), 5, 1 << 20);
        assert_eq!(names(), ["2026-01-05", "2026-01-04", "2026-01-03", "2026-01-02"]);
        make_room(place.path(), 5, 2500);
        assert_eq!(names(), ["2026-01-05", "2026-01-04"]);
        make_room(place.path(), 5, 10);
        assert!(names().is_empty());
    }
}
