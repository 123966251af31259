//! One file per verb: its arguments and `run`; no logic that a test cannot reach through the library.

use anyhow::Result;
use clap::Subcommand;

mod apply;
mod assets;
pub mod capabilities;
mod check;
mod completions;
mod confirm;
mod doctor;
mod explain;
mod guard;
mod inside;
mod link;
mod list;
mod load;
mod new;
mod policy;
mod report;
mod ring;
mod risk;
mod run;
mod selection;
mod serve;
mod show;
mod signals;
mod sockets;
mod status;
mod systemd;
mod top;
mod trace;
mod traffic;
mod trials;
mod unload;
mod upgrade;

/// The verbs, in the order a newcomer meets them; each one's help stands at its arguments.
#[derive(Debug, Subcommand)]
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

impl Command {
    /// Runs the verb of this program.
    ///
    /// Errors: those of the verb.
    pub fn run(self, program: fn() -> clap::Command) -> Result<()> {
        match self {
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
            Command::Completions(args) => args.run(program()),
            Command::Traffic(args) => args.run(),
            Command::Guard(args) => args.run(),
            Command::Inside(args) => args.run(),
            Command::Ring(args) => args.run(),
            Command::Assets(args) => args.run(program()),
        }
    }
}
