//! `tccc policy diff`: what applying a file would change in the rules.

use std::io::{self, Write as _};

use anyhow::Result;
use similar::TextDiff;

use super::file::PolicyFile;
use crate::policy::change;
use crate::policy::file::write;

const CONTEXT_LINES: usize = 3;

/// Show how a file differs from the policy in force
///
/// Compares the rules in one canonical form, so comments and the order of fields make no difference. Prints nothing if the
/// rules are the same. Changes nothing.
///
/// Example: `tccc policy diff web.toml`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PolicyFile,
    /// Exit with 1 if they differ
    #[arg(long)]
    exit_code: bool,
}

impl Args {
    /// Errors: mistakes in the file; the record of the policy cannot be read.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        let now = change::current()?.map(|generation| write(&generation.policy)).unwrap_or_default();
        let then = write(&policy);
        let diff = TextDiff::from_lines(&now, &then);
        let file = self.file.file.display().to_string();
        let mut unified = diff.unified_diff();
        let text = unified.context_radius(CONTEXT_LINES).header("now", &file).to_string();
        io::stdout().lock().write_all(text.as_bytes())?;
        if self.exit_code && now != then {
            io::stdout().flush()?;
            std::process::exit(1);
        }
        Ok(())
    }
}
