//! `tccc policy check` and `tccc policy diff`: what a policy file would do on this host, and how it differs from the
//! rules in force.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use similar::TextDiff;

use super::admission::Admission;
use crate::cli::output::results;
use host::policy::file::{read_with, write};
use host::policy::rule::Policy;
use host::policy::{change, resolve};
use shared::failure::Failure;
use shared::sanitize::count;

#[derive(Debug, clap::Args)]
pub(super) struct PolicyFile {
    /// File with the rules; scenarios/policy/README.md describes it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl PolicyFile {
    /// # Errors
    /// Every mistake in the file, unknown algorithms among them.
    pub fn read(&self) -> Result<Policy> {
        Ok(read_with(&self.file, resolve::known()?).map_err(Failure::from)?)
    }

    /// The absolute path, which is recorded for commands in other folders.
    pub fn path(&self) -> PathBuf {
        std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone())
    }

    /// Puts the file's name before a failure about one of its rules.
    pub fn blame(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<Failure>() {
            Ok(failure) => Failure { what: format!("{}: {}", self.file.display(), failure.what), ..failure }.into(),
            Err(error) => error.context(self.file.display().to_string()),
        }
    }
}

/// Read a policy file and report its mistakes; change nothing
///
/// Reports every mistake with its line and field. Also prints which algorithms `tccc policy apply` would load, and the
/// risk of each. It needs the options of `tccc policy apply` that admit a risk or make a trial.
/// `tccc policy apply --dry-run` also checks what this host has at the moment, such as programs of others.
///
/// Example: `tccc policy check scenarios/policy/one-service.toml`
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    file: PolicyFile,
    #[command(flatten)]
    admission: Admission,
}

impl CheckArgs {
    /// # Errors
    /// Those of [`Admission::admit`].
    pub fn run(&self) -> Result<()> {
        let mut risks = Vec::new();
        let policy = self.admission.admit(&self.file, &mut |risk| risks.push(risk.phrase()))?;
        let to_load = resolve::to_load(&policy).map_err(|error| self.file.blame(error))?;
        let mut out = results();
        let rules = count(policy.rules.len(), "rule");
        writeln!(out, "{}: {rules}, no mistakes", self.file.file.display())?;
        for algorithm in to_load {
            writeln!(out, "`tccc policy apply` would load \"{}\": {}", algorithm.id, algorithm.title)?;
        }
        risks.iter().try_for_each(|risk| writeln!(out, "{risk}"))?;
        for absent in resolve::absent_cgroups(&policy) {
            writeln!(out, "{absent}")?;
        }
        for absent in resolve::absent_namespaces(&policy) {
            writeln!(out, "`tccc policy apply` would refuse it now: {absent}")?;
        }
        Ok(())
    }
}

const CONTEXT_LINES: usize = 3;

/// Show how a file differs from the policy in force
///
/// Compares the rules in one canonical form, so comments and the order of fields make no difference. Prints nothing if the
/// rules are the same. Changes nothing.
///
/// Example: `tccc policy diff web.toml`
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    file: PolicyFile,
    /// Exit with 1 if they differ
    #[arg(long)]
    exit_code: bool,
}

impl DiffArgs {
    /// # Errors
    /// Mistakes in the file; the record of the policy cannot be read.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        change::refuse_hidden()?;
        let now = change::deciding()?.map(|generation| write(&generation.policy)).unwrap_or_default();
        let then = write(&policy);
        let diff = TextDiff::from_lines(&now, &then);
        let file = self.file.file.display().to_string();
        let mut unified = diff.unified_diff();
        let text = unified.context_radius(CONTEXT_LINES).header("now", &file).to_string();
        results().write_all(text.as_bytes())?;
        if self.exit_code && now != then {
            results().flush()?;
            std::process::exit(1);
        }
        Ok(())
    }
}
