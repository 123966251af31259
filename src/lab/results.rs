//! Writes the result directory. A process that is killed at any moment loses no finished run, and the next call
//! resumes.
//!
//! ```text
//! plan.json       the runs in order, with every seed
//! scenario.toml   a copy of the scenario, next to copies of the files that it names
//! host.json       machine, tools, settings, calibration
//! runs/<id>/      run.json, events.jsonl, queues.jsonl, flow-N.json; a rename makes the complete folder visible
//! lock            held by the process that writes here
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event_line::{EventLine, StateLayouts};
use crate::plan::{Plan, PlannedRun};
use crate::scenario::{PERTURBED, ScenarioFile};
use shared::event::Event;
use shared::failure::Failure;
use shared::model::queue::{self, QueueSample};
use shared::model::run::{BlockPlan, HostRecord, QUEUES, RunRecord, RunStatus, UNFINISHED};
use shared::read_limited;

const ANOTHER_PLACE: &str = "choose another directory with `--out DIR`";
/// Bytes of the largest file that is read; a plan of many runs is long.
const BYTES_MAX: u64 = 1 << 30;

/// A locked result directory; no other process writes to it as long as this value lives.
#[derive(Debug)]
pub struct OpenResultDir {
    path: PathBuf,
    _lock: File,
}

impl OpenResultDir {
    /// Creates a result directory for a plan, or opens that of an interrupted call.
    ///
    /// # Errors
    /// Those of [`OpenResultDir::check`]; another process has locked it; it cannot be written.
    pub fn open(path: &Path, plan: &Plan, scenario: &str) -> Result<OpenResultDir> {
        OpenResultDir::check(path, plan, scenario)?;
        let runs = path.join("runs");
        fs::create_dir_all(&runs).map_err(|error| {
            let what = format!("cannot create the result directory \"{}\": {error}", path.display());
            Failure::failed(what).hint(ANOTHER_PLACE)
        })?;
        let lock = lock(path)?;
        let opened = OpenResultDir { path: path.to_owned(), _lock: lock };
        let written = path.join("plan.json");
        if !written.exists() {
            write_whole(&path.join("scenario.toml"), scenario.as_bytes())?;
            write_json(&written, plan)?;
        } else if check_same(path, plan, scenario)?.repeats < plan.repeats {
            write_json(&written, plan)?; // the existing runs are the first of these
        }
        for entry in fs::read_dir(&runs)?.filter_map(|entry| entry.ok()) {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path()).context("remove an unfinished run")?;
            }
        }
        Ok(opened)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A failure: `what` was `earlier` in the runs of this directory, and is `now` in this call.
    pub(crate) fn refuse_mixture(&self, what: &str, earlier: &str, now: &str) -> Failure {
        let what =
            format!("\"{}\" has runs of {what} {earlier}, and this would add some of {now}", self.path.display());
        Failure::usage(what).hint(ANOTHER_PLACE)
    }

    /// Like [`Self::refuse_mixture`], but another host may have what is needed, so a cluster may try another node.
    pub(crate) fn refuse_host(&self, what: &str, earlier: &str, now: &str) -> Failure {
        let hint = format!("run it on a host with {what} {earlier}, or {ANOTHER_PLACE}");
        Failure::unmet(self.refuse_mixture(what, earlier, now).what).hint(hint)
    }

    /// # Errors
    /// An algorithm has another digest than in the earlier runs.
    pub(crate) fn check_same_algorithms(&self, earlier: &HostRecord, now: &HostRecord) -> Result<()> {
        for (name, digest) in &now.algorithms {
            if let Some(other) = earlier.algorithms.get(name).filter(|other| *other != digest) {
                return Err(self.refuse_mixture(&format!("\"{name}\" with digest"), other, digest).into());
            }
        }
        Ok(())
    }

    /// Checks that results of a plan can be written there, without any change.
    ///
    /// # Errors
    /// It is not a directory; it contains another plan or foreign files.
    pub fn check(path: &Path, plan: &Plan, scenario: &str) -> Result<()> {
        let refuse = |why: &str| {
            let what = format!("cannot write results to \"{}\": {why}", path.display());
            Failure::usage(what).hint(ANOTHER_PLACE)
        };
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotADirectory => bail!(refuse("it is not a directory")),
            other => other.with_context(|| format!("list \"{}\"", path.display()))?,
        };
        if path.join("plan.json").exists() {
            return check_same(path, plan, scenario).map(drop);
        }
        // A call that was killed before it wrote its plan leaves these.
        let ours = ["runs", "lock", "scenario.toml", "scenario.partial", "plan.partial"];
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let why = format!("it contains \"{}\", which does not belong to an experiment", name.display());
            ensure!(ours.iter().any(|own| name == *own), refuse(&why));
        }
        Ok(())
    }

    /// Copies the files that the scenario names, so that the directory does not depend on the scenario's folder.
    ///
    /// # Errors
    /// The directory has finished runs of another text of a file; it cannot be written.
    pub(crate) fn keep_files(&self, files: &[ScenarioFile], finished: &Finished) -> Result<()> {
        let is_other =
            |file: &&ScenarioFile| fs::read(self.path.join(&file.name)).is_ok_and(|kept| kept != file.text.as_bytes());
        if let Some(other) = files.iter().find(is_other).filter(|_| !finished.ids.is_empty()) {
            let what = format!("\"{}\" has runs of another text of \"{}\"", self.path.display(), other.name);
            return Err(Failure::usage(what).hint(ANOTHER_PLACE).into());
        }
        for file in files {
            let path = self.path.join(&file.name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
            }
            write_whole(&path, file.text.as_bytes())?;
        }
        Ok(())
    }

    /// # Errors
    /// The directory cannot be written.
    pub fn write_host(&self, host: &HostRecord) -> Result<()> {
        write_json(&self.path.join("host.json"), host)
    }

    /// The record of an earlier call, if any.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn host(&self) -> Result<Option<HostRecord>> {
        read_json(&self.path.join("host.json"))
    }

    /// Creates a folder for a run that is about to start.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(&self, id: &str) -> Result<RunFolder> {
        let path = self.path.join("runs").join(format!("{UNFINISHED}{id}"));
        if path.exists() {
            fs::remove_dir_all(&path).context("remove an earlier attempt")?;
        }
        fs::create_dir(&path).with_context(|| format!("create \"{}\"", path.display()))?;
        Ok(RunFolder { path, kept: false })
    }

    /// The id of a run's record: the planned id if it is done, or else a new one such as `<id>-late1`.
    pub fn id_of(&self, run: &PlannedRun, status: RunStatus) -> String {
        let suffix = match status {
            RunStatus::Done => return run.id.clone(),
            RunStatus::Late => "late",
            RunStatus::Failed => "failed",
        };
        let mut ids = (1..).map(|number| format!("{}-{suffix}{number}", run.id));
        ids.find(|id| !self.path.join("runs").join(id).exists()).expect("the numbers do not end")
    }
}

