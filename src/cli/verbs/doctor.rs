//! `tccc doctor`: what this host can do and what it lacks, with the fix for each.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

use crate::cli::output::OutputFormat;
use crate::cli::output::plain::{row, write_columns};
use shared::failure::Failure;
use shared::kernel::probe::checks::{self, HostCheck, Weight};

/// Show what this host can do, what it lacks, and how to fix that
///
/// Reads the kernel's type information instead of its version. Changes nothing. Exits with 4 if something is missing that
/// `tccc load` needs. Each other entry matters to one verb.
///
/// Example: `tccc doctor -o json`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct DoctorDocument {
    can_load: bool,
    checks: Vec<HostCheck>,
}

impl Args {
    /// # Errors
    /// This host cannot load algorithms.
    pub fn run(&self) -> Result<()> {
        let checks = checks();
        let document = DoctorDocument { can_load: checks::can_load(&checks), checks };
        self.output.print(&document, write_table)?;
        if document.can_load {
            return Ok(());
        }
        let missing = document.checks.iter().filter(|check| !check.is_met && check.weight == Weight::Needed);
        let missing: Vec<&str> = missing.map(|check| check.what).collect();
        Err(Failure::unmet(format!("this host cannot load algorithms: it lacks {}", missing.join(", "))).into())
    }
}

/// Those of the halves that this program has.
fn checks() -> Vec<HostCheck> {
    let host = checks::all().into_iter();
    #[cfg(feature = "lab")]
    let host = host.chain(lab::virtual_time::checks::all());
    host.collect()
}

fn write_table(out: &mut impl Write, document: &DoctorDocument) -> io::Result<()> {
    let rows = document.checks.iter().map(|check| {
        let mark = match (check.is_met, check.weight) {
            (true, _) => "yes",
            (false, Weight::Needed) => "NO",
            (false, Weight::Useful) => "no",
        };
        let fix = if check.is_met { "" } else { &check.fix };
        row([mark, check.what, &check.found, check.needed_for, fix])
    });
    write_columns(out, ["", "what", "found", "needed for", "fix"], rows)
}
