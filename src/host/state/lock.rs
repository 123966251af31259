//! Locks: one for each name, and one for each thing that names share. A process that is stopped while it changes one name
//! does not block changes of another.
//!
//! The lock files are private, because a process that can open a file can lock it. Every holder of a lock also holds a shared
//! lock on one more file, the presence. The process that leaves last removes what is empty.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use super::pins::Pins;
use super::record::{Record, read};
use super::store::Store;
use crate::waits;
use shared::failure::Failure;
use shared::interrupt;
use shared::kernel::{flock, io_error, process};
use shared::poll::{POLL_INTERVAL, try_poll};
use shared::units::format_duration;

/// In the folder of records.
const LOCKS: &str = "locks";
const PRESENCE: &str = "presence";
/// Ending of a record that is being written.
const UNFINISHED: &str = "new";
/// Locks that this process holds.
static HELD: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LockSubject {
    /// The record, the pins and the registration of a name.
    #[display("\"{_0}\"")]
    Name(String),
    /// The record of the policy, its pins, and its program at the root of the cgroups.
    #[display("the policy")]
    Policy,
    /// The steps by which a trial begins, changes or ends.
    #[display("a trial")]
    Trial,
    /// The default algorithm, the list of allowed ones, and the previous default in records.
    #[display("the default algorithm")]
    Default,
    #[display("the mount of the BPF file system")]
    Mount,
    /// Writing one file in the folder of records.
    #[display("the records of this host")]
    Records,
}

/// Their files are made with the folder, so that each can be locked on a file system that is full or read-only.
const SHARED: [LockSubject; 5] =
    [LockSubject::Policy, LockSubject::Trial, LockSubject::Default, LockSubject::Mount, LockSubject::Records];

impl LockSubject {
    fn file(&self) -> String {
        match self {
            LockSubject::Name(name) => format!("name-{name}"),
            shared => <&str>::from(shared).to_owned(),
        }
    }

    /// How long a process waits for the lock. Confirming an upgrade on trial takes longest, because the kernel verifies the
    /// new code first.
    pub fn patience(&self) -> Duration {
        waits::time_of("lock", Duration::from_secs(if *self == LockSubject::Trial { 60 } else { 10 }))
    }
}

/// The right to change one thing, until it is dropped.
#[derive(Debug)]
pub struct Locked {
    store: Store,
    subject: LockSubject,
    _lock: Flock<File>,
    _presence: Presence, // dropped after the lock
    _held: Held,
}

/// Counts a lock in [`HELD`].
#[derive(Debug)]
struct Held;

