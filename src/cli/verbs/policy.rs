//! `tccc policy`: which connections of this host get which algorithm.

mod apply;
mod check;
mod diff;
mod file;
mod remove;
mod show;
mod steer;

use anyhow::Result;

/// Choose which connections get which algorithm, by rules in a file
///
/// Rules match by cgroup or systemd unit, network namespace, remote address, port and direction. The first rule that
/// matches decides when a connection is established; nothing runs per packet. scenarios/policy/README.md describes the
/// file and has examples.
///
/// Example: `tccc policy check web.toml`, then `tccc policy apply web.toml --trial 10m`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with the policy; each one's help stands at its arguments.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Apply(apply::Args),
    Show(show::Args),
    Diff(diff::Args),
    Remove(remove::Args),
    #[command(flatten)]
    Steer(steer::Steer),
}

impl Args {
    /// Runs the subcommand.
    ///
    /// Errors: those of the subcommand.
    pub fn run(&self) -> Result<()> {
        match &self.command {
            Command::Check(args) => args.run(),
            Command::Apply(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Diff(args) => args.run(),
            Command::Remove(args) => args.run(),
            Command::Steer(command) => command.run(),
        }
    }
}
