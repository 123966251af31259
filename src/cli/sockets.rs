//! `tccc sockets`: one sweep over all TCP sockets.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use anyhow::Result;

use super::columns::{Row, Table, line_limit, note_hidden};
use super::naming::{Named, Naming};
use super::selection::Selection;
use super::{Format, note, warn};
use crate::kernel::privilege::{self, Capability};
use crate::trace::event::Event;
use crate::trace::snapshot::{self, Sweep};

/// Version of the JSON document.
const SCHEMA: u32 = 1;
/// Sockets that a thread writes at once.
const PIECE: usize = 2048;

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

impl Args {
    /// Sweeps and prints.
    ///
    /// Errors: a wrong option; a need of the tracer is missing.
    pub fn run(&self) -> Result<()> {
        let sweep = snapshot::sweep(&self.selection.filter()?)?;
        let mut sockets: Vec<&Event> = sweep.sockets.iter().collect();
        sockets.sort_by_cached_key(|socket| (socket.netns, place(socket.local), place(socket.remote)));
        let mut naming = Naming::default();
        let mut out = BufWriter::new(io::stdout().lock());
        match self.output {
            Format::Table => write_table(&mut out, &sockets, &mut naming)?,
            Format::Json => write_json(&mut out, &sweep, (&sockets, &mut naming))?,
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

/// What sorts addresses: IPv4 before IPv6, then by number, then by port.
fn place(end: SocketAddr) -> (bool, u128, u16) {
    let number = match end.ip() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    (end.is_ipv6(), number, end.port())
}

fn write_table(out: &mut dyn Write, sockets: &[&Event], naming: &mut Naming) -> io::Result<()> {
    let named: Vec<Named> = sockets.iter().map(|socket| naming.name(socket)).collect();
    let rows: Vec<Row> = sockets.iter().zip(&named).map(|(event, named)| Row { event, named, time_s: 0.0 }).collect();
    let table = Table::of_rows(&rows, line_limit());
    note_hidden(&table);
    table.write_header(out)?;
    rows.iter().try_for_each(|row| table.write_row(out, row))
}

/// One object, a socket a line; every processor writes its part, since this takes longer than the sweep.
fn write_json(out: &mut dyn Write, sweep: &Sweep, (sockets, naming): (&[&Event], &mut Naming)) -> io::Result<()> {
    sockets.iter().for_each(|socket| naming.meet(&socket.algorithm));
    let (naming, namespaces, hidden) = (&*naming, sweep.namespaces.len(), sweep.hidden);
    write!(out, "{{\"schema\":{SCHEMA},\"namespaces\":{namespaces},\"hidden\":{hidden},\"sockets\":[")?;
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut separator = 1; // none before the first
    for batch in sockets.chunks(PIECE * processors) {
        let pieces: Vec<io::Result<Vec<u8>>> = std::thread::scope(|scope| {
            let work = |piece| scope.spawn(move || json_lines(piece, naming));
            let workers: Vec<_> = batch.chunks(PIECE).map(work).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        for piece in pieces {
            out.write_all(&piece?[separator..])?;
            separator = 0;
        }
    }
    writeln!(out, "\n]}}")
}

/// A comma, a line's end and an object for each socket.
fn json_lines(sockets: &[&Event], naming: &Naming) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for socket in sockets {
        lines.extend_from_slice(b",\n");
        serde_json::to_writer(&mut lines, &naming.describe(socket))?;
    }
    Ok(lines)
}
