//! `tccc policy diff`: what applying a file would change in the rules.

use std::io::{self, Write as _};

use anyhow::Result;
use similar::TextDiff;

use super::file::File;
use crate::policy::change;
use crate::policy::file::write;

/// Lines around a difference.
const CONTEXT: usize = 3;

/// Show how a file differs from the policy that decides now
///
/// Both are written in one form, so that comments and the order of fields make no difference. Prints nothing where the
/// rules are the same.
///
/// Example: `tccc policy diff web.toml`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: File,
    /// End with 1 where they differ
    #[arg(long)]
    exit_code: bool,
}

impl Args {
    /// Compares, and prints a unified diff.
    ///
    /// Errors: mistakes in the file; the record of the policy cannot be read.
    pub fn run(&self) -> Result<()> {
        let policy = self.file.read()?;
        let now = change::current()?.map(|generation| write(&generation.policy)).unwrap_or_default();
        let then = write(&policy);
        let diff = TextDiff::from_lines(&now, &then);
        let file = self.file.file.display().to_string();
        let mut unified = diff.unified_diff();
        io::stdout().lock().write_all(unified.context_radius(CONTEXT).header("now", &file).to_string().as_bytes())?;
        if self.exit_code && now != then {
            io::stdout().flush()?;
            std::process::exit(1);
        }
        Ok(())
    }
}
