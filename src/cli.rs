//! The command line: one file per verb, arguments and `run`; no logic that a test cannot reach through the library.
//!
//! Results go to stdout, everything else to stderr. Only this module writes to stdout.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use crate::failure::{Failure, Kind};
use crate::kernel::libbpf_log::{self, PrintLevel};
use crate::plain::plain_lines;

mod apply;
mod arms;
mod assets;
pub mod capabilities;
mod check;
pub mod columns;
pub mod completions;
mod confirm;
pub mod doctor;
mod document;
mod explain;
mod guard;
mod inside;
mod line;
pub mod link;
pub mod list;
pub mod load;
pub mod naming;
mod new;
pub mod parquet;
pub mod plain;
mod policy;
mod progress;
pub mod report;
mod ring;
mod risk;
pub mod run;
pub mod selection;
pub mod serve;
pub mod show;
mod signals;
pub mod sockets;
pub mod status;
mod systemd;
pub mod top;
pub mod trace;
pub mod traffic;
mod trials;
pub mod unload;
mod upgrade;

/// Whether `--quiet` was given; set once, before a verb runs.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Published TCP congestion control in the real kernel: load safely, watch live, measure honestly
#[derive(Debug, Parser)]
#[command(name = "tccc", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    /// Say more on stderr: what libbpf says; twice: its debug lines too
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs, in the order a newcomer meets them; each one's help stands at its arguments.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "the help text stands at the arguments")]
pub enum Command {
    List(list::Args),
    Show(show::Args),
    Load(load::Args),
    Confirm(confirm::Args),
    Unload(unload::Args),
    Status(status::Args),
    Apply(apply::Args),
    Policy(policy::Args),
    Explain(explain::Args),
    Upgrade(upgrade::Args),
    Rollback(upgrade::Rollback),
    Sockets(sockets::Args),
    Trace(trace::Args),
    Top(top::Args),
    Serve(serve::Args),
    Run(run::Args),
    Report(report::Args),
    Link(Box<link::Args>),
    Doctor(doctor::Args),
    New(new::Args),
    Check(check::Args),
    Completions(completions::Args),
    Traffic(traffic::Args),
    Guard(guard::Args),
    Inside(inside::Args),
    Ring(ring::Args),
    Assets(assets::Args),
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
    QUIET.store(cli.quiet, Ordering::Relaxed);
    let level = if cli.verbose > 1 { PrintLevel::Debug } else { PrintLevel::Info };
    libbpf_log::install((cli.verbose > 0).then_some(tell), level);
    match cli.command {
        Command::List(args) => args.run(),
        Command::Show(args) => args.run(),
        Command::Load(args) => args.run(),
        Command::Confirm(args) => args.run(),
        Command::Unload(args) => args.run(),
        Command::Status(args) => args.run(),
        Command::Apply(args) => args.run(),
        Command::Policy(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Upgrade(args) => args.run(),
        Command::Rollback(args) => args.run(),
        Command::Sockets(args) => args.run(),
        Command::Trace(args) => args.run(),
        Command::Top(args) => args.run(),
        Command::Serve(args) => args.run(),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Link(args) => link::run(&args),
        Command::Doctor(args) => args.run(),
        Command::New(args) => args.run(),
        Command::Check(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Traffic(args) => args.run(),
        Command::Guard(args) => args.run(),
        Command::Inside(args) => args.run(),
        Command::Ring(args) => args.run(),
        Command::Assets(args) => args.run(),
    }
}

/// Writes to stderr. What nobody can read there, on a closed pipe or a full disk, is lost, and the work goes on.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Whether stderr shall have errors only.
fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints `tccc: warning: what` and the next step, unless `--quiet` was given.
fn warn(what: &str, hint: Option<&str>) {
    if !is_quiet() {
        tell(&format!("tccc: warning: {}\n", plain_lines(what)));
        hint.iter().for_each(|hint| tell(&format!("  hint: {}\n", plain_lines(hint))));
    }
}

/// Prints `tccc: note: what`, unless `--quiet` was given.
fn note(what: &str) {
    if !is_quiet() {
        tell(&format!("tccc: note: {}\n", plain_lines(what)));
    }
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
    failure.map_or(Kind::Failed, |failure| failure.kind) as u8
}
