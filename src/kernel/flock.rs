//! Who holds a lock of `flock`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::stat::{major, minor};

/// The process that holds a lock on a file, an exclusive one if there is one.
///
/// None: nobody holds one, the file is gone, or its holder is in another container, whose processes are not seen here.
pub fn holder(path: &Path) -> Option<u32> {
    let meta = fs::metadata(path).ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(meta.dev()), minor(meta.dev()), meta.ino());
    holder_in(&fs::read_to_string("/proc/locks").ok()?, &file)
}

/// `/proc/locks` lists `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; whoever waits has `->` before the kind.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let held = locks.lines().filter_map(|line| {
        let [_, "FLOCK", _, access, pid, place, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        (place == file).then_some((access == "WRITE", pid.parse::<u32>().ok()?))
    });
    held.max_by_key(|(is_exclusive, _)| *is_exclusive).map(|(_, pid)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{Flock, FlockArg};

    #[test]
    fn holder_of_a_lock_is_found_and_a_waiting_process_is_not() {
        let locks = "1: FLOCK  ADVISORY  READ 7 00:19:5 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 00:19:6 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 00:19:6 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 13 00:19:7 0 EOF\n";
        assert_eq!(
            ["00:19:5", "00:19:6", "00:19:7", "00:19:8"].map(|it| holder_in(locks, it)),
            [Some(7), Some(11), None, None]
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(holder(file.path()), None);
        let lock = Flock::lock(file.reopen().unwrap(), FlockArg::LockExclusive).unwrap();
        assert_eq!(holder(file.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder(file.path()), None);
    }
}
