//! The results of one block, published whole: there under the block's name, or not there at all.
//!
//! A rename within the folder is the only step that others can see. It needs no lock, so that it works on network file
//! systems without them. `plan.json` is copied last, by which readers know a result directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Written last.
const MARK: &str = "plan.json";

/// Where the results of a block go.
pub(super) struct Publication {
    place: PathBuf,
    scratch: TempDir,
}

impl Publication {
    /// Begins; none when the block is published already.
    ///
    /// Errors: the folder, or one for the work, cannot be made.
    pub fn begin(folder: &Path, number: usize) -> Result<Option<Self>> {
        let place = folder.join(format!("block-{number:05}"));
        if place.join(MARK).exists() {
            return Ok(None);
        }
        fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
        let scratch = tempfile::Builder::new().prefix("tccc-block-").tempdir().context("make a scratch directory")?;
        Ok(Some(Publication { place, scratch }))
    }

    /// Where the block does its work.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.path().join("results")
    }

    /// Copies the results beside their place and renames them; of two that finish, the first stays.
    ///
    /// Errors: the folder cannot be written.
    pub fn publish(self) -> Result<PathBuf> {
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(folder);
        let part = part.with_context(|| format!("write to \"{}\"", folder.display()))?;
        let whole = part.path().join("block");
        copy(&self.scratch(), &whole).with_context(|| format!("copy the results to \"{}\"", folder.display()))?;
        match fs::rename(&whole, &self.place) {
            Err(_) if self.place.join(MARK).exists() => Ok(self.place),
            renamed => {
                renamed.map(|()| self.place.clone()).with_context(|| format!("make \"{}\"", self.place.display()))
            }
        }
    }
}

/// Copies a folder, its mark last.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let mut entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| entry.file_name() == MARK);
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(publication: &Publication, text: &str) {
        fs::create_dir_all(publication.scratch().join("runs/a")).unwrap();
        fs::write(publication.scratch().join("runs/a/run.json"), text).unwrap();
        fs::write(publication.scratch().join(MARK), "{}").unwrap();
    }

    #[test]
    fn block_is_published_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || Publication::begin(folder.path(), 7).unwrap();
        let (first, second) = (begin().unwrap(), begin().unwrap());
        work(&first, "first");
        work(&second, "second");
        let place = first.publish().unwrap();
        assert_eq!(place, folder.path().join("block-00007"));
        assert_eq!(second.publish().unwrap(), place);
        assert_eq!(fs::read_to_string(place.join("runs/a/run.json")).unwrap(), "first");
        assert!(begin().is_none(), "it is there already");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn work_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let given_up = Publication::begin(folder.path(), 1).unwrap().unwrap();
        let scratch = given_up.scratch();
        work(&given_up, "half");
        drop(given_up);
        assert!(!scratch.exists() && fs::read_dir(folder.path()).unwrap().count() == 0);
    }
}
