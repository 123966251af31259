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

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::setup::{self, Purpose};
use emulator::Acceleration;
use guest::Job;
use kernel::Choice;
use machine::{Ended, Machine, Places};

/// What to run where.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A series that Debian packages, for example 6.1 or 6.12, or `newest`
    #[arg(long, value_name = "SERIES|newest")]
    kernel: Choice,
    #[command(flatten)]
    hardware: Hardware,
    /// Print the command that starts QEMU, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The command, started in the workspace as root; its exit code becomes ours
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The virtual machine.
#[derive(Debug, Clone, Args)]
pub struct Hardware {
    /// How long the guest may take, for example 90s or 10m
    #[arg(long, default_value = "10m", value_parser = duration)]
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

impl Hardware {
    fn machine(&self, emulator: emulator::Emulator) -> Machine {
        let acceleration = self.acceleration.resolved();
        let processors = acceleration.processors(self.processors);
        let (memory_megabytes, limit) = (self.memory, self.limit);
        Machine { emulator, acceleration, processors, memory_megabytes, limit }
    }
}

/// The command in the guest ended with a code that is not 0, which becomes ours.
#[derive(Debug)]
pub struct EndedWith(pub u8);

impl fmt::Display for EndedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command in the guest ended with {}", self.0)
    }
}

impl std::error::Error for EndedWith {}

/// The guest did not come to its end in the time it was given.
#[derive(Debug)]
pub struct OutOfTime(String, Duration);

impl fmt::Display for OutOfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the guest with {} was stopped after {:?}", self.0, self.1)
    }
}

impl std::error::Error for OutOfTime {}

/// The job did not say a word: the machine that should run it never came so far.
#[derive(Debug)]
pub struct NotStarted;

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("start the job in the guest")
    }
}

/// Runs a command under another kernel: `cargo xtask vm --kernel 6.1 -- target/debug/tccc doctor`.
///
/// Errors: [`EndedWith`] the command's own exit code; the guest died twice, or the limit was over; no kernel to be had.
/// Side effects: installs packages where some are missing; unpacks kernels below the build's folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.dry_run {
        println!("{}", planned(&arguments.kernel, &arguments.hardware));
        return Ok(());
    }
    setup::set_up(Purpose::Vm)?;
    match boot(&arguments.kernel, &arguments.hardware, &Job::new(arguments.command.clone()), &mut io::stdout())? {
        0 => Ok(()),
        code => Err(EndedWith(code).into()),
    }
}

/// Boots and returns the job's exit code; a guest that dies gets one more chance, a job that fails gets none.
fn boot(choice: &Choice, hardware: &Hardware, job: &Job, stdout: &mut dyn Write) -> Result<u8> {
    let kernel = kernel::prepare(choice, hardware.renew)?;
    let machine = hardware.machine(emulator::find()?);
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

/// The command line of a boot, with the places of what is not there yet.
fn planned(choice: &Choice, hardware: &Hardware) -> String {
    let place = kernel::folder().join(format!("kernel-{choice}"));
    let kernel = kernel::open(&place).unwrap_or_else(|_| kernel::Kernel::awaited(&place));
    let emulator = emulator::Emulator::likely();
    let places = Places { first_file_system: "FIRST-FILE-SYSTEM", console: "CONSOLE", code: "EXIT-CODE" };
    machine::shown(&hardware.machine(emulator).command(&kernel, &places))
}

/// A number and `s` or `m`.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.len().saturating_sub(1);
    let seconds = match (text.get(..split).and_then(|number| number.parse::<u64>().ok()), text.get(split..)) {
        (Some(number), Some("s")) => number,
        (Some(number), Some("m")) => number * 60,
        _ => return Err(format!("{text:?} is not a time such as 90s or 10m")),
    };
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "10", "m", "1h", "-1s", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn command_line_dies_with_us_and_with_the_limit() {
        let acceleration = Acceleration::Tcg;
        let hardware =
            Hardware { limit: Duration::from_secs(90), memory: 512, processors: 1, acceleration, renew: false };
        let line = planned(&"6.12".parse().unwrap(), &hardware);
        assert!(
            line.starts_with("setpriv --pdeathsig KILL timeout --kill-after=5 90 setpriv --pdeathsig KILL "),
            "{line}"
        );
        for part in ["readonly=on", "-accel tcg", "-smp 1", "-m 512", "kernel-6.12", "-initrd FIRST-FILE-SYSTEM"] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
