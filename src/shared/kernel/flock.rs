//! Finds the process that holds a `flock` lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::libc::makedev;
use procfs::{Lock, LockType};

/// The process that locked a file, or the first one for a shared lock.
///
/// None: the file is not locked or is gone, or the process is in another container and not visible here.
pub fn holder(path: &Path) -> Option<u32> {
    let meta = fs::metadata(path).ok()?;
    holder_in(&procfs::locks().ok()?, meta.dev(), meta.ino())
}

/// The kernel lists waiting processes after the holder.
fn holder_in(locks: &[Lock], device: u64, inode: u64) -> Option<u32> {
    let is_of_file = |lock: &&Lock| (makedev(lock.devmaj, lock.devmin), lock.inode) == (device, inode);
    let first = locks.iter().filter(is_of_file).find(|lock| lock.lock_type == LockType::FLock)?;
    first.pid?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{Flock, FlockArg};
    use procfs::{FromRead, Locks};

    #[test]
    fn holder_of_a_lock_is_found_and_a_waiting_process_is_not() {
        let locks = "1: FLOCK  ADVISORY  READ 7 00:19:5 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 00:19:6 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 00:19:6 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 13 00:19:7 0 EOF\n";
        let locks = Locks::from_read(locks.as_bytes()).unwrap().0;
        let holders = [5, 6, 7, 8].map(|inode| holder_in(&locks, makedev(0, 0x19), inode));
        assert_eq!(holders, [Some(7), Some(11), None, None]);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(holder(file.path()), None);
        let lock = Flock::lock(file.reopen().unwrap(), FlockArg::LockExclusive).unwrap();
        assert_eq!(holder(file.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder(file.path()), None);
    }
}
