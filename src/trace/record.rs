//! Recordings: what a source handed over, kept in a file that is whole up to its last whole block however it ends.
//!
//! A file begins with [`MAGIC`] and the number of its format, then come blocks (`record/block.rs`): first what the
//! recording is of, then events and facts, at last an end when it was ended in order. A format's meaning never
//! changes; a reader knows every format up to its own.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::arrival::{Arrival, Fact};
use super::event::schema::Schema;
use super::event::{EVENT_BYTES, Event};
use crate::failure::Failure;
use crate::kernel::clock;

mod block;
pub mod read;
mod rotate;
mod standing;

use block::BlockKind;
pub use rotate::Rotation;
use standing::StandingFacts;

/// First bytes of a recording.
pub const MAGIC: [u8; 8] = *b"\x89tcccrec";
/// The format this program writes.
pub const FORMAT: u32 = 1;
/// Events of a block: half a megabyte before it is packed.
const BLOCK_EVENTS: usize = 2048;
/// Bytes of facts of a block.
const BLOCK_FACTS: usize = 256 << 10;
/// A block is written at the latest so long after its first event: what a kill can lose.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// What a recording is of: its first block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the program that wrote it.
    pub tccc: String,
    pub host: String,
    pub kernel: String,
    /// When it began, for people.
    pub started: String,
    /// When it began, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// The same moment on the clock of the events, CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Time between samples of one socket, nanoseconds.
    pub interval_ns: u64,
    pub selection: String,
    /// Number of the file in a recording of several, from 1.
    pub part: u32,
    /// How its events are laid out.
    pub event: Schema,
}

/// Ends a recording that was not cut: its last block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    pub events: u64,
    /// Events that were dropped before they could be recorded, since the recording began.
    pub dropped: u64,
}

impl Head {
    /// A recording on this host that begins now.
    ///
    /// Errors: the host has no clock.
    pub fn of_this_host(interval: Duration, selection: String) -> Result<Head> {
        let name = nix::sys::utsname::uname().context("ask for the name of this host")?;
        let realtime_ns = clock::realtime_ns()?;
        let started = std::time::UNIX_EPOCH + Duration::from_nanos(realtime_ns);
        Ok(Head {
            tccc: env!("CARGO_PKG_VERSION").to_owned(),
            host: name.nodename().to_string_lossy().into_owned(),
            kernel: name.release().to_string_lossy().into_owned(),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            realtime_ns,
            monotonic_ns: clock::monotonic_ns()?,
            interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
            selection,
            part: 1,
            event: Schema::own(),
        })
    }
}

/// Writes a recording, in one file or in several.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    head: Head,
    rotation: Rotation,
    part: Part,
    /// Facts that a new file begins with; empty when there is one file only.
    standing: StandingFacts,
    dropped: u64,
    total: u64,
}

#[derive(Debug)]
struct Part {
    file: File,
    bytes: u64,
    begun: Instant,
    events: Vec<u8>,
    span: [u64; 2],
    facts: Vec<u8>,
    fact_count: u32,
    waiting_since: Option<Instant>,
    written: u64,
}

impl Recorder {
    /// Creates the file.
    ///
    /// Errors: it exists and nothing says that it may be put aside; it cannot be written.
    /// Side effects: with a rotation, an existing file becomes the first of the older ones.
    pub fn create(path: &Path, head: Head, rotation: Rotation) -> Result<Recorder> {
        if rotation.is_on() && path.exists() {
            rotation.put_aside(path)?;
        }
        let part = Part::create(path, &head)?;
        let standing = StandingFacts::default();
        Ok(Recorder { path: path.to_owned(), head, rotation, part, standing, dropped: 0, total: 0 })
    }

    /// Keeps an arrival; it is in the file a second later at the latest, provided that [`Recorder::flush_due`] is
    /// called in time.
    ///
    /// Errors: the file cannot be written.
    pub fn write(&mut self, arrival: &Arrival) -> Result<()> {
        if self.rotation.is_on() {
            self.standing.note(arrival);
        }
        match arrival {
            Arrival::Event(event) => {
                self.total += 1;
                self.part.add_event(event);
            }
            Arrival::Fact(fact) => {
                if let Fact::Dropped { events, .. } = fact {
                    self.dropped = *events;
                }
                self.part.add_fact(fact)?;
            }
            Arrival::Restart => {}
        }
        if self.part.is_full() { self.flush() } else { Ok(()) }
    }

