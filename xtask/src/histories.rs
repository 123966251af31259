//! Random histories of a host: the verbs, kills and reboots, compared with a model of the promises after every step.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::process;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Steps to take, over as many hosts as that needs
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// The seed of the first host; the next host has the next seed
    #[arg(long, default_value_t = 100)]
    seed: u64,
    /// Begin no other host after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// The program to test, such as that of an earlier commit [default: this tree's debug build]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Take these steps instead, as a broken history prints them
    #[arg(long, value_name = "JSON")]
    replay: Option<String>,
}

/// `cargo xtask histories`: prints each history that breaks a promise, shortened, with the command that repeats it.
///
/// Side effects: those of the kernel ring, for hours.
///
/// # Errors
/// A promise is broken; this host cannot run the kernel ring.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut test = process::tests_of(["--test", "kernel"], "histories::campaign");
    test.arg("--ignored").env("TCCC_REQUIRE", "root,btf,struct_ops,bpffs,cgroup2");
    test.env("TCCC_STEPS", arguments.steps.to_string()).env("TCCC_SEED", arguments.seed.to_string());
    if let Some(seconds) = arguments.seconds {
        test.env("TCCC_SECONDS", seconds.to_string());
    }
    if let Some(program) = &arguments.program {
        let program = program.canonicalize().with_context(|| format!("find the program {}", program.display()))?;
        test.env("TCCC_UNDER_TEST", program);
    }
    if let Some(steps) = &arguments.replay {
        test.env("TCCC_HISTORY", steps);
    }
    process::run("histories", &mut test)
}
