//! Several result directories: shards of one experiment become one report, the simulator's runs a column beside the
//! kernel's, and what measures one scenario in different ways stands side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::load::{ResultDir, StoredRun, no_finished_run};
use super::{Cell, Ratio, Report, Rerun, of};
use crate::model::notice::Notice;
use crate::model::run::{At, Engine, RunStatus};

/// So deep below a directory that is asked for result directories are looked for.
const DEPTH: u32 = 3;

/// What several directories say.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// In the order asked; at least one.
    pub reports: Vec<Report>,
    /// Result directories without a finished run, of which nothing can be said.
    pub left_out: Vec<PathBuf>,
}

/// Reads directories, and those below them that hold results, and computes their reports.
///
/// Shape: in the order asked; directories that are parts of one experiment come as one report, and the simulator's runs
/// of a scenario are in the kernel's report of it; two directories that hold the same run count once.
/// Errors: as [`super::load`], but a directory without a finished run is an error only where no other one has any.
pub fn load_all(paths: &[PathBuf]) -> Result<Loaded> {
    let mut directories: Vec<ResultDir> = Vec::new();
    let mut left_out = Vec::new();
    for path in result_directories(paths)? {
        let Some(directory) = ResultDir::read(&path)? else {
            left_out.push(path);
            continue;
        };
        match directories.iter_mut().find(|other| are_parts_of_one(other, &directory)) {
            Some(other) => merge(other, directory),
            None => directories.push(directory),
        }
    }
    if directories.is_empty() {
        return Err(no_finished_run(&left_out).into());
    }
    let mut reports = directories.iter().map(of).collect::<Result<Vec<Report>>>()?;
    take_in_reruns(&mut reports);
    Ok(Loaded { reports, left_out })
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
    folders.retain(|folder| folder.is_dir());
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

/// Whether two directories hold different runs of one experiment, made in the same way.
fn are_parts_of_one(one: &ResultDir, other: &ResultDir) -> bool {
    let (a, b) = (&one.host, &other.host);
    let same_plan = one.scenario.text == other.scenario.text && one.scenario.seed == other.scenario.seed;
    let same_way = [&a.kernel, &a.link, &a.network, &a.profile] == [&b.kernel, &b.link, &b.network, &b.profile]
        && a.engine == b.engine
        && a.algorithms.iter().all(|(name, digest)| b.algorithms.get(name).is_none_or(|other| other == digest));
    let done = |directory: &ResultDir| -> BTreeSet<(u32, u64, At)> {
        let runs = directory.runs.iter().map(|run| &run.record).filter(|run| run.status == RunStatus::Done);
        runs.map(|run| (run.repeat, run.seed, run.at.clone())).collect()
    };
    same_plan && same_way && done(one).is_disjoint(&done(other))
}

fn merge(into: &mut ResultDir, part: ResultDir) {
    let by_id = |run: &StoredRun| (run.record.id.clone(), run.folder.clone());
    into.runs.extend(part.runs);
    into.runs.sort_by_key(by_id);
    into.notices.extend(part.notices);
    into.parts.extend(part.parts);
    into.host.calibration.extend(part.host.calibration);
    into.host.algorithms.extend(part.host.algorithms);
    let names: Vec<String> = into.parts.iter().map(|path| path.display().to_string()).collect();
    into.notices.retain(|notice| !notice.is_merged());
    into.notices.push(Notice::merged(&names));
}

/// Puts the simulator's runs of a scenario beside the kernel's runs, in real time or virtual, of the same text under the same profile.
///
/// A report of the simulator alone stays, and so does one whose place is taken: runs of another seed or version are not
/// the same runs, and a cell has room for one re-run.
fn take_in_reruns(reports: &mut Vec<Report>) {
    let is_of = |a: &Report, b: &Report| {
        matches!((a.host.engine, b.host.engine), (Engine::Kernel | Engine::Virtual, Engine::Ns2))
            && [&a.scenario, &a.profile, &a.text] == [&b.scenario, &b.profile, &b.text]
    };
    let (reruns, mut kept): (Vec<Report>, Vec<Report>) =
        std::mem::take(reports).into_iter().partition(|report| report.host.engine == Engine::Ns2);
    for rerun in reruns {
        let own: Vec<&Report> = kept.iter().filter(|report| is_of(report, &rerun)).collect();
        if own.is_empty() || own.iter().any(|report| is_taken(report, &rerun)) {
            kept.push(rerun);
            continue;
        }
        for report in kept.iter_mut().filter(|report| is_of(report, &rerun)) {
            take_in(report, &rerun);
        }
    }
    *reports = kept;
}

/// Whether a cell that the simulator measured has another re-run beside it.
fn is_taken(report: &Report, rerun: &Report) -> bool {
    report.cells.iter().any(|cell| cell.rerun.is_some() && again(cell, rerun).is_some())
}

/// What the simulator gave for a cell; none where it has no run of it.
fn again(cell: &Cell, rerun: &Report) -> Option<Rerun> {
    let same = |other: &&Cell| (&other.metric, &other.variant, &other.at) == (&cell.metric, &cell.variant, &cell.at);
    let other = rerun.cells.iter().find(same)?;
    let ratio = other.ratio_to_baseline.as_ref();
    Some(Rerun {
        engine: rerun.host.engine,
        measured: other.measured.clone()?,
        ratio_to_baseline: ratio.and_then(|ratio| ratio.measured),
        ratio_bound: ratio.map(Ratio::bound).unwrap_or_default(),
    })
}

fn take_in(report: &mut Report, rerun: &Report) {
    for cell in &mut report.cells {
        if let Some(again) = again(cell, rerun) {
            cell.rerun = Some(again);
        }
    }
    let versions = rerun.host.tools.iter().map(|(name, version)| format!("{name} {version}"));
    report.reruns.push(format!("{}, seed {}", versions.collect::<Vec<_>>().join(", "), rerun.seed));
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
