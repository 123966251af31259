//! The ports of the kernel's own algorithms beside the originals, under a kernel of Debian's that has them all.

use std::collections::BTreeMap;

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
    ports: Vec<String>,
    /// Write the table into bpf/README.md; rows of ports that were not asked for stay
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
    let mut rows = rows(&output);
    println!("\n{}", table(&rows));
    if arguments.bless {
        if !arguments.ports.is_empty() {
            keep_others(&mut rows, &TABLE.content()?);
        }
        TABLE.write(&table(&rows))?;
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

/// Rows of the table by port, from lines `twin: ORIGINAL PORT DIFFERENCE OWN ALLOWED SAME LOSSES`.
fn rows(output: &str) -> BTreeMap<String, String> {
    let version = verdicts::Verdicts::read(output).version;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["twin:", original, port, difference, own, allowed, same, losses] = words[..] else { return None };
        let row =
            format!("| `{port}` | `{original}`, {version} | {difference} | {own} | {allowed} | {same} of {losses} |");
        Some((port.to_owned(), row))
    };
    output.lines().filter_map(row).collect()
}

/// Adds those rows of a table that are of other ports.
fn keep_others(rows: &mut BTreeMap<String, String>, table: &str) {
    for line in table.lines() {
        if let Some((port, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
            rows.entry(port.to_owned()).or_insert_with(|| line.to_owned());
        }
    }
}

/// The table in Markdown.
fn table(rows: &BTreeMap<String, String>) -> String {
    let mut text =
        "| port | the kernel's own | RMS of the difference, % of the mean window | the original to itself, % \
                    | allowed, % | losses decided alike |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for row in rows.values() {
        text += row;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_for_each_port() {
        let output = "kernel: #1 SMP Debian 6.12.107-1 (2026-07-02)\nnoise\ntwin: vegas bpf_vegas 1.25 0.75 5 9 10\n";
        let row = "| `bpf_vegas` | `vegas`, 6.12.107-1 | 1.25 | 0.75 | 5 | 9 of 10 |\n";
        let text = table(&rows(output));
        assert!(text.ends_with(&format!("| --- |\n{row}")), "{text}");
    }

    #[test]
    fn rows_of_other_ports_stay() {
        let was = "| port |\n| --- |\n| `bpf_bic` | old |\n| `bpf_vegas` | old |\n";
        let mut rows = BTreeMap::from([("bpf_vegas".to_owned(), "| `bpf_vegas` | new |".to_owned())]);
        keep_others(&mut rows, was);
        assert!(table(&rows).ends_with("| `bpf_bic` | old |\n| `bpf_vegas` | new |\n"), "{rows:?}");
    }

    #[test]
    fn job_loads_the_modules_first() {
        let job = job("target/debug/deps/twins-1", &["bpf_vegas".into()]);
        assert!(job.command[2].find("modprobe").unwrap() < job.command[2].find("twins-1").unwrap());
        assert!(job.environment.contains(&("TCCC_ALGORITHMS".into(), "bpf_vegas".into())));
    }
}
