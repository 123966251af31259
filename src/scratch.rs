//! Temporary folders, removed when dropped. If their process is killed, the next run removes them.

use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// How often a name may be taken, or a new folder be removed by another process before it is locked.
const TRIES: u32 = 100;

/// A folder only for this user, held by a lock. Folders that are not locked may be removed.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _held: File,
}

impl Scratch {
    /// Creates a folder in `place`, and removes what killed processes left there.
    pub fn create(place: &Path) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let prefix = prefix();
        sweep(place, &prefix);
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = place.join(format!("{prefix}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue, // by a container that shares the place
                created => created.with_context(|| format!("create \"{}\"", folder.display()))?,
            }
            let Ok(held) = File::open(&folder) else { continue }; // another process swept it just now
            let _ = held.lock(); // without locks in the file system, nobody can lock the folder to remove it
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
        let _ = fs::remove_dir_all(&self.folder); // the next run removes the rest
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

    #[test]
    fn name_that_is_taken_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..TRIES / 2 {
            fs::create_dir(place.path().join(format!("{}{}-{number}", prefix(), std::process::id()))).unwrap();
        }
        let held = fs::read_dir(place.path()).unwrap().flatten().map(|entry| File::open(entry.path()).unwrap());
        let held: Vec<File> = held.inspect(|folder| folder.lock().unwrap()).collect();
        let made = Scratch::create(place.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), held.len() + 1);
        drop(made);
    }
}
