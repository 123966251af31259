//! A result directory as it lies on disk: read strictly, with every broken file named.
//!
//! An interrupted run is not broken: it is left out with a notice, and so is the unfinished last line of its events.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::blocks::Blocks;
use super::scenarios::Scenarios;
use crate::bounded;
use crate::failure::Failure;
use crate::model::notice::Notice;
use crate::model::run::{Block, Engine, HostRecord, Machine, RESULT_SCHEMA, RunRecord, UNFINISHED};
use crate::scenario::Scenario;
use crate::trace::event::Event;

/// Events so long after the first of their run are no part of it: a week, longer than any run. Without a bound, one wrong
/// time would make series of as many steps as fit between.
const LONGEST_RUN_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;
/// Largest file that is read: the events of some million samples.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// What to do about a broken record of one run.
const OF_A_RUN: &str = "remove that run's folder and `tccc run` on the same directory repeats it";
/// What to do about a broken record of the whole directory.
const OF_ALL_RUNS: &str =
    "put back a copy of this file if there is one; else `tccc run` with a new --out measures again";

/// One finished run and where its events lie.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// What `run.json` says.
    pub record: RunRecord,
    pub folder: PathBuf,
    /// SHA-256 of `run.json`.
    pub digest: [u8; 32],
    /// The machine that made it, by its id. None: nothing says so.
    pub machine: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResultDir {
    /// Where it is; of several that were merged the first.
    pub path: PathBuf,
    /// All directories that were merged, this one included.
    pub parts: Vec<PathBuf>,
    /// The scenario as it was when the experiment started.
    pub scenario: Arc<Scenario>,
    pub host: HostRecord,
    /// The block that it is, where it was published as one; of several that were merged the first.
    pub block: Option<Block>,
    /// How much there is of the plans whose blocks it has.
    pub blocks: Vec<Blocks>,
    /// The machines that made its runs, as far as they are known, each once.
    pub machines: Vec<Machine>,
    /// Finished runs, sorted by id.
    pub runs: Vec<StoredRun>,
    /// What was left out on reading.
    pub notices: Vec<Notice>,
}

/// What a report needs of `plan.json`: the command line may have chosen another seed than the scenario.
#[derive(Debug, Deserialize)]
struct PlanHead {
    scenario: String,
    seed: u64,
    #[serde(default)]
    block: Option<Block>,
}

/// Events of one run, as far as they can be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredEvents {
    /// Events in the file's order.
    pub events: Vec<Event>,
    /// What was left out on reading.
    pub notices: Vec<Notice>,
}

impl ResultDir {
    /// Reads everything but the events.
    ///
    /// Errors: those of [`ResultDir::read`]; no finished run.
    pub fn open(path: &Path) -> Result<ResultDir> {
        let read = ResultDir::read(path, &mut Scenarios::default())?;
        read.ok_or_else(|| no_finished_run(&[path.to_owned()]).into())
    }

    /// Reads everything but the events.
    ///
    /// None: no finished run, such as of an experiment that was interrupted while it measured its path.
    /// Errors: no such directory; not a result directory; a file that cannot be read, is not what it should be, or was
    /// written by a newer tccc.
    pub fn read(path: &Path, scenarios: &mut Scenarios) -> Result<Option<ResultDir>> {
        require_directory(path)?;
        let scenario_file = path.join("scenario.toml");
        let text = String::from_utf8(read_part(path, "scenario.toml")?)
            .map_err(|_| unreadable(&scenario_file, "it is not UTF-8 text"))?;
        let plan: PlanHead = parse_versioned(&path.join("plan.json"), &read_part(path, "plan.json")?)?;
        let folders = run_folders(&path.join("runs"))?;
        let (mut runs, notices) = read_runs(&folders)?;
        if runs.is_empty() {
            return Ok(None);
        }
        let host: HostRecord = parse_versioned(&path.join("host.json"), &read_part(path, "host.json")?)?;
        let parsed = |text: &str| {
            let scenario = Scenario::parse(&scenario_file.display().to_string(), text);
            scenario.map_err(|error| Failure::from(error).hint(OF_ALL_RUNS))
        };
        let scenario = scenarios.find(path, (text, plan.scenario, plan.seed, host.engine), parsed)?;
        let (path, parts, block) = (path.to_owned(), vec![path.to_owned()], plan.block);
        let machines = block.iter().map(|block| block.machine.clone()).filter(|_| host.machines.is_empty());
        let machines: Vec<Machine> = host.machines.iter().cloned().chain(machines).collect();
        if let [only] = &machines[..] {
            let unsaid = runs.iter_mut().filter(|run| run.machine.is_none());
            unsaid.for_each(|run| run.machine = Some(only.id.clone()));
        }
        Ok(Some(ResultDir { path, parts, scenario, host, block, blocks: Vec::new(), machines, runs, notices }))
    }

