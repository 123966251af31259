//! Reads text files.

use std::path::Path;

use shared::kernel::io_error::reason;
use shared::read_limited;

const BYTES_MAX: u64 = 16 << 20;

/// Mistake of a file that is not UTF-8.
pub const NOT_TEXT: &str = "expected text in UTF-8";

#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The system's reason, or that it is not a regular file.
    File(String),
    /// Line of the first invalid bytes.
    NotText(usize),
}

/// # Errors
/// The system's; a directory, pipe or device; more than 16 MiB; bytes that are not UTF-8.
pub fn read(path: &Path) -> Result<String, Unreadable> {
    let bytes = read_limited::read(path, BYTES_MAX).map_err(|error| Unreadable::File(reason(&error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        Unreadable::NotText(before.iter().filter(|byte| **byte == b'\n').count() + 1)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn file_that_is_no_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let check = |path: &Path, why: &str| assert_eq!(read(path), Err(Unreadable::File(why.to_owned())));
        check(&file, "no such file or directory");
        check(folder.path(), "it is not a regular file");
        check(Path::new("/dev/zero"), "it is not a regular file");
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR).unwrap();
        check(&file, "it is not a regular file");
        fs::remove_file(&file).unwrap();
        fs::write(&file, b"one\ntwo \xff\n").unwrap();
        assert_eq!(read(&file), Err(Unreadable::NotText(2)));
        File::create(&file).unwrap().set_len(BYTES_MAX + 1).unwrap();
        check(&file, "it is larger than 16 MiB");
        fs::write(&file, "one\n").unwrap();
        assert_eq!(read(&file).as_deref(), Ok("one\n"));
    }
}