/// The finished runs of earlier calls.
#[derive(Debug, Default)]
pub struct Finished {
    pub ids: BTreeSet<String>,
    /// The record of the host, if there are finished runs.
    pub host: Option<HostRecord>,
}

impl Finished {
    /// Reads a directory, which need not exist.
    ///
    /// # Errors
    /// The record of a run or of the host cannot be read.
    pub fn read(path: &Path) -> Result<Finished> {
        let mut ids = BTreeSet::new();
        let entries = match fs::read_dir(path.join("runs")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Finished::default()),
            other => other.context("list the finished runs")?,
        };
        for entry in entries {
            let record: Option<RunRecord> = read_json(&entry?.path().join("run.json"))?;
            ids.extend(record.filter(|record| record.status == RunStatus::Done).map(|record| record.id));
        }
        let host = if ids.is_empty() { None } else { read_json(&path.join("host.json"))? };
        Ok(Finished { ids, host })
    }

    /// The unfinished runs of a part.
    pub fn left<'a>(&self, part: &[&'a PlannedRun]) -> Vec<&'a PlannedRun> {
        part.iter().copied().filter(|run| !self.ids.contains(&run.id)).collect()
    }
}

/// The folder of a run in progress, which is removed when dropped before [`RunFolder::finish`].
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    kept: bool,
}

impl RunFolder {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the queues of links over time, if they were recorded.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write_queues(&self, samples: &[QueueSample]) -> Result<()> {
        if samples.is_empty() { Ok(()) } else { write_lines(&self.path.join(QUEUES), queue::without_idle(samples)) }
    }

