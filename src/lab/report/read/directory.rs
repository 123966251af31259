//! Reads a result directory strictly: a broken file is an error that names it.
//!
//! Interrupted runs are not errors. They are left out with a notice, as is an unfinished last line of events.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::blocks::Blocks;
use super::scenarios::{OF_ALL_RUNS, Scenarios};
use crate::scenario::{PERTURBED, Scenario};
use shared::catalog::StateValue;
use shared::event::Event;
use shared::failure::Failure;
use shared::model::notice::Notice;
use shared::model::queue::QueueSample;
use shared::model::run::{Engine, HostRecord, Machine, PlanBlock, QUEUES, RESULT_SCHEMA, RunRecord, UNFINISHED};
use shared::read_limited;
use shared::sanitize::count;

/// Later events are dropped, because no run lasts a week. Without a bound, one wrong time would make a series of
/// countless steps.
const LONGEST_RUN_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;
/// Largest file to read: the events of some million samples.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Hint for a broken record of one run.
const OF_A_RUN: &str = "remove that run's folder and `tccc run` on the same directory repeats it";

#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub record: RunRecord,
    pub folder: PathBuf,
    /// SHA-256 of `run.json`.
    pub digest: [u8; 32],
    /// Id of the machine that ran it, if known.
    pub machine: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResultDir {
    /// The first path, if directories were merged.
    pub path: PathBuf,
    /// All merged directories, this one included.
    pub parts: Vec<PathBuf>,
    /// The scenario at the start of the experiment.
    pub scenario: Arc<Scenario>,
    pub host: HostRecord,
    /// Its block, if it was published as one; the first, if directories were merged.
    pub block: Option<PlanBlock>,
    /// Completeness of the plans of its blocks.
    pub blocks: Vec<Blocks>,
    /// Known machines that ran it, each once.
    pub machines: Vec<Machine>,
    /// The runs of the scenario's cells. Shape: sorted by id.
    pub runs: Vec<StoredRun>,
    /// Runs of `tccc run --perturb` on other paths. No number of the scenario's cells contains them.
    pub perturbed: Vec<StoredRun>,
    pub notices: Vec<Notice>,
}

/// The needed part of `plan.json`. Its seed differs from the scenario's if the command line set another.
#[derive(Debug, Deserialize)]
struct PlanHead {
    scenario: String,
    seed: u64,
    #[serde(default)]
    block: Option<PlanBlock>,
}

/// A line of `events.jsonl`: an event, with what its private state says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredLine {
    #[serde(flatten)]
    pub event: Event,
    pub phase: Option<String>,
    #[serde(default)]
    pub state: BTreeMap<String, StateValue>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredEvents {
    /// Shape: in the file's order.
    pub events: Vec<Event>,
    pub notices: Vec<Notice>,
}

impl ResultDir {
    /// # Errors
    /// Those of [`ResultDir::read`]; no finished run.
    pub fn open(path: &Path) -> Result<ResultDir> {
        let read = ResultDir::read(path, &mut Scenarios::default())?;
        read.ok_or_else(|| no_finished_run(&[path.to_owned()]).into())
    }

    /// Reads everything but the events.
    ///
    /// None: no finished run, for example if the experiment was interrupted while calibrating.
    ///
    /// # Errors
    /// No such directory; not a result directory; a file that cannot be read, is malformed, or was written by a newer
    /// tccc.
    pub fn read(path: &Path, scenarios: &mut Scenarios) -> Result<Option<ResultDir>> {
        require_directory(path)?;
        let text = String::from_utf8(read_part(path, "scenario.toml")?)
            .map_err(|_| unreadable(&path.join("scenario.toml"), "it is not UTF-8 text"))?;
        let plan: PlanHead = parse_versioned(&path.join("plan.json"), &read_part(path, "plan.json")?)?;
        let folders = run_folders(&path.join("runs"))?;
        let (runs, notices) = read_runs(&folders)?;
        let (perturbed, mut runs): (Vec<StoredRun>, Vec<StoredRun>) =
            runs.into_iter().partition(|run| run.record.at.contains_key(PERTURBED));
        if runs.is_empty() {
            return Ok(None); // perturbed paths are compared with the scenario's
        }
        let host: HostRecord = parse_versioned(&path.join("host.json"), &read_part(path, "host.json")?)?;
        let key = (text, plan.scenario, plan.seed, host.engine == Engine::Ns2);
        let scenario = scenarios.find(path, key)?;
        let (path, parts, block) = (path.to_owned(), vec![path.to_owned()], plan.block);
        let machines = block.iter().map(|block| block.machine.clone()).filter(|_| host.machines.is_empty());
        let machines: Vec<Machine> = host.machines.iter().cloned().chain(machines).collect();
        if let [only] = &machines[..] {
            let unsaid = runs.iter_mut().filter(|run| run.machine.is_none());
            unsaid.for_each(|run| run.machine = Some(only.id.clone()));
        }
        let blocks = Vec::new();
        Ok(Some(ResultDir { path, parts, scenario, host, block, blocks, machines, runs, perturbed, notices }))
    }

