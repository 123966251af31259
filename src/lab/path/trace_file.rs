//! Reads files of numbers, one per line. Sizes are limited, so that no file can exhaust the memory.

use std::ops::RangeInclusive;
use std::path::Path;

use sha2::{Digest, Sha256};

use shared::kernel::io_error;
use shared::read_limited;
use shared::sanitize::shown;

/// Largest file, bytes: a day of deliveries at 1 Mbit/s.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most numbers in a file.
pub const NUMBERS_MAX: usize = 4_000_000;

/// # Errors
/// No such file; not a regular file; larger than [`FILE_BYTES_MAX`]; not UTF-8 text.
pub fn read(path: &Path) -> Result<String, String> {
    let refuse = |why: String| format!("cannot read \"{}\": {why}", path.display());
    let bytes = read_limited::read(path, FILE_BYTES_MAX).map_err(|error| refuse(io_error::reason(&error)))?;
    String::from_utf8(bytes).map_err(|_| refuse("it is not text".into()))
}

/// Reads one number from each of the [`lines`].
///
/// # Errors
/// The first line that is not a number in the range, or whose number is not `in_order` after the one before it, with
/// `order` as what is expected; more than [`NUMBERS_MAX`] numbers.
pub fn numbers(
    text: &str,
    range: RangeInclusive<u64>,
    (in_order, order): (fn(&u64, &u64) -> bool, &str),
) -> Result<Vec<u64>, String> {
    let mut numbers: Vec<u64> = Vec::new();
    for (line, written) in lines(text) {
        let number = written.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            format!("line {line}: \"{}\": expected a whole number from {low} to {high}", shown(written))
        })?;
        if numbers.len() == NUMBERS_MAX {
            return Err(format!("line {line}: expected at most {NUMBERS_MAX} numbers"));
        }
        if let Some(before) = numbers.last().filter(|before| !in_order(before, &number)) {
            return Err(format!("line {line}: {number} after {before}: expected {order}"));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// The lines of a file with their numbers, from 1. Skips a byte order mark, blank lines, and lines that begin with `#`.
pub fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let lines = (1..).zip(text.trim_start_matches('\u{feff}').lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// SHA-256 over each number as eight little-endian bytes, in hexadecimal.
pub fn digest(numbers: impl Iterator<Item = u64>) -> String {
    let mut hash = Sha256::new();
    numbers.for_each(|number| hash.update(number.to_le_bytes()));
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn numbers_are_read_or_refused_with_their_line() {
        let read = |text: &str| numbers(text, 1..=99, (u64::le, "times in order"));
        assert_eq!(read("# losses\n3\n\n 17 \r\n"), Ok(vec![3, 17]));
        assert_eq!(read("\u{feff}1\n2\n"), Ok(vec![1, 2]), "as some editors begin a file");
        let refused = |text: &str| read(text).unwrap_err();
        assert_eq!(refused("# times\n3\n\n2"), "line 4: 2 after 3: expected times in order");
        assert_eq!(refused("3\n100"), "line 2: \"100\": expected a whole number from 1 to 99");
        assert_eq!(refused("-1"), "line 1: \"-1\": expected a whole number from 1 to 99");
        assert!(refused("1\nNaN").starts_with("line 2: \"NaN\""));
        assert!(refused(&"7\n".repeat(NUMBERS_MAX + 1)).contains("at most 4000000 numbers"));
    }

    #[test]
    fn files_that_cannot_be_a_trace_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let refused = |name: &str| read(&path(name)).unwrap_err();
        assert!(refused("none").ends_with("no such file or directory"), "{}", refused("none"));
        assert!(refused("").ends_with("it is not a regular file"));
        std::os::unix::fs::symlink("/dev/zero", path("endless")).unwrap();
        assert!(refused("endless").ends_with("it is not a regular file"));
        nix::unistd::mkfifo(&path("waits"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(refused("waits").ends_with("it is not a regular file"), "a pipe without a writer does not block");
        File::create(path("large")).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(refused("large").ends_with("it is larger than 16 MiB"));
        fs::write(path("binary"), [0xff, 0xfe]).unwrap();
        assert!(refused("binary").ends_with("it is not text"));
        fs::write(path("good"), "1\n2\n").unwrap();
        assert_eq!(read(&path("good")).unwrap(), "1\n2\n");
    }
}
