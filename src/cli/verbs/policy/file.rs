//! The argument that names a policy file.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::policy::rule::Policy;

#[derive(Debug, clap::Args)]
pub(super) struct PolicyFile {
    /// File with the rules; scenarios/policy/README.md describes it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl PolicyFile {
    /// Errors: every mistake in the file.
    pub fn read(&self) -> Result<Policy, Failure> {
        Ok(crate::policy::file::read(&self.file)?)
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
