//! Finds result directories, and joins the parts of one experiment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::blocks::SortedBlocks;
use super::directory::{ResultDir, no_finished_run};
use super::scenarios::Scenarios;
use crate::scenario::Scenario;
use shared::failure::{Failure, FailureKind};
use shared::model::notice::Notice;
use shared::model::run::{At, Engine, HostRecord, Machine, RunStatus};
use shared::sanitize::count;

/// Result directories are searched to this depth below a given directory.
const DEPTH: u32 = 3;
/// Most directories named in a notice.
const NAMED: usize = 8;

/// Reads result directories at or below the paths, joins the parts of one experiment, and lists directories without a
/// finished run.
///
/// Shape: in the order of the paths.
///
/// # Errors
/// As [`ResultDir::read`]; no directory has a finished run; parts made with different programs, unless `may_mix`.
pub fn read_all(paths: &[PathBuf], may_mix: bool) -> Result<(Vec<ResultDir>, Vec<PathBuf>)> {
    let (mut sorted, mut left_out) = (SortedBlocks::default(), Vec::new());
    let mut scenarios = Scenarios::default();
    for path in result_directories(paths)? {
        match ResultDir::read(&path, &mut scenarios)? {
            Some(directory) => sorted.add(directory),
            None => left_out.push(path),
        }
    }
    let directories = sorted.take();
    if directories.is_empty() {
        return Err(Failure { kind: FailureKind::Usage, ..no_finished_run(&left_out) }.into());
    }
    let mut groups = Groups::default();
    for directory in directories {
        groups.add(directory, may_mix)?;
    }
    Ok((groups.all.into_iter().map(|group| group.whole(&sorted)).collect(), left_out))
}

/// Reads directories with the same experiment for one variant each, as one directory of the scenario with this text, which
/// has all of these variants. The first has the files that the scenario names.
///
/// None: the first has no finished run.
///
/// # Errors
/// As [`ResultDir::read`]; mistakes in the scenario.
pub fn of_variants(text: &str, paths: &[PathBuf]) -> Result<Option<ResultDir>> {
    let mut scenarios = Scenarios::default();
    let mut read = |path: &PathBuf| {
        if path.join("plan.json").exists() { ResultDir::read(path, &mut scenarios) } else { Ok(None) }
    };
    let Some((first, others)) = paths.split_first() else { return Ok(None) };
    let Some(mut joined) = read(first)? else { return Ok(None) };
    let file = first.join("scenario.toml").display().to_string();
    let parsed = Scenario::parse(&file, text).map_err(Failure::from)?;
    let Scenario { name, seed, .. } = &*joined.scenario;
    joined.scenario = Arc::new(Scenario { name: name.clone(), seed: *seed, ..parsed });
    for path in others {
        let Some(other) = read(path)? else { continue };
        joined.parts.extend(other.parts);
        joined.host.algorithms.extend(other.host.algorithms);
        joined.runs.extend(other.runs);
        joined.notices.extend(other.notices);
    }
    Ok(Some(joined))
}

/// Identity of an experiment: scenario text and seed, link, network and profile, and engine.
type Experiment = (String, u64, [String; 3], &'static str);
/// Identity of a finished run: repeat, seed and position.
type FinishedRun = (u32, u64, At);

/// Joined directories by experiment.
#[derive(Default)]
struct Groups {
    all: Vec<ExperimentGroup>,
    of: HashMap<Experiment, Vec<usize>>,
}

struct ExperimentGroup {
    directory: ResultDir,
    done: HashSet<FinishedRun>,
    plans: BTreeSet<String>,
    /// Number and model of the processors.
    processors: BTreeSet<String>,
    /// Differences between the parts' programs.
    mixed: BTreeSet<String>,
}

impl Groups {
    /// Adds a directory to a group of the same experiment that has none of its runs, or begins a new group.
    ///
    /// # Errors
    /// Every fitting group was made with another kernel, tool or object, and `may_mix` is false.
    fn add(&mut self, directory: ResultDir, may_mix: bool) -> Result<(), Failure> {
        let (host, scenario) = (&directory.host, &directory.scenario);
        let way = [&host.link, &host.network, &host.profile].map(String::clone);
        let known = self.of.entry((scenario.text.clone(), scenario.seed, way, host.engine.name())).or_default();
        let runs = directory.runs.iter().chain(&directory.perturbed);
        let runs = runs.map(|run| &run.record).filter(|run| run.status == RunStatus::Done);
        let done: HashSet<FinishedRun> = runs.map(|run| (run.repeat, run.seed, run.at.clone())).collect();
        let fitting: Vec<usize> = known.iter().copied().filter(|at| self.all[*at].done.is_disjoint(&done)).collect();
        let same = fitting.iter().find(|at| difference(&self.all[**at].directory.host, host).is_none());
        let Some(at) = same.or(fitting.first()).copied() else {
            known.push(self.all.len());
            self.all.push(ExperimentGroup::new(directory, done));
            return Ok(());
        };
        let group = &mut self.all[at];
        match difference(&group.directory.host, host) {
            Some(difference) if !may_mix => Err(refusal(difference, &group.directory.path, &directory.path)),
            difference => {
                group.mixed.extend(difference.map(|(what, [one, other])| format!("{what} {one} and {other}")));
                group.merge(directory, done);
                Ok(())
            }
        }
    }
}

/// `kernel` or the name of a tool or algorithm, and its version or digest in two parts.
type HostDifference = (String, [String; 2]);

fn refusal((what, [first, second]): HostDifference, one: &Path, other: &Path) -> Failure {
    let (one, other) = (one.display(), other.display());
    let what = format!("cannot report parts made with different {what}: {first} in \"{one}\", {second} in \"{other}\"");
    Failure::usage(what).hint("report them one by one, or add `--mixed` to join them anyway")
}

/// The first difference in kernel, tools or objects.
fn difference(one: &HostRecord, other: &HostRecord) -> Option<HostDifference> {
    let different = |what: &str, values: [&String; 2]| (what.to_owned(), values.map(String::clone));
    let of = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let mut pairs = one.iter().filter_map(|(name, value)| Some((name, value, other.get(name)?)));
        pairs.find(|(_, value, other)| value != other).map(|(name, one, other)| different(name, [one, other]))
    };
    let kernel = (one.kernel != other.kernel).then(|| different("kernel", [&one.kernel, &other.kernel]));
    kernel.or_else(|| of(&one.tools, &other.tools)).or_else(|| of(&one.algorithms, &other.algorithms))
}

