//! The command line: one file per verb, arguments and `run`; no logic that a test cannot reach through the library.
//!
//! Results go to stdout, everything else to stderr. Only this module writes to stdout.

pub mod report;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::{Failure, Kind};

/// Published TCP congestion control in the real kernel: load safely, watch live, measure honestly
#[derive(Debug, Parser)]
#[command(name = "tccc", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    /// Say more on stderr; repeat for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Recompute tables and plots from recorded runs
    Report(report::Args),
}

/// How a query prints its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    Table,
    /// One JSON document with a schema number
    Json,
}

/// Runs the command this process was started with and says how it went.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            let _ = refusal.print();
            return ExitCode::from(refusal.exit_code() as u8);
        }
    };
    match run(cli).and_then(|()| io::stdout().flush().map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(report_error(&error)),
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Report(args) => report::run(&args, cli.quiet),
    }
}

/// A reader that went away (`tccc list | head -1`) is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints `tccc: error: what: why` and the hint; returns the exit code.
fn report_error(error: &anyhow::Error) -> u8 {
    eprintln!("tccc: error: {error:#}");
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        eprintln!("  hint: {hint}");
    }
    failure.map_or(Kind::Failed, |failure| failure.kind) as u8
}
