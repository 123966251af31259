//! Reads untrusted files within a size limit. No file can exhaust memory or block the reader.
//!
//! Layer 0: standard library only.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// # Errors
/// An I/O error; not a regular file; a file larger than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let check = |metadata: Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    };
    check(path.metadata()?)?; // before it is opened, because opening a device can have effects
    let file = open(path)?;
    check(file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// Opens any kind of file. Neither waits for a pipe's writer nor acquires a controlling terminal.
///
/// # Errors
/// Those of [`File::open`].
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kernel::io_error::reason;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let refused = |path: &Path| reason(&read(path, 1 << 20).unwrap_err());
        assert_eq!(refused(&file), "no such file or directory");
        assert_eq!(refused(folder.path()), "it is not a regular file");
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless")).unwrap();
        assert_eq!(refused(&folder.path().join("endless")), "it is not a regular file");
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(refused(&file), "it is not a regular file", "a pipe without a writer is not waited for");
        fs::remove_file(&file).unwrap();
        File::create(&file).unwrap().set_len((1 << 20) + 1).unwrap();
        assert_eq!(refused(&file), "it is larger than 1 MiB");
        fs::write(&file, "one").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"one");
    }
}
