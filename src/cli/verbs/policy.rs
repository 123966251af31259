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
/// Rules match by cgroup or systemd unit, network namespace, remote address, port and direction. The first matching rule
/// decides when a connection is established; nothing runs per packet. scenarios/policy/README.md describes the file and has
/// examples.
///
/// Example: `tccc policy check web.toml`, then `tccc policy apply web.toml --trial 10m`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    Check(check::Args),
    Apply(apply::Args),
    Show(show::Args),
    Diff(diff::Args),
    Remove(remove::Args),
    #[command(flatten)]
    Steer(steer::Steer),
}

impl Args {
    pub fn run(&self) -> Result<()> {
        match &self.command {
            PolicyCommand::Check(args) => args.run(),
            PolicyCommand::Apply(args) => args.run(),
            PolicyCommand::Show(args) => args.run(),
            PolicyCommand::Diff(args) => args.run(),
            PolicyCommand::Remove(args) => args.run(),
            PolicyCommand::Steer(command) => command.run(),
        }
    }
}
