//! Folders that a run needs for a while: gone when dropped, and swept by the next run when their process was killed.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// How their names begin.
const PREFIX: &str = "tccc-scratch-";
/// How often a new folder may be taken for an abandoned one before its maker holds it.
const TRIES: u32 = 10;

/// A folder for this user alone, held by a lock: what is not locked belongs to nobody.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _held: File,
}

impl Scratch {
    /// Creates one in a folder, after it has removed there what killed processes left.
    ///
    /// Errors: the folder cannot be written.
    /// Side effects: a folder, until the value is dropped.
    pub fn create(place: &Path) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        sweep(place);
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let created = DirBuilder::new().mode(0o700).create(&folder);
            created.with_context(|| format!("create \"{}\"", folder.display()))?;
            let Ok(held) = File::open(&folder) else { continue }; // another process swept it just now
            held.lock().with_context(|| format!("hold \"{}\"", folder.display()))?;
            if folder.exists() {
                return Ok(Scratch { folder, _held: held });
            }
        }
        bail!("folders in \"{}\" are removed as soon as they are made", place.display())
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // the next run sweeps what stays
    }
}

/// Removes the folders that nobody holds; others' users keep theirs.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let Ok(folder) = File::open(entry.path()) else { continue };
        if is_ours && folder.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_nobody_holds_is_swept_and_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let mine = Scratch::create(place.path()).unwrap();
        let left = place.path().join(format!("{PREFIX}1-0"));
        fs::create_dir_all(left.join("uml")).unwrap();
        fs::create_dir(place.path().join("other")).unwrap();
        let second = Scratch::create(place.path()).unwrap();
        assert!(!left.exists() && mine.path().exists() && second.path().exists());
        assert!(place.path().join("other").exists());
        drop((mine, second));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