impl ExperimentGroup {
    fn new(directory: ResultDir, done: HashSet<FinishedRun>) -> ExperimentGroup {
        let plans = plan_of(&directory).collect();
        let processors = processors_of(&directory).collect();
        ExperimentGroup { directory, done, plans, processors, mixed: BTreeSet::new() }
    }

    fn merge(&mut self, part: ResultDir, done: HashSet<FinishedRun>) {
        self.plans.extend(plan_of(&part));
        self.processors.extend(processors_of(&part));
        let into = &mut self.directory;
        into.runs.extend(part.runs);
        into.perturbed.extend(part.perturbed);
        into.notices.extend(part.notices);
        into.parts.extend(part.parts);
        into.host.calibration.extend(part.host.calibration);
        into.host.algorithms.extend(part.host.algorithms);
        let is_new = |one: &Machine| into.machines.iter().all(|known| known.id != one.id);
        let machines: Vec<Machine> = part.machines.into_iter().filter(is_new).collect();
        into.machines.extend(machines);
        self.done.extend(done);
    }

    /// The joined directory, with runs in order.
    fn whole(self, sorted: &SortedBlocks) -> ResultDir {
        let mut whole = self.directory;
        whole.blocks = sorted.blocks_of(&self.plans);
        if whole.parts.len() > 1 {
            whole.runs.sort_by(|a, b| (&a.record.id, &a.folder).cmp(&(&b.record.id, &b.folder)));
            let named: Vec<String> = whole.parts.iter().take(NAMED).map(|path| path.display().to_string()).collect();
            let (all, named) = (whole.parts.len(), named.join(", "));
            let more = if all > NAMED { format!(" and {} more", all - NAMED) } else { String::new() };
            whole.notices.push(Notice::new(
                format!("merged from {all} directories: {named}{more}"),
                "each measured its own empty path; the calibration lists all",
            ));
            let listed = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join("; ");
            if self.processors.len() > 1 {
                whole.notices.push(Notice::new(
                    format!("the runs used different processors: {}", listed(self.processors)),
                    "compare the nodes below before you trust small differences; runs of one seed share a machine",
                ));
            }
            if !self.mixed.is_empty() {
                whole.notices.push(Notice::new(
                    format!("the parts were made with different programs: {}", listed(self.mixed)),
                    "a difference between cells may come from the programs; without --mixed such parts are refused",
                ));
            }
        }
        whole
    }
}

fn plan_of(directory: &ResultDir) -> impl Iterator<Item = String> {
    directory.block.iter().map(|block| block.plan.clone())
}

/// Number and model of the processors. Only for the kernel: other engines give the same results anywhere.
fn processors_of(directory: &ResultDir) -> impl Iterator<Item = String> {
    let host = Some(&directory.host).filter(|host| host.engine == Engine::Kernel);
    host.into_iter().map(|host| {
        let models: BTreeSet<&str> = host.machines.iter().map(|machine| machine.processor.as_str()).collect();
        let models = models.into_iter().collect::<Vec<_>>().join(", ");
        format!("{} {models}", count(host.cpus as usize, "processor")).trim_end().to_owned()
    })
}

/// Result directories at or below the paths, each once.
fn result_directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let inside = if path.join("plan.json").exists() { Vec::new() } else { below(path, DEPTH)? };
        for one in if inside.is_empty() { vec![path.clone()] } else { inside } {
            if seen.insert(one.canonicalize().unwrap_or_else(|_| one.clone())) {
                found.push(one);
            }
        }
    }
    Ok(found)
}

/// Result directories below a directory that is not one itself, sorted by name. Empty if it does not exist.
fn below(path: &Path, depth: u32) -> Result<Vec<PathBuf>> {
    if depth == 0 || !path.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(path).with_context(|| format!("list \"{}\"", path.display()))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Hidden directories are still being published.
    let is_hidden = |folder: &PathBuf| folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    folders.retain(|folder| folder.is_dir() && !is_hidden(folder));
    folders.sort();
    let mut found = Vec::new();
    for folder in folders {
        match folder.join("plan.json").exists() {
            true => found.push(folder),
            false => found.extend(below(&folder, depth - 1)?),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_inside_are_found_and_none_counts_twice() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b/two", "a", "b/one/runs/r0"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        for name in ["b/two", "a", "b/one"] {
            fs::write(place.path().join(name).join("plan.json"), "{}").unwrap();
        }
        let found = result_directories(&[place.path().to_owned(), place.path().join("a/../a")]).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(place.path()).unwrap().to_owned()).collect();
        assert_eq!(names, [Path::new("a"), Path::new("b/one"), Path::new("b/two")]);
        let missing = place.path().join("none");
        assert_eq!(result_directories(std::slice::from_ref(&missing)).unwrap(), [missing], "and opening it says so");
    }
}
