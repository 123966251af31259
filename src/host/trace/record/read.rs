//! Reads untrusted recordings of every format up to this version's.
//!
//! A damaged or hostile file takes bounded memory. It is refused or read up to the damage, which is counted.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};

use super::block::{self, BlockKind, Header, NextBlock};
use super::{FORMAT, Head, MAGIC, Tail};
use shared::arrival::Fact;
use shared::catalog::{FieldKind, StateLayout};
use shared::event::Event;
use shared::event::schema::Reading;
use shared::failure::Failure;
use shared::kernel::io_error;

const WRITES: &str = "`tccc trace --record FILE` writes recordings";
/// No version of tccc writes more events into a block.
const BLOCK_EVENTS_MAX: u32 = 16_384;
/// Longest name of an algorithm, callback, field, phase or value. The kernel's are far shorter.
const NAME_BYTES_MAX: usize = 256;
/// Longest path in the kernel.
const PATH_BYTES_MAX: usize = 4096;
/// Longest command: 15 bytes in the kernel, each of which takes up to three when escaped.
const COMMAND_BYTES_MAX: usize = 64;
/// Most fields and phases of an algorithm, and most named values of a field.
const LAYOUT_ITEMS_MAX: usize = 256;
/// Longest line of a layout.
const LAYOUT_BYTES_MAX: usize = 64 << 10;

/// Shape: in the order of recording; events are nearly sorted by time.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockContent {
    Events(Vec<Event>),
    Facts(Vec<Fact>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    pub blocks: u64,
    /// Events in damaged blocks, and events unknown to this version.
    pub events: u64,
    /// Facts and blocks unknown to this version.
    pub unknown: u64,
    /// Bytes after the last whole block.
    pub rest_bytes: u64,
}

impl Damage {
    /// Describes the damage in sentences.
    pub fn notices(&self, was_cut: bool) -> Vec<String> {
        let Damage { blocks, events, unknown, rest_bytes } = self;
        let cut = format!("the recording was cut: {rest_bytes} bytes after its last whole block");
        let damaged = format!("{blocks} damaged blocks with {events} events were left out");
        let later = format!("{unknown} entries of a later tccc were left out");
        let all = [(was_cut, cut), (*blocks > 0, damaged), (*unknown > 0, later)];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, notice)| notice).collect()
    }
}

/// Selects blocks. The others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    All,
    /// Facts, and blocks of events that end at this time or later.
    EventsFrom(u64),
    Facts,
}

#[derive(Debug)]
pub struct RecordingReader<R> {
    file: BufReader<R>,
    head: Head,
    reading: Reading,
    begin: u64,
    at: u64,
    length: u64,
    damage: Damage,
    tail: Option<Tail>,
}

impl RecordingReader<File> {
    /// # Errors
    /// The file cannot be read, is not a recording, or has a later format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| {
            let what = format!("cannot read \"{}\": {}", path.display(), io_error::reason(&error));
            Failure::usage(what).hint(WRITES)
        })?;
        RecordingReader::new(file, &path.display().to_string())
    }
}

impl<R: Read + Seek> RecordingReader<R> {
    /// Reads the head of a recording. `name` is for messages.
    ///
    /// # Errors
    /// As [`RecordingReader::open`].
    pub fn new(file: R, name: &str) -> Result<Self> {
        let mut file = BufReader::with_capacity(64 << 10, file);
        let refuse = |why: String| Failure::usage(format!("cannot read \"{name}\": {why}"));
        let length = file.seek(SeekFrom::End(0)).with_context(|| format!("read \"{name}\""))?;
        file.rewind()?;
        let mut first = [0; MAGIC.len() + 4];
        let is_ours = file.read_exact(&mut first).is_ok() && first[..MAGIC.len()] == MAGIC;
        if !is_ours {
            return Err(refuse("it is not a recording".to_owned()).hint(WRITES).into());
        }
        let format = u32::from_le_bytes(first[MAGIC.len()..].try_into().expect("four bytes"));
        if !(1..=FORMAT).contains(&format) {
            let why = format!("it has format {format}, and this tccc reads formats up to {FORMAT}");
            return Err(refuse(why).hint("read it with the tccc that wrote it, or with a later one").into());
        }
        let lost = || refuse("its first block, which describes it, is damaged".to_owned());
        let NextBlock::Block(header) = block::next(&mut file)? else { return Err(lost().into()) };
        let is_head = header.kind == Some(BlockKind::Head);
        let payload = block::payload(&mut file, &header)?.filter(|_| is_head).ok_or_else(lost)?;
        let head: Head = serde_json::from_slice(&payload).map_err(|_| lost())?;
        let reading = head.event.reading().map_err(refuse)?;
        let begin = first.len() as u64 + block::HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        Ok(RecordingReader { file, head, reading, begin, at: begin, length, damage: Damage::default(), tail: None })
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// The last block, once it was read. `None` if the recording was cut.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Returns to the first block.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rewind(&mut self) -> Result<()> {
        self.file.seek(SeekFrom::Start(self.begin)).context("go back in a recording")?;
        (self.at, self.damage, self.tail) = (self.begin, Damage::default(), None);
        Ok(())
    }

