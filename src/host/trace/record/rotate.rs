//! Rotates files of limited size and age: `FILE` is the current one, `FILE.1` the previous one, and so on.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Size of a file after which the next one starts.
    pub bytes: Option<u64>,
    /// Age of a file after which the next one starts.
    pub age: Option<Duration>,
    /// Number of older files to keep.
    pub keep: u32,
}

impl Rotation {
    /// One file without limit.
    pub const NONE: Rotation = Rotation { bytes: None, age: None, keep: 0 };

    pub fn is_on(&self) -> bool {
        self.bytes.is_some() || self.age.is_some()
    }

    pub(super) fn is_due(&self, bytes: u64, age: Duration) -> bool {
        self.bytes.is_some_and(|limit| bytes >= limit) || self.age.is_some_and(|limit| age >= limit)
    }

    /// Renames the file and every older file by one number, and deletes the oldest.
    pub(super) fn put_aside(&self, path: &Path) -> Result<()> {
        if self.keep == 0 {
            return fs::remove_file(path).with_context(|| format!("remove \"{}\"", path.display()));
        }
        for number in (1..=self.keep).rev() {
            let from = if number == 1 { path.to_owned() } else { older(path, number - 1) };
            match fs::rename(&from, older(path, number)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other.with_context(|| format!("put \"{}\" aside", from.display()))?,
            }
        }
        Ok(())
    }
}

/// For example `FILE.3`.
fn older(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}
