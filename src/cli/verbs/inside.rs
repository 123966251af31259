//! `tccc inside`: the first process in a guest of virtual time, started by the guest's kernel.

use anyhow::Result;

use crate::cli::effect::Effect;
use lab::virtual_time::inside;

/// Do the job of a guest of virtual time (started by its kernel)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Ignored: the kernel appends parts of its own command line
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::Work
    }

    /// Does the job in the shared folder and powers the guest off.
    ///
    /// # Errors
    /// This is not the first process of a guest.
    pub fn run(&self) -> Result<()> {
        inside::run()
    }
}
