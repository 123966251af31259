//! One algorithm, as its object describes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::card::{self, Card};
use super::layout::StateLayout;
use super::need::KernelNeed;
use super::risk::OwnFindings;
use super::tunable::{self, Setting, Tunable};
use crate::failure::Failure;

/// Stem and object of every program in `bpf/option`.
static COMPANIONS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/companions.rs"));

/// A member of the ops table that points to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The kernel's name. `NAME___N` is the variant of NAME with N parameters.
    pub member: String,
    pub program: String,
}

/// A second BPF program, for work that congestion control programs may not do, such as TCP options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The file stem in `bpf/option`.
    pub program: String,
    pub place: CompanionPlace,
}

/// Where a companion program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionPlace {
    /// In the sockets of a cgroup, at both ends of a connection.
    Cgroup {
        /// The map that both programs share.
        map: String,
        /// The program times single packets, so offloads must not merge packets.
        times_single_packets: bool,
    },
    /// At the egress of every network device. The guest of virtual time does its work without it.
    Egress,
}

impl Companion {
    /// The map that the program shares with its algorithm.
    pub fn map(&self) -> Option<&str> {
        match &self.place {
            CompanionPlace::Cgroup { map, .. } => Some(map),
            CompanionPlace::Egress => None,
        }
    }

    pub fn is_at_egress(&self) -> bool {
        self.place == CompanionPlace::Egress
    }

    pub fn times_single_packets(&self) -> bool {
        matches!(self.place, CompanionPlace::Cgroup { times_single_packets: true, .. })
    }

    /// The embedded object.
    ///
    /// # Errors
    /// This binary has no such program.
    pub fn object(&self) -> Result<&'static [u8], Failure> {
        let found = COMPANIONS.iter().find(|(stem, _)| *stem == self.program).map(|(_, object)| *object);
        found.ok_or_else(|| {
            let names: Vec<&str> = COMPANIONS.iter().map(|(stem, _)| *stem).collect();
            let what = format!("it asks for the companion program \"{}\", which tccc does not have", self.program);
            Failure::usage(what).hint(format!("tccc has {}", names.join(", ")))
        })
    }
}

/// Title, source and card are empty in an object that was not written for tccc.
#[derive(Debug, Clone)]
pub struct Algorithm {
    /// The name on the command line and in the kernel.
    pub id: String,
    /// The variable of the ops table, which is also libbpf's name of the map.
    pub ops_table: String,
    pub title: String,
    /// The paper or standard.
    pub source: String,
    pub card: Card,
    /// Shape: in the order of the file.
    pub tunables: Vec<Tunable>,
    pub layout: StateLayout,
    /// Shape: in the order of the ops table.
    pub callbacks: Vec<Callback>,
    pub companion: Option<Companion>,
    /// `None`: every supported kernel has what it needs.
    pub need: Option<KernelNeed>,
    pub object: Cow<'static, [u8]>,
    /// Of a user's own object: what an evaluation says of it.
    pub findings: Option<OwnFindings>,
}

impl Algorithm {
    /// The patents named in the header. A patented algorithm is only a baseline for research, never a default.
    pub fn patents(&self) -> Option<&str> {
        self.card.section(card::PATENTS)
    }

    /// SHA-256 of the object, in hexadecimal.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(&self.object))
    }

    /// The companion that the other end of a connection needs too.
    pub fn companion_of_both_ends(&self) -> Option<&Companion> {
        self.companion.as_ref().filter(|companion| !companion.is_at_egress())
    }

    /// Reads `name=value` settings.
    ///
    /// # Errors
    /// See [`tunable::parse`]; a name is given twice.
    pub fn settings<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Setting>, Failure> {
        let mut settings: Vec<Setting> = Vec::new();
        for text in texts {
            let setting = tunable::parse(&self.id, &self.tunables, text.as_ref())?;
            if settings.iter().any(|other| other.name == setting.name) {
                return Err(Failure::usage(format!("tunable {} for \"{}\" is set twice", setting.name, self.id)));
            }
            settings.push(setting);
        }
        Ok(settings)
    }

    /// Reads the value of one tunable.
    ///
    /// # Errors
    /// See [`tunable::named`].
    pub fn setting(&self, name: &str, value: &str) -> Result<Setting, Failure> {
        tunable::named(&self.id, &self.tunables, name, value)
    }

    /// Checks recorded values of tunables.
    ///
    /// # Errors
    /// A name that this algorithm no longer has; a value outside the range.
    pub fn recorded<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a String, &'a i128)>,
    ) -> Result<Vec<Setting>, Failure> {
        let check = |(name, value): (&String, &i128)| tunable::recorded(&self.id, &self.tunables, name, *value);
        values.into_iter().map(check).collect()
    }

    /// Reads settings from names and values.
    ///
    /// # Errors
    /// See [`tunable::named`].
    pub fn settings_of(&self, values: &BTreeMap<String, String>) -> Result<Vec<Setting>, Failure> {
        values.iter().map(|(name, value)| self.setting(name, value)).collect()
    }
}
