//! `tccc sockets`: one sweep over all TCP sockets.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};

use anyhow::Result;

use super::columns::{Row, Table, line_limit, note_hidden};
use super::naming::{Named, Naming};
use super::selection::Selection;
use super::{Format, document, note, warn};
use crate::kernel::privilege::{self, Capability};
use crate::trace::event::Event;
use crate::trace::snapshot::{self, Seen};

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
        let filter = self.selection.filter()?;
        let (shown, seen) = match self.output {
            Format::Table => {
                let mut sweep = snapshot::sweep(&filter)?;
                sweep.sockets.sort_by_cached_key(|socket| (socket.netns, place(socket.local), place(socket.remote)));
                write_table(&mut BufWriter::new(io::stdout().lock()), &sweep.sockets)?;
                (sweep.sockets.len(), sweep.seen)
            }
            Format::Json => document::print(&filter)?,
        };
        self.say_what_is_missing(shown, &seen);
        Ok(())
    }

    fn say_what_is_missing(&self, shown: usize, seen: &Seen) {
        let is_empty = shown == 0;
        // A process that root may not look at mostly lives in a namespace that was seen all the same.
        let matters =
            is_empty || self.selection.names_namespaces() || !privilege::missing(&[Capability::SysPtrace]).is_empty();
        if seen.hidden > 0 && matters {
            let processes = if seen.hidden == 1 { "process" } else { "processes" };
            let what = format!("the network namespace of {} {processes} could not be looked at", seen.hidden);
            warn(&what, Some("run with CAP_SYS_PTRACE and every capability that those processes have"));
        }
        if is_empty {
            let count = seen.namespaces.len();
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

fn write_table(out: &mut dyn Write, sockets: &[Event]) -> io::Result<()> {
    let mut naming = Naming::default();
    let named: Vec<Named> = sockets.iter().map(|socket| naming.name(socket)).collect();
    let rows: Vec<Row> = sockets.iter().zip(&named).map(|(event, named)| Row { event, named, time_s: 0.0 }).collect();
    let table = Table::of_rows(&rows, line_limit());
    note_hidden(&table);
    table.write_header(out)?;
    rows.iter().try_for_each(|row| table.write_row(out, row))?;
    out.flush()
}
