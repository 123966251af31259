//! The folder that holds the records.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::record::{Record, read};
use shared::failure::Failure;
use shared::kernel::io_error::reason;

/// Empty after a reboot, like the kernel's registrations.
pub const FOLDER: &str = "/run/tccc";

#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn of_host() -> Self {
        Self::at(Path::new(FOLDER))
    }

    pub fn at(folder: &Path) -> Self {
        Store { folder: folder.to_owned() }
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json"))
    }

    /// Sorted by name. Unreadable files are left out.
    pub fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.files().filter_map(|path| read(&path)).collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        records
    }

    /// Names with a file, also with an unreadable one.
    pub fn names(&self) -> BTreeSet<String> {
        let names = self.files().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
        names.filter(|name| shared::catalog::check_name(name).is_ok()).collect()
    }

    /// Whether a name is among [`Store::names`].
    pub fn has(&self, name: &str) -> bool {
        shared::catalog::check_name(name).is_ok() && self.path(name).symlink_metadata().is_ok()
    }

    pub fn record(&self, name: &str) -> Option<Record> {
        read(&self.path(name))
    }

    pub(super) fn is_of_host(&self) -> bool {
        self.folder == Path::new(FOLDER)
    }

    pub(super) fn refused(&self, error: &std::io::Error) -> Failure {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "run as root, or make the folder writable for you"
            }
            _ => "free space in /run",
        };
        Failure::failed(format!("cannot write records in {}: {}", self.folder.display(), reason(error))).hint(hint)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}
