//! `tccc doctor`: what this host can do and what it lacks, with the fix for each.

use std::io::{self, Write};

use anyhow::Result;

use serde::Serialize;

use super::capabilities;
use crate::cli::output::Format;
use crate::cli::output::plain::{row, write_columns};
use crate::failure::Failure;
use crate::kernel::probe::checks::{self, HostCheck};
use crate::virtual_time;

/// Say what this host can do, what it lacks, and the fix for each
///
/// Asks the kernel's own type information, never its version. Ends with 4 where something is missing that `tccc load`
/// needs; the rest makes single verbs work better.
///
/// Example: `tccc doctor -o json`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("doctor", ""))]
pub struct Args {
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct Document {
    can_load: bool,
    checks: Vec<HostCheck>,
}

impl Args {
    /// Looks, and prints.
    ///
    /// Errors: something that loading needs is missing.
    pub fn run(&self) -> Result<()> {
        let mut checks = checks::all();
        checks.extend(virtual_time::checks::all());
        let document = Document { can_load: checks::can_load(&checks), checks };
        self.output.print(&document, write_table)?;
        if document.can_load {
            return Ok(());
        }
        let missing = document.checks.iter().filter(|check| !check.is_met && check.weight == checks::Weight::Needed);
        let missing: Vec<&str> = missing.map(|check| check.what).collect();
        Err(Failure::unmet(format!("this host cannot load algorithms: it lacks {}", missing.join(", "))).into())
    }
}

fn write_table(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let rows = document.checks.iter().map(|check| {
        let mark = match (check.is_met, check.weight) {
            (true, _) => "yes",
            (false, checks::Weight::Needed) => "NO",
            (false, checks::Weight::Useful) => "no",
        };
        let fix = if check.is_met { "" } else { &check.fix };
        row([mark, check.what, &check.found, check.needed_for, fix])
    });
    write_columns(out, ["", "what", "found", "needed for", "fix"], rows)
}
