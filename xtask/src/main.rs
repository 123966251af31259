//! The developers' commands of tccc: set up, demonstrate, test, check, format, measure.
//!
//! Starts with a Rust toolchain alone. It names each missing package, and why it is needed, before it installs it.

mod bench;
mod ci;
mod count;
mod demo;
mod dist;
mod evaluate;
mod fleet;
mod fmt;
mod fuzz;
mod guest;
mod histories;
#[path = "../../tests/common/state.rs"]
mod host_state;
mod made;
mod pictures;
mod process;
mod prove;
mod readme;
mod results;
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
pub struct XtaskCli {
    #[command(subcommand)]
    task: Task,
    /// List missing packages instead of installing them
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the packages that a command needs
    Setup(setup::Arguments),
    /// Build, run dtcp against reno and cubic on a lossy path, show the result
    Demo,
    /// Run all tests; count passed, failed and skipped
    Test(test::Arguments),
    /// Run every check of CI: format, rules, lints, tests, README commands
    Ci,
    /// Build for the kernel, check the rules, run the host tests of the algorithms
    Check,
    /// Format Rust and C
    Fmt(fmt::Arguments),
    /// Check the rules of style and layering
    Tidy,
    /// Accept changed snapshots and show what changed
    Bless,
    /// Fuzz the algorithms with operations, or the parsers with bytes, guided by coverage
    Fuzz(fuzz::Arguments),
    /// Prove every algorithm free of undefined behaviour with Frama-C
    Prove(prove::Arguments),
    /// Count the instructions that the verifier processes, per algorithm and callback
    Verify,
    /// Build the guest that `tccc run --engine virtual` runs in
    Virtual(guest::Arguments),
    /// Run the papers' experiments and write their summaries
    Results(results::Arguments),
    /// Evaluate algorithms by RFC 9743; write the figures that tccc carries, a page for each and the known offenders
    Evaluate(evaluate::Arguments),
    /// Run a command under another kernel, in a virtual machine
    Vm(vm::Arguments),
    /// Run the tests of the kernel ring under several kernels; print a table of algorithms and kernels
    VmMatrix(vm::matrix::Arguments),
    VmBoot(vm::boot::Arguments),
    /// Load the congestion control of the kernel's own selftests; print the table of results
    Selftests(selftests::Arguments),
    /// Compare the ports of the kernel's algorithms with the originals in virtual time; print the table
    Twins(twins::Arguments),
    /// Take random steps on one host after another, and compare each with a model of the promises
    Histories(histories::Arguments),
    /// Measure: the link, the cost of tracing, the time to load
    Bench(bench::Arguments),
    /// Bundle the web page of `tccc serve`; test it in a browser
    Web(web::Arguments),
    /// Make the README's pictures from a recording in the tree
    Pictures,
    /// Compare the READMEs with the program: commands, scenarios, table of algorithms
    Readme(readme::Arguments),
    /// Build packages, a static program, recipes for clusters, a dashboard and alert rules below target/dist
    Dist(dist::Arguments),
    /// Test the recipe for Slurm: three nodes on this machine run an experiment in blocks
    Fleet(fleet::Arguments),
}

fn main() -> ExitCode {
    let cli = XtaskCli::parse();
    if cli.no_install {
        setup::forbid_installing();
    }
    let done = match cli.task {
        Task::Setup(arguments) => setup::run(&arguments),
        Task::Demo => demo::run(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Ci => ci::run(),
        Task::Check => test::check(),
        Task::Fmt(arguments) => fmt::run(&arguments),
        Task::Tidy => tidy::run(),
        Task::Bless => test::bless(),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Prove(arguments) => prove::run(&arguments),
        Task::Verify => test::verify(),
        Task::Virtual(arguments) => guest::run(&arguments),
        Task::Results(arguments) => results::run(&arguments),
        Task::Evaluate(arguments) => evaluate::run(&arguments),
        Task::Vm(arguments) => vm::run(&arguments),
        Task::VmMatrix(arguments) => vm::matrix::run(&arguments),
        Task::VmBoot(arguments) => vm::boot::run(&arguments),
        Task::Selftests(arguments) => selftests::run(&arguments),
        Task::Twins(arguments) => twins::run(&arguments),
        Task::Histories(arguments) => histories::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Web(arguments) => web::run(&arguments),
        Task::Pictures => pictures::run(),
        Task::Readme(arguments) => readme::run(&arguments),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Fleet(arguments) => fleet::run(&arguments),
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
