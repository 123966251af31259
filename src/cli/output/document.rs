//! `tccc sockets -o json`: one document, written while the kernel is still being read.
//!
//! One thread reads the kernel's table, the other processors write: a hundred thousand sockets take as long as the reading.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::SCHEMA;
use super::json;
use super::naming::{Naming, Words};
use crate::trace::arms::Labelled;
use crate::trace::arrival::RuleArm;
use crate::trace::event::{EVENT_BYTES, Event};
use crate::trace::filter::Filter;
use crate::trace::snapshot::{self, SweptNamespaces};

/// Pieces of the kernel's answer that wait to be written, at most: 16 MB of them.
const PIECES_MAX: usize = 512;

/// Which connections are shown by their rule, and the arm of each.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Arms of all labelled connections.
    pub labelled: Labelled,
    /// Rules that are asked for; empty: all, and connections without a rule too.
    pub rules: BTreeSet<String>,
}

impl Chosen {
    pub fn passes(&self, given: Option<&RuleArm>) -> bool {
        self.rules.is_empty() || given.is_some_and(|given| self.rules.contains(&given.rule))
    }
}

/// Sweeps and prints; returns how many sockets there were, and where.
///
/// Shape of the document: sockets in no order, as the kernel's table has none; a socket a line.
/// Errors: as [`snapshot::sweep`]; stdout cannot be written.
pub fn print(filter: &Filter, chosen: &Chosen) -> Result<(usize, SweptNamespaces)> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().context("open stdout")?);
    let document = Document::new(stdout, chosen);
    let (to, from) = mpsc::sync_channel::<Vec<u8>>(PIECES_MAX);
    let from = Mutex::new(from);
    let others = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).saturating_sub(1).max(1);
    let seen = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..others).map(|_| scope.spawn(|| document.write_pieces(&from))).collect();
        let seen = snapshot::sweep_encoded(filter, |events| Ok(to.send(events.to_vec())?));
        drop(to);
        let join = |writer: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        writers.into_iter().map(join).fold(Ok(()), Result::and)?;
        seen
    })?;
    Ok((document.end(&seen)?, seen))
}

struct Document<'a> {
    chosen: &'a Chosen,
    naming: Mutex<Naming>,
    out: Mutex<Out>,
}

struct Out {
    file: File,
    sockets: usize,
}

impl<'a> Document<'a> {
    fn new(file: File, chosen: &'a Chosen) -> Self {
        Document { chosen, naming: Mutex::default(), out: Mutex::new(Out { file, sockets: 0 }) }
    }

    /// Writes pieces until there are no more; after an error the rest is only taken, so that nobody waits.
    fn write_pieces(&self, from: &Mutex<Receiver<Vec<u8>>>) -> Result<()> {
        let mut result = Ok(());
        let mut text = Vec::new();
        let mut words = HashMap::new();
        loop {
            let piece = from.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(piece) = piece else { return result };
            if result.is_ok() {
                text.clear();
                result = self.write_piece(&piece, &mut text, &mut words);
            }
        }
    }

    fn write_piece(&self, piece: &[u8], text: &mut Vec<u8>, words: &mut HashMap<String, Arc<Words>>) -> Result<()> {
        let mut sockets = 0;
        for bytes in piece.chunks_exact(EVENT_BYTES) {
            let event = Event::decode(bytes).context("decode a socket")?;
            let given = self.chosen.labelled.arm(event.socket);
            if !self.chosen.passes(given) {
                continue;
            }
            let known = match words.get(&event.algorithm) {
                Some(known) => known,
                None => words.entry(event.algorithm.clone()).or_insert_with(|| self.words(&event.algorithm)),
            };
            text.extend_from_slice(b",\n{");
            json::write_members(&event, known, given, text);
            sockets += 1;
        }
        self.append(text, sockets).context("write the sockets")
    }

    /// What is known of an algorithm, found out once.
    fn words(&self, algorithm: &str) -> Arc<Words> {
        Arc::clone(self.naming.lock().unwrap_or_else(PoisonError::into_inner).words(algorithm))
    }

    /// Appends sockets, each behind a comma; the first one of the document needs none.
    fn append(&self, text: &[u8], sockets: usize) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = out.sockets == 0;
        out.sockets += sockets;
        if is_first && sockets > 0 {
            write!(out.file, "{{\"schema\":{SCHEMA},\"sockets\":[")?;
            return out.file.write_all(&text[1..]);
        }
        out.file.write_all(text)
    }

    /// Writes what is known only at the end; returns how many sockets there are.
    fn end(self, seen: &SweptNamespaces) -> io::Result<usize> {
        let Out { mut file, sockets } = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
        if sockets == 0 {
            write!(file, "{{\"schema\":{SCHEMA},\"sockets\":[")?;
        }
        writeln!(file, "\n],\"namespaces\":{},\"hidden\":{}}}", seen.namespaces.len(), seen.hidden)?;
        Ok(sockets)
    }
}
