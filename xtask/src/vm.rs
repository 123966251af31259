//! Runs one of Debian's kernels in a virtual machine that sees this machine's files.
//!
//! The guest reads the host's file system and writes to its own memory. So programs built here run there, and nothing that
//! runs there changes the host.

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

use crate::setup::{self, SetupPurpose};
use emulator::Acceleration;
use guest::GuestJob;
use kernel::KernelChoice;
use machine::{Ended, VirtualMachine};

#[derive(Debug, Args)]
pub struct Arguments {
    /// A series that Debian packages, for example 6.1 or 6.12, or `newest`
    #[arg(long, value_name = "SERIES|newest")]
    kernel: KernelChoice,
    #[command(flatten)]
    hardware: Hardware,
    /// The command, started in the workspace as root; xtask ends with its exit code
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct Hardware {
    /// Time limit of the guest, for example 90s or 10m
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// Memory in megabytes; it also holds the files that the guest writes
    #[arg(long, value_name = "MEGABYTES", default_value_t = 2048)]
    memory: u32,
    /// Processors
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    processors: u32,
    /// How the guest's instructions are executed
    #[arg(long, value_enum, default_value_t = Acceleration::Auto)]
    acceleration: Acceleration,
    /// Look for a newer package of the kernel than the unpacked one
    #[arg(long)]
    renew: bool,
}

/// A non-zero exit code of the command in the guest, which becomes xtask's.
#[derive(Debug, thiserror::Error)]
#[error("the command in the guest ended with {0}")]
pub struct EndedWith(pub u8);

#[derive(Debug, thiserror::Error)]
#[error("the guest with {0} was stopped after {1:?}")]
pub struct OutOfTime(String, Duration);

/// The guest ended before the job wrote anything.
#[derive(Debug, thiserror::Error)]
#[error("start the job in the guest")]
pub struct NotStarted;

/// `cargo xtask vm --kernel 6.1 -- target/debug/tccc doctor` runs a command under another kernel.
///
/// Side effects: installs packages; unpacks kernels below the build's folder.
///
/// # Errors
/// [`EndedWith`]; [`OutOfTime`]; the guest died twice; no kernel is available.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Vm)?;
    match boot(&arguments.kernel, &arguments.hardware, &GuestJob::new(arguments.command.clone()), &mut io::stdout())? {
        0 => Ok(()),
        code => Err(EndedWith(code).into()),
    }
}

/// Boots and returns the job's exit code. A guest that dies is booted once more.
fn boot(choice: &KernelChoice, hardware: &Hardware, job: &GuestJob, stdout: &mut dyn Write) -> Result<u8> {
    let kernel = kernel::prepare(choice, hardware.renew)?;
    let machine = VirtualMachine { emulator: emulator::find()?, hardware: hardware.clone() };
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
