//! `tccc traffic`: what `tccc run` starts in the namespaces of a run; hidden, because it is of no use on its own.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::lab::traffic::child::{self, ChildPlace, Task};

/// Send or receive in a run's namespace (started by `tccc run`)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Where to do it, as `tccc run` writes it
    #[arg(value_name = "PLACE")]
    pub place: String,
    /// What to do, as `tccc run` writes it
    #[arg(value_name = "TASK")]
    pub task: String,
}

impl Args {
    /// Does the task at its place and prints what came of it as JSON.
    ///
    /// Errors: no such place or task; a socket cannot be used.
    pub fn run(&self) -> Result<()> {
        let place: ChildPlace = parse("place", &self.place)?;
        let task: Task = parse("task", &self.task)?;
        place.enter()?;
        let told = serde_json::to_string(&child::work(&task)?).context("encode what came of it")?;
        Ok(writeln!(io::stdout(), "{told}")?)
    }
}

fn parse<T: DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let hint = "`tccc run` starts this itself; see `tccc run --help`";
        Failure::usage(format!("no such {what}: {error}")).hint(hint).into()
    })
}