    /// Writes the record and the events with their decoded private states, and renames the folder to the record's id.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn finish(mut self, record: &RunRecord, events: &[Event], layouts: &StateLayouts) -> Result<()> {
        write_lines(&self.path.join("events.jsonl"), events.iter().map(|event| EventLine::of(event, layouts)))?;
        write_json(&self.path.join("run.json"), record)?;
        let visible = self.path.with_file_name(&record.id);
        fs::rename(&self.path, &visible).with_context(|| format!("finish \"{}\"", visible.display()))?;
        self.kept = true;
        Ok(())
    }
}

/// Writes one value a line.
fn write_lines<T: Serialize>(path: &Path, values: impl IntoIterator<Item = T>) -> Result<()> {
    let written = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for value in values {
            serde_json::to_writer(&mut file, &value)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    written().with_context(|| format!("write \"{}\"", path.display()))
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path); // the next call removes what remains
        }
    }
}

/// Reads the directory's plan, which may have more or fewer repeats.
///
/// # Errors
/// It belongs to another experiment.
fn check_same(path: &Path, plan: &Plan, scenario: &str) -> Result<Plan> {
    let other = |what: String| {
        let what = format!("\"{}\" holds another experiment: {what}", path.display());
        Failure::usage(what).hint(ANOTHER_PLACE)
    };
    let is_block = read_json::<BlockPlan>(&path.join("plan.json")).is_ok_and(|block| block.is_some());
    ensure!(!is_block, other("it is one published block".into()));
    let held: Plan = read_json(&path.join("plan.json"))?.context("the result directory has lost its plan")?;
    let text = fs::read_to_string(path.join("scenario.toml")).context("read its scenario")?;
    ensure!(text == scenario, other("the text of the scenario differs".into()));
    ensure!(held.seed == plan.seed, other(format!("its seed is {}, not {}", held.seed, plan.seed)));
    let [of_held, of_plan] = [held.engine, plan.engine].map(|engine| engine.name());
    ensure!(of_held == of_plan, other(format!("its engine is {of_held}, not {of_plan}")));
    let [of_held, of_plan] = [held.kernel, plan.kernel].map(|kernel| kernel.series());
    ensure!(of_held == of_plan, other(format!("its guest has Linux {of_held}, not {of_plan}")));
    let (was, is) = (held.limited_to(plan.repeats), plan.limited_to(held.repeats));
    let [of_was, of_is] = [&was, &is].map(|plan| plan.profile.name());
    ensure!(was.profile == is.profile, other(format!("its profile is {of_was}, not {of_is}")));
    let scenarios = || format!("its scenario is called \"{}\", not \"{}\"", was.scenario, is.scenario);
    ensure!(was.scenario == is.scenario, other(scenarios()));
    let [of_was, of_is] = [&was, &is].map(perturbation);
    ensure!(of_was == of_is, other(format!("it was run {of_was}, not {of_is}")));
    if let Some((cell, _)) = was.cells.iter().zip(&is.cells).find(|(one, other)| one != other) {
        let at: Vec<String> = cell.at.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let place = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        let why = "a file that the scenario names was changed, or another version of tccc planned it";
        bail!(other(format!("its flows or links{place} differ: {why}")));
    }
    ensure!(was == is, other("its runs were planned by another version of tccc".into()));
    Ok(held)
}

/// The option that added the plan's perturbed paths.
fn perturbation(plan: &Plan) -> String {
    let label = plan.cells.iter().find_map(|cell| cell.at.get(PERTURBED));
    let share = label.and_then(|label| label.split(' ').next());
    share.map_or("without `--perturb`".to_owned(), |share| format!("with `--perturb {share}`"))
}

fn lock(path: &Path) -> Result<File> {
    let file = path.join("lock");
    let lock = File::create(&file).with_context(|| format!("create \"{}\"", file.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another `tccc run` is using \"{}\"", path.display());
            Err(Failure::again(what).hint("wait for it, or choose another directory with `--out DIR`").into())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock \"{}\"", file.display())),
    }
}

/// `None` if the file does not exist.
fn read_json<T: DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    let reading = || format!("read \"{}\"", file.display());
    match read_limited::read(file, BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        bytes => serde_json::from_slice(&bytes.with_context(reading)?).map(Some).with_context(reading),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).context("encode JSON")?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// Readers see the old file or the new one, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, bytes).with_context(|| format!("write \"{}\"", partial.display()))?;
    fs::rename(&partial, path).with_context(|| format!("write \"{}\"", path.display()))
}

#[cfg(test)]
mod tests;
