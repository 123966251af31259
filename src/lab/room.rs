//! Full disks: recognises one as the cause of a failure, and says whose disk it is.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use shared::failure::Failure;

/// The kernel's words for a full disk, which the guest, compilers and traffic processes print too.
pub(crate) const NO_ROOM: &str = "No space left on device";
const FULL: [&str; 2] = [NO_ROOM, "Disk quota exceeded"];
/// Begins every failure of a full disk.
const THE_DISK: &str = "the disk of \"";

/// Whether a full disk is known to be the cause.
pub(crate) fn is_full(error: &anyhow::Error) -> bool {
    known(error).is_some()
}

fn known(error: &anyhow::Error) -> Option<&Failure> {
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    failures.find(|failure| failure.what.starts_with(THE_DISK))
}

/// Turns an error of a full disk into a failure that names `place`, unless the error already names another.
pub fn explained(error: anyhow::Error, place: &Path) -> anyhow::Error {
    let text = format!("{error:#}");
    match FULL.iter().any(|words| text.contains(words)) && !is_full(&error) {
        true => full(place, &text).into(),
        false => error,
    }
}

/// Like [`explained`], for an error that a full disk may have caused without being named, such as a short file.
pub(crate) fn suspected(error: anyhow::Error, place: &Path) -> anyhow::Error {
    let is_without_room = statvfs(place).is_ok_and(|disk| disk.blocks() > 0 && disk.blocks_available() == 0);
    match is_without_room && !is_full(&error) {
        true => full(place, &format!("{error:#}")).into(),
        false => explained(error, place),
    }
}

fn full(place: &Path, why: &str) -> Failure {
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
}