impl Held {
    fn new() -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Clears a flag at the end of a wait.
struct Releases(&'static AtomicBool);

impl Drop for Releases {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Keeps a subject from changing until it is dropped. Others may hold it at the same time.
#[derive(Debug)]
pub struct SharedLock {
    _lock: Flock<File>,
    _presence: Presence, // dropped after the lock
}

/// Shows that a process works in the folder of records.
#[derive(Debug)]
struct Presence {
    store: Store,
    lock: Flock<File>,
}

impl Store {
    /// As [`Store::lock`], for a name.
    pub(crate) fn lock_name(&self, name: &str) -> Result<Locked> {
        self.lock(LockSubject::Name(name.to_owned()))
    }

    /// Waits up to [`LockSubject::patience`].
    ///
    /// Side effects: the folder of records exists until the last process unlocks and no record is left.
    ///
    /// # Errors
    /// The folder cannot be made (not root); another process holds the lock for too long. The latter has the exit code
    /// for "try again".
    pub fn lock(&self, subject: LockSubject) -> Result<Locked> {
        let patience = subject.patience();
        self.lock_within(subject, patience)
    }

    /// As [`Store::lock`], but waits up to `patience`.
    pub(crate) fn lock_within(&self, subject: LockSubject, patience: Duration) -> Result<Locked> {
        let (lock, presence) = self.wait_for(&subject, FlockArg::LockExclusiveNonblock, patience)?;
        Ok(Locked { store: self.clone(), subject, _lock: lock, _presence: presence, _held: Held::new() })
    }

    /// Keeps the subject from changing. As [`Store::lock_within`], but waits only for a process that changes it.
    pub(crate) fn share_within(&self, subject: &LockSubject, patience: Duration) -> Result<SharedLock> {
        let (lock, presence) = self.wait_for(subject, FlockArg::LockSharedNonblock, patience)?;
        Ok(SharedLock { _lock: lock, _presence: presence })
    }

    /// A signal ends the wait, unless this process holds a lock and so is in the middle of a change. Then the second
    /// signal ends the process.
    fn wait_for(&self, subject: &LockSubject, how: FlockArg, patience: Duration) -> Result<(Flock<File>, Presence)> {
        let at_once = Releases(interrupt::ends_at_once());
        let mut locked = None;
        try_poll(patience, POLL_INTERVAL, || {
            locked = self.flock(subject, how)?;
            if locked.is_none() && HELD.load(Ordering::Relaxed) > 0 {
                at_once.0.store(interrupt::came(), Ordering::SeqCst);
            } else if locked.is_none() {
                interrupt::check(|| format!("{subject} is being changed by another process"))?;
            }
            Ok(locked.is_some())
        })?;
        Ok(locked.ok_or_else(|| self.held(subject, patience))?)
    }

    /// `None` if another process holds the lock.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn try_lock(&self, subject: &LockSubject) -> Result<Option<Locked>> {
        let held = self.flock(subject, FlockArg::LockExclusiveNonblock)?;
        let locked = |(lock, presence)| Locked {
            store: self.clone(),
            subject: subject.clone(),
            _lock: lock,
            _presence: presence,
            _held: Held::new(),
        };
        Ok(held.map(locked))
    }

    fn flock(&self, subject: &LockSubject, how: FlockArg) -> Result<Option<(Flock<File>, Presence)>> {
        let Some(presence) = self.enter()? else { return Ok(None) };
        let file = self.open_lock(&subject.file()).map_err(|error| self.refused(&error))?;
        Ok(Flock::lock(file, how).ok().map(|lock| (lock, presence)))
    }

    /// `None` while the last process that left removes the folder.
    fn enter(&self) -> Result<Option<Presence>> {
        let file = match self.make_folders().and_then(|()| self.open_lock(PRESENCE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.refused(&error))?,
        };
        let Ok(lock) = Flock::lock(file, FlockArg::LockSharedNonblock) else { return Ok(None) };
        let presence = Presence { store: self.clone(), lock };
        Ok(presence.is_current().then_some(presence))
    }

    fn make_folders(&self) -> std::io::Result<()> {
        make_readable(self.folder())?;
        match DirBuilder::new().mode(0o700).create(self.folder().join(LOCKS)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            other => other?,
        }
        SHARED.iter().try_for_each(|subject| self.open_lock(&subject.file()).map(drop))
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.folder().join(LOCKS).join(name)
    }

    /// Opens for reading, which is enough to lock, also on a read-only file system.
    fn open_lock(&self, name: &str) -> std::io::Result<File> {
        let path = self.lock_path(name);
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)
            }
            other => other,
        }
    }

    fn held(&self, subject: &LockSubject, patience: Duration) -> Failure {
        let after = format_duration(patience);
        let holder = |name: &str| flock::holder(&self.lock_path(name));
        let Some(pid) = holder(&subject.file()).or_else(|| holder(PRESENCE)) else {
            let what = format!("cannot change {subject}: another process held its lock for {after}");
            return Failure::again(what).hint("try again");
        };
        let name = process::command(pid).unwrap_or_default();
        let (condition, advice) = process::condition(pid);
        let holds = format!("process {pid} ({name}) has held its lock for more than {after}, and {condition}");
        Failure::again(format!("cannot change {subject}: {holds}")).hint(advice)
    }
}

impl Presence {
    /// False if the file was removed before it was locked.
    fn is_current(&self) -> bool {
        let inode = |meta: std::io::Result<fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino())).ok();
        inode(self.lock.metadata()) == inode(fs::metadata(self.store.lock_path(PRESENCE)))
    }
}

