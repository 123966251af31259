//! The job of a guest and the names of its results: files in a folder that host and guest share.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::emulate::layout::Layout;

/// The job, written by the host.
pub(crate) const JOB: &str = "job.json";
/// Written by the guest at its end: [`WELL`], or an error.
pub const END: &str = "end";
/// If the folder has this file, the guest runs a program instead of a job.
pub const PROGRAM: &str = "program.json";
/// Output of that program.
pub const OUTPUT: &str = "output";
/// The content of [`END`] after success.
pub(crate) const WELL: &str = "well";
/// Files of the laboratory: in the guest's `/proc/tccc`, and after the run in the shared folder.
pub(crate) const LINKS: &str = "links";
/// See [`LINKS`].
pub(crate) const QUEUES: &str = "queues";
/// See [`LINKS`].
pub const FLOWS: &str = "flows";
/// See [`LINKS`].
pub const EVENTS: &str = "events";
/// See [`LINKS`]. Writing to it starts the run; it then has the time of the start.
pub const RUN: &str = "run";

/// A kernel module to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleLoad {
    /// Name in the shared folder.
    pub file: String,
    /// `name=value`, separated by spaces.
    pub parameters: String,
}

/// Bytes to write to one of the laboratory's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Index of the node in the layout. The bytes are written in its namespace.
    pub node: usize,
    pub to: String,
    /// Name in the shared folder of the file with the bytes.
    pub file: String,
}

/// A program that the guest runs instead of a job, such as a test that needs the guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name in the shared folder. The program has the libraries of the guest's first file system.
    pub file: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// Writes it to the shared folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write(self, &folder.join(PROGRAM))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentJob {
    /// The network. The requests describe its links again, for the laboratory.
    pub layout: Layout,
    /// Modules to load, in this order.
    pub modules: Vec<ModuleLoad>,
    /// Requests before the start, in this order.
    pub requests: Vec<JobRequest>,
    /// How long flows may send, and how long they may take to end after that; nanoseconds.
    pub run_ns: [u64; 2],
}

/// # Errors
/// The file cannot be written.
pub fn write(value: &impl Serialize, file: &Path) -> Result<()> {
    let text = serde_json::to_vec(value).context("encode a file for the guest")?;
    fs::write(file, text).with_context(|| format!("write \"{}\"", file.display()))
}

/// # Errors
/// The file is missing, or of another version of this program.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = fs::read(file).with_context(|| format!("read \"{}\"", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read \"{}\"", file.display()))
}
