//! `tccc traffic`: the sender or receiver that `tccc run` starts in a run's namespaces.

use std::io::Write;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::cli::output::results;
use lab::traffic::child::{self, ChildPlace, TrafficTask};
use shared::failure::Failure;

/// Send or receive in a run's namespace (started by `tccc run`)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Where to run, as `tccc run` writes it
    #[arg(value_name = "PLACE")]
    place: String,
    /// What to do, as `tccc run` writes it
    #[arg(value_name = "TASK")]
    task: String,
}

impl Args {
    /// Prints the result as JSON.
    ///
    /// # Errors
    /// PLACE or TASK cannot be parsed; a socket error.
    pub fn run(&self) -> Result<()> {
        let place: ChildPlace = parse("place", &self.place)?;
        let task: TrafficTask = parse("task", &self.task)?;
        place.enter()?;
        let told = serde_json::to_string(&child::work(&task)?).context("encode the result")?;
        Ok(writeln!(results(), "{told}")?)
    }
}

fn parse<T: DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        let hint = "`tccc run` starts this itself; see `tccc run --help`";
        Failure::usage(format!("cannot parse the {what}: {error}")).hint(hint).into()
    })
}
