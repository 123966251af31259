//! Recordings of the arrivals of a source, readable up to the last whole block however the writer ends.
//!
//! A file starts with [`MAGIC`] and the format number. Blocks follow (`record/block.rs`): a head, then events and
//! facts, and an end if the recording is complete. The meaning of a format never changes. A reader knows every format
//! up to its own.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::arrival::{Arrival, Fact};
use super::event::EVENT_BYTES;
use super::event::schema::Schema;
use shared::failure::Failure;
use shared::kernel::clock;
use shared::units::nanos;

mod block;
mod carry_over;
pub mod read;
mod rotate;

use block::BlockKind;
use carry_over::StandingFacts;
pub use rotate::Rotation;

pub const MAGIC: [u8; 8] = *b"\x89tcccrec";
/// The format this program writes.
pub const FORMAT: u32 = 1;
/// Events per block: half a megabyte before compression.
const BLOCK_EVENTS: usize = 2048;
/// Bytes of facts per block.
const BLOCK_FACTS: usize = 256 << 10;
/// Longest time until an event is written, and so the most that is lost when the process is killed.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// The first block of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the program that wrote it.
    pub tccc: String,
    pub host: String,
    pub kernel: String,
    /// Start time as text.
    pub started: String,
    /// Start time, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Start time, CLOCK_MONOTONIC, the clock of the events.
    pub monotonic_ns: u64,
    /// Time between samples of one socket.
    pub interval_ns: u64,
    pub selection: String,
    /// Number of the file in a rotation, from 1.
    pub part: u32,
    pub event: Schema,
}

/// The last block of a complete recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    pub events: u64,
    /// Events dropped before they could be recorded.
    pub dropped: u64,
}

impl Head {
    /// The head of a recording that starts now on this host.
    ///
    /// # Errors
    /// The clocks cannot be read.
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
            interval_ns: nanos(interval),
            selection,
            part: 1,
            event: Schema::own(),
        })
    }
}

/// Writes a recording to one file or to several.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    head: Head,
    rotation: Rotation,
    part: RecordingFile,
    /// Facts for the next file; empty without rotation.
    standing: StandingFacts,
    dropped: u64,
    total: u64,
}

#[derive(Debug)]
struct RecordingFile {
    file: File,
    bytes: u64,
    begun: Instant,
    events: Vec<u8>,
    span: [u64; 2],
    facts: Vec<u8>,
    waiting_since: Option<Instant>,
    written: u64,
}

impl Recorder {
    /// Creates the file. With rotation, an existing file becomes the first of the older ones.
    ///
    /// # Errors
    /// The file exists and there is no rotation, or it cannot be written.
    pub fn create(path: &Path, head: Head, rotation: Rotation) -> Result<Recorder> {
        if rotation.is_on() && path.exists() {
            rotation.put_aside(path)?;
        }
        let part = RecordingFile::create(path, &head)?;
        let standing = StandingFacts::default();
        Ok(Recorder { path: path.to_owned(), head, rotation, part, standing, dropped: 0, total: 0 })
    }

    /// Records an arrival. It reaches the file within a second if [`Recorder::flush_due`] is called in time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, arrival: &Arrival) -> Result<()> {
        if self.rotation.is_on() {
            self.standing.note(arrival);
        }
        match arrival {
            Arrival::Event(event) => {
                self.total += 1;
                let part = &mut self.part;
                part.events.extend_from_slice(&event.encode());
                part.span = [part.span[0].min(event.time_ns), part.span[1].max(event.time_ns)];
                part.waiting_since.get_or_insert_with(Instant::now);
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

    /// Writes arrivals that have waited long enough, and rotates the file if it is due.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush_due(&mut self) -> Result<()> {
        if self.part.waiting_since.is_some_and(|since| since.elapsed() >= FLUSH_AFTER) {
            self.flush()?;
        }
        Ok(())
    }

    /// The number of events in all files.
    pub fn events(&self) -> u64 {
        self.total
    }

    /// Completes the recording and syncs it to disk; returns the size of the last file.
    ///
    /// # Errors
    /// The file cannot be written.
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
        self.part = RecordingFile::create(&self.path, &self.head)?;
        for fact in self.standing.facts() {
            self.part.add_fact(fact)?;
            if self.part.is_full() {
                self.part.flush()?; // readers limit the size of a block
            }
        }
        Ok(())
    }

    fn end_part(&mut self) -> Result<()> {
        self.part.flush()?;
        let tail = serde_json::to_vec(&Tail { events: self.part.written, dropped: self.dropped })?;
        self.part.put(&block::pack(BlockKind::End as u8, &tail, 1, [0, 0]))?;
        Ok(self.part.file.sync_data()?)
    }
}

impl RecordingFile {
    fn create(path: &Path, head: &Head) -> Result<RecordingFile> {
        let file = match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let what = format!("cannot record to \"{}\": it exists", path.display());
                let hint = "choose another name, or give `--rotate-size` to keep it as an older file";
                return Err(Failure::usage(what).hint(hint).into());
            }
            other => other.with_context(|| format!("create the recording \"{}\"", path.display()))?,
        };
        let mut part = RecordingFile {
            file,
            bytes: 0,
            begun: Instant::now(),
            events: Vec::with_capacity(BLOCK_EVENTS * EVENT_BYTES),
            span: [u64::MAX, 0],
            facts: Vec::new(),
            waiting_since: None,
            written: 0,
        };
        let mut first = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
        first.extend(block::pack(BlockKind::Head as u8, &serde_json::to_vec(head)?, 1, [0, 0]));
        part.put(&first).with_context(|| format!("write the recording \"{}\"", path.display()))?;
        Ok(part)
    }

    fn add_fact(&mut self, fact: &Fact) -> Result<()> {
        serde_json::to_writer(&mut self.facts, fact)?;
        self.facts.push(b'\n');
        self.waiting_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.events.len() >= BLOCK_EVENTS * EVENT_BYTES || self.facts.len() >= BLOCK_FACTS
    }

    /// Writes events before facts, because the end of a sweep follows its rows.
    fn flush(&mut self) -> Result<()> {
        if !self.events.is_empty() {
            let count = self.events.len() / EVENT_BYTES;
            let columns = block::transpose(&self.events, EVENT_BYTES);
            self.put(&block::pack(BlockKind::Events as u8, &columns, count as u32, self.span))?;
            self.written += count as u64;
            self.events.clear();
            self.span = [u64::MAX, 0];
        }
        if !self.facts.is_empty() {
            let facts = std::mem::take(&mut self.facts);
            let count = facts.iter().filter(|&&byte| byte == b'\n').count();
            self.put(&block::pack(BlockKind::Facts as u8, &facts, count as u32, [0, 0]))?;
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
