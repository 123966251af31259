//! Errors of file operations: accepts those that are harmless, and gives the kernel's text for the others.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Removes a file. A missing file is no error.
pub fn remove_file(path: &Path) -> io::Result<()> {
    accept(ErrorKind::NotFound, fs::remove_file(path))
}

/// Turns an error of this kind into success.
pub fn accept(kind: ErrorKind, result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == kind { Ok(()) } else { Err(error) })
}

/// The kernel's text for an error, in lower case and without its number.
pub fn reason(error: &io::Error) -> String {
    without_number(&error.to_string())
}

/// As [`reason`], for the text of an error.
pub fn without_number(text: &str) -> String {
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_has_no_number() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