    /// Writes what has waited long enough, and begins another file when this one is large or old enough.
    ///
    /// Errors: the file cannot be written.
    pub fn flush_due(&mut self) -> Result<()> {
        if self.part.waiting_since.is_some_and(|since| since.elapsed() >= FLUSH_AFTER) {
            self.flush()?;
        }
        Ok(())
    }

    /// Events kept so far, over all files.
    pub fn events(&self) -> u64 {
        self.total
    }

    /// Ends the recording in order and has it stored safely; returns the bytes of the last file.
    ///
    /// Errors: the file cannot be written.
    pub fn finish(mut self) -> Result<u64> {
        self.end_part().with_context(|| format!("end the recording \"{}\"", self.path.display()))?;
        Ok(self.part.bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.part.flush().with_context(|| format!("write the recording \"{}\"", self.path.display()))?;
        if self.rotation.is_due(self.part.bytes, self.part.begun.elapsed()) {
            self.rotate().with_context(|| format!("begin another file of \"{}\"", self.path.display()))?;
        }
        Ok(())
    }

    fn rotate(&mut self) -> Result<()> {
        self.end_part()?;
        self.rotation.put_aside(&self.path)?;
        self.head.part += 1;
        self.part = Part::create(&self.path, &self.head)?;
        for fact in self.standing.facts() {
            self.part.add_fact(fact)?;
            if self.part.is_full() {
                self.part.flush()?; // no reader takes a block of any size
            }
        }
        Ok(())
    }

    fn end_part(&mut self) -> Result<()> {
        self.part.flush()?;
        let tail = serde_json::to_vec(&Tail { events: self.part.written, dropped: self.dropped })?;
        self.part.put(&block::pack(BlockKind::End, &tail, 1, [0, 0]))?;
        Ok(self.part.file.sync_data()?)
    }
}

impl Part {
    fn create(path: &Path, head: &Head) -> Result<Part> {
        let file = match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let what = format!("cannot record to \"{}\": it exists", path.display());
                let hint = "choose another name, or give `--rotate-size` to keep it as an older file";
                return Err(Failure::usage(what).hint(hint).into());
            }
            other => other.with_context(|| format!("create the recording \"{}\"", path.display()))?,
        };
        let mut part = Part {
            file,
            bytes: 0,
            begun: Instant::now(),
            events: Vec::with_capacity(BLOCK_EVENTS * EVENT_BYTES),
            span: [u64::MAX, 0],
            facts: Vec::new(),
            fact_count: 0,
            waiting_since: None,
            written: 0,
        };
        let mut first = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
        first.extend(block::pack(BlockKind::Head, &serde_json::to_vec(head)?, 1, [0, 0]));
        part.put(&first).with_context(|| format!("write the recording \"{}\"", path.display()))?;
        Ok(part)
    }

    fn add_event(&mut self, event: &Event) {
        self.events.extend_from_slice(&event.encode());
        self.span = [self.span[0].min(event.time_ns), self.span[1].max(event.time_ns)];
        self.waiting_since.get_or_insert_with(Instant::now);
    }

    fn add_fact(&mut self, fact: &Fact) -> Result<()> {
        serde_json::to_writer(&mut self.facts, fact)?;
        self.facts.push(b'\n');
        self.fact_count += 1;
        self.waiting_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.events.len() >= BLOCK_EVENTS * EVENT_BYTES || self.facts.len() >= BLOCK_FACTS
    }

    /// Events before facts: a sweep's end comes after what it found.
    fn flush(&mut self) -> Result<()> {
        if !self.events.is_empty() {
            let count = self.events.len() / EVENT_BYTES;
            let columns = block::transpose(&self.events, EVENT_BYTES);
            self.put(&block::pack(BlockKind::Events, &columns, count as u32, self.span))?;
            self.written += count as u64;
            self.events.clear();
            self.span = [u64::MAX, 0];
        }
        if !self.facts.is_empty() {
            let facts = std::mem::take(&mut self.facts);
            self.put(&block::pack(BlockKind::Facts, &facts, self.fact_count, [0, 0]))?;
            self.fact_count = 0;
        }
        self.waiting_since = None;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
