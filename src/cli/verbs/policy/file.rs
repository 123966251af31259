//! The argument that names the file of a policy.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::policy::rule::Policy;

/// The file of a policy.
#[derive(Debug, clap::Args)]
pub(super) struct File {
    /// File with the rules; scenarios/policy/README.md describes it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl File {
    /// Reads it.
    ///
    /// Errors: every mistake in it.
    pub fn read(&self) -> Result<Policy, Failure> {
        Ok(crate::policy::file::read(&self.file)?)
    }

    /// Its absolute path, which means the same to whoever looks at the policy later.
    pub fn path(&self) -> PathBuf {
        std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone())
    }

    /// A failure about a rule, with the file before it.
    pub fn blamed(&self, error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<Failure>() {
            Ok(failure) => Failure { what: format!("{}: {}", self.file.display(), failure.what), ..failure }.into(),
            Err(error) => error.context(self.file.display().to_string()),
        }
    }
}
