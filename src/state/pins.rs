//! Where pins are in the BPF file system: `tccc/links/NAME` holds a registration, `tccc/maps/NAME` its table,
//! `tccc/companions/NAME` the attachment of its companion program, `tccc/previous/NAME` and `tccc/next/NAME` the tables of the
//! code before and of code that is about to take its place.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use super::lock::LockSubject;
use super::store::Store;
use crate::failure::Failure;
use crate::kernel::bpffs;
use crate::kernel::btf::reason;

/// The pins under one BPF file system.
#[derive(Debug, Clone)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// The pins of this host.
    ///
    /// None: no BPF file system is mounted.
    pub fn of_host() -> Option<Self> {
        bpffs::mount().map(|mount| Self::under(&mount))
    }

    /// The pins of this host, where new ones can be made.
    ///
    /// Errors: no BPF file system is mounted, and none can be; it is read-only; not permitted.
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

    /// Where the attachment of the companion program of this name is pinned.
    pub fn companion(&self, name: &str) -> PathBuf {
        self.folder.join("companions").join(name)
    }

    /// Where the table of the code before is pinned.
    pub fn previous(&self, name: &str) -> PathBuf {
        self.folder.join("previous").join(name)
    }

    /// Where the table of code is pinned that is about to take the place of this one.
    pub fn next(&self, name: &str) -> PathBuf {
        self.folder.join("next").join(name)
    }

    fn folders(&self) -> [PathBuf; 5] {
        ["links", "maps", "companions", "previous", "next"].map(|kind| self.folder.join(kind))
    }

    fn all_of(&self, name: &str) -> [PathBuf; 5] {
        [self.link(name), self.map(name), self.companion(name), self.previous(name), self.next(name)]
    }

    pub fn names(&self) -> BTreeSet<String> {
        let folders = self.folders();
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Mounts the BPF file system where none is; a second mount would hide the pins of the first.
    ///
    /// Errors: not permitted; another process mounts it for too long.
    pub fn mount(&self) -> Result<()> {
        if bpffs::mount().is_some() {
            return Ok(());
        }
        let _locked = Store::of_host().lock(LockSubject::Mount)?;
        bpffs::mount_missing().map(drop)
    }

    /// Makes the folders, for this user only.
    ///
    /// Errors: read-only, or not permitted.
    /// Side effects: folders, and a BPF file system where none is mounted, that the process removes which leaves last, when nothing is pinned.
    pub fn prepare(&self) -> Result<()> {
        self.mount()?;
        for folder in [self.folder.clone()].into_iter().chain(self.folders()) {
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(refused(&folder, &error).into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the pins of a name; those that do not exist are no error.
    ///
    /// Errors: read-only, or not permitted.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        for path in self.all_of(name) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(&path, &error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes folders away that hold nothing, and the mount, while no other process pins.
    pub(super) fn tidy(&self) {
        for folder in self.folders().into_iter().chain([self.folder.clone()]) {
            let _ = fs::remove_dir(folder); // one that holds a pin stays
        }
        bpffs::unmount_ours();
    }
}

fn refused(place: &Path, error: &std::io::Error) -> Failure {
    Failure::unmet(format!("cannot pin in the BPF file system: {}: {}", place.display(), reason(error)))
        .hint("run as root; `mount -o remount,rw /sys/fs/bpf` where it is mounted read-only")
}
