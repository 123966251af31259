//! The record of one algorithm: what is registered, what was there before, and who owns it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::requester::Requester;
use shared::catalog::StateLayout;
use shared::kernel::process::Process;

pub const RECORD_SCHEMA: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Owner {
    /// A pin in the BPF file system.
    #[default]
    Pinned,
    /// The registration ends with this process, such as an experiment.
    Process(Process),
}

impl Owner {
    pub fn this_process() -> Self {
        Owner::Process(Process::this().unwrap_or(Process { pid: std::process::id(), ..Process::default() }))
    }

    /// True for a pin.
    pub fn is_alive(&self) -> bool {
        match self {
            Owner::Pinned => true,
            Owner::Process(process) => process.lives(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// A file stem in `bpf/option`.
    pub program: String,
    /// New TCP sockets in this cgroup and below run the program. `None` for a program at network devices.
    pub cgroup: Option<PathBuf>,
    /// The devices of the network namespace at whose egress the program was attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Inode of the network namespace of the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<u32>,
}

impl Attachment {
    /// Such as "the cgroup /sys/fs/cgroup".
    pub fn place(&self) -> String {
        match &self.cgroup {
            Some(cgroup) => format!("the cgroup {}", cgroup.display()),
            None => format!("the egress of {}", self.devices.join(", ")),
        }
    }
}

/// The trial of a registration, which is undone unless somebody confirms it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub until_ns: u64,
    /// The process that waits to undo it.
    pub guard: Process,
}

/// Current, previous or next code of a name. The fields are those of [`Record`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    pub algorithm: String,
    pub title: String,
    pub file: Option<PathBuf>,
    pub digest: String,
    pub tunables: BTreeMap<String, i128>,
    pub since: String,
    pub generation: u32,
    pub map_id: u32,
    pub layout: StateLayout,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredIn {
    pub folder: PathBuf,
    /// The declaration also wants the algorithm as the default.
    pub default: bool,
}

/// An algorithm that tccc registered, or was about to register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub schema: u32,
    pub name: String,
    pub algorithm: String,
    pub title: String,
    /// The user's object file. `None` for an algorithm of this binary.
    pub file: Option<PathBuf>,
    /// SHA-256 of the object.
    pub digest: String,
    /// Tunables that differ from their defaults.
    pub tunables: BTreeMap<String, i128>,
    /// First registration of this code, RFC 3339.
    pub since: String,
    /// Who loaded it first. `None` in records of earlier versions.
    #[serde(default)]
    pub by: Option<Requester>,
    /// From 1, one more for every replacement under the same name.
    pub generation: u32,
    /// The host's default algorithm before this one. `None` if this one never was the default.
    pub previous_default: Option<String>,
    pub owner: Owner,
    /// Id of the kernel's map with the table.
    pub map_id: u32,
    /// Private state in a socket.
    pub layout: StateLayout,
    #[serde(default)]
    pub companion: Option<Attachment>,
    /// Only the companion is loaded, because this host receives.
    #[serde(default)]
    pub receiver: bool,
    /// For `tccc rollback`.
    #[serde(default)]
    pub previous: Option<Code>,
    /// Code that is about to replace the current one.
    #[serde(default)]
    pub next: Option<Code>,
    /// Loaded by a policy, not by `tccc load`. Unloaded when no policy names it.
    #[serde(default)]
    pub with_policy: bool,
    /// `tccc apply` unloads the algorithm when this declaration no longer names it.
    #[serde(default)]
    pub declared: Option<DeclaredIn>,
    /// `None` if confirmed, or loaded without a trial.
    #[serde(default)]
    pub unconfirmed: Option<Unconfirmed>,
}

impl Record {
    /// The source of the code, as a sentence.
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

    pub fn with_code(self, code: Code) -> Self {
        let Code { algorithm, title, file, digest, tunables, since, generation, map_id, layout } = code;
        Record { algorithm, title, file, digest, tunables, since, generation, map_id, layout, ..self }
    }

    /// The recorded code with this map.
    pub fn code_of(&self, map_id: u32) -> Option<Code> {
        let codes = [Some(self.code()), self.next.clone(), self.previous.clone()];
        codes.into_iter().flatten().find(|code| code.map_id == map_id)
    }
}

pub(super) fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (record.schema == RECORD_SCHEMA).then_some(record)
}
