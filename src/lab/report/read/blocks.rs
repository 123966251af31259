//! The blocks of a plan that many machines ran: present, missing and duplicate ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::directory::ResultDir;
use shared::model::notice::Notice;

/// Completeness of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocks {
    pub plan: String,
    /// Blocks over all scenarios of the plan.
    pub planned: usize,
    pub present: usize,
    /// In the syntax of `sbatch --array`: `3,7-9`; empty if none is missing.
    pub missing: String,
}

/// Directories without duplicate blocks.
#[derive(Default)]
pub struct SortedBlocks {
    /// Shape: in the order of reading.
    directories: Vec<ResultDir>,
    places: HashMap<(String, usize), usize>,
    /// Directories of the same block that do not count, by index.
    others: BTreeMap<usize, Vec<String>>,
    plans: BTreeMap<String, (usize, BTreeSet<usize>)>,
}

impl SortedBlocks {
    /// Adds a directory. Among several with the same block, the one that began first counts.
    pub fn add(&mut self, mut directory: ResultDir) {
        let Some(block) = directory.block.clone() else { return self.directories.push(directory) };
        self.plans.entry(block.plan.clone()).or_insert((block.of, BTreeSet::new())).1.insert(block.n);
        let place = *self.places.entry((block.plan, block.n)).or_insert(self.directories.len());
        let Some(known) = self.directories.get_mut(place) else { return self.directories.push(directory) };
        if begun(&directory) < begun(known) {
            std::mem::swap(known, &mut directory);
        }
        self.others.entry(place).or_default().push(directory.path.display().to_string());
    }

    /// Removes all directories, and adds notices about duplicate blocks.
    pub fn take(&mut self) -> Vec<ResultDir> {
        for (place, others) in &self.others {
            let Some(directory) = self.directories.get_mut(*place) else { continue };
            let (counted, others) = (directory.path.display(), others.join(", "));
            let number = directory.block.as_ref().map_or(0, |block| block.n);
            directory.notices.push(Notice::new(
                format!("block {number} is in {counted} and also in {others}: it counts once"),
                "the copy that began first counts; the others can be removed",
            ));
        }
        std::mem::take(&mut self.directories)
    }

    pub fn blocks_of(&self, plans: &BTreeSet<String>) -> Vec<Blocks> {
        let known = self.plans.iter().filter(|(plan, _)| plans.contains(*plan));
        let blocks = known.map(|(plan, (planned, present))| Blocks {
            plan: plan.clone(),
            planned: *planned,
            present: present.len(),
            missing: ranges((1..=*planned).filter(|n| !present.contains(n))),
        });
        blocks.collect()
    }
}

/// Start of a directory's first run, RFC 3339.
fn begun(directory: &ResultDir) -> Option<&str> {
    directory.runs.iter().map(|run| run.record.started.as_str()).min()
}

/// Ascending numbers as ranges: `3,7-9`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text =
        |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_blocks_are_written_as_an_array_takes_them() {
        assert_eq!(ranges([3, 7, 8, 9, 11, 12].into_iter()), "3,7-9,11-12");
        assert_eq!(ranges([1].into_iter()), "1");
        assert_eq!(ranges(std::iter::empty()), "");
    }
}
