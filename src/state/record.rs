//! The record of one algorithm: what was registered, what was there before, and who keeps it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalog::StateLayout;
use crate::kernel::process::Process;

pub const RECORD_SCHEMA: u32 = 1;

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
    /// Where its code is from, as a sentence.
    pub fn origin(&self) -> String {
        match &self.file {
            Some(file) => format!("\"{}\" is loaded from \"{}\"", self.name, file.display()),
            None => format!("\"{}\" is \"{}\" loaded under another name", self.name, self.algorithm),
        }
    }

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

pub(super) fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (record.schema == RECORD_SCHEMA).then_some(record)
}
