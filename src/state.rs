//! What tccc has done to this host, and how to undo it: one record an algorithm under `/run/tccc`.
//!
//! A record is written before the host is changed and removed after the change is undone, so that a process killed
//! between any two steps leaves nothing, or something that `tccc status` lists and `tccc unload --all` removes.

pub mod pins;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::catalog::StateLayout;
use crate::failure::Failure;
use crate::kernel::btf::reason;
use crate::kernel::process::Process;

/// Where the records are; empty after a reboot, as the kernel's registrations are.
pub const FOLDER: &str = "/run/tccc";
/// Version of a record.
pub const RECORD_SCHEMA: u32 = 1;
/// Ending of a record that is not written to its end.
const UNFINISHED: &str = "new";
/// Registering takes milliseconds; who holds the lock longer is stuck.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How often a held lock is asked for again.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Who keeps an algorithm registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Owner {
    /// A pin in the BPF file system.
    Pinned,
    /// A process, such as an experiment: it ends with it.
    Process(Process),
}

impl Owner {
    /// This process.
    pub fn this_process() -> Self {
        Owner::Process(Process::this().unwrap_or(Process { pid: std::process::id(), started: 0 }))
    }

    /// Whether the process still runs; true for a pin.
    pub fn is_alive(&self) -> bool {
        match self {
            Owner::Pinned => true,
            Owner::Process(process) => process.lives(),
        }
    }
}

/// A program attached to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Which one: a file stem in `bpf/option`.
    pub program: String,
    /// Where; every TCP socket made in it or below runs the program.
    pub cgroup: PathBuf,
}

/// A registration that is undone unless somebody confirms it in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// When it is undone, CLOCK_BOOTTIME, nanoseconds.
    pub until_ns: u64,
    /// The process that waits to undo it.
    pub guard: Process,
}

/// Code that has, had or is about to have a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The algorithm's id.
    pub algorithm: String,
    /// The algorithm's title.
    pub title: String,
    /// The user's own object file.
    pub file: Option<PathBuf>,
    /// SHA-256 of the object.
    pub digest: String,
    /// Tunables that were set.
    pub tunables: BTreeMap<String, i128>,
    /// When it was registered first, RFC 3339.
    pub since: String,
    /// 1, and one more for every other code under the same name.
    pub generation: u32,
    /// Number of the kernel's map that holds its table.
    pub map_id: u32,
    /// Its private state in a socket.
    pub layout: StateLayout,
}

/// The declaration that wants an algorithm loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredIn {
    /// The folder of its files.
    pub folder: PathBuf,
    /// It also wants the algorithm as the default.
    pub default: bool,
}

/// One algorithm that tccc registered, or was about to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this form.
    pub schema: u32,
    /// Its name in the kernel.
    pub name: String,
    /// The algorithm's id.
    pub algorithm: String,
    /// The algorithm's title.
    pub title: String,
    /// The user's own object file; none for an algorithm that this binary carries.
    pub file: Option<PathBuf>,
    /// SHA-256 of the object.
    pub digest: String,
    /// Tunables that were set, name to value; the others have their defaults.
    pub tunables: BTreeMap<String, i128>,
    /// When it was registered, RFC 3339.
    pub since: String,
    /// 1, and one more for every replacement under the same name.
    pub generation: u32,
    /// The host's default algorithm before this one became it; none when it never did.
    pub previous_default: Option<String>,
    /// Who keeps it registered.
    pub owner: Owner,
    /// Number of the kernel's map that holds its table.
    pub map_id: u32,
    /// Its private state in a socket, for whoever shows it by name.
    pub layout: StateLayout,
    /// Its companion program, where it has one.
    #[serde(default)]
    pub companion: Option<Attachment>,
    /// The companion alone is wanted: this host receives, and no algorithm is registered.
    #[serde(default)]
    pub receiver: bool,
    /// The code before, kept for `tccc rollback`.
    #[serde(default)]
    pub previous: Option<Code>,
    /// Code that is about to take the place of this one.
    #[serde(default)]
    pub next: Option<Code>,
    /// It was loaded because a policy names it, and goes when none does any more.
    #[serde(default)]
    pub with_policy: bool,
    /// Which declaration wants it: `tccc apply` unloads it when that declares it no more.
    #[serde(default)]
    pub declared: Option<DeclaredIn>,
    /// Not confirmed yet; none when nobody asked for that, or when it is.
    #[serde(default)]
    pub unconfirmed: Option<Unconfirmed>,
}

