//! The ports of the kernel's own algorithms beside the originals, under a kernel of Debian's that has them all.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::Args;

use super::emulator::Acceleration;
use super::guest::Job;
use super::kernel::Choice;
use super::matrix::{binaries, output_of};
use super::{Hardware, verdicts};
use crate::count::Failed;
use crate::made::Block;
use crate::setup::{self, Purpose};

/// Where the table stands.
const TABLE: Block = Block { document: "bpf/README.md", command: "cargo xtask vm-twins --bless" };
/// The test file that compares them.
const FILE: &str = "twins";

/// Which kernel.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A series or `newest`
    #[arg(long, value_name = "SERIES|newest", default_value = "6.12")]
    kernel: Choice,
    /// Ports, for example `bpf_vegas bpf_htcp`; all when left out
    #[arg(conflicts_with = "bless")]
    ports: Vec<String>,
    /// Write the table into bpf/README.md
    #[arg(long)]
    bless: bool,
    #[command(flatten)]
    hardware: Hardware,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Loads the kernel's modules and compares each port with its original: `cargo xtask vm-twins bpf_vegas`.
///
/// Errors: [`Failed`] when a port differs by more than is allowed; the guest died or ran out of time.
/// Side effects: as `cargo xtask vm`; with `--bless` writes the table into its document.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Vm, arguments.no_install)?;
    let Some(program) = binaries(|name| name == FILE)?.remove(FILE) else { bail!("there is no tests/{FILE}.rs") };
    let mut hardware = arguments.hardware.clone();
    if hardware.acceleration.resolved() == Acceleration::Tcg {
        // Windows that depend on time are compared: a clock that waits for nobody leaves the algorithms' difference.
        hardware.acceleration = Acceleration::Virtual;
    }
    let (code, output) = output_of(&arguments.kernel, &hardware, &job(&program, &arguments.ports))?;
    let table = table(&output);
    println!("\n{table}");
    if arguments.bless {
        TABLE.write(&table)?;
    }
    if code == 0 { Ok(()) } else { Err(Failed.into()) }
}

/// Loads every congestion-control module, then runs the comparison.
fn job(program: &str, ports: &[String]) -> Job {
    let script = format!(
        "echo \"kernel: $(uname -v)\"\n\
         for file in /usr/lib/modules/*/kernel/net/ipv4/tcp_*.ko*; do\n\
         name=$(basename \"$file\")\nmodprobe \"${{name%%.*}}\"\ndone\nexec {program} --nocapture --test-threads=1\n"
    );
    let mut job = Job::in_a_guest_alone(script);
    job.environment.push(("TCCC_ALGORITHMS".into(), ports.join(" ")));
    job
}

/// The table in Markdown, from lines `twin: ORIGINAL PORT DIFFERENCE OWN ALLOWED`.
fn table(output: &str) -> String {
    let version = verdicts::Verdicts::read(output).version;
    let mut text = format!(
        "| port | the kernel's own, {version} | RMS of the difference, % of the mean window | the original to itself, % | allowed, % |\n\
         | --- | --- | --- | --- | --- |\n"
    );
    for line in output.lines() {
        if let ["twin:", original, port, difference, own, allowed] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let _ = writeln!(text, "| `{port}` | `{original}` | {difference} | {own} | {allowed} |");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_for_each_port() {
        let output = "kernel: #1 SMP Debian 6.12.107-1 (2026-07-02)\nnoise\ntwin: vegas bpf_vegas 1.25 0.75 5\n";
        let text = table(output);
        assert!(text.contains("| the kernel's own, 6.12.107-1 |"), "{text}");
        assert!(text.ends_with("\n| `bpf_vegas` | `vegas` | 1.25 | 0.75 | 5 |\n"), "{text}");
    }

    #[test]
    fn job_loads_the_modules_first() {
        let job = job("target/debug/deps/twins-1", &["bpf_vegas".into()]);
        assert!(job.command[2].find("modprobe").unwrap() < job.command[2].find("twins-1").unwrap());
        assert!(job.environment.contains(&("TCCC_ALGORITHMS".into(), "bpf_vegas".into())));
    }
}
