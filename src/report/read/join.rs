//! Several result directories: which there are, and shards of one experiment become one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::directory::{ResultDir, no_finished_run};
use super::scenarios::Scenarios;
use crate::failure::{Failure, Kind};
use crate::model::notice::Notice;
use crate::model::run::{At, RunStatus};

/// So deep below a directory that is asked for result directories are looked for.
const DEPTH: u32 = 3;

/// Reads directories, and those below them that hold results; parts of one experiment come as one directory.
///
/// Shape: in the order asked, with the directories that have no finished run.
/// Errors: as [`ResultDir::read`]; no directory has a finished run.
pub fn read_all(paths: &[PathBuf]) -> Result<(Vec<ResultDir>, Vec<PathBuf>)> {
    let (mut groups, mut left_out) = (Groups::default(), Vec::new());
    let mut scenarios = Scenarios::default();
    for path in result_directories(paths)? {
        match ResultDir::read(&path, &mut scenarios)? {
            Some(directory) => groups.add(directory),
            None => left_out.push(path),
        }
    }
    if groups.all.is_empty() {
        return Err(Failure { kind: Kind::Usage, ..no_finished_run(&left_out) }.into());
    }
    Ok((groups.all.into_iter().map(Group::whole).collect(), left_out))
}

/// What tells experiments apart: the plan, and how the runs were made.
type Experiment = (String, u64, [String; 4], &'static str);
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
}

impl Groups {
    /// Adds the directory to the first of its experiment's groups that has none of its runs and the same objects.
    fn add(&mut self, directory: ResultDir) {
        let (host, scenario) = (&directory.host, &directory.scenario);
        let way = [&host.kernel, &host.link, &host.network, &host.profile].map(String::clone);
        let known = self.of.entry((scenario.text.clone(), scenario.seed, way, host.engine.name())).or_default();
        let runs = directory.runs.iter().map(|run| &run.record).filter(|run| run.status == RunStatus::Done);
        let done: HashSet<Done> = runs.map(|run| (run.repeat, run.seed, run.at.clone())).collect();
        match known.iter().find(|index| self.all[**index].takes(&directory, &done)) {
            Some(index) => self.all[*index].merge(directory, done),
            None => {
                known.push(self.all.len());
                self.all.push(Group { directory, done });
            }
        }
    }
}

impl Group {
    fn takes(&self, part: &ResultDir, done: &HashSet<Done>) -> bool {
        let own = &self.directory.host.algorithms;
        let is_same = |(name, digest): (&String, &String)| own.get(name).is_none_or(|own| own == digest);
        part.host.algorithms.iter().all(is_same) && done.is_disjoint(&self.done)
    }

    fn merge(&mut self, part: ResultDir, done: HashSet<Done>) {
        let into = &mut self.directory;
        into.runs.extend(part.runs);
        into.notices.extend(part.notices);
        into.parts.extend(part.parts);
        into.host.calibration.extend(part.host.calibration);
        into.host.algorithms.extend(part.host.algorithms);
        self.done.extend(done);
    }

    /// The directory with the runs of all parts in their order.
    fn whole(self) -> ResultDir {
        let mut whole = self.directory;
        if whole.parts.len() > 1 {
            whole.runs.sort_by(|a, b| (&a.record.id, &a.folder).cmp(&(&b.record.id, &b.folder)));
            let names: Vec<String> = whole.parts.iter().map(|path| path.display().to_string()).collect();
            whole.notices.push(Notice::merged(&names));
        }
        whole
    }
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
