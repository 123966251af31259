//! The command line: verbs, which read arguments and call the library, and the output that they share.
//!
//! Results go to stdout, everything else to stderr. Only this module writes to stdout.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::failure::{Failure, FailureKind};
use crate::kernel::libbpf_log::{self, PrintLevel};
use crate::plain::plain_lines;

mod output;
mod verbs;

use output::tell;
pub use verbs::{Command, capabilities};

/// Lists global options after the command's own.
const BEHIND: usize = 900;

/// Published TCP congestion control in the real kernel: load safely, watch live, measure honestly
#[derive(Debug, Parser)]
#[command(name = "tccc", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    /// Print more on stderr: what libbpf says; twice: its debug lines too
    #[arg(short, long, global = true, display_order = BEHIND, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print only errors on stderr
    #[arg(short, long, global = true, display_order = BEHIND)]
    pub quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What an exit code tells whoever called: a person, a script, or the engine of a cluster.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong request: it fails on every machine, so stop
  3  measured outside the expected range, or a path that is not what was asked: try another machine
  4  this machine lacks something: try another machine
  5  try again: interrupted, another process is in the way, or other work delayed every attempt";

/// The program as its help, its manual and its completions describe it: exit codes below the help of every verb.
pub fn program() -> clap::Command {
    with_exit_codes(Cli::command())
}

fn with_exit_codes(command: clap::Command) -> clap::Command {
    let own = command.get_after_long_help().map_or(String::new(), |own| format!("{own}\n\n"));
    command.after_long_help(own + EXIT_CODES).mut_subcommands(with_exit_codes)
}

/// The arguments of this process.
fn parse() -> Result<Cli, clap::Error> {
    let matches = program().try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program()))
}

/// Runs the command this process was started with and says how it went.
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            print_refusal(&refusal);
            return ExitCode::from(refusal.exit_code() as u8);
        }
    };
    match run(cli).and_then(|()| io::stdout().flush().map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(report_error(&error)),
    }
}

/// Prints help and version as they are, and a refusal in the form of all our errors.
fn print_refusal(refusal: &clap::Error) {
    if refusal.use_stderr() && refusal.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        tell("tccc: ");
    }
    let _ = refusal.print();
}

fn run(cli: Cli) -> Result<()> {
    output::set_quiet(cli.quiet);
    let level = if cli.verbose > 1 { PrintLevel::Debug } else { PrintLevel::Info };
    libbpf_log::install((cli.verbose > 0).then_some(tell), level);
    cli.command.run()
}

/// A reader that went away (`tccc list | head -1`) is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints `tccc: error: what: why` and the hint; returns the exit code.
fn report_error(error: &anyhow::Error) -> u8 {
    tell(&format!("tccc: error: {}\n", plain_lines(&format!("{error:#}"))));
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        tell(&format!("  hint: {}\n", plain_lines(hint)));
    }
    failure.map_or(FailureKind::Failed, |failure| failure.kind) as u8
}