    /// First and last time of the events, according to the headers. Returns to the first block.
    ///
    /// None: the recording has no events.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn span(&mut self) -> Result<Option<[u64; 2]>> {
        self.rewind()?;
        let mut span = [u64::MAX, 0];
        while let Some(header) = self.next_header()? {
            if header.kind == Some(BlockKind::Events) {
                span = [span[0].min(header.first_ns), span[1].max(header.last_ns)];
            }
            self.pass_over(&header)?;
        }
        self.rewind()?;
        Ok(Some(span).filter(|[first, last]| first <= last))
    }

    /// Reads the next selected block. `None` after the last whole block.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self, want: Want) -> Result<Option<BlockContent>> {
        while let Some(header) = self.next_header()? {
            let is_wanted = match (header.kind, want) {
                (Some(BlockKind::Facts | BlockKind::End), _) | (Some(BlockKind::Events), Want::All) => true,
                (Some(BlockKind::Events), Want::EventsFrom(from)) => header.last_ns >= from,
                (Some(BlockKind::Events), Want::Facts) => false,
                (Some(BlockKind::Head) | None, _) => {
                    self.damage.unknown += 1;
                    false
                }
            };
            if !is_wanted {
                self.pass_over(&header)?;
                continue;
            }
            self.at += u64::from(header.stored_bytes);
            let payload = block::payload(&mut self.file, &header).context("read a recording")?;
            if let Some(content) = self.unpack(&header, payload) {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }

    /// Reads the next header. `None` if no whole block follows.
    fn next_header(&mut self) -> Result<Option<Header>> {
        let next = block::next(&mut self.file).context("read a recording")?;
        let header_end = self.at + block::HEADER_BYTES as u64;
        let whole = |header: &Header| header_end + u64::from(header.stored_bytes) <= self.length;
        match next {
            NextBlock::Block(header) if whole(&header) => {
                self.at = header_end;
                Ok(Some(header))
            }
            NextBlock::End => Ok(None),
            NextBlock::Block(_) | NextBlock::Rest => {
                self.damage.rest_bytes = self.length.saturating_sub(self.at);
                Ok(None)
            }
        }
    }

    fn pass_over(&mut self, header: &Header) -> Result<()> {
        self.at += u64::from(header.stored_bytes);
        self.file.seek_relative(header.stored_bytes.into()).context("read a recording")
    }

    fn unpack(&mut self, header: &Header, payload: Option<Vec<u8>>) -> Option<BlockContent> {
        let content = match (header.kind, payload) {
            (Some(BlockKind::End), Some(payload)) => {
                self.tail = serde_json::from_slice(&payload).ok();
                return None;
            }
            (Some(BlockKind::Events), Some(payload)) => self.unpack_events(header, &payload),
            (_, Some(payload)) => Some(BlockContent::Facts(self.unpack_facts(&payload))),
            (_, None) => None,
        };
        if content.is_none() {
            self.damage.blocks += 1;
            self.damage.events += if header.kind == Some(BlockKind::Events) { header.records.into() } else { 0 };
        }
        content
    }

    fn unpack_events(&mut self, header: &Header, columns: &[u8]) -> Option<BlockContent> {
        if header.records > BLOCK_EVENTS_MAX {
            return None;
        }
        let bytes = self.reading.record_bytes();
        let records = block::transpose_back(columns, bytes, header.records as usize)?;
        let events: Vec<Event> = records.chunks_exact(bytes).filter_map(|record| self.reading.event(record)).collect();
        self.damage.events += u64::from(header.records) - events.len() as u64;
        Some(BlockContent::Events(events))
    }

    fn unpack_facts(&mut self, payload: &[u8]) -> Vec<Fact> {
        let lines = payload.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let mut facts = Vec::new();
        for line in lines {
            match serde_json::from_slice(line) {
                Ok(fact) if is_sound(&fact, line.len()) => facts.push(fact),
                _ => self.damage.unknown += 1,
            }
        }
        facts
    }
}

/// Whether a fact of this length has a plausible size.
fn is_sound(fact: &Fact, bytes: usize) -> bool {
    match fact {
        Fact::Layout { algorithm, layout } => bytes <= LAYOUT_BYTES_MAX && is_name(algorithm) && is_layout(layout),
        Fact::Owner { command, .. } => command.len() <= COMMAND_BYTES_MAX,
        Fact::Cgroup { path, .. } => path.len() <= PATH_BYTES_MAX,
        Fact::Arm { given, .. } => given.iter().all(|given| is_name(&given.rule) && is_name(&given.arm)),
        Fact::Cost { algorithm, callback, .. } => is_name(algorithm) && is_name(callback),
        Fact::Dropped { .. } | Fact::Swept { .. } => true,
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
}

fn is_layout(layout: &StateLayout) -> bool {
    let are_few = layout.fields.len() <= LAYOUT_ITEMS_MAX && layout.phases.len() <= LAYOUT_ITEMS_MAX;
    are_few
        && layout.phases.iter().all(|phase| is_name(&phase.name))
        && layout.fields.iter().all(|field| is_name(&field.name) && is_kind(&field.kind))
}

/// Refuses arrays of arrays, which could be nested without limit.
fn is_kind(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Enum { names } => names.len() <= LAYOUT_ITEMS_MAX && names.iter().all(|(_, name)| is_name(name)),
        FieldKind::Array { element, .. } => !matches!(**element, FieldKind::Array { .. }) && is_kind(element),
        FieldKind::Unsigned | FieldKind::Signed | FieldKind::Bool | FieldKind::Bytes => true,
    }
}
