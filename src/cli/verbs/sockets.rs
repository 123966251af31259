//! `tccc sockets`: one sweep over all TCP sockets.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;

use super::capabilities;
use super::selection::Selection;
use crate::cli::output::arms::read_arms;
use crate::cli::output::columns::{EventTable, Row, line_limit, note_hidden};
use crate::cli::output::document::{self, Chosen};
use crate::cli::output::naming::{Naming, Words};
use crate::cli::output::{Format, note, warn};
use crate::kernel::privilege::{self, Capability};
use crate::plain::count;
use crate::trace::event::Event;
use crate::trace::snapshot::{self, SweptNamespaces};

/// Show every TCP connection once: window, RTT, algorithm, its state
///
/// Looks into every network namespace. Established and closing connections are shown; listeners have no window. Where a
/// policy decides, each connection is shown with its rule and arm.
///
/// Example: `tccc sockets --port 443 --algorithm dtcp`; `tccc sockets --rule web`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("sockets", ""))]
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
        let chosen = self.chosen();
        let (shown, seen) = match self.output {
            Format::Table => {
                let mut sweep = snapshot::sweep(&filter)?;
                sweep.sockets.retain(|socket| chosen.passes(chosen.labelled.arm(socket.socket)));
                sweep.sockets.sort_by_cached_key(|socket| (socket.netns, place(socket.local), place(socket.remote)));
                write_table(&mut BufWriter::new(io::stdout().lock()), &sweep.sockets, &chosen)?;
                (sweep.sockets.len(), sweep.seen)
            }
            Format::Json => document::print(&filter, &chosen)?,
        };
        self.say_what_is_missing(shown, &seen);
        Ok(())
    }

    /// Labels that cannot be read are said, and the sockets are shown without.
    fn chosen(&self) -> Chosen {
        let labelled = read_arms()().unwrap_or_else(|why| {
            warn(&format!("rules and arms are not shown: {why:#}"), None);
            None
        });
        Chosen { labelled: labelled.unwrap_or_default(), rules: self.selection.rules() }
    }

    fn say_what_is_missing(&self, shown: usize, seen: &SweptNamespaces) {
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
            note(&format!("no connection passes, in {}", count(seen.namespaces.len(), "network namespace")));
            let next = "`tccc status` lists those that are";
            self.selection.unregistered().iter().for_each(|unknown| warn(unknown, Some(next)));
            self.selection.warn_of_unknown_rules();
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

fn write_table(out: &mut dyn Write, sockets: &[Event], chosen: &Chosen) -> io::Result<()> {
    let mut naming = Naming::default();
    let words: Vec<Arc<Words>> = sockets.iter().map(|socket| naming.words(&socket.algorithm).clone()).collect();
    let row = |(event, words)| {
        let event: &Event = event;
        Row { event, words, given: chosen.labelled.arm(event.socket), time_s: 0.0 }
    };
    let rows: Vec<Row> = sockets.iter().zip(words.iter().map(Arc::as_ref)).map(row).collect();
    let table = EventTable::of_rows(&rows, line_limit());
    note_hidden(&table);
    table.write_header(out)?;
    rows.iter().try_for_each(|row| table.write_row(out, row))?;
    out.flush()
}