impl Drop for Presence {
    /// The process that leaves last removes what is empty. A process that enters meanwhile waits, and creates it again.
    fn drop(&mut self) {
        if self.lock.relock(FlockArg::LockExclusiveNonblock).is_err() || !self.is_current() {
            return;
        }
        let folder = self.store.folder();
        // Files that a killed process did not rename. Nobody writes any now.
        let is_unfinished = |path: &PathBuf| path.extension().is_some_and(|ending| ending == UNFINISHED);
        files_in(folder).filter(is_unfinished).for_each(|path| drop(fs::remove_file(path)));
        if self.store.is_of_host()
            && let Some(pins) = Pins::of_host()
        {
            pins.tidy();
        }
        let is_lock = |entry: &fs::DirEntry| entry.file_name() == LOCKS;
        if fs::read_dir(folder).is_ok_and(|entries| entries.flatten().all(|entry| is_lock(&entry))) {
            let locks = folder.join(LOCKS);
            let others = files_in(&locks).filter(|path| !path.ends_with(PRESENCE));
            others.for_each(|path| drop(fs::remove_file(path)));
            // The presence goes last. Until then no other process enters. What appears afterwards belongs to others.
            let _ = fs::remove_file(locks.join(PRESENCE));
            let _ = fs::remove_dir(locks);
            let _ = fs::remove_dir(folder); // systemd may keep it
        }
    }
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

impl Locked {
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether this locks a name.
    pub fn is_for(&self, name: &str) -> bool {
        matches!(&self.subject, LockSubject::Name(own) if own == name)
    }

    /// Writes the first record of a registration atomically.
    ///
    /// # Errors
    /// The folder is full or read-only.
    pub fn create(&self, record: &Record) -> Result<()> {
        debug_assert!(self.is_for(&record.name), "{:?} does not protect {}", self.subject, record.name);
        self.write_document(&self.store.path(&record.name), record)
    }

    /// As [`Locked::create`], but keeps the remembered default, which only [`Locked::remember`] changes.
    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        debug_assert!(self.is_for(&record.name), "{:?} does not protect {}", self.subject, record.name);
        let _records = self.store.lock(LockSubject::Records)?;
        let path = self.store.path(&record.name);
        let previous_default = read(&path).map_or(record.previous_default.clone(), |written| written.previous_default);
        write_file(&path, &Record { previous_default, ..record.clone() }).map_err(|error| self.refused(error))
    }

    /// Changes the default that a record remembers. Needs only the lock of the default.
    pub(crate) fn remember(&self, name: &str, previous_default: Option<String>) -> Result<()> {
        debug_assert!(self.subject == LockSubject::Default, "{:?} does not protect the default", self.subject);
        let _records = self.store.lock(LockSubject::Records)?;
        let path = self.store.path(name);
        let Some(record) = read(&path) else { return Ok(()) };
        write_file(&path, &Record { previous_default, ..record }).map_err(|error| self.refused(error))
    }

    /// Writes a document below the folder of records atomically. Makes its folder.
    pub(crate) fn write_document<T: Serialize>(&self, path: &Path, document: &T) -> Result<()> {
        let _records = self.store.lock(LockSubject::Records)?;
        write_file(path, document).map_err(|error| self.refused(error))
    }

    /// A missing record is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        debug_assert!(self.is_for(name), "{:?} does not protect {name}", self.subject);
        let _records = self.store.lock(LockSubject::Records)?;
        Ok(io_error::remove_file(&self.store.path(name)).map_err(|error| self.store.refused(&error))?)
    }

    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast_ref::<std::io::Error>() {
            Some(cause) => self.store.refused(cause).into(),
            None => error,
        }
    }
}

/// Makes a folder that every user can read whatever the umask is, because every user can run `tccc status`.
fn make_readable(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Writes a file so that readers see the new one or the old one. The caller holds [`LockSubject::Records`].
fn write_file<T: Serialize>(path: &Path, document: &T) -> Result<()> {
    path.parent().map_or(Ok(()), make_readable)?;
    let fresh = path.with_extension(UNFINISHED);
    let text = serde_json::to_vec_pretty(document).context("write a record")?;
    let write = || {
        let mut file = File::create(&fresh)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(&text)?;
        fs::rename(&fresh, path)
    };
    // A full disk leaves a part.
    Ok(write().inspect_err(|_| drop(fs::remove_file(&fresh)))?)
}

/// Whether the error is that another process holds a lock.
pub fn is_held(error: &anyhow::Error) -> bool {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.is_some_and(|failure| failure.kind == shared::failure::FailureKind::Again)
}
