//! `tccc traffic`: what `tccc run` starts in the namespaces of a run; hidden, because it is of no use on its own.

use std::io::{self, Write};

use anyhow::{Context, Result};

use crate::experiment::traffic::child;
use crate::failure::Failure;

/// Send or receive in a run's namespace (started by `tccc run`)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// What to do, as `tccc run` writes it
    #[arg(value_name = "TASK")]
    pub task: String,
}

impl Args {
    /// Does the task and prints what came of it as JSON.
    ///
    /// Errors: no such task; a socket cannot be used.
    pub fn run(&self) -> Result<()> {
        let task = serde_json::from_str(&self.task).map_err(|error| {
            Failure::usage(format!("no such task: {error}"))
                .hint("`tccc run` starts this itself; see `tccc run --help`")
        })?;
        let told = serde_json::to_string(&child::work(&task)?).context("encode what came of it")?;
        Ok(writeln!(io::stdout(), "{told}")?)
    }
}
