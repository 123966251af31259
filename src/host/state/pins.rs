//! The pins of algorithms in the BPF file system, in folders below `tccc`.
//!
//! `links/NAME` holds a registration, `maps/NAME` its table, and `companions/NAME` the attachment of its companion program. A
//! companion at network devices has a folder there, with a pin for each device by its index.
//! `previous/NAME` and `next/NAME` hold the tables of the previous code, and of code that is about to replace the current one.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use super::lock::LockSubject;
use super::store::Store;
use shared::failure::Failure;
use shared::kernel::bpf;
use shared::kernel::bpffs;
use shared::kernel::io_error::{self, reason};

const KINDS: [&str; 5] = ["links", "maps", "companions", "previous", "next"];

/// The folders of pins on this host. Usually there is one.
#[derive(Debug, Clone)]
pub struct Pins {
    /// For new pins.
    folder: PathBuf,
    /// Pins in further BPF file systems, for example in one that was the only one when an algorithm was loaded.
    others: Vec<PathBuf>,
}

impl Pins {
    /// None: no BPF file system is mounted.
    pub fn of_host() -> Option<Self> {
        bpffs::mount().map(Self::under)
    }

    /// As [`Pins::of_host`], for new pins.
    ///
    /// # Errors
    /// No BPF file system is or can be mounted; it is read-only; not permitted; another user could remove the pins.
    pub fn writable() -> Result<Self> {
        let place = bpffs::place()?;
        if bpffs::mount().is_some() {
            let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
            let access = faccessat(AT_FDCWD, &place, wanted, AtFlags::AT_EACCESS);
            access.map_err(|errno| refused(&place, &errno.into()))?;
            check_owner(&place)?;
        }
        let pins = Self::under(place);
        if pins.folder.symlink_metadata().is_ok() {
            check_owner(&pins.folder)?;
        }
        Ok(pins)
    }

    fn under(mount: PathBuf) -> Self {
        let others = bpffs::places().into_iter().filter(|place| *place != mount && bpffs::has_our_folder(place));
        Pins { others: others.map(|place| bpffs::our_folder(&place)).collect(), folder: bpffs::our_folder(&mount) }
    }

    fn all_folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.folder].into_iter().chain(&self.others)
    }

    /// The folder that has pins of this name, or else the one for new pins.
    fn folder_of(&self, name: &str) -> &Path {
        let has = |folder: &&PathBuf| KINDS.iter().any(|kind| folder.join(kind).join(name).symlink_metadata().is_ok());
        if self.others.is_empty() { None } else { self.all_folders().find(has) }.unwrap_or(&self.folder)
    }

    /// The folder of the policy's pins.
    pub fn policy(&self) -> PathBuf {
        let places: Vec<PathBuf> = self.all_folders().map(|folder| folder.join("policy")).collect();
        places.iter().find(|place| place.exists()).unwrap_or(&places[0]).clone()
    }

    pub fn link(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("links").join(name)
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("maps").join(name)
    }

    pub fn companion(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("companions").join(name)
    }

    /// The place for a companion's attachment to a device. Makes its folder.
    ///
    /// # Errors
    /// Read-only; not permitted.
    pub fn companion_at(&self, name: &str, device: u32) -> Result<PathBuf> {
        let folder = self.companion(name);
        make_folder(&folder)?;
        Ok(folder.join(device.to_string()))
    }

    /// The pinned attachments of a companion that can be opened.
    pub fn companion_links(&self, name: &str) -> Vec<OwnedFd> {
        let place = self.companion(name);
        let pins = if place.is_dir() { members(&place) } else { vec![place] };
        pins.iter().filter_map(|pin| bpf::open_pin(pin).ok()).collect()
    }

    pub fn previous(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("previous").join(name)
    }

    pub fn next(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("next").join(name)
    }

    /// The places of all pins of a name, whether or not they exist.
    pub fn all_of(&self, name: &str) -> [PathBuf; 5] {
        let folder = self.folder_of(name);
        KINDS.map(|kind| folder.join(kind).join(name))
    }

    pub fn names(&self) -> BTreeSet<String> {
        let folders = self.all_folders().flat_map(|folder| KINDS.map(|kind| folder.join(kind)));
        let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.all_of(name).iter().any(|pin| pin.symlink_metadata().is_ok())
    }

    /// Mounts the BPF file system if none is mounted.
    ///
    /// # Errors
    /// Not permitted; the mount would end with this process; another process holds the lock for too long.
    pub fn mount(&self) -> Result<()> {
        if bpffs::mount().is_some() {
            return Ok(());
        }
        let _locked = Store::of_host().lock(LockSubject::Mount)?;
        bpffs::mount_missing().map(drop)
    }

    /// Makes the folders, and mounts the BPF file system if none is mounted. [`Pins::tidy`] undoes both.
    ///
    /// # Errors
    /// Read-only; not permitted; another user could remove the pins.
    pub fn prepare(&self) -> Result<()> {
        self.mount()?;
        make_folder(&self.folder)?;
        KINDS.iter().try_for_each(|kind| Ok(make_folder(&self.folder.join(kind))?))
    }

    /// Missing pins of the name are no error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        for path in self.all_of(name) {
            let removed = if path.is_dir() { remove_folder(&path) } else { io_error::remove_file(&path) };
            removed.map_err(|error| refused(&path, &error))?;
        }
        Ok(())
    }

    /// Removes empty folders, and our mount. Call it while no other process pins.
    pub(super) fn tidy(&self) {
        for folder in self.all_folders().filter(|folder| check_owner(folder).is_ok()) {
            for folder in KINDS.map(|kind| folder.join(kind)).iter().chain([folder]) {
                let _ = fs::remove_dir(folder); // stays if it holds a pin
            }
        }
        bpffs::unmount_ours();
    }
}

fn members(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Removes a folder of pins.
fn remove_folder(folder: &Path) -> std::io::Result<()> {
    members(folder).iter().try_for_each(|pin| io_error::remove_file(pin))?;
    fs::remove_dir(folder)
}

/// Makes a folder that only this user can open. An existing folder of this user is no error.
///
/// # Errors
/// Read-only; not permitted; another user made the folder, or can write to it.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    io_error::accept(ErrorKind::AlreadyExists, made).map_err(|error| refused(folder, &error))?;
    check_owner(folder)
}

fn check_owner(folder: &Path) -> Result<(), Failure> {
    bpffs::check_owner(folder).map_err(|error| {
        let place = folder.display();
        let hint = match bpffs::places().iter().any(|place| place == folder) {
            true => format!("`chown root: {place} && chmod 700 {place}`"),
            false => format!("only root may own it: remove it with `rm -r {place}`, then try again"),
        };
        Failure::unmet(format!("cannot pin in {place}, where another user could remove the pins: {}", reason(&error)))
            .hint(hint)
    })
}

fn refused(place: &Path, error: &std::io::Error) -> Failure {
    Failure::unmet(format!("cannot pin in the BPF file system: {}: {}", place.display(), reason(error)))
        .hint("run as root; `mount -o remount,rw /sys/fs/bpf` where it is mounted read-only")
}
