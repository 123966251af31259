//! Measurements, each an ignored test that prints what it measured.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::process;
use crate::setup::{self, Purpose};

/// What to measure.
#[derive(Debug, Args)]
pub struct Arguments {
    /// One measurement; all when left out
    #[arg(value_enum)]
    what: Option<Bench>,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Rate, delay, loss and lateness of the user-space link
    Link,
    /// Goodput with every socket traced, as a ratio of paired runs
    Trace,
    /// Wall time of `tccc load` and `tccc unload`
    Load,
    /// Time per ACK of each algorithm beside the kernel's own, and goodput beside cubic's
    Callbacks,
    /// Time of 10 MB by slow start, Swift Start and Modified Swift Start
    Start,
    /// `tccc sockets` beside `ss` over 100,000 sockets, and `tccc top` with 10,000
    Sockets,
    /// Ten minutes of 300 flows recorded, killed, cut and compared with the kernel's counts
    Record,
    /// Processor and memory of `tccc serve` with ten thousand sockets
    Serve,
    /// Time that a policy takes to decide a connection, by its number of prefixes
    Policy,
    /// Processor and memory of the guard of a trial, with ten thousand sockets and with a hundred thousand prefixes
    Guard,
    /// Virtual time's ratio to the clock on one processor, and the start of a guest
    Virtual,
}

impl Bench {
    fn file(self) -> &'static str {
        match self {
            Bench::Link => "link_bench",
            Bench::Trace => "trace_bench",
            Bench::Load => "load_bench",
            Bench::Callbacks => "callbacks_bench",
            Bench::Start => "start_bench",
            Bench::Sockets => "sockets_bench",
            Bench::Record => "record_bench",
            Bench::Serve => "serve_bench",
            Bench::Policy => "policy_bench",
            Bench::Guard => "guard_bench",
            Bench::Virtual => "virtual_bench",
        }
    }
}

/// Builds with optimisation and measures: `cargo xtask bench`.
///
/// Errors: a measurement could not be made.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Bench, arguments.no_install)?;
    let all = arguments.what.map_or_else(|| Bench::value_variants().to_vec(), |what| vec![what]);
    for bench in all {
        let mut command = process::cargo("test");
        command.args(["--release", "--quiet", "--test", bench.file(), "--"]);
        process::run("bench", command.args(["--ignored", "--nocapture", "--test-threads=1"]))?;
    }
    Ok(())
}
