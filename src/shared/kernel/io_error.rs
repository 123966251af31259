//! Errors of file operations: accepts those that are harmless, and gives the kernel's text for the others.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Removes a file. A missing file is no error.
///
/// # Errors
/// Those of [`fs::remove_file`].
pub fn remove_file(path: &Path) -> io::Result<()> {
    accept(ErrorKind::NotFound, fs::remove_file(path))
}

/// Turns an error of this kind into success.
///
/// # Errors
/// Any other error of `result`.
pub fn accept(kind: ErrorKind, result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == kind { Ok(()) } else { Err(error) })
}

/// The text of an error. The kernel's errors are in lower case and without their number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_some() { without_number(&text) } else { text }
}

/// As [`reason`], for the text of an error of the kernel.
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
