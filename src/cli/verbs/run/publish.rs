//! Publishes the results of one block atomically.
//!
//! Others see only one step, a rename within the folder. It needs no lock, which some network file systems lack.
//! Readers recognise a result directory by its `plan.json`. That of a block has the digest of the plan and only the
//! block's runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use lab::plan::Plan;
use shared::failure::Failure;
use shared::model::run::{BlockPlan, PlanBlock};
use shared::read_limited;
use shared::scratch::Scratch;

const PLAN: &str = "plan.json";
/// Largest plan that is read, bytes.
const BYTES_MAX: u64 = 1 << 30;

pub(super) struct Publication {
    block: PlanBlock,
    place: PathBuf,
    scratch: Scratch,
}

impl Publication {
    /// `None` if the block is already published.
    ///
    /// # Errors
    /// The folder has this block of another plan; the folder or a scratch directory cannot be created.
    pub fn begin(folder: &Path, block: PlanBlock) -> Result<Option<Self>> {
        let place = folder.join(format!("block-{:05}", block.n));
        if place.join(PLAN).exists() {
            return check_same_plan(&place, &block).map(|()| None);
        }
        fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
        let scratch = Scratch::create(&std::env::temp_dir())?;
        Ok(Some(Publication { block, place, scratch }))
    }

    pub fn scratch(&self) -> PathBuf {
        self.scratch.path().join("results")
    }

    /// Copies the results next to their place and renames them. If two processes finish, the first one's results stay.
    pub fn publish(self, runs: impl IntoIterator<Item = String>) -> Result<PathBuf> {
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(folder);
        let part = part.with_context(|| format!("write to \"{}\"", folder.display()))?;
        let whole = part.path().join("block");
        copy(&self.scratch(), &whole).with_context(|| format!("copy the results to \"{}\"", folder.display()))?;
        self.write_plan(&whole, runs.into_iter().collect())?;
        if let Err(error) = fs::rename(&whole, &self.place)
            && !self.place.join(PLAN).exists()
        {
            return Err(error).with_context(|| format!("make \"{}\"", self.place.display()));
        }
        Ok(self.place)
    }

    fn write_plan(&self, whole: &Path, runs: Vec<String>) -> Result<()> {
        let Plan { schema, scenario, engine, profile, repeats, seed, .. } = read(&self.scratch())?;
        let (profile, block) = (profile.name().to_owned(), self.block.clone());
        let plan = BlockPlan { schema, scenario, engine, profile, repeats, seed, block, runs };
        let mut text = serde_json::to_vec_pretty(&plan).context("encode JSON")?;
        text.push(b'\n');
        fs::write(whole.join(PLAN), text).context("write the plan of the block")
    }
}

fn check_same_plan(place: &Path, block: &PlanBlock) -> Result<()> {
    let held: Option<BlockPlan> = read(place).ok();
    if held.is_some_and(|held| (&held.block.plan, held.block.of) == (&block.plan, block.of)) {
        return Ok(());
    }
    let what = format!("cannot publish block {}: \"{}\" belongs to another plan", block.n, place.display());
    let hint = "the scenarios, the options or the version of tccc changed; choose another folder with `--publish DIR`";
    Err(Failure::usage(what).hint(hint).into())
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path) -> Result<T> {
    let bytes = read_limited::read(&folder.join(PLAN), BYTES_MAX).context("read the plan of the results")?;
    serde_json::from_slice(&bytes).context("read the plan of the results")
}

/// Copies a folder without its plan and its lock.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != PLAN && entry.file_name() != "lock" {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::plan::Choices;
    use lab::scenario::Scenario;
    use shared::failure::FailureKind;
    use shared::model::run::Machine;

    const TEXT: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"1s\"\nruns=1\nseed=7\n\
                        [[link]]\nends=[\"s\",\"r\"]\n\
                        [[flow]]\nname=\"data\"\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"reno\"\n";

    fn block(n: usize, plan: &str) -> PlanBlock {
        PlanBlock { plan: plan.into(), n, of: 9, machine: Machine::default() }
    }

    fn begin(folder: &Path, n: usize, plan: &str) -> Result<Option<Publication>> {
        Publication::begin(folder, block(n, plan))
    }

    /// Begins and writes results with this text.
    fn work(folder: &Path, text: &str) -> Publication {
        let publication = begin(folder, 7, "aa").unwrap().unwrap();
        let plan = Plan::new(&Scenario::parse("t.toml", TEXT).unwrap(), &Choices::default()).unwrap();
        fs::create_dir_all(publication.scratch().join("runs/a")).unwrap();
        fs::write(publication.scratch().join("runs/a/run.json"), text).unwrap();
        fs::write(publication.scratch().join(PLAN), serde_json::to_vec(&plan).unwrap()).unwrap();
        publication
    }

    #[test]
    fn block_is_published_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|text| work(folder.path(), text));
        let place = first.publish(["a".to_owned()]).unwrap();
        assert_eq!(place, folder.path().join("block-00007"));
        assert_eq!(second.publish(["a".to_owned()]).unwrap(), place);
        assert_eq!(fs::read_to_string(place.join("runs/a/run.json")).unwrap(), "first");
        assert!(begin(folder.path(), 7, "aa").unwrap().is_none(), "it is there already");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let plan: BlockPlan = read(&place).unwrap();
        assert_eq!((plan.runs, plan.block), (vec!["a".to_owned()], block(7, "aa")));
        assert!(!fs::read_to_string(place.join(PLAN)).unwrap().contains("cells"), "nothing of the other blocks");
    }

    /// A block published by an older version or with another `--runs` used to count as this one.
    #[test]
    fn block_of_another_plan_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        work(folder.path(), "first").publish([]).unwrap();
        let error = begin(folder.path(), 7, "bb").err().unwrap();
        assert_eq!(error.downcast_ref::<Failure>().unwrap().kind, FailureKind::Usage);
        assert!(error.to_string().ends_with("belongs to another plan"), "{error}");
        assert!(begin(folder.path(), 8, "bb").unwrap().is_some());
    }

    #[test]
    fn work_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let given_up = work(folder.path(), "half");
        let scratch = given_up.scratch();
        drop(given_up);
        assert!(!scratch.exists() && fs::read_dir(folder.path()).unwrap().count() == 0);
    }
}
