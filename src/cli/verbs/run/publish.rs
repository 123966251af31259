//! The results of one block, published whole: there under the block's name, or not there at all.
//!
//! A rename within the folder is the only step that others can see. It needs no lock, so that it works on network file
//! systems without them. `plan.json` is written last, by which readers know a result directory. It has the digest of the
//! plan and the block's own runs, not the runs of the other blocks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bounded;
use crate::failure::Failure;
use crate::lab::plan::Plan;
use crate::model::run::{BlockPlan, PlanBlock};
use crate::scratch::Scratch;

/// Written last.
const MARK: &str = "plan.json";
/// Largest plan that is read, bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Where the results of a block go.
pub(super) struct Publication {
    block: PlanBlock,
    place: PathBuf,
    scratch: Scratch,
}

impl Publication {
    /// Begins; none when the block is published already.
    ///
    /// Errors: the folder has this block of another plan; the folder, or one for the work, cannot be made.
    pub fn begin(folder: &Path, block: PlanBlock) -> Result<Option<Self>> {
        let place = folder.join(format!("block-{:05}", block.n));
        if place.join(MARK).exists() {
            return check_same_plan(&place, &block).map(|()| None);
        }
        fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
        let scratch = Scratch::create(&std::env::temp_dir())?;
        Ok(Some(Publication { block, place, scratch }))
    }

    /// Where the block does its work.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.path().join("results")
    }

    /// Copies the results beside their place and renames them; of two that finish, the first stays.
    ///
    /// Errors: the folder cannot be written.
    pub fn publish(self, runs: impl IntoIterator<Item = String>) -> Result<PathBuf> {
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(folder);
        let part = part.with_context(|| format!("write to \"{}\"", folder.display()))?;
        let whole = part.path().join("block");
        copy(&self.scratch(), &whole).with_context(|| format!("copy the results to \"{}\"", folder.display()))?;
        self.mark(&whole, runs.into_iter().collect())?;
        match fs::rename(&whole, &self.place) {
            Err(_) if self.place.join(MARK).exists() => Ok(self.place),
            renamed => {
                renamed.map(|()| self.place.clone()).with_context(|| format!("make \"{}\"", self.place.display()))
            }
        }
    }

    /// Writes the block's own plan.
    fn mark(&self, whole: &Path, runs: Vec<String>) -> Result<()> {
        let Plan { schema, scenario, engine, profile, repeats, seed, .. } = read(&self.scratch())?;
        let (profile, block) = (profile.name().to_owned(), self.block.clone());
        let plan = BlockPlan { schema, scenario, engine, profile, repeats, seed, block, runs };
        let mut text = serde_json::to_vec_pretty(&plan).context("encode JSON")?;
        text.push(b'\n');
        fs::write(whole.join(MARK), text).context("write the plan of the block")
    }
}

/// A block is there already only if it is of the same plan.
fn check_same_plan(place: &Path, block: &PlanBlock) -> Result<()> {
    let held: Option<BlockPlan> = read(place).ok();
    if held.is_some_and(|held| (&held.block.plan, held.block.of) == (&block.plan, block.of)) {
        return Ok(());
    }
    let what = format!("cannot publish block {}: \"{}\" is of another plan", block.n, place.display());
    let hint = "the scenarios, the options or the version of tccc changed; choose another folder with `--publish DIR`";
    Err(Failure::usage(what).hint(hint).into())
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path) -> Result<T> {
    let bytes = bounded::read(&folder.join(MARK), BYTES_MAX).context("read the plan of the results")?;
    serde_json::from_slice(&bytes).context("read the plan of the results")
}

/// Copies a folder without its mark and its lock.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != MARK && entry.file_name() != "lock" {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use crate::lab::plan::Choices;
    use crate::model::run::Machine;
    use crate::scenario::Scenario;

    const TEXT: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"1s\"\nruns=1\nseed=7\n\
                        [[link]]\nends=[\"s\",\"r\"]\n\
                        [[flow]]\nname=\"data\"\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"reno\"\n";

    fn block(n: usize, plan: &str) -> PlanBlock {
        PlanBlock { plan: plan.into(), n, of: 9, machine: Machine::default() }
    }

    fn work(publication: &Publication, text: &str) {
        let plan = Plan::new(&Scenario::parse("t.toml", TEXT).unwrap(), &Choices::default()).unwrap();
        fs::create_dir_all(publication.scratch().join("runs/a")).unwrap();
        fs::write(publication.scratch().join("runs/a/run.json"), text).unwrap();
        fs::write(publication.scratch().join(MARK), serde_json::to_vec(&plan).unwrap()).unwrap();
    }

    #[test]
    fn block_is_published_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || Publication::begin(folder.path(), block(7, "aa")).unwrap();
        let (first, second) = (begin().unwrap(), begin().unwrap());
        work(&first, "first");
        work(&second, "second");
        let place = first.publish(["a".to_owned()]).unwrap();
        assert_eq!(place, folder.path().join("block-00007"));
        assert_eq!(second.publish(["a".to_owned()]).unwrap(), place);
        assert_eq!(fs::read_to_string(place.join("runs/a/run.json")).unwrap(), "first");
        assert!(begin().is_none(), "it is there already");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let plan: BlockPlan = read(&place).unwrap();
        assert_eq!((plan.runs, plan.block), (vec!["a".to_owned()], block(7, "aa")));
        assert!(!fs::read_to_string(place.join(MARK)).unwrap().contains("cells"), "nothing of the other blocks");
    }

    /// A block that an older version or another `--runs` published counted as this one.
    #[test]
    fn block_of_another_plan_is_refused_everywhere() {
        let folder = tempfile::tempdir().unwrap();
        let first = Publication::begin(folder.path(), block(7, "aa")).unwrap().unwrap();
        work(&first, "first");
        first.publish([]).unwrap();
        let error = Publication::begin(folder.path(), block(7, "bb")).err().unwrap();
        assert_eq!(error.downcast_ref::<Failure>().unwrap().kind, FailureKind::Usage);
        assert!(error.to_string().ends_with("is of another plan"), "{error}");
        assert!(Publication::begin(folder.path(), block(8, "bb")).unwrap().is_some());
    }

    #[test]
    fn work_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let given_up = Publication::begin(folder.path(), block(1, "aa")).unwrap().unwrap();
        let scratch = given_up.scratch();
        work(&given_up, "half");
        drop(given_up);
        assert!(!scratch.exists() && fs::read_dir(folder.path()).unwrap().count() == 0);
    }
}