    /// A digest of every finished run, by which two people can compare; none of runs that a clock and a host took part in.
    pub fn digest(&self) -> Option<String> {
        let runs = self.runs.iter().filter(|_| self.host.engine == Engine::Virtual);
        let mut runs: Vec<(&str, &[u8; 32])> = runs.map(|run| (run.record.id.as_str(), &run.digest)).collect();
        runs.sort_unstable();
        let all = runs.iter().fold(Sha256::new(), |all, (id, digest)| all.chain_update(id).chain_update(digest));
        (!runs.is_empty()).then(|| all.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The finished runs, and notices of the others.
fn read_runs(folders: &[PathBuf]) -> Result<(Vec<StoredRun>, Vec<Notice>)> {
    let (mut runs, mut notices) = (Vec::new(), Vec::new());
    for folder in folders {
        match read_if_there(&folder.join("run.json"))?.filter(|_| is_finished(folder)) {
            Some(bytes) => {
                let record: RunRecord = parse_versioned(&folder.join("run.json"), &bytes)?;
                let (digest, machine) = (Sha256::digest(&bytes).into(), record.host.clone());
                runs.push(StoredRun { record, folder: folder.clone(), digest, machine });
            }
            None => notices.push(Notice::unfinished_run(name_of(folder).trim_start_matches(UNFINISHED))),
        }
    }
    Ok((runs, notices))
}

impl StoredRun {
    /// The run's name for people: its folder.
    pub fn name(&self) -> String {
        name_of(&self.folder)
    }

    /// Reads the run's events; a run without an event file, or with an empty one although its sockets were traced, has
    /// none, and a notice.
    ///
    /// Errors: the file is there but cannot be read.
    pub fn events(&self) -> Result<StoredEvents> {
        let bytes = read_if_there(&self.folder.join("events.jsonl"))?;
        let missing = || StoredEvents { events: Vec::new(), notices: vec![Notice::missing_events(&self.name())] };
        let mut stored = bytes.map_or_else(missing, |bytes| parse_events(&bytes, &self.name()));
        if stored == StoredEvents::default() && self.record.flows.iter().any(|flow| flow.socket.is_some()) {
            stored.notices.push(Notice::empty_events(&self.name()));
        }
        Ok(stored)
    }
}

/// Reads one event a line.
///
/// Shape: a last line without its newline that does not read is an interrupted write; other lines that do not read, or
/// whose time is impossible, are counted. Both become notices, never an error.
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
            Err(_) if !whole => stored.notices.push(Notice::truncated_events(run)),
            Err(_) => unreadable += 1,
        }
    }
    let (first, all) = (stored.events.iter().map(|event| event.time_ns).min().unwrap_or(0), stored.events.len());
    stored.events.retain(|event| event.time_ns - first <= LONGEST_RUN_NS);
    unreadable += all - stored.events.len();
    if unreadable > 0 {
        stored.notices.push(Notice::unreadable_events(run, unreadable));
    }
    stored
}

/// Parses a record after looking at its `schema`, so that a newer one is named as newer and not as malformed.
///
/// Errors: no JSON of this kind, with line and column; a schema above [`RESULT_SCHEMA`].
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

/// Why these directories cannot be reported: in none of them a run was finished.
pub fn no_finished_run(paths: &[PathBuf]) -> Failure {
    let names: Vec<String> = paths.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let has = if paths.len() == 1 { "it has no" } else { "none has a" };
    let what = format!("cannot report {}: {has} finished run", names.join(", "));
    Failure::failed(what).hint("`tccc run` on the same directory resumes it")
}

/// The folder of a run becomes visible when the run is whole.
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

/// Reads a file every result directory has.
fn read_part(directory: &Path, name: &str) -> Result<Vec<u8>> {
    read_if_there(&directory.join(name))?.ok_or_else(|| {
        let what = format!("\"{}\" is not a result directory: it has no {name}", directory.display());
        Failure::usage(what).hint("`tccc run SCENARIO --out DIR` writes a result directory").into()
    })
}

fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>> {
    match bounded::read(file, FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read \"{}\"", file.display())),
    }
}

/// The folders in `runs/`, sorted by name; none when there is no such folder.
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

    /// It counted like any other, and its plot and the metrics over time were missing without a word.
    #[test]
    fn emptied_events_of_a_traced_run_are_said() {
        let place = tempfile::tempdir().unwrap();
        let file = "tests/fixtures/loss-sweep-schema-1/runs/r000-c002-reno-1%/run.json";
        let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let record = parse_versioned(Path::new("run.json"), &bytes).unwrap();
        let mut run = StoredRun { record, folder: place.path().join("r0"), digest: [0; 32], machine: None };
        fs::create_dir(&run.folder).unwrap();
        fs::write(run.folder.join("events.jsonl"), "").unwrap();
        assert_eq!(run.events().unwrap().notices, [Notice::empty_events("r0")]);
        run.record.flows.iter_mut().for_each(|flow| flow.socket = None);
        assert_eq!(run.events().unwrap(), StoredEvents::default(), "nothing was traced");
    }

    proptest! {
        #[test]
        fn any_bytes_as_events_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let stored = parse_events(&bytes, "x");
            prop_assert!(stored.events.is_empty());
        }

        #[test]
        fn any_bytes_as_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
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
