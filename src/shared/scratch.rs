//! Temporary folders, removed when dropped. If their process is killed, the next run removes them.

use std::fs::{self, DirEntry, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tempfile::{Builder, TempDir};

/// How often another process may remove a new folder before it is locked.
const TRIES: u32 = 100;

/// A folder only for this user, held by a lock. Folders that are not locked may be removed.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _held: File,
}

impl Scratch {
    /// Creates a folder in `place`, and removes what killed processes left there.
    ///
    /// # Errors
    /// The folder cannot be created, or is removed as soon as it exists.
    pub fn create(place: &Path) -> Result<Self> {
        let prefix = prefix();
        sweep(place, &prefix);
        for _ in 0..TRIES {
            let folder = Builder::new().prefix(&prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(place);
            let folder = folder.with_context(|| format!("create a folder in \"{}\"", place.display()))?;
            let Ok(held) = File::open(folder.path()) else { continue }; // another process removed it just now
            let _ = held.lock(); // on a file system without locks, nobody can lock the folder to remove it
            if folder.path().exists() {
                return Ok(Scratch { folder, _held: held });
            }
        }
        bail!("folders in \"{}\" are removed as soon as they are made", place.display())
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Prefix of this host's folders; other hosts do not see its locks on NFS.
fn prefix() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("tccc-scratch-{}-", host.trim().replace('/', "_"))
}

/// Removes this user's folders that nobody holds.
fn sweep(place: &Path, prefix: &str) {
    let is_ours = |entry: &DirEntry| {
        entry.file_name().to_string_lossy().starts_with(prefix) && entry.file_type().is_ok_and(|it| it.is_dir())
    };
    for entry in fs::read_dir(place).into_iter().flatten().flatten().filter(is_ours) {
        if File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
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
        assert_eq!(mine.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let left = place.path().join(format!("{}1-0", prefix()));
        fs::create_dir_all(left.join("uml")).unwrap();
        let others = ["other", "tccc-scratch-another.host-1-0"].map(|name| place.path().join(name));
        others.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        // Opening it would wait for a writer.
        nix::unistd::mkfifo(&place.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let second = Scratch::create(place.path()).unwrap();
        assert!(!left.exists() && mine.path().exists() && second.path().exists());
        assert!(others.iter().all(|folder| folder.exists()));
        drop((mine, second));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }
}
