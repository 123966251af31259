//! What tccc has done to this host, and how to undo it: one record an algorithm under `/run/tccc`.
//!
//! A record is written before the host is changed and removed after the change is undone, so that a process killed
//! between any two steps leaves nothing, or something that `tccc status` lists and `tccc unload --all` removes.

mod lock;
pub mod pins;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalog::StateLayout;
use crate::failure::Failure;
use crate::kernel::btf::reason;
use crate::kernel::process::Process;

pub use lock::{Locked, Subject, is_held};

/// Where the records are; empty after a reboot, as the kernel's registrations are.
pub const FOLDER: &str = "/run/tccc";
pub const RECORD_SCHEMA: u32 = 1;
/// Ending of a record that is not written to its end.
const UNFINISHED: &str = "new";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Owner {
    /// A pin in the BPF file system.
    #[default]
    Pinned,
    /// A process, such as an experiment: it ends with it.
    Process(Process),
}

impl Owner {
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
    pub algorithm: String,
    pub title: String,
    /// The user's own object file.
    pub file: Option<PathBuf>,
    /// SHA-256 of the object.
    pub digest: String,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredIn {
    pub folder: PathBuf,
    /// It also wants the algorithm as the default.
    pub default: bool,
}

/// One algorithm that tccc registered, or was about to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u32,
    pub name: String,
    pub algorithm: String,
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

    pub fn record(&self, name: &str) -> Option<Record> {
        read(&self.path(name))
    }

    fn is_of_host(&self) -> bool {
        self.folder == Path::new(FOLDER)
    }

    fn refused(&self, error: &std::io::Error) -> Failure {
        Failure::failed(format!("cannot keep records in {}: {}", self.folder.display(), reason(error)))
            .hint("run as root, or make the folder writable for you")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// Whether a file is one that was not written to its end.
fn is_unfinished(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == UNFINISHED)
}

fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (record.schema == RECORD_SCHEMA).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn record(name: &str) -> Record {
        Record {
            schema: RECORD_SCHEMA,
            name: name.into(),
            tunables: BTreeMap::from([("keep".into(), 3)]),
            previous_default: Some("cubic".into()),
            owner: Owner::this_process(),
            ..Record::default()
        }
    }

    #[test]
    fn records_come_back_sorted_and_leave_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let [one, two] = ["one", "two"].map(|name| store.lock_name(name).unwrap());
        two.create(&record("two")).unwrap();
        one.create(&record("one")).unwrap();
        assert_eq!(store.records(), [record("one"), record("two")]);
        assert_eq!(store.record("two"), Some(record("two")));
        one.remove("one").unwrap();
        drop(one);
        two.remove("two").unwrap();
        two.remove("two").unwrap();
        drop(two);
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
        drop(store.lock(Subject::Policy).unwrap());
        assert!(!place.path().join("half.new").exists());
        assert!(place.path().join("later.json").exists());
    }

    #[test]
    fn each_lock_is_held_by_one_at_a_time_and_keeps_nobody_from_another() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let name = |name: &str| Subject::Name(name.to_owned());
        let all = [name("one"), name("two"), Subject::Policy, Subject::Trial, Subject::Default, Subject::Mount];
        let held: Vec<Locked> = all.iter().map(|subject| store.try_lock(subject).unwrap().unwrap()).collect();
        assert!(all.iter().all(|subject| store.try_lock(subject).unwrap().is_none()));
        let refusal = store.lock_within(name("one"), Duration::from_millis(20)).unwrap_err();
        let own = std::process::id();
        assert!(is_held(&refusal));
        assert!(refusal.to_string().starts_with(&format!("cannot change \"one\": process {own} (")), "{refusal}");
        drop(held);
        assert!(!place.path().join("tccc").exists());
        assert!(store.try_lock(&name("one")).unwrap().is_some());
    }

    /// Any user could take the lock of a folder that everybody can read, and keep every command from its work.
    #[test]
    fn locks_are_for_their_owner_and_records_for_everybody() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let locked = store.lock_name("one").unwrap();
        locked.create(&record("one")).unwrap();
        let mode = |name: &str| fs::metadata(store.folder().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["", "one.json", "locks"].map(mode), [0o755, 0o644, 0o700]);
        for lock in fs::read_dir(store.folder().join("locks")).unwrap().flatten() {
            assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o077, 0, "{lock:?}");
        }
    }

    /// A process that was stopped between reading and writing a record undid what another wrote into it meanwhile.
    #[test]
    fn remembered_default_is_changed_by_the_right_to_the_default_alone() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(&place.path().join("tccc"));
        let locked = store.lock_name("one").unwrap();
        locked.create(&record("one")).unwrap();
        store.lock(Subject::Default).unwrap().remember("one", Some("reno".into())).unwrap();
        locked.write(&Record { generation: 2, ..record("one") }).unwrap();
        let now = store.record("one").unwrap();
        assert_eq!((now.generation, now.previous_default.as_deref()), (2, Some("reno")));
    }

    #[test]
    fn owner_that_is_gone_is_not_alive() {
        assert!(Owner::this_process().is_alive());
        let Owner::Process(own) = Owner::this_process() else { panic!("this process is no pin") };
        assert!(!Owner::Process(Process { started: own.started + 1, ..own }).is_alive());
    }
}
