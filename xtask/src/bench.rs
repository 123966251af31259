//! Measurements, each an ignored test that prints its results.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::process;
use crate::setup::{self, SetupPurpose};

#[derive(Debug, Args)]
pub struct Arguments {
    /// One measurement [default: all]
    #[arg(value_enum)]
    what: Option<MeasuredTime>,
    /// Compare the time per ACK with the objects `ID.bpf.o` of another build in this folder; only `callbacks`
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MeasuredTime {
    /// Rate, delay, loss and lateness of the user-space link
    Link,
    /// Goodput with every socket traced, as a ratio of paired runs
    Trace,
    /// Wall time of `tccc load` and `tccc unload`
    Load,
    /// Time per ACK of each algorithm and of the kernel's own, and goodput relative to cubic's
    Callbacks,
    /// Time of a 10 MB transfer with slow start, Swift Start and Modified Swift Start
    Start,
    /// `tccc sockets` compared with `ss` over 100,000 sockets, and `tccc top` with 10,000
    Sockets,
    /// Ten minutes of 300 flows: recorded, killed, truncated, and compared with the kernel's counts
    Record,
    /// Processor and memory of `tccc serve` with ten thousand sockets
    Serve,
    /// Time of a policy's decision per connection, by the policy's number of prefixes
    Policy,
    /// Processor and memory of the guard of a trial, with ten thousand sockets and with a hundred thousand prefixes
    Guard,
    /// Policy, guard and page together, with a hundred thousand connections
    Crowd,
    /// Ratio of virtual time to wall time on one processor, and the start of a guest
    Virtual,
    /// `tccc report` over 100,000 runs in 10,000 directories
    Report,
}

/// `cargo xtask bench`: measures a release build.
pub fn run(arguments: &Arguments) -> Result<()> {
    let against = arguments.against.as_deref().map(|folder| objects_in(folder, arguments.what)).transpose()?;
    setup::set_up(SetupPurpose::Bench)?;
    let all = arguments.what.map_or_else(|| MeasuredTime::value_variants().to_vec(), |what| vec![what]);
    for bench in all {
        let mut command = command(&bench.module());
        match &against {
            Some(folder) => command.arg(AGAINST_TEST).env("TCCC_AGAINST", folder),
            None => command.args(["--skip", AGAINST_TEST]),
        };
        process::run("bench", &mut command)?;
    }
    Ok(())
}

impl MeasuredTime {
    /// The module of `tests/bench` that measures this.
    fn module(self) -> String {
        match self {
            MeasuredTime::Virtual => "virtual_time".to_owned(),
            _ => format!("{self:?}").to_lowercase(),
        }
    }
}

/// Runs a module of `tests/bench` in a release build.
pub fn command(module: &str) -> Command {
    let mut command = process::tests_of(["--release", "--bench=bench"], &format!("{module}::"));
    command.arg("--ignored");
    command
}

/// The test that compares two builds.
const AGAINST_TEST: &str = "callbacks_cost_no_more_than_in_another_build";

/// The absolute path of a folder with objects of another build.
fn objects_in(folder: &Path, what: Option<MeasuredTime>) -> Result<PathBuf> {
    if what != Some(MeasuredTime::Callbacks) {
        bail!("--against compares algorithms: use it as `cargo xtask bench callbacks --against {}`", folder.display());
    }
    if process::names_in(folder, ".bpf.o").is_empty() {
        bail!(
            "{} holds no ID.bpf.o; a build leaves them in target/debug/build/tccc-*/out of its tree",
            folder.display()
        );
    }
    Ok(folder.canonicalize()?)
}
