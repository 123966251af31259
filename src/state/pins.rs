//! The pins of algorithms in the BPF file system, in folders below `tccc`.
//!
//! `links/NAME` holds a registration, `maps/NAME` its table, and `companions/NAME` the attachment of its companion program.
//! `previous/NAME` and `next/NAME` hold the tables of the previous code, and of code that is about to replace the current one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use super::lock::LockSubject;
use super::store::Store;
use crate::failure::Failure;
use crate::kernel::bpffs;
use crate::kernel::io_error::{self, reason};

const KINDS: [&str; 5] = ["links", "maps", "companions", "previous", "next"];

#[derive(Debug, Clone)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// None: no BPF file system is mounted.
    pub fn of_host() -> Option<Self> {
        bpffs::mount().map(|mount| Self::under(&mount))
    }

    /// As [`Pins::of_host`], for new pins.
    ///
    /// Errors: no BPF file system is or can be mounted; it is read-only; not permitted.
    pub fn writable() -> Result<Self> {
        let place = bpffs::place()?;
        if bpffs::mount().is_some() {
            let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
            let access = faccessat(AT_FDCWD, &place, wanted, AtFlags::AT_EACCESS);
            access.map_err(|errno| refused(&place, &errno.into()))?;
        }
        Ok(Self::under(&place))
    }

    fn under(mount: &Path) -> Self {
        Pins { folder: mount.join("tccc") }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn link(&self, name: &str) -> PathBuf {
        self.folder.join("links").join(name)
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.folder.join("maps").join(name)
    }

    pub fn companion(&self, name: &str) -> PathBuf {
        self.folder.join("companions").join(name)
    }

    pub fn previous(&self, name: &str) -> PathBuf {
        self.folder.join("previous").join(name)
    }

    pub fn next(&self, name: &str) -> PathBuf {
        self.folder.join("next").join(name)
    }

    fn folders(&self) -> [PathBuf; 5] {
        KINDS.map(|kind| self.folder.join(kind))
    }

    pub fn names(&self) -> BTreeSet<String> {
        let folders = self.folders();
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Mounts the BPF file system if none is mounted.
    ///
    /// Errors: not permitted; another process holds the lock for too long.
    pub fn mount(&self) -> Result<()> {
        if bpffs::mount().is_some() {
            return Ok(());
        }
        let _locked = Store::of_host().lock(LockSubject::Mount)?;
        bpffs::mount_missing().map(drop)
    }

    /// Makes the folders, and mounts the BPF file system if none is mounted. [`Pins::tidy`] undoes both.
    ///
    /// Errors: read-only; not permitted.
    pub fn prepare(&self) -> Result<()> {
        self.mount()?;
        for folder in [self.folder.clone()].into_iter().chain(self.folders()) {
            io_error::make_private_folder(&folder).map_err(|error| refused(&folder, &error))?;
        }
        Ok(())
    }

    /// Pins of the name that do not exist are no error.
    ///
    /// Errors: read-only; not permitted.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        for path in self.folders().map(|folder| folder.join(name)) {
            io_error::remove_file(&path).map_err(|error| refused(&path, &error))?;
        }
        Ok(())
    }

    /// Removes empty folders, and our mount. Call it while no other process pins.
    pub(super) fn tidy(&self) {
        for folder in self.folders().into_iter().chain([self.folder.clone()]) {
            let _ = fs::remove_dir(folder); // stays if it holds a pin
        }
        bpffs::unmount_ours();
    }
}

fn refused(place: &Path, error: &std::io::Error) -> Failure {
    Failure::unmet(format!("cannot pin in the BPF file system: {}: {}", place.display(), reason(error)))
        .hint("run as root; `mount -o remount,rw /sys/fs/bpf` where it is mounted read-only")
}
