//! `tccc sockets`: one sweep over all TCP sockets.

use std::io::{self, BufWriter, Write};

use anyhow::Result;

use serde::Serialize;

use super::columns::{Row, Table, line_limit, note_hidden};
use super::naming::{Named, NamedEvent, Naming};
use super::selection::Selection;
use super::{Format, note, warn};
use crate::kernel::privilege::{self, Capability};
use crate::trace::event::Event;
use crate::trace::snapshot::{self, Sweep};

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// Show every TCP connection once: window, RTT, algorithm, its state
///
/// Looks into every network namespace. Established and closing connections are shown; listeners have no window.
///
/// Example: `tccc sockets --port 443 --algorithm dtcp`
///
/// Needs CAP_BPF, CAP_PERFMON, and CAP_SYS_ADMIN to enter network namespaces.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    namespaces: usize,
    hidden: usize,
    sockets: Vec<NamedEvent<'a>>,
}

impl Args {
    /// Sweeps and prints.
    ///
    /// Errors: a wrong option; a need of the tracer is missing.
    pub fn run(&self) -> Result<()> {
        let mut sweep = snapshot::sweep(&self.selection.filter()?)?;
        sweep.sockets.sort_by_key(|socket| (socket.netns, socket.local, socket.remote));
        let mut naming = Naming::default();
        let named: Vec<Named> = sweep.sockets.iter().map(|socket| naming.name(socket)).collect();
        let mut out = BufWriter::new(io::stdout().lock());
        match self.output {
            Format::Table => write_table(&mut out, &sweep.sockets, &named)?,
            Format::Json => write_json(&mut out, &sweep, &named)?,
        }
        out.flush()?;
        self.say_what_is_missing(&sweep);
        Ok(())
    }

    fn say_what_is_missing(&self, sweep: &Sweep) {
        let is_empty = sweep.sockets.is_empty();
        // A process that root may not look at mostly lives in a namespace that was seen all the same.
        let matters =
            is_empty || self.selection.names_namespaces() || !privilege::missing(&[Capability::SysPtrace]).is_empty();
        if sweep.hidden > 0 && matters {
            let processes = if sweep.hidden == 1 { "process" } else { "processes" };
            let what = format!("the network namespace of {} {processes} could not be looked at", sweep.hidden);
            warn(&what, Some("run with CAP_SYS_PTRACE and every capability that those processes have"));
        }
        if is_empty {
            let count = sweep.namespaces.len();
            let namespaces = if count == 1 { "namespace" } else { "namespaces" };
            note(&format!("no connection passes, in {count} network {namespaces}"));
            let next = "`tccc status` lists those that are";
            self.selection.unregistered().iter().for_each(|unknown| warn(unknown, Some(next)));
        }
    }
}

fn write_table(out: &mut dyn Write, sockets: &[Event], named: &[Named]) -> io::Result<()> {
    let rows: Vec<Row> = sockets.iter().zip(named).map(|(event, named)| Row { event, named, time_s: 0.0 }).collect();
    let table = Table::of_rows(&rows, line_limit());
    note_hidden(&table);
    table.write_header(out)?;
    rows.iter().try_for_each(|row| table.write_row(out, row))
}

fn write_json(out: &mut dyn Write, sweep: &Sweep, named: &[Named]) -> io::Result<()> {
    let sockets = sweep.sockets.iter().zip(named).map(|(event, named)| NamedEvent::of(event, named)).collect();
    let document = Document { schema: SCHEMA, namespaces: sweep.namespaces.len(), hidden: sweep.hidden, sockets };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
