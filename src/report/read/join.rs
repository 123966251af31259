//! Several result directories: which there are, and shards of one experiment become one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use derive_more::Display;

use super::blocks::Sorted;
use super::directory::{ResultDir, no_finished_run};
use super::scenarios::Scenarios;
use crate::failure::{Failure, FailureKind};
use crate::model::notice::Notice;
use crate::model::run::{At, Engine, HostRecord, Machine, RunStatus};
use crate::plain::count;

/// So deep below a directory that is asked for result directories are looked for.
const DEPTH: u32 = 3;

/// Reads directories, and those below them that hold results; parts of one experiment come as one directory.
///
/// Shape: in the order asked, with the directories that have no finished run.
/// Errors: as [`ResultDir::read`]; no directory has a finished run; parts that were made with different programs, unless
/// `may_mix`.
pub fn read_all(paths: &[PathBuf], may_mix: bool) -> Result<(Vec<ResultDir>, Vec<PathBuf>)> {
    let (mut sorted, mut left_out) = (Sorted::default(), Vec::new());
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

/// What tells experiments apart: the plan, and how the runs were made.
type Experiment = (String, u64, [String; 3], &'static str);
/// A finished run of an experiment.
type Done = (u32, u64, At);

/// Directories by experiment.
#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    of: HashMap<Experiment, Vec<usize>>,
}

/// Parts of one experiment, with the runs that they have together.
struct Group {
    directory: ResultDir,
    done: HashSet<Done>,
    /// The plans whose blocks these are.
    plans: BTreeSet<String>,
    /// Number and model of the processors.
    processors: BTreeSet<String>,
    /// What its parts were made with, where they are mixed.
    mixed: BTreeSet<String>,
}

impl Groups {
    /// Adds the directory to the first of its experiment's groups that has none of its runs, or begins another group.
    ///
    /// Errors: all such groups were made with another kernel, tool or object, and may not be mixed.
    fn add(&mut self, directory: ResultDir, may_mix: bool) -> Result<(), Failure> {
        let (host, scenario) = (&directory.host, &directory.scenario);
        let way = [&host.link, &host.network, &host.profile].map(String::clone);
        let known = self.of.entry((scenario.text.clone(), scenario.seed, way, host.engine.name())).or_default();
        let runs = directory.runs.iter().map(|run| &run.record).filter(|run| run.status == RunStatus::Done);
        let done: HashSet<Done> = runs.map(|run| (run.repeat, run.seed, run.at.clone())).collect();
        let fitting: Vec<usize> = known.iter().copied().filter(|at| self.all[*at].done.is_disjoint(&done)).collect();
        let same = fitting.iter().find(|at| difference(&self.all[**at].directory.host, host).is_none());
        let Some(at) = same.or(fitting.first()).copied() else {
            known.push(self.all.len());
            self.all.push(Group::new(directory, done));
            return Ok(());
        };
        let group = &mut self.all[at];
        match difference(&group.directory.host, host) {
            Some(different) if !may_mix => Err(different.refusal(&group.directory.path, &directory.path)),
            different => {
                group.mixed.extend(different.map(|different| different.to_string()));
                group.merge(directory, done);
                Ok(())
            }
        }
    }
}

/// What two parts of one experiment were made with, where it is not the same.
#[derive(Display)]
#[display("{what} {} and {}", values[0], values[1])]
struct Different {
    /// `kernel`, or the name of a tool or an algorithm.
    what: String,
    values: [String; 2],
}

impl Different {
    fn refusal(&self, one: &Path, other: &Path) -> Failure {
        let Different { what, values: [first, second] } = self;
        let (one, other) = (one.display(), other.display());
        let what =
            format!("cannot report parts made with different {what}: {first} in \"{one}\", {second} in \"{other}\"");
        Failure::usage(what).hint("report them one by one, or add `--mixed` to join them nevertheless")
    }
}

/// The first of kernel, tools and objects in which two hosts differ.
fn difference(one: &HostRecord, other: &HostRecord) -> Option<Different> {
    let different =
        |what: &str, values: [&String; 2]| Different { what: what.into(), values: values.map(String::clone) };
    if one.kernel != other.kernel {
        return Some(different("kernel", [&one.kernel, &other.kernel]));
    }
    let of = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let mut pairs = one.iter().filter_map(|(name, value)| Some((name, value, other.get(name)?)));
        pairs.find(|(_, value, other)| value != other).map(|(name, one, other)| different(name, [one, other]))
    };
    of(&one.tools, &other.tools).or_else(|| of(&one.algorithms, &other.algorithms))
}

impl Group {
    fn new(directory: ResultDir, done: HashSet<Done>) -> Group {
        let plans = plan_of(&directory).collect();
        let processors = processors_of(&directory).collect();
        Group { directory, done, plans, processors, mixed: BTreeSet::new() }
    }

    fn merge(&mut self, part: ResultDir, done: HashSet<Done>) {
        self.plans.extend(plan_of(&part));
        self.processors.extend(processors_of(&part));
        let into = &mut self.directory;
        into.runs.extend(part.runs);
        into.notices.extend(part.notices);
        into.parts.extend(part.parts);
        into.host.calibration.extend(part.host.calibration);
        into.host.algorithms.extend(part.host.algorithms);
        let is_new = |one: &Machine| into.machines.iter().all(|known| known.id != one.id);
        let machines: Vec<Machine> = part.machines.into_iter().filter(is_new).collect();
        into.machines.extend(machines);
        self.done.extend(done);
    }

    /// The directory with the runs of all parts in their order.
    fn whole(self, sorted: &Sorted) -> ResultDir {
        let mut whole = self.directory;
        whole.blocks = sorted.blocks_of(&self.plans);
        if whole.parts.len() > 1 {
            whole.runs.sort_by(|a, b| (&a.record.id, &a.folder).cmp(&(&b.record.id, &b.folder)));
            let names: Vec<String> = whole.parts.iter().map(|path| path.display().to_string()).collect();
            whole.notices.push(Notice::merged(&names));
            let listed = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join("; ");
            let other = Some(self.processors).filter(|all| all.len() > 1).map(listed);
            whole.notices.extend(other.map(|all| Notice::other_processors(&all)));
            let mixed = Some(self.mixed).filter(|all| !all.is_empty()).map(listed);
            whole.notices.extend(mixed.map(|all| Notice::mixed(&all)));
        }
        whole
    }
}

fn plan_of(directory: &ResultDir) -> impl Iterator<Item = String> {
    directory.block.iter().map(|block| block.plan.clone())
}

/// Number and model of the processors where they matter: virtual time and the simulator give the same on all.
fn processors_of(directory: &ResultDir) -> impl Iterator<Item = String> {
    let host = Some(&directory.host).filter(|host| host.engine == Engine::Kernel);
    host.into_iter().map(|host| {
        let models: BTreeSet<&str> = host.machines.iter().map(|machine| machine.processor.as_str()).collect();
        format!("{} {}", count(host.cpus as usize, "processor"), models.into_iter().collect::<Vec<_>>().join(", "))
            .trim_end()
            .to_owned()
    })
}

/// Each result directory once: those asked for, and those inside where one is not itself.
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

/// Result directories below one that is none, by name; none where there is no such directory.
fn below(path: &Path, depth: u32) -> Result<Vec<PathBuf>> {
    if depth == 0 || !path.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(path).with_context(|| format!("list \"{}\"", path.display()))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Those that begin with a dot are results that are still being published.
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
