//! `tccc policy`: which connections of this host get which algorithm.

mod admission;
mod apply;
mod file;
mod remove;
mod show;
mod steer;

use anyhow::Result;

use crate::cli::effect::Effect;

/// Choose which connections get which algorithm, by rules in a file
///
/// Rules match by cgroup or systemd unit, network namespace, remote address, port and direction. The first matching
/// rule is applied once, when a connection is established; nothing runs per packet. scenarios/policy/README.md
/// describes the file and has examples.
///
/// Example: `tccc policy check web.toml`, then `tccc policy apply web.toml --trial 10m`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: PolicyCommand,
}

verbs!(PolicyCommand {
    query Check: file::CheckArgs,
    change Apply: apply::Args,
    query Show: show::Args,
    query Diff: file::DiffArgs,
    change Remove: remove::Args,
    #[command(flatten)]
    change Steer: steer::Steer,
});

impl Args {
    pub fn run(self) -> Result<()> {
        self.command.run()
    }

    pub fn effect(&self) -> Effect {
        self.command.effect()
    }
}