    /// A digest of all run records, to compare results by. Only in virtual time, where runs are reproducible.
    pub fn digest(&self) -> Option<String> {
        let runs = self.runs.iter().filter(|_| self.host.engine == Engine::Virtual);
        let mut runs: Vec<(&str, &[u8; 32])> = runs.map(|run| (run.record.id.as_str(), &run.digest)).collect();
        runs.sort_unstable();
        let all = runs.iter().fold(Sha256::new(), |all, (id, digest)| all.chain_update(id).chain_update(digest));
        (!runs.is_empty()).then(|| hex::encode(all.finalize()))
    }
}

fn read_runs(folders: &[PathBuf]) -> Result<(Vec<StoredRun>, Vec<Notice>)> {
    let (mut runs, mut notices) = (Vec::new(), Vec::new());
    for folder in folders {
        match read_if_there(&folder.join("run.json"))?.filter(|_| is_finished(folder)) {
            Some(bytes) => {
                let record: RunRecord = parse_versioned(&folder.join("run.json"), &bytes)?;
                let (digest, machine) = (Sha256::digest(&bytes).into(), record.host.clone());
                runs.push(StoredRun { record, folder: folder.clone(), digest, machine });
            }
            None => {
                let run = name_of(folder);
                let cause = format!("run \"{}\" was not finished", run.trim_start_matches(UNFINISHED));
                notices.push(Notice::new(cause, "`tccc run` on the same directory resumes it"));
            }
        }
    }
    Ok((runs, notices))
}

impl StoredRun {
    /// Name of the run's folder.
    pub fn name(&self) -> String {
        name_of(&self.folder)
    }

    /// Reads the run's events. A missing file, or an empty one although sockets were traced, gives a notice.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub fn events(&self) -> Result<StoredEvents> {
        let bytes = read_if_there(&self.folder.join("events.jsonl"))?;
        let run = self.name();
        let without = |cause: String| {
            let advice =
                "its plot and the metrics over time leave it out; remove its folder, and `tccc run` repeats it";
            Notice::new(cause, advice)
        };
        let missing = || without(format!("run \"{run}\" has no events.jsonl"));
        let missing = || StoredEvents { events: Vec::new(), notices: vec![missing()] };
        let mut stored = bytes.map_or_else(missing, |bytes| parse_events(&bytes, &run));
        if stored == StoredEvents::default() && self.record.flows.iter().any(|flow| flow.socket.is_some()) {
            stored.notices.push(without(format!("the events.jsonl of run \"{run}\" has no events")));
        }
        Ok(stored)
    }

    /// The run's events with these fields of their private states. A state without one of them is kept whole, so that a
    /// message can say what is there. Lines that cannot be read are left out; [`StoredRun::events`] counts them.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub fn lines(&self, fields: &BTreeSet<&str>) -> Result<Vec<StoredLine>> {
        let bytes = read_if_there(&self.folder.join("events.jsonl"))?.unwrap_or_default();
        let line = |bytes: &[u8]| {
            let mut line: StoredLine = serde_json::from_slice(bytes).ok()?;
            if fields.iter().all(|field| line.state.contains_key(*field)) {
                line.state.retain(|name, _| fields.contains(name.as_str()));
            }
            Some(line)
        };
        let mut lines: Vec<StoredLine> = bytes.split(|&byte| byte == b'\n').filter_map(line).collect();
        let first = lines.iter().map(|line| line.event.time_ns).min().unwrap_or(0);
        lines.retain(|line| line.event.time_ns - first <= LONGEST_RUN_NS);
        Ok(lines)
    }

    /// The queues of the run's links over time. Empty if they were not recorded.
    ///
    /// # Errors
    /// The file exists but cannot be read, or a line is malformed.
    pub fn queues(&self) -> Result<Vec<QueueSample>> {
        let file = self.folder.join(QUEUES);
        let bytes = read_if_there(&file)?.unwrap_or_default();
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let sample =
            |line| serde_json::from_slice(line).map_err(|error| unreadable(&file, &error.to_string()).hint(OF_A_RUN));
        Ok(lines.map(sample).collect::<Result<_, _>>()?)
    }
}

