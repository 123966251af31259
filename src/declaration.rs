//! What an operator declares in `/etc/tccc/*.toml`, and making the host so: `tccc apply`.
//!
//! [`file`] reads it, [`difference`] compares it with the host, [`carry_out`] changes the host.

pub mod carry_out;
pub mod difference;
pub mod file;
mod trusted;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::catalog::{Algorithm, Setting};
use crate::loader::Request;
use crate::policy::rule::Policy;

pub const FOLDER: &str = "/etc/tccc";

/// Everything that the files of a folder declare together.
#[derive(Debug, Default)]
pub struct Declaration {
    pub folder: PathBuf,
    /// Its files, in the order they are read.
    pub files: Vec<PathBuf>,
    /// The default algorithm of this host; none: it is not declared.
    pub default: Option<String>,
    /// The policy; none: no policy is declared.
    pub policy: Option<DeclaredPolicy>,
    /// The algorithms by their kernel names.
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
    /// The object file, where it is not one of the catalogue.
    pub file: Option<PathBuf>,
    /// Tunables with another value than their default.
    pub settings: Vec<Setting>,
    /// Where its companion is attached; none: where it is without being told.
    pub cgroup: Option<PathBuf>,
    /// Only the receiving side is wanted.
    pub receiver: bool,
    /// It may be given to connections that did not ask for it although its risk is high.
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
    /// Whether a file belongs to this declaration: it is below its folder.
    pub fn owns(&self, file: &Path) -> bool {
        file.starts_with(&self.folder)
    }
}
