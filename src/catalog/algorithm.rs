//! What the catalogue knows of one algorithm.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::card::{self, Card};
use super::layout::StateLayout;
use super::tunable::{self, Setting, Tunable};
use crate::failure::Failure;

/// Stem and object of every program in `bpf/option`.
static COMPANIONS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/companions.rs"));

/// A member of the ops table that is set, and the program it points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The kernel's name; `NAME___N` is the form of NAME with N parameters.
    pub member: String,
    /// The program's name in the object.
    pub program: String,
}

/// A program that an algorithm needs beside it, because an algorithm cannot do what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The file stem in `bpf/option`.
    pub program: String,
    /// The map that both must share.
    pub map: String,
    /// It times packets, so that they must arrive one by one.
    pub times_single_packets: bool,
}

impl Companion {
    /// Its object.
    ///
    /// Errors: this binary carries no such program.
    pub fn object(&self) -> Result<&'static [u8], Failure> {
        let found = COMPANIONS.iter().find(|(stem, _)| *stem == self.program).map(|(_, object)| *object);
        found.ok_or_else(|| {
            let names: Vec<&str> = COMPANIONS.iter().map(|(stem, _)| *stem).collect();
            let what = format!("it asks for the companion program \"{}\", which tccc does not have", self.program);
            Failure::usage(what).hint(format!("it has {}", names.join(", ")))
        })
    }
}

/// One algorithm: everything its object says of it.
#[derive(Debug, Clone)]
pub struct Algorithm {
    /// The name on the command line and in the kernel.
    pub id: String,
    /// The variable that is the ops table: the name of libbpf's map.
    pub ops_table: String,
    /// One line; empty in an object that was not written for tccc.
    pub title: String,
    /// The paper or standard; empty likewise.
    pub source: String,
    /// The header of its file; empty likewise.
    pub card: Card,
    /// Shape: in the order of the file.
    pub tunables: Vec<Tunable>,
    /// Its private state in a socket, and its phases.
    pub layout: StateLayout,
    /// Shape: in the order of the ops table.
    pub callbacks: Vec<Callback>,
    /// The program it needs beside it.
    pub companion: Option<Companion>,
    pub object: Cow<'static, [u8]>,
}

impl Algorithm {
    /// The patents that its header names: it is a baseline for research, and the default of nothing here.
    ///
    /// None: its header has no heading `Patents`.
    pub fn patents(&self) -> Option<&str> {
        self.card.section(card::PATENTS)
    }

    /// Reads `name=value` settings of this algorithm.
    ///
    /// Errors: see [`tunable::parse`]; a name given twice.
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

    /// Reads settings of this algorithm under their names.
    ///
    /// Errors: see [`tunable::named`].
    pub fn settings_of(&self, values: &BTreeMap<String, String>) -> Result<Vec<Setting>, Failure> {
        values.iter().map(|(name, value)| tunable::named(&self.id, &self.tunables, name, value)).collect()
    }
}
