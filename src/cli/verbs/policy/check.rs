//! `tccc policy check`: read a policy and say what it would mean on this host.

use std::io::{self, Write as _};

use anyhow::Result;

use super::file::File;
use crate::cli::verbs::risk::Given;
use crate::plain::count;
use crate::policy::resolve;

/// Read a policy file and report its mistakes; change nothing
///
/// Every mistake is reported with its line and field. Also says which algorithms `tccc policy apply` would load, and what each
/// does to its neighbours.
///
/// Example: `tccc policy check scenarios/policy/one-service.toml`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: File,
}

impl Args {
    /// Checks, and says what was found.
    ///
    /// Errors: mistakes in the file; an algorithm that does not exist; a limit on what this kernel does not count.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        let to_load = resolve::to_load(&policy).map_err(|error| self.file.blamed(error))?;
        resolve::check_limits(&policy).map_err(|error| self.file.blamed(error))?;
        let mut out = io::stdout().lock();
        let rules = count(policy.rules.len(), "rule");
        writeln!(out, "{}: {rules}, no mistakes", self.file.file.display())?;
        for algorithm in to_load {
            writeln!(out, "`tccc policy apply` would load \"{}\": {}", algorithm.id, algorithm.title)?;
        }
        Given::by_rules(&policy).iter().try_for_each(|given| writeln!(out, "{}", given.phrase()))?;
        Ok(())
    }
}
