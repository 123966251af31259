//! The command line: `verbs` reads arguments and calls the library, `output` prints.
//!
//! Results go to stdout, everything else to stderr. Only `output::stdout` writes to stdout.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use shared::failure::{Failure, FailureKind};
use shared::interrupt;
use shared::kernel::io_error::reason;
use shared::kernel::libbpf_log::{self, PrintLevel};
use shared::sanitize::plain_lines;

pub mod effect;
mod output;
mod verbs;

use effect::Effect;
use output::{note, results, stdout, tell, warn};
use verbs::signals;
pub use verbs::{Command, capabilities};

/// Lists global options after the command's own.
const LAST: usize = 900;

/// Published TCP congestion control in the real kernel: load safely, watch live, measure honestly
#[derive(Debug, Parser)]
#[command(name = "tccc", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    /// Print libbpf's messages on stderr; give it twice for debug messages too
    #[arg(short, long, global = true, display_order = LAST, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print only errors on stderr
    #[arg(short, long, global = true, display_order = LAST)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong request: it fails on every machine
  3  measured outside the expected range, or the path is not as requested: try another machine
  4  this machine lacks a requirement: try another machine
  5  try again: interrupted, blocked by another process, or delayed by other load in every attempt";

/// The program as help, manual and completions describe it, with capabilities and exit codes below each verb's help.
pub fn program() -> clap::Command {
    documented(Cli::command(), "")
}

/// `verb` is empty for the program itself.
fn documented(command: clap::Command, verb: &str) -> clap::Command {
    let needs = capabilities::paragraph(verb).map_or(String::new(), |needs| format!("{needs}\n\n"));
    command.after_long_help(needs + EXIT_CODES).mut_subcommands(|sub| {
        let name = format!("{verb} {}", sub.get_name());
        documented(sub, name.trim_start())
    })
}

pub fn main() -> ExitCode {
    #[cfg(feature = "lab")]
    if lab::virtual_time::inside::is_first_process() {
        // Without the command line: building its description takes longer than the rest of a guest's start.
        return exit_code(lab::virtual_time::inside::run().map(|()| 0));
    }
    let read = |matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program()));
    let cli = match program().try_get_matches().and_then(read) {
        Ok(cli) => cli,
        Err(refusal) => {
            return exit_code(print_refusal(&refusal).map(|()| refusal.exit_code() as u8));
        }
    };
    output::set_quiet(cli.quiet);
    let effect = cli.command.effect();
    if effect != Effect::Query {
        stdout::never_fail();
    }
    let done = match &effect {
        Effect::Change(undo) => signals::hold().and_then(|()| run(cli)).inspect(|()| note_late_signal(undo)),
        Effect::Query | Effect::Work => run(cli),
    };
    let flushed = results().flush();
    if let Some(error) = stdout::failure() {
        warn_of_stdout(error, done.is_ok());
    }
    exit_code(done.and(flushed.map_err(Into::into)).map(|()| 0))
}

/// A signal that came too late to stop a change.
fn note_late_signal(undo: &str) {
    if interrupt::came() {
        note(&format!("the signal came during the change, which is complete: {undo}"));
    }
}

fn exit_code(ended: Result<u8>) -> ExitCode {
    ExitCode::from(match ended {
        Ok(code) => code,
        Err(error) if stdout::is_closed(&error) => 0,
        Err(error) => report_error(&error),
    })
}

/// Prints help and version as they are, and clap's errors with the prefix `tccc: ` like every other error.
///
/// # Errors
/// Stdout cannot be written.
fn print_refusal(refusal: &clap::Error) -> Result<()> {
    if refusal.use_stderr() {
        if refusal.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            tell("tccc: ");
        }
        let _ = refusal.print();
        return Ok(());
    }
    refusal.print().map_err(stdout::unwritable)?;
    Ok(results().flush()?)
}

/// A reader that went away is not worth a word.
fn warn_of_stdout(error: &io::Error, is_done: bool) {
    if error.kind() != ErrorKind::BrokenPipe {
        let hint = is_done.then_some("only the output is missing: the command did everything else");
        warn(&format!("cannot write to stdout: {}", reason(error)), hint);
    }
}

fn run(cli: Cli) -> Result<()> {
    let level = if cli.verbose > 1 { PrintLevel::Debug } else { PrintLevel::Info };
    libbpf_log::install((cli.verbose > 0).then_some(tell), level);
    cli.command.run()
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
