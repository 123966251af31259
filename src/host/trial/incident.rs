//! Incidents: the evidence that a limit was crossed, and a recording of the time before.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::journal;
use super::judge::RuleJudgement;
use super::view::{LookHistory, LookPoint};
use crate::bounded;
use crate::policy::file;
use crate::policy::record::{GenerationRecord, TrialRecord, TrialSubject, folder as policy_folder};
use crate::state::Store;
use crate::trace::filter::Filter;
use crate::trace::gather::Layouts;
use crate::trace::live::RING_BYTES;
use crate::trace::record::{Head, Recorder, Rotation};
use crate::trace::source::EventSource as _;
use crate::trace::watch::{Watch, WatchSettings};

pub const SCHEMA: u32 = 1;
pub const DOCUMENT: &str = "incident.json";
/// The name of the earlier part ends in `.1`.
pub const RECORDING: &str = "recording.tccc";
/// Keeps two parts, so that the recording is not short just after a new part began.
const PART: Rotation = Rotation { bytes: Some(32 << 20), age: Some(Duration::from_secs(60)), keep: 1 };
/// Largest document, bytes. A policy may have many prefixes.
const BYTES_MAX: u64 = 64 << 20;
const INTERVAL: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(200);

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
}

/// The folder of an incident that happens now.
pub fn new_folder() -> PathBuf {
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace(':', "-");
    journal::folder().join("incidents").join(now)
}

/// Latest first.
pub fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(journal::folder().join("incidents")).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.join(DOCUMENT).is_file());
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort_by(|one, other| other.cmp(one));
    folders
}

/// `path` is the incident's folder or its document.
///
/// Errors: no such file; not an incident, or one of another version of tccc.
pub fn read(path: &Path) -> Result<Incident> {
    let file = if path.is_dir() { path.join(DOCUMENT) } else { path.to_owned() };
    let bytes = bounded::read(&file, BYTES_MAX).with_context(|| format!("read {}", file.display()))?;
    let incident: Incident =
        serde_json::from_slice(&bytes).with_context(|| format!("read the incident {}", file.display()))?;
    anyhow::ensure!(
        incident.schema == SCHEMA,
        "the incident {} was written by another version of tccc",
        file.display()
    );
    Ok(incident)
}

/// Writes the document of an incident, and copies the recording beside it.
pub fn write(
    folder: &Path,
    why: &str,
    (trial, generation): (&TrialRecord, &GenerationRecord),
    (judgements, history): (&[RuleJudgement], &LookHistory),
    recent: Option<Recent>,
) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(folder)
        .with_context(|| format!("make {}", folder.display()))?;
    let recordings = recent.map(|recent| recent.move_to(folder)).unwrap_or_default();
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
    };
    let text = serde_json::to_vec_pretty(&incident).context("write an incident")?;
    fs::write(folder.join(DOCUMENT), text).with_context(|| format!("write {}", folder.join(DOCUMENT).display()))
}

/// Files of a running guard's recording, beside the policy's record.
pub const TRANSIENT: [&str; 2] = ["recent.tccc", "recent.tccc.1"];

/// Records every connection into two files that take turns, so that they cover only the latest time.
pub struct Recent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Recent {
    /// Records every connection, up to 64 MiB.
    ///
    /// Errors: something that the tracer needs is missing; the folder cannot be written.
    /// Side effects: programs on the kernel's TCP tracepoints, a thread, and two files.
    pub fn start(layouts: Layouts) -> Result<Recent> {
        let folder = policy_folder(&Store::of_host());
        TRANSIENT.iter().for_each(|name| drop(fs::remove_file(folder.join(name))));
        let settings = WatchSettings { filter: Filter::default(), interval: INTERVAL, ring_bytes: RING_BYTES, layouts };
        let mut watch = Watch::start(settings)?;
        let head = Head::of_this_host(INTERVAL, "every socket, before a limit of a trial was crossed".to_owned())?;
        let mut recorder = Recorder::create(&folder.join(TRANSIENT[0]), head, PART)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let polled = watch.poll(POLL, &mut |arrival| drop(recorder.write(&arrival)));
                if polled.and_then(|()| recorder.flush_due()).is_err() {
                    return; // for example a full disk, which does not stop the guard
                }
            }
            let _ = recorder.finish();
        });
        Ok(Recent { stop, thread: Some(thread), folder })
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Ends the recording and copies its files into a folder. Returns their names, oldest first.
    fn move_to(mut self, folder: &Path) -> Vec<String> {
        self.end();
        let named = [format!("{RECORDING}.1"), RECORDING.to_owned()];
        let moved = TRANSIENT.iter().rev().zip(named).filter(|(from, to)| {
            let (from, to) = (self.folder.join(from), folder.join(to));
            from.exists() && fs::copy(&from, &to).is_ok()
        });
        moved.map(|(_, name)| name).collect()
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.end();
        TRANSIENT.iter().for_each(|name| drop(fs::remove_file(self.folder.join(name))));
    }
}
