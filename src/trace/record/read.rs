//! Reads recordings of every format up to ours, whoever wrote them: a damaged or hostile file costs bounded memory and
//! is refused or read up to the damage, which is counted.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};

use super::block::{self, BlockKind, Header, NextBlock};
use super::{FORMAT, Head, MAGIC, Tail};
use crate::bounded;
use crate::catalog::{FieldKind, StateLayout};
use crate::failure::Failure;
use crate::trace::arrival::Fact;
use crate::trace::event::Event;
use crate::trace::event::schema::Reading;

const WRITES: &str = "`tccc trace --record FILE` writes recordings";
/// Events of a block: more than any writer puts into one.
const BLOCK_EVENTS_MAX: u32 = 16_384;
/// Longest name of an algorithm, a callback, a field, a phase or a value; the kernel's are far shorter.
const NAME_BYTES_MAX: usize = 256;
/// Longest path of a cgroup: the kernel takes no longer path.
const PATH_BYTES_MAX: usize = 4096;
/// Longest command: the kernel keeps 15 bytes, each of which takes three when it is made visible.
const COMMAND_BYTES_MAX: usize = 64;
/// Fields and phases of an algorithm's state, and named values of a field: 104 bytes hold no more.
const LAYOUT_ITEMS_MAX: usize = 256;
/// Longest line of a layout: what its many names may take together.
const LAYOUT_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq)]
pub enum BlockContent {
    /// Shape: in the order in which they were handed over; nearly sorted by time.
    Events(Vec<Event>),
    /// In the same order.
    Facts(Vec<Fact>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    /// Blocks whose content is not what was written.
    pub blocks: u64,
    /// Events in them, and events that this version does not know.
    pub events: u64,
    /// Facts and blocks that this version does not know.
    pub unknown: u64,
    /// Bytes after the last whole block.
    pub rest_bytes: u64,
}

impl Damage {
    /// What is missing, in sentences for people.
    pub fn notices(&self, was_cut: bool) -> Vec<String> {
        let Damage { blocks, events, unknown, rest_bytes } = self;
        let cut = format!("the recording was cut: {rest_bytes} bytes after its last whole block");
        let damaged = format!("{blocks} damaged blocks with {events} events were left out");
        let later = format!("{unknown} entries of a later tccc were left out");
        let all = [(was_cut, cut), (*blocks > 0, damaged), (*unknown > 0, later)];
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, notice)| notice).collect()
    }
}

/// Which blocks are wanted; the others are passed over unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    All,
    /// Facts, and events whose block ends at this time or later.
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
    span: Option<[u64; 2]>,
}

impl RecordingReader<File> {
    /// Opens a recording.
    ///
    /// Errors: it cannot be read; it is no recording, or of a later format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| {
            let what = format!("cannot read \"{}\": {}", path.display(), bounded::reason(&error));
            Failure::usage(what).hint(WRITES)
        })?;
        RecordingReader::new(file, &path.display().to_string())
    }
}

impl<R: Read + Seek> RecordingReader<R> {
    /// Reads what a recording is of; `name` is for messages.
    ///
    /// Errors: it cannot be read; it is no recording, or of a later format.
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
            let why = format!("it is of format {format}, and this tccc reads formats up to {FORMAT}");
            return Err(refuse(why).hint("read it with the tccc that wrote it, or with a later one").into());
        }
        let lost = || refuse("its first block, which says what it holds, is damaged".to_owned());
        let NextBlock::Block(header) = block::next(&mut file)? else { return Err(lost().into()) };
        let payload =
            block::payload(&mut file, &header)?.filter(|_| header.kind == BlockKind::Head).ok_or_else(lost)?;
        let head: Head = serde_json::from_slice(&payload).map_err(|_| lost())?;
        let reading = head.event.reading().map_err(refuse)?;
        let begin = first.len() as u64 + block::HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        let (damage, tail, span) = (Damage::default(), None, None);
        Ok(RecordingReader { file, head, reading, begin, at: begin, length, damage, tail, span })
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// How it was ended, once its end was reached; none when it was cut.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Goes back to the first block.
    ///
    /// Errors: the file cannot be moved in.
    pub fn rewind(&mut self) -> Result<()> {
        self.file.seek(SeekFrom::Start(self.begin)).context("go back in a recording")?;
        (self.at, self.damage, self.tail) = (self.begin, Damage::default(), None);
        Ok(())
    }

    /// First and last time of its events, by what its blocks say of themselves; goes back to the first block.
    ///
    /// None: it holds no event.
    ///
    /// Errors: the file cannot be read.
    pub fn span(&mut self) -> Result<Option<[u64; 2]>> {
        if self.span.is_none() {
            self.rewind()?;
            let mut span: Option<[u64; 2]> = None;
            while let Some(header) = self.next_header()? {
                if header.kind == BlockKind::Events {
                    let [first, last] = span.unwrap_or([u64::MAX, 0]);
                    span = Some([first.min(header.first_ns), last.max(header.last_ns)]);
                }
                self.pass_over(&header)?;
            }
            self.span = span.filter(|[first, last]| first <= last);
            self.rewind()?;
        }
        Ok(self.span)
    }

    /// The next block that is wanted; none at the end of what is whole.
    ///
    /// Errors: the file cannot be read.
    pub fn next(&mut self, want: Want) -> Result<Option<BlockContent>> {
        while let Some(header) = self.next_header()? {
            let is_wanted = match (header.kind, want) {
                (BlockKind::Facts | BlockKind::End, _) | (BlockKind::Events, Want::All) => true,
                (BlockKind::Events, Want::EventsFrom(from)) => header.last_ns >= from,
                (BlockKind::Events, Want::Facts) => false,
                (BlockKind::Head | BlockKind::Unknown(_), _) => {
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

    /// The header at this place; none at the end, or where no whole block follows.
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
        block::skip(&mut self.file, header).context("read a recording")
    }

    fn unpack(&mut self, header: &Header, payload: Option<Vec<u8>>) -> Option<BlockContent> {
        let content = payload.and_then(|payload| match header.kind {
            BlockKind::Events => self.unpack_events(header, &payload).map(Some),
            BlockKind::Facts => Some(Some(BlockContent::Facts(self.unpack_facts(&payload)))),
            _ => {
                self.tail = serde_json::from_slice(&payload).ok();
                Some(None)
            }
        });
        if content.is_none() {
            self.damage.blocks += 1;
            self.damage.events += if header.kind == BlockKind::Events { u64::from(header.records) } else { 0 };
        }
        content.flatten()
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

/// Whether a fact is of a size that a host can give rise to, and was written in so many bytes.
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

/// An array of arrays is no kind of field: whoever writes one nests them as deep as he likes.
fn is_kind(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Enum { names } => names.len() <= LAYOUT_ITEMS_MAX && names.iter().all(|(_, name)| is_name(name)),
        FieldKind::Array { element, .. } => !matches!(**element, FieldKind::Array { .. }) && is_kind(element),
        FieldKind::Unsigned | FieldKind::Signed | FieldKind::Bool | FieldKind::Bytes => true,
    }
}
