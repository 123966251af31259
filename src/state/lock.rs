//! Locks: one for each name, and one for each thing that names share, so that a process that is stopped while it changes
//! one name keeps nobody from changing another.
//!
//! The locks are files that only their owner can open: whoever can open a file can lock it. Every process that holds a
//! lock also holds a shared lock on one more file, the presence. The process that leaves last removes what is empty.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use super::pins::Pins;
use super::record::{Record, read};
use super::store::Store;
use crate::failure::Failure;
use crate::kernel::flock;
use crate::kernel::process::{Condition, command};
use crate::units::format_duration;

/// The folder of the locks, in the folder of records.
const LOCKS: &str = "locks";
/// The file that every holder of a lock holds too.
const PRESENCE: &str = "presence";
/// Ending of a record that is not written to its end.
const UNFINISHED: &str = "new";
/// How often a held lock is asked for again.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockSubject {
    /// One name: its record, its pins and its registration.
    Name(String),
    /// The policy: its record, its pins and its program at the root of the cgroups.
    Policy,
    /// The steps by which a trial begins, changes or ends.
    Trial,
    /// The default algorithm, the list of allowed ones, and who remembers which default was before.
    Default,
    /// Mounting the BPF file system.
    Mount,
    /// Writing one file in the folder of records.
    Records,
}

/// Their files are made with the folder, so that each can be locked when the file system has become read-only or full.
const SHARED: [LockSubject; 5] =
    [LockSubject::Policy, LockSubject::Trial, LockSubject::Default, LockSubject::Mount, LockSubject::Records];

impl LockSubject {
    fn file(&self) -> String {
        match self {
            LockSubject::Name(name) => format!("name-{name}"),
            LockSubject::Policy => "policy".to_owned(),
            LockSubject::Trial => "trial".to_owned(),
            LockSubject::Default => "default".to_owned(),
            LockSubject::Mount => "mount".to_owned(),
            LockSubject::Records => "records".to_owned(),
        }
    }

    fn phrase(&self) -> String {
        match self {
            LockSubject::Name(name) => format!("\"{name}\""),
            LockSubject::Policy => "the policy".to_owned(),
            LockSubject::Trial => "a trial".to_owned(),
            LockSubject::Default => "the default algorithm".to_owned(),
            LockSubject::Mount => "the mount of the BPF file system".to_owned(),
            LockSubject::Records => "the records of this host".to_owned(),
        }
    }

    /// How long a lock is waited for. Registering takes milliseconds; confirming an upgrade on trial takes longest,
    /// because the kernel verifies the new code first.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if *self == LockSubject::Trial { 60 } else { 10 })
    }
}

/// The right to change one thing; held by one process at a time.
#[derive(Debug)]
pub struct Locked {
    store: Store,
    subject: LockSubject,
    _lock: Flock<File>,
    _presence: Presence, // left after the lock is given back
}

/// Says that a process works in the folder of records.
#[derive(Debug)]
struct Presence {
    store: Store,
    lock: Flock<File>,
}

impl Store {
    /// Waits for the right to change one name.
    ///
    /// Errors: as [`Store::lock`].
    pub fn lock_name(&self, name: &str) -> Result<Locked> {
        self.lock(LockSubject::Name(name.to_owned()))
    }

    /// Waits for the right to change something, as long as [`LockSubject::patience`] says.
    ///
    /// Errors: the folder cannot be made (not root); another process holds the right for too long, with the exit code of
    /// what can be tried again.
    /// Side effects: the folder of records exists until the last process gives its right back with no record in it.
    pub fn lock(&self, subject: LockSubject) -> Result<Locked> {
        let patience = subject.patience();
        self.lock_within(subject, patience)
    }

    /// As [`Store::lock`], with another patience.
    ///
    /// Errors: as [`Store::lock`].
    pub fn lock_within(&self, subject: LockSubject, patience: Duration) -> Result<Locked> {
        let begin = Instant::now();
        loop {
            if let Some(locked) = self.try_lock(&subject)? {
                return Ok(locked);
            }
            ensure!(begin.elapsed() < patience, self.held(&subject, patience));
            std::thread::sleep(PAUSE);
        }
    }

    /// The right to change something, if nobody has it.
    ///
    /// Errors: the folder cannot be made.
    /// None: another process holds it.
    pub fn try_lock(&self, subject: &LockSubject) -> Result<Option<Locked>> {
        let Some(presence) = self.enter()? else { return Ok(None) };
        let file = self.open_lock(&subject.file()).map_err(|error| self.refused(&error))?;
        let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return Ok(None) };
        Ok(Some(Locked { store: self.clone(), subject: subject.clone(), _lock: lock, _presence: presence }))
    }

    /// None: the last process that left is removing the folder.
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

    /// Opened for reading: that is enough to lock, also on a file system that has become read-only.
    fn open_lock(&self, name: &str) -> std::io::Result<File> {
        let path = self.folder().join(LOCKS).join(name);
        match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)
            }
            other => other,
        }
    }

    /// Names who holds a lock, and says how to go on.
    fn held(&self, subject: &LockSubject, patience: Duration) -> Failure {
        let after = format_duration(patience);
        let path = |name: &str| self.folder().join(LOCKS).join(name);
        let holder = flock::holder(&path(&subject.file())).or_else(|| flock::holder(&path(PRESENCE)));
        let refuse = |who: String| Failure::again(format!("cannot change {}: {who}", subject.phrase()));
        let Some(pid) = holder else {
            return refuse(format!("another process held its lock for {after}")).hint("try again");
        };
        let condition = Condition::of(pid);
        let name = command(pid).unwrap_or_default();
        refuse(format!("process {pid} ({name}) holds its lock for more than {after}, and {condition}"))
            .hint(condition.advice(pid))
    }
}

