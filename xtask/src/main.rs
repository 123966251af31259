//! The developers' commands of tccc: set up, demonstrate, test, check, format, measure.
//!
//! Needs nothing but a Rust toolchain to start; says what else is missing and why before it installs it.

mod bench;
mod ci;
mod count;
mod demo;
mod dist;
mod fleet;
mod fmt;
mod fuzz;
mod guest;
#[path = "../../tests/common/state.rs"]
mod host_state;
mod made;
mod pictures;
mod process;
mod prove;
mod readme;
mod results;
mod risk;
mod selftests;
mod setup;
mod test;
mod tidy;
mod twins;
mod vm;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The developers' commands of tccc
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    command: Command,
    /// Name missing packages instead of installing them
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install the packages that a command needs
    Setup(setup::Arguments),
    /// Build, run dtcp against reno and cubic on a lossy path, show the result
    Demo,
    /// Run all tests and count passed, failed and skipped
    Test(test::Arguments),
    /// Everything CI checks: format, rules, lints, tests, README commands
    Ci,
    /// Kernel build, rules and the host ring of the algorithms
    Check,
    /// Format Rust and C
    Fmt(fmt::Arguments),
    /// Check the rules that are programs
    Tidy,
    /// Accept changed snapshots and show what changed
    Bless,
    /// Look for operations that break an algorithm, or bytes that break a parser, led by coverage
    Fuzz(fuzz::Arguments),
    /// Prove every algorithm free of undefined behaviour with Frama-C
    Prove(prove::Arguments),
    /// Count the instructions the verifier walks, per algorithm and callback
    Verify,
    /// Build the guest of virtual time, in which `tccc run --engine virtual` runs
    Virtual(guest::Arguments),
    /// Run the papers' experiments to the end, and write their summaries
    Results(results::Arguments),
    /// Measure what every algorithm does to its neighbours and on difficult paths; write the table that tccc shows
    Risk(risk::Arguments),
    /// Run a command under another kernel, in a virtual machine
    Vm(vm::Arguments),
    /// Run the tests of the kernel ring under several kernels; print a table of algorithms and kernels
    VmMatrix(vm::matrix::Arguments),
    VmBoot(vm::boot::Arguments),
    /// Load the congestion control of the kernel's own selftests; print the table of what happens
    Selftests(selftests::Arguments),
    /// Compare the ports of the kernel's algorithms with the originals in virtual time; print the table
    Twins(twins::Arguments),
    /// Measure: the link, the cost of tracing, the time to load
    Bench(bench::Arguments),
    /// Bundle the web page of `tccc serve`; look at it in a browser
    Web(web::Arguments),
    /// Make the pictures of the README from a recording in the tree
    Pictures,
    /// Compare README.md with the program: commands, scenario, table of algorithms
    Readme(readme::Arguments),
    /// Make packages, a static program, recipes for clusters, a dashboard and alert rules, below target/dist
    Dist(dist::Arguments),
    /// Try the recipe for Slurm: three nodes on this machine make an experiment in blocks
    Fleet(fleet::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.no_install {
        setup::forbid_installing();
    }
    let done = match cli.command {
        Command::Setup(arguments) => setup::run(&arguments),
        Command::Demo => demo::run(),
        Command::Test(arguments) => test::run(&arguments),
        Command::Ci => ci::run(),
        Command::Check => test::check(),
        Command::Fmt(arguments) => fmt::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Bless => test::bless(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Verify => test::verify(),
        Command::Virtual(arguments) => guest::run(&arguments),
        Command::Results(arguments) => results::run(&arguments),
        Command::Risk(arguments) => risk::run(&arguments),
        Command::Vm(arguments) => vm::run(&arguments),
        Command::VmMatrix(arguments) => vm::matrix::run(&arguments),
        Command::VmBoot(arguments) => vm::boot::run(&arguments),
        Command::Selftests(arguments) => selftests::run(&arguments),
        Command::Twins(arguments) => twins::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Web(arguments) => web::run(&arguments),
        Command::Pictures => pictures::run(),
        Command::Readme(arguments) => readme::run(&arguments),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Fleet(arguments) => fleet::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<count::Failed>() => ExitCode::FAILURE,
        Err(error) => {
            if let Some(ended) = error.downcast_ref::<vm::EndedWith>() {
                return ExitCode::from(ended.0);
            }
            eprintln!("xtask: error: {error:#}");
            ExitCode::from(if error.is::<setup::Unmet>() { 4 } else { 1 })
        }
    }
}
