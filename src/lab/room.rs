//! Full disks: recognises one as the cause of a failure, and says whose disk it is.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use shared::failure::Failure;

/// The kernel's words for a full disk, which the guest, compilers and traffic processes print too.
pub(crate) const NO_ROOM: &str = "No space left on device";
const FULL: [&str; 2] = [NO_ROOM, "Disk quota exceeded"];
/// Begins every failure of a full disk.
const THE_DISK: &str = "the disk of \"";

/// Whether a full disk is known to be the cause.
pub fn is_full(error: &anyhow::Error) -> bool {
    known(error).is_some()
}

fn known(error: &anyhow::Error) -> Option<&Failure> {
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    failures.find(|failure| failure.what.starts_with(THE_DISK))
}

/// Turns an error of a full disk into a failure that names `place`, unless the error already names another.
///
/// An [`Errno`] is never of a disk, because files give [`std::io::Error`]. The kernel uses the same words for the limit
/// of namespaces and for the buffer of a log.
pub fn explained(error: anyhow::Error, place: &Path) -> anyhow::Error {
    let text = format!("{error:#}");
    let is_of_a_call = error.chain().any(|cause| cause.is::<Errno>());
    match FULL.iter().any(|words| text.contains(words)) && !is_of_a_call && !is_full(&error) {
        true => full(place, &text).into(),
        false => error,
    }
}

/// Like [`explained`], for an error that a full disk may have caused without being named, such as a short file.
pub(crate) fn suspected(error: anyhow::Error, place: &Path) -> anyhow::Error {
    let left = statvfs(place).map(|disk| (disk.blocks(), blocks_left([disk.blocks_free(), disk.blocks_available()])));
    match left.is_ok_and(|(all, left)| all > 0 && left == 0) && !is_full(&error) {
        true => full(place, &format!("{error:#}")).into(),
        false => explained(error, place),
    }
}

/// Bytes that this process can still write to a file system; `None` if it has no limit or the limit is unknown.
pub(crate) fn left(place: &Path) -> Option<u64> {
    let disk = statvfs(place).ok().filter(|disk| disk.blocks() > 0)?;
    Some(blocks_left([disk.blocks_free(), disk.blocks_available()]) * disk.fragment_size())
}

/// Of the free blocks and those that are not reserved for root, the ones that this process can write.
fn blocks_left([free, unreserved]: [u64; 2]) -> u64 {
    if geteuid().is_root() { free } else { unreserved }
}

/// The failure of a full disk.
pub(crate) fn full(place: &Path, why: &str) -> Failure {
    let failure = Failure::unmet(format!("{THE_DISK}{}\" is full: {why}", place.display()));
    failure.hint("make room, and run again with the same `--out`: finished runs are kept")
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn full_disk_is_named_once_with_the_cause() {
        let place = Path::new("out");
        let error = || anyhow::Error::from(io::Error::from_raw_os_error(28)).context("write \"plan.json\"");
        let named = explained(explained(error(), place), Path::new("other")).context("perform the run r0");
        let expected = "the disk of \"out\" is full: write \"plan.json\": No space left on device (os error 28)";
        assert_eq!(format!("{named:#}"), format!("perform the run r0: {expected}"));
        assert!(is_full(&named) && !is_full(&error()));
        let other = explained(anyhow!("interrupted"), place);
        assert_eq!(other.to_string(), "interrupted");
        assert!(!is_full(&suspected(other, &std::env::temp_dir())), "there is room");
    }

    /// As root, any error on a disk with only reserved blocks left became "the disk is full".
    #[test]
    fn reserved_blocks_are_room_for_root_alone() {
        assert_eq!(blocks_left([9, 0]) > 0, geteuid().is_root());
        assert_eq!(blocks_left([0, 0]), 0);
    }

    /// `unshare` gives the same error when there are too many namespaces.
    #[test]
    fn limit_of_the_kernel_is_no_full_disk() {
        let error = anyhow::Error::from(Errno::ENOSPC).context("create a network namespace");
        assert!(error.to_string().contains("namespace") && !is_full(&explained(error, Path::new("out"))));
    }
}
