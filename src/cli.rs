//! The command line: one file per verb, arguments and `run`; no logic that a test cannot reach through the library.
//!
//! Results go to stdout, everything else to stderr. Only this module writes to stdout.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::{Failure, Kind};
use crate::kernel::libbpf_log;

pub mod columns;
pub mod completions;
pub mod doctor;
pub mod link;
pub mod list;
pub mod load;
pub mod naming;
pub mod plain;
pub mod report;
pub mod run;
pub mod selection;
pub mod show;
pub mod sockets;
pub mod status;
pub mod trace;
pub mod unload;

/// Whether `--quiet` was given; set once, before a verb runs.
static QUIET: AtomicBool = AtomicBool::new(false);

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
    /// Join two network namespaces by a link with rate, delay and loss
    Link(link::Args),
    #[allow(missing_docs)] // the help text stands at the arguments
    List(list::ListArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Show(show::ShowArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Load(load::LoadArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Unload(unload::UnloadArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Status(status::StatusArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Doctor(doctor::DoctorArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Completions(completions::CompletionsArgs),
    /// Recompute tables and plots from recorded runs
    Report(report::Args),
    #[allow(missing_docs)] // the help text stands at the arguments
    Sockets(sockets::SocketsArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Trace(trace::TraceArgs),
    #[allow(missing_docs)] // the help text stands at the arguments
    Run(run::Args),
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
    QUIET.store(cli.quiet, Ordering::Relaxed);
    libbpf_log::install((cli.verbose > 0).then_some(|line| eprint!("{line}")));
    match cli.command {
        Command::Link(args) => link::run(&args),
        Command::List(args) => args.run(),
        Command::Show(args) => args.run(),
        Command::Load(args) => args.run(),
        Command::Unload(args) => args.run(),
        Command::Status(args) => args.run(),
        Command::Doctor(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Report(args) => report::run(&args, cli.quiet),
        Command::Run(args) => run::run(&args, cli.quiet),
        Command::Sockets(args) => args.run(),
        Command::Trace(args) => args.run(),
    }
}

/// Prints `tccc: warning: what` and the next step, unless `--quiet` was given.
fn warn(what: &str, hint: Option<&str>) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("tccc: warning: {what}");
        hint.iter().for_each(|hint| eprintln!("  hint: {hint}"));
    }
}

/// Prints `tccc: note: what`, unless `--quiet` was given.
fn note(what: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("tccc: note: {what}");
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