impl Record {
    /// The code that it is of.
    pub fn code(&self) -> Code {
        Code {
            algorithm: self.algorithm.clone(),
            title: self.title.clone(),
            file: self.file.clone(),
            digest: self.digest.clone(),
            tunables: self.tunables.clone(),
            since: self.since.clone(),
            generation: self.generation,
            map_id: self.map_id,
            layout: self.layout.clone(),
        }
    }

    /// The same name with other code.
    pub fn with_code(self, code: Code) -> Self {
        let Code { algorithm, title, file, digest, tunables, since, generation, map_id, layout } = code;
        Record { algorithm, title, file, digest, tunables, since, generation, map_id, layout, ..self }
    }

    /// The code that is registered when the kernel's link points to this map.
    ///
    /// None: nothing that is written down.
    pub fn code_of(&self, map_id: u32) -> Option<Code> {
        let codes = [Some(self.code()), self.next.clone(), self.previous.clone()];
        codes.into_iter().flatten().find(|code| code.map_id == map_id)
    }
}

/// The folder of records.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// The right to change records and registrations; held by one process at a time.
#[derive(Debug)]
pub struct Locked<'a> {
    store: &'a Store,
    _lock: Flock<File>,
}

impl Store {
    /// The store of this host.
    pub fn of_host() -> Self {
        Self::at(Path::new(FOLDER))
    }

    /// A store in another folder.
    pub fn at(folder: &Path) -> Self {
        Store { folder: folder.to_owned() }
    }

    /// Every record that can be read.
    ///
    /// Shape: sorted by name; unreadable files are left out.
    pub fn records(&self) -> Vec<Record> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let records = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        let mut records: Vec<Record> = records.filter_map(|path| read(&path)).collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        records
    }

    /// Every name that has a file here, also one that cannot be read as a record.
    ///
    /// Shape: sorted.
    pub fn names(&self) -> BTreeSet<String> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let records = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        let names = records.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
        names.filter(|name| crate::catalog::check_name(name).is_ok()).collect()
    }

    /// The record of this name.
    pub fn record(&self, name: &str) -> Option<Record> {
        read(&self.path(name))
    }

    /// Waits for the right to change records and registrations.
    ///
    /// Errors: the folder cannot be made (not root); another process holds the right for too long.
    /// Side effects: the folder exists until the right is given back with no record in it.
    pub fn lock(&self) -> Result<Locked<'_>> {
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            if let Some(lock) = self.try_lock()? {
                self.remove_unfinished();
                return Ok(Locked { store: self, _lock: lock });
            }
            if Instant::now() >= deadline {
                let what = format!("another tccc process is changing this host for more than {LOCK_PATIENCE:?}");
                return Err(Failure::failed(what).hint(format!("`fuser {}` shows it", self.folder.display())).into());
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// None: held by another, or the folder was removed by whoever held it.
    fn try_lock(&self) -> Result<Option<Flock<File>>> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(&self.folder);
        made.map_err(|error| self.refused(&error))?;
        let folder = match File::open(&self.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.refused(&error).into()),
        };
        let Ok(lock) = Flock::lock(folder, FlockArg::LockExclusiveNonblock) else {
            return Ok(None);
        };
        let inode = |meta: std::io::Result<fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino())).ok();
        let is_current = inode(lock.metadata()) == inode(fs::metadata(&self.folder));
        Ok(is_current.then_some(lock))
    }

    /// Files that a killed process did not come to rename; who holds the lock knows that nobody writes them now.
    fn remove_unfinished(&self) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let unfinished = files.filter(|path| path.extension().is_some_and(|ending| ending == UNFINISHED));
        unfinished.for_each(|path| drop(fs::remove_file(path)));
    }

    fn refused(&self, error: &std::io::Error) -> Failure {
        Failure::failed(format!("cannot keep records in {}: {}", self.folder.display(), reason(error)))
            .hint("run as root, or make the folder writable for you")
    }

    /// Where records are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

