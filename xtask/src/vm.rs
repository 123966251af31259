//! Another kernel than this machine's: one of Debian's, in a virtual machine that sees this machine's files.
//!
//! The guest reads the whole file system of the host and writes into its own memory, so whatever is built here runs
//! there as it is, and nothing that runs there changes anything here.

#[path = "../../src/virtual_time/archive.rs"]
mod archive;
pub mod boot;
mod emulator;
mod guest;
mod kernel;
mod machine;
pub mod matrix;
pub mod packages;
mod verdicts;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::setup::{self, Purpose};
use emulator::Acceleration;
use guest::Job;
use kernel::Choice;
use machine::{Ended, Machine};

/// What to run where.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A series that Debian packages, for example 6.1 or 6.12, or `newest`
    #[arg(long, value_name = "SERIES|newest")]
    kernel: Choice,
    #[command(flatten)]
    hardware: Hardware,
    /// The command, started in the workspace as root; its exit code becomes ours
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The virtual machine.
#[derive(Debug, Clone, Args)]
pub struct Hardware {
    /// How long the guest may take, for example 90s or 10m
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// Memory in megabytes; it holds what the guest writes
    #[arg(long, value_name = "MEGABYTES", default_value_t = 2048)]
    memory: u32,
    /// Processors
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    processors: u32,
    /// How the guest's instructions are executed
    #[arg(long, value_enum, default_value_t = Acceleration::Auto)]
    acceleration: Acceleration,
    /// Look for a newer package of the kernel than the one that is unpacked
    #[arg(long)]
    renew: bool,
}

/// The command in the guest ended with a code that is not 0, which becomes ours.
#[derive(Debug, thiserror::Error)]
#[error("the command in the guest ended with {0}")]
pub struct EndedWith(pub u8);

/// The guest did not come to its end in the time it was given.
#[derive(Debug, thiserror::Error)]
#[error("the guest with {0} was stopped after {1:?}")]
pub struct OutOfTime(String, Duration);

/// The job did not say a word: the machine that should run it never came so far.
#[derive(Debug, thiserror::Error)]
#[error("start the job in the guest")]
pub struct NotStarted;

/// Runs a command under another kernel: `cargo xtask vm --kernel 6.1 -- target/debug/tccc doctor`.
///
/// Errors: [`EndedWith`] the command's own exit code; the guest died twice, or the limit was over; no kernel to be had.
/// Side effects: installs packages where some are missing; unpacks kernels below the build's folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Vm)?;
    match boot(&arguments.kernel, &arguments.hardware, &Job::new(arguments.command.clone()), &mut io::stdout())? {
        0 => Ok(()),
        code => Err(EndedWith(code).into()),
    }
}

/// Boots and returns the job's exit code; a guest that dies gets one more chance, a job that fails gets none.
fn boot(choice: &Choice, hardware: &Hardware, job: &Job, stdout: &mut dyn Write) -> Result<u8> {
    let kernel = kernel::prepare(choice, hardware.renew)?;
    let machine = Machine { emulator: emulator::find()?, hardware: hardware.clone() };
    for is_last in [false, true] {
        match machine.run(&kernel, job, stdout)? {
            Ended::Code(code) => return Ok(code),
            Ended::OutOfTime => return Err(OutOfTime(kernel.release, hardware.limit).into()),
            Ended::Died(how) if is_last => bail!("the guest with {} died twice: {how}", kernel.release),
            Ended::Died(how) => eprintln!("xtask: warning: vm: the guest died and is started once more: {how}"),
        }
    }
    unreachable!("the last attempt returns")
}
