//! Applies the declaration in `/etc/tccc/*.toml` to the host: `tccc apply`.
//!
//! [`file`] reads the declaration, [`difference`] compares the host with it, and [`carry_out`] changes the host.

pub mod carry_out;
pub mod difference;
pub mod file;
mod trusted;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::loader::Request;
use crate::policy::rule::Policy;
use shared::catalog::{Algorithm, Setting};

pub const FOLDER: &str = "/etc/tccc";

/// All files of a folder, merged.
#[derive(Debug, Default)]
pub struct Declaration {
    pub folder: PathBuf,
    /// In the order in which they were read.
    pub files: Vec<PathBuf>,
    /// The default algorithm of this host.
    pub default: Option<String>,
    pub policy: Option<DeclaredPolicy>,
    /// By kernel name.
    pub algorithms: BTreeMap<String, Declared>,
}

#[derive(Debug)]
pub struct DeclaredPolicy {
    pub file: PathBuf,
    pub policy: Policy,
}

#[derive(Debug)]
pub struct Declared {
    pub algorithm: Cow<'static, Algorithm>,
    /// The object file, if the algorithm is not from the catalogue.
    pub file: Option<PathBuf>,
    pub settings: Vec<Setting>,
    /// Where the companion program is attached. `None`: at the default place.
    pub cgroup: Option<PathBuf>,
    /// Load only the companion of the receiving side.
    pub receiver: bool,
    /// Connections that did not ask for it may get it, although its risk is high.
    pub accepts_risk: bool,
}

impl Declared {
    pub fn request<'a>(&'a self, name: &'a str) -> Request<'a> {
        Request {
            algorithm: &self.algorithm,
            name,
            settings: &self.settings,
            file: self.file.as_deref(),
            cgroup: self.cgroup.as_deref(),
        }
    }
}

impl Declaration {
    /// Whether a file is in the folder of this declaration.
    pub fn owns(&self, file: &Path) -> bool {
        file.starts_with(&self.folder)
    }
}