impl Presence {
    /// Whether the file was not removed before it was locked.
    fn is_current(&self) -> bool {
        let inode = |meta: std::io::Result<fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino())).ok();
        let path = self.store.folder().join(LOCKS).join(PRESENCE);
        inode(self.lock.metadata()) == inode(fs::metadata(path))
    }
}

impl Drop for Presence {
    /// Who leaves last removes what is empty. Others that come meanwhile wait, and make it again.
    fn drop(&mut self) {
        if self.lock.relock(FlockArg::LockExclusiveNonblock).is_err() || !self.is_current() {
            return;
        }
        let folder = self.store.folder();
        remove_unfinished(folder);
        if self.store.is_of_host()
            && let Some(pins) = Pins::of_host()
        {
            pins.tidy();
        }
        let is_lock = |entry: &fs::DirEntry| entry.file_name() == LOCKS;
        if fs::read_dir(folder).is_ok_and(|entries| entries.flatten().all(|entry| is_lock(&entry))) {
            remove_locks(&folder.join(LOCKS));
            let _ = fs::remove_dir(folder); // systemd may keep it
        }
    }
}

/// Called with the presence locked. It goes last: until then nobody else comes in, and what is there afterwards is theirs.
fn remove_locks(folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| !path.ends_with(PRESENCE)).for_each(|path| drop(fs::remove_file(path)));
    let _ = fs::remove_file(folder.join(PRESENCE));
    let _ = fs::remove_dir(folder);
}

/// Removes files that a killed process did not come to rename, while nobody writes any.
fn remove_unfinished(folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let unfinished = files.filter(|path| path.extension().is_some_and(|ending| ending == UNFINISHED));
    unfinished.for_each(|path| drop(fs::remove_file(path)));
}

impl Locked {
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether this is the right to change one name.
    pub fn is_for(&self, name: &str) -> bool {
        matches!(&self.subject, LockSubject::Name(own) if own == name)
    }

    /// Writes the first record of a registration in one step: readers see it or the one before.
    ///
    /// Errors: the folder is full or read-only.
    /// Side effects: a file that lives until [`Locked::remove`].
    pub fn create(&self, record: &Record) -> Result<()> {
        debug_assert!(self.is_for(&record.name), "{:?} does not protect {}", self.subject, record.name);
        self.write_document(&self.store.path(&record.name), record)
    }

    /// Writes a record as [`Locked::create`] does, but for the default that it remembers: [`Locked::remember`] alone
    /// changes that.
    ///
    /// Errors: the folder is full or read-only.
    pub fn write(&self, record: &Record) -> Result<()> {
        debug_assert!(self.is_for(&record.name), "{:?} does not protect {}", self.subject, record.name);
        let _records = self.store.lock(LockSubject::Records)?;
        let path = self.store.path(&record.name);
        let previous_default =
            read(&path).map_or_else(|| record.previous_default.clone(), |written| written.previous_default);
        write_file(&path, &Record { previous_default, ..record.clone() }).map_err(|error| self.refused(error))
    }

    /// Changes which default a record remembers, whoever may change the rest of it.
    ///
    /// Errors: the folder is full or read-only.
    pub fn remember(&self, name: &str, previous_default: Option<String>) -> Result<()> {
        debug_assert!(self.subject == LockSubject::Default, "{:?} does not protect the default", self.subject);
        let _records = self.store.lock(LockSubject::Records)?;
        let path = self.store.path(name);
        let Some(record) = read(&path) else { return Ok(()) };
        write_file(&path, &Record { previous_default, ..record }).map_err(|error| self.refused(error))
    }

    /// Writes a document below the folder of records in one step, as [`Locked::create`] does.
    ///
    /// Errors: the folder is full or read-only.
    /// Side effects: a file, and the folder that it is in.
    pub fn write_document<T: Serialize>(&self, path: &Path, document: &T) -> Result<()> {
        let _records = self.store.lock(LockSubject::Records)?;
        write_file(path, document).map_err(|error| self.refused(error))
    }

    /// Removes a record; one that does not exist is no error.
    ///
    /// Errors: the folder is read-only.
    pub fn remove(&self, name: &str) -> Result<()> {
        debug_assert!(self.is_for(name), "{:?} does not protect {name}", self.subject);
        let _records = self.store.lock(LockSubject::Records)?;
        match fs::remove_file(self.store.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => bail!(self.store.refused(&error)),
            _ => Ok(()),
        }
    }

    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast_ref::<std::io::Error>() {
            Some(cause) => self.store.refused(cause).into(),
            None => error,
        }
    }
}

/// Makes a folder that every user can read, whatever the umask is: `tccc status` is for all of them.
fn make_readable(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Called with the right to write a file in the folder of records.
fn write_file<T: Serialize>(path: &Path, document: &T) -> Result<()> {
    path.parent().map_or(Ok(()), make_readable)?;
    let fresh: PathBuf = path.with_extension(UNFINISHED);
    let text = serde_json::to_vec_pretty(document).context("write a record")?;
    let mut file = File::create(&fresh)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(&text)?;
    Ok(fs::rename(&fresh, path)?)
}

/// Whether an error says that another process holds a lock.
pub fn is_held(error: &anyhow::Error) -> bool {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.is_some_and(|failure| failure.kind == crate::failure::FailureKind::Again)
}
