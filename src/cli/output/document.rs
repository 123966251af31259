//! `tccc sockets -o json`: one document, written while the kernel is still being read.
//!
//! One thread reads the kernel's table and the other processors write, so that writing never delays reading.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::SCHEMA;
use super::json;
use super::naming::{Naming, StateWords};
use super::stdout::{Results, unbuffered_results};
use host::trace::arms::Labelled;
use host::trace::filter::Filter;
use host::trace::snapshot::{self, SweptNamespaces};
use shared::arrival::RuleArm;
use shared::event::{Event, RawEvent};

/// Most pieces of the kernel's answer that wait to be written: 16 MB.
const PIECES_MAX: usize = 512;

/// Selects connections by rule, and knows the arm of each.
#[derive(Debug, Default)]
pub struct ArmSelection {
    pub labelled: Labelled,
    /// Empty: connections of every rule, and of none.
    pub rules: BTreeSet<String>,
}

impl ArmSelection {
    pub fn passes(&self, given: Option<&RuleArm>) -> bool {
        self.rules.is_empty() || given.is_some_and(|given| self.rules.contains(&given.rule))
    }
}

/// Sweeps and prints; returns the number of sockets, and what the sweep saw.
///
/// Shape of the document: one socket a line, in the order of the kernel's table.
///
/// # Errors
/// As [`snapshot::sweep`]; stdout cannot be written.
pub fn print(filter: &Filter, selection: &ArmSelection) -> Result<(usize, SweptNamespaces)> {
    let out = Mutex::new((unbuffered_results()?, 0));
    let document = SocketsDocument { selection, naming: Mutex::default(), out };
    let (to, from) = mpsc::sync_channel::<Vec<RawEvent>>(PIECES_MAX);
    let from = Mutex::new(from);
    let others = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).saturating_sub(1).max(1);
    let seen = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..others).map(|_| scope.spawn(|| document.write_pieces(&from))).collect();
        let seen = snapshot::sweep_raw(filter, |events| Ok(to.send(events.to_vec())?));
        drop(to);
        let join = |writer: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        writers.into_iter().map(join).fold(Ok(()), Result::and)?;
        seen
    })?;
    Ok((document.end(&seen)?, seen))
}

/// Each thread's own copy of the naming, which needs no lock.
type KnownWords = HashMap<String, Arc<StateWords>>;

struct SocketsDocument<'a> {
    selection: &'a ArmSelection,
    naming: Mutex<Naming>,
    /// Stdout, and the number of sockets written to it.
    out: Mutex<(Results<File>, usize)>,
}

impl SocketsDocument<'_> {
    /// Writes pieces until the channel closes. After an error it drains the channel, so that the reader never blocks.
    fn write_pieces(&self, from: &Mutex<Receiver<Vec<RawEvent>>>) -> Result<()> {
        let mut result = Ok(());
        let mut text = Vec::new();
        let mut words = KnownWords::new();
        loop {
            let piece = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(piece) = piece else { return result };
            if result.is_ok() {
                text.clear();
                result = self.write_piece(&piece, &mut text, &mut words);
            }
        }
    }

    fn write_piece(&self, piece: &[RawEvent], text: &mut Vec<u8>, words: &mut KnownWords) -> Result<()> {
        let mut sockets = 0;
        for raw in piece {
            let event = Event::of_raw(raw).context("decode a socket")?;
            let given = self.selection.labelled.arm(event.socket);
            if !self.selection.passes(given) {
                continue;
            }
            let algorithm = &event.algorithm;
            let find = || Arc::clone(self.naming.lock().unwrap_or_else(PoisonError::into_inner).words(algorithm));
            let known = match words.get(algorithm) {
                Some(known) => known,
                None => words.entry(algorithm.clone()).or_insert_with(find),
            };
            text.extend_from_slice(b",\n{");
            json::write_members(&event, known, given, text);
            sockets += 1;
        }
        self.append(text, sockets).context("write the sockets")
    }

    /// Appends sockets, each after a comma; the document's first socket has none.
    fn append(&self, text: &[u8], more: usize) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, sockets) = &mut *out;
        let is_first = *sockets == 0 && more > 0;
        *sockets += more;
        if is_first {
            write!(file, "{{\"schema\":{SCHEMA},\"sockets\":[")?;
        }
        file.write_all(&text[usize::from(is_first)..])
    }

    /// Ends the document; returns the number of sockets in it.
    fn end(self, seen: &SweptNamespaces) -> io::Result<usize> {
        let (mut file, sockets) = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
        if sockets == 0 {
            write!(file, "{{\"schema\":{SCHEMA},\"sockets\":[")?;
        }
        writeln!(
            file,
            "\n],\"namespaces\":{},\"hidden\":{},\"partial\":{}}}",
            seen.namespaces.len(),
            seen.hidden,
            seen.is_partial
        )?;
        Ok(sockets)
    }
}
