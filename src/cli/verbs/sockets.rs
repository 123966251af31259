//! `tccc sockets`: one sweep over all TCP sockets.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use anyhow::Result;

use super::selection::SocketSelection;
use crate::cli::output::arms::read_arms;
use crate::cli::output::columns::{EventRow, EventTable, note_hidden};
use crate::cli::output::document::{self, ArmSelection};
use crate::cli::output::naming::{Naming, StateWords};
use crate::cli::output::plain::line_limit;
use crate::cli::output::{OutputFormat, note, results, warn};
use host::trace::snapshot::{self, SweptNamespaces};
use shared::event::Event;
use shared::kernel::namespaces;
use shared::kernel::privilege::{self, Capability};
use shared::sanitize::count;

/// Show every TCP connection once: window, RTT, algorithm, its state
///
/// Looks into every network namespace. Shows established and closing connections, but no listeners, which have no window.
/// With a policy, shows the rule and arm of each connection. Changes nothing.
///
/// Example: `tccc sockets --port 443 --algorithm dtcp`; `tccc sockets --rule web`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
    #[command(flatten)]
    selection: SocketSelection,
}

impl Args {
    /// # Errors
    /// A wrong option; the tracer lacks a requirement.
    pub fn run(&self) -> Result<()> {
        let filter = self.selection.filter()?;
        let labelled = read_arms()().unwrap_or_else(|why| {
            warn(&format!("rules and arms are not shown: {why:#}"), None);
            None
        });
        let chosen = ArmSelection { labelled: labelled.unwrap_or_default(), rules: self.selection.rules() };
        let (shown, seen) = match self.output {
            OutputFormat::Table => {
                let mut sweep = snapshot::sweep(&filter)?;
                sweep.sockets.retain(|socket| chosen.passes(chosen.labelled.arm(socket.socket)));
                sweep.sockets.sort_by_key(|socket| (socket.netns, socket.local, socket.remote));
                write_table(&mut BufWriter::new(results()), &sweep.sockets, &chosen)?;
                (sweep.sockets.len(), sweep.seen)
            }
            OutputFormat::Json => document::print(&filter, &chosen)?,
        };
        self.report_missing(shown, &seen);
        Ok(())
    }

    fn report_missing(&self, shown: usize, seen: &SweptNamespaces) {
        let is_empty = shown == 0;
        // Other processes usually show the namespace of a process that even root may not inspect.
        let matters =
            is_empty || self.selection.names_namespaces() || !privilege::missing(&[Capability::SysPtrace]).is_empty();
        if seen.hidden > 0 && matters {
            let what = namespaces::uninspected(seen.hidden);
            warn(&what, Some("run with CAP_SYS_PTRACE and every capability that those processes have"));
        }
        if seen.is_partial {
            warn(namespaces::PARTIAL, Some(namespaces::SEE_ALL));
        }
        if is_empty {
            note(&format!("no connection matches, in {}", count(seen.namespaces.len(), "network namespace")));
            self.selection.warn_of_unregistered("`tccc status` lists those that are");
            self.selection.warn_of_unknown_rules();
        }
    }
}

fn write_table(out: &mut dyn Write, sockets: &[Event], chosen: &ArmSelection) -> io::Result<()> {
    let mut naming = Naming::default();
    let words: Vec<Arc<StateWords>> = sockets.iter().map(|socket| naming.words(&socket.algorithm).clone()).collect();
    let row = |(event, words)| {
        let event: &Event = event;
        EventRow { event, words, given: chosen.labelled.arm(event.socket), time_s: 0.0 }
    };
    let rows: Vec<EventRow> = sockets.iter().zip(words.iter().map(Arc::as_ref)).map(row).collect();
    let table = EventTable::of_rows(&rows, line_limit());
    note_hidden(&table);
    table.write_line(out, None)?;
    rows.iter().try_for_each(|row| table.write_line(out, Some(row)))?;
    out.flush()
}
