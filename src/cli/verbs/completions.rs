//! `tccc completions`: the script that lets a shell complete this command.

use std::io;

use anyhow::Result;
use clap_complete::Shell;

use crate::cli::program;

/// Print the completion script of a shell
///
/// Example: `tccc completions bash > /etc/bash_completion.d/tccc`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    /// Prints the script.
    ///
    /// Errors: none; a closed pipe ends it.
    pub fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program(), "tccc", &mut script);
        io::Write::write_all(&mut io::stdout().lock(), &script)?;
        Ok(())
    }
}