impl Locked<'_> {
    /// The records that the lock protects.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// Writes a record in one step: readers see the old one or the new one.
    ///
    /// Errors: the folder is full or read-only.
    /// Side effects: a file that lives until [`Locked::remove`].
    pub fn write(&self, record: &Record) -> Result<()> {
        self.write_document(&self.store.path(&record.name), record)
    }

    /// Writes a document below the folder of records in one step, as [`Locked::write`] does.
    ///
    /// Errors: the folder is full or read-only.
    /// Side effects: a file, and the folder that it is in.
    pub fn write_document<T: Serialize>(&self, path: &Path, document: &T) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| self.store.refused(&error))?;
        }
        let fresh = path.with_extension(UNFINISHED);
        let text = serde_json::to_vec_pretty(document).context("write a record")?;
        let written = File::create(&fresh).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&fresh, path)).map_err(|error| self.store.refused(&error))?;
        Ok(())
    }

    /// Removes a record; one that does not exist is no error.
    ///
    /// Errors: the folder is read-only.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.store.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => bail!(self.store.refused(&error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Locked<'_> {
    /// Takes an empty folder away, still under the lock: who waits for it notices and makes another.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.store.folder);
    }
}

fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (record.schema == RECORD_SCHEMA).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Record {
        Record {
            schema: RECORD_SCHEMA,
            name: name.into(),
            algorithm: "dtcp".into(),
            title: String::new(),
            file: None,
            digest: String::new(),
            tunables: BTreeMap::from([("keep".into(), 3)]),
            since: "2026-01-05T10:12:00Z".into(),
            generation: 1,
            previous_default: Some("cubic".into()),
            owner: Owner::this_process(),
            map_id: 7,
            layout: StateLayout::default(),
            companion: None,
            receiver: false,
            previous: None,
            next: None,
            with_policy: false,
            declared: None,
            unconfirmed: None,
        }
    }

    #[test]
    fn records_come_back_sorted_and_leave_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let locked = store.lock().unwrap();
        locked.write(&record("two")).unwrap();
        locked.write(&record("one")).unwrap();
        assert_eq!(store.records(), [record("one"), record("two")]);
        assert_eq!(store.record("two"), Some(record("two")));
        locked.remove("one").unwrap();
        locked.remove("two").unwrap();
        locked.remove("two").unwrap();
        drop(locked);
        assert!(!place.path().join("tccc").exists());
    }

    #[test]
    fn unfinished_and_foreign_files_are_no_records() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(place.path());
        fs::write(place.path().join("half.new"), "{").unwrap();
        fs::write(place.path().join("later.json"), r#"{"schema": 2}"#).unwrap();
        assert_eq!(store.records(), []);
        assert_eq!(store.names(), BTreeSet::from(["later".to_owned()])); // listed all the same, so that it can be removed
        drop(store.lock().unwrap());
        assert!(!place.path().join("half.new").exists());
        assert!(place.path().join("later.json").exists());
    }

    #[test]
    fn lock_is_held_by_one_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let locked = store.lock().unwrap();
        assert!(store.try_lock().unwrap().is_none());
        drop(locked);
        assert!(store.try_lock().unwrap().is_some());
    }

    #[test]
    fn owner_that_is_gone_is_not_alive() {
        assert!(Owner::this_process().is_alive());
        let Owner::Process(own) = Owner::this_process() else { panic!("this process is no pin") };
        assert!(!Owner::Process(Process { started: own.started + 1, ..own }).is_alive());
    }
}
