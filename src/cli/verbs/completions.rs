//! `tccc completions`: the script that lets a shell complete this command.

use std::io::Write as _;

use anyhow::Result;
use clap_complete::Shell;

use crate::cli::output::results;
use crate::cli::program;

/// Print the completion script for a shell
///
/// Example: `tccc completions bash > /etc/bash_completion.d/tccc`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub fn run(&self) -> Result<()> {
        let mut script = Vec::new(); // the generator panics if stdout is a closed pipe
        clap_complete::generate(self.shell, &mut program(), "tccc", &mut script);
        Ok(results().write_all(&script)?)
    }
}
