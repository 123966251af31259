//! Text of a file as it is read from disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of a file.
const BYTES_MAX: u64 = 16 << 20;

/// What is wrong with bytes that are no text.
pub const NOT_TEXT: &str = "expected text in UTF-8";

/// Why a file gives no text.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The system's reason, or that this is no file to read.
    File(String),
    /// Line of the first bytes that are not UTF-8.
    NotText(usize),
}

/// Reads a regular file.
///
/// Errors: the system's; a folder, a pipe or a device; more than 16 MiB; bytes that are not UTF-8.
pub fn read(path: &Path) -> Result<String, Unreadable> {
    let system = |error: io::Error| Unreadable::File(reason(&error));
    let refuse = |why: String| Err(Unreadable::File(why));
    // Before it is opened, because opening a device can have effects.
    if !path.metadata().map_err(system)?.is_file() {
        return refuse("it is not a regular file".to_owned());
    }
    let file = open(path).map_err(system)?;
    if !file.metadata().map_err(system)?.is_file() {
        return refuse("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(system)?;
    if bytes.len() as u64 > BYTES_MAX {
        return refuse(format!("it is larger than {} MiB", BYTES_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        Unreadable::NotText(before.iter().filter(|byte| **byte == b'\n').count() + 1)
    })
}

/// Opens a file; what became a pipe since it was looked at does not wait for a writer.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// The system's words for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::fs;

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
