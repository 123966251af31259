//! `tccc policy check`: read a policy and print what it would do on this host.

use std::io::{self, Write as _};

use anyhow::Result;

use super::file::PolicyFile;
use crate::cli::verbs::risk::AlgorithmRisk;
use crate::plain::count;
use crate::policy::resolve;

/// Read a policy file and report its mistakes; change nothing
///
/// Reports every mistake with its line and field. Also prints which algorithms `tccc policy apply` would load, and what each
/// does to its neighbours.
///
/// Example: `tccc policy check scenarios/policy/one-service.toml`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PolicyFile,
}

impl Args {
    /// Errors: mistakes in the file; an unknown algorithm; a limit on something that this kernel does not count.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        let to_load = resolve::to_load(&policy).map_err(|error| self.file.blame(error))?;
        resolve::check_limits(&policy).map_err(|error| self.file.blame(error))?;
        let mut out = io::stdout().lock();
        let rules = count(policy.rules.len(), "rule");
        writeln!(out, "{}: {rules}, no mistakes", self.file.file.display())?;
        for algorithm in to_load {
            writeln!(out, "`tccc policy apply` would load \"{}\": {}", algorithm.id, algorithm.title)?;
        }
        AlgorithmRisk::of_rules(&policy).iter().try_for_each(|risk| writeln!(out, "{}", risk.phrase()))?;
        Ok(())
    }
}