/// Parses one event per line.
///
/// An unreadable last line without a newline is an interrupted write. Other unreadable lines, and impossible times, are
/// counted. Both give notices, never errors.
pub fn parse_events(bytes: &[u8], run: &str) -> StoredEvents {
    let mut stored = StoredEvents::default();
    let mut unreadable = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let whole = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(event) => stored.events.push(event),
            Err(_) if !whole => stored.notices.push(Notice::new(
                format!("the events of run \"{run}\" end in the middle of a line: read up to the last whole line"),
                "the run was interrupted or its disk was full; its plot may end early",
            )),
            Err(_) => unreadable += 1,
        }
    }
    let (first, all) = (stored.events.iter().map(|event| event.time_ns).min().unwrap_or(0), stored.events.len());
    stored.events.retain(|event| event.time_ns - first <= LONGEST_RUN_NS);
    unreadable += all - stored.events.len();
    if unreadable > 0 {
        stored.notices.push(Notice::new(
            format!("{} in the events of run \"{run}\" skipped", count(unreadable, "unreadable line")),
            "the file was changed or written by another version; its plot may have gaps",
        ));
    }
    stored
}

/// Parses a record. Its `schema` is checked first, so that newer records are not called malformed.
///
/// # Errors
/// Malformed JSON, with line and column; a schema above [`RESULT_SCHEMA`].
pub fn parse_versioned<T: DeserializeOwned>(file: &Path, bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: u32,
    }
    let malformed = |error: serde_json::Error| {
        let what = if error.is_eof() { format!("it ends too early ({error})") } else { error.to_string() };
        unreadable(file, &what).hint(if file.ends_with("run.json") { OF_A_RUN } else { OF_ALL_RUNS })
    };
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(malformed)?;
    if versioned.schema > RESULT_SCHEMA {
        let what = format!("it has schema {}, and this tccc reads up to {RESULT_SCHEMA}", versioned.schema);
        return Err(unreadable(file, &what).hint("use the tccc that wrote it, or a newer one").into());
    }
    Ok(serde_json::from_slice(bytes).map_err(malformed)?)
}

/// The error if none of these directories has a finished run.
pub fn no_finished_run(paths: &[PathBuf]) -> Failure {
    let names: Vec<String> = paths.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let has = if paths.len() == 1 { "it has no" } else { "none has a" };
    let what = format!("cannot report {}: {has} finished run", names.join(", "));
    Failure::failed(what).hint("`tccc run` on the same directory resumes it")
}

/// The folder of an unfinished run is hidden.
fn is_finished(folder: &Path) -> bool {
    !name_of(folder).starts_with('.')
}

fn require_directory(path: &Path) -> Result<()> {
    let refuse = |why: &str| {
        let what = format!("cannot report \"{}\": {why}", path.display());
        Failure::usage(what).hint("`tccc run SCENARIO --out DIR` writes a result directory")
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(refuse("it is not a directory").into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(refuse("there is no such directory").into()),
        Err(error) => Err(error).with_context(|| format!("open the result directory \"{}\"", path.display())),
    }
}

/// Reads a required file.
fn read_part(directory: &Path, name: &str) -> Result<Vec<u8>> {
    read_if_there(&directory.join(name))?.ok_or_else(|| {
        let what = format!("\"{}\" is not a result directory: it has no {name}", directory.display());
        Failure::usage(what).hint("`tccc run SCENARIO --out DIR` writes a result directory").into()
    })
}

fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>> {
    match read_limited::read(file, FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read \"{}\"", file.display())),
    }
}

/// Folders in `runs/`, sorted by name. Empty if there is no `runs/`.
fn run_folders(runs: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(runs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("list \"{}\"", runs.display()))?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("list \"{}\"", runs.display()))?;
        if entry.path().is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn unreadable(file: &Path, why: &str) -> Failure {
    Failure::failed(format!("cannot read \"{}\": {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Regression: its plot and the metrics over time were missing without a notice.
    #[test]
    fn emptied_events_of_a_traced_run_are_said() {
        let place = tempfile::tempdir().unwrap();
        let file = "tests/fixtures/loss-sweep-schema-1/runs/r000-c002-reno-1%/run.json";
        let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
        let record = parse_versioned(Path::new("run.json"), &bytes).unwrap();
        let mut run = StoredRun { record, folder: place.path().join("r0"), digest: [0; 32], machine: None };
        fs::create_dir(&run.folder).unwrap();
        fs::write(run.folder.join("events.jsonl"), "").unwrap();
        assert_eq!(run.events().unwrap().notices[0].cause, "the events.jsonl of run \"r0\" has no events");
        run.record.flows.iter_mut().for_each(|flow| flow.socket = None);
        assert_eq!(run.events().unwrap(), StoredEvents::default(), "nothing was traced");
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(parse_events(&bytes, "x").events.is_empty());
            prop_assert!(parse_versioned::<RunRecord>(Path::new("run.json"), &bytes).is_err());
            prop_assert!(parse_versioned::<HostRecord>(Path::new("host.json"), &bytes).is_err());
        }

        #[test]
        fn any_version_is_read_or_named(schema in any::<u32>()) {
            let bytes = format!("{{\"schema\":{schema}}}");
            let error = parse_versioned::<RunRecord>(Path::new("run.json"), bytes.as_bytes()).unwrap_err().to_string();
            prop_assert_eq!(schema > RESULT_SCHEMA, error.contains("reads up to"));
        }
    }
}
