//! What a guest has to do and what it reports, as files in one folder that host and guest share.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::emulate::layout::Layout;

/// The job, written by the host.
pub(crate) const JOB: &str = "job.json";
/// Written by the guest at its end: [`WELL`], or what went wrong.
pub const END: &str = "end";
/// The program that the guest runs instead of a job, where the folder has this.
pub const PROGRAM: &str = "program.json";
/// What that program says.
pub const OUTPUT: &str = "output";
/// The end of a job that was done.
pub(crate) const WELL: &str = "well";
/// The laboratory's files, in the guest's /proc/tccc and, once all is over, in the shared folder.
pub(crate) const LINKS: &str = "links";
/// See [`LINKS`].
pub const FLOWS: &str = "flows";
/// See [`LINKS`].
pub const EVENTS: &str = "events";
/// The laboratory's file that starts everything; read, it says when that was.
pub const RUN: &str = "run";

/// A kernel module that the guest loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Its file in the shared folder.
    pub file: String,
    /// Its parameters: `name=value` and blanks.
    pub parameters: String,
}

/// Bytes for one of the laboratory's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Place of the node in the layout whose namespace it is about.
    pub node: usize,
    pub to: String,
    /// The file in the shared folder that has the bytes.
    pub file: String,
}

/// A program that the guest runs instead of a job: a test that needs the guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file in the shared folder. It has the libraries of the guest's first file system.
    pub file: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Program {
    /// Writes it where the guest looks for it.
    ///
    /// Errors: the folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).context("encode the guest's program")?;
        fs::write(folder.join(PROGRAM), text).context("write the guest's program")
    }

    /// Reads it; called in the guest.
    ///
    /// Errors: it is of another version of this program.
    /// None: the guest has a job instead.
    pub fn read(folder: &Path) -> Result<Option<Program>> {
        let file = folder.join(PROGRAM);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read(file).context("read the guest's program")?;
        serde_json::from_slice(&text).map(Some).context("read the guest's program")
    }
}

/// What a guest is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The network, whose links the requests describe once more for the laboratory.
    pub layout: Layout,
    /// Modules, in this order.
    pub modules: Vec<Load>,
    /// What to write before the start, in this order.
    pub requests: Vec<JobRequest>,
    /// How long flows may send, and how long after that they may take to end; nanoseconds.
    pub run_ns: [u64; 2],
}

impl Job {
    /// Writes the job where the guest looks for it.
    ///
    /// Errors: the folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).context("encode the job")?;
        fs::write(folder.join(JOB), text).context("write the guest's job")
    }

    /// Reads the job; called in the guest.
    ///
    /// Errors: it is missing or of another version of this program.
    pub fn read(folder: &Path) -> Result<Job> {
        let text = fs::read(folder.join(JOB)).context("read the job")?;
        serde_json::from_slice(&text).context("read the job")
    }
}
