//! One block of a recording: a header with length and kind, and a payload with a checksum.
//!
//! ```text
//! magic 4 | kind 1 | codec 1 | zero 2 | stored bytes 4 | raw bytes 4 | records 4 | zero 4
//! first_ns 8 | last_ns 8 | checksum of the payload 4 | checksum of the header 4 | payload
//! ```
//!
//! Numbers are little-endian. Each block is independent and written at once, so a file cut anywhere is readable up to
//! its last whole block.

use std::io::{self, ErrorKind, Read};

use strum::FromRepr;

pub(super) const HEADER_BYTES: usize = 48;
/// Limit of a block, stored or unpacked. It bounds the memory that a damaged or hostile file can take.
pub(super) const BLOCK_BYTES_MAX: u32 = 4 << 20;
const MAGIC: [u8; 4] = *b"TCBK";
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub(super) enum BlockKind {
    /// Describes the recording, as JSON.
    Head = 1,
    /// Transposed events: all first bytes, all second bytes and so on.
    Events = 2,
    /// One JSON object per line.
    Facts = 3,
    /// Marks a complete recording; counts, as JSON.
    End = 4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// `None`: a kind of a later version.
    pub kind: Option<BlockKind>,
    codec: u8,
    pub stored_bytes: u32,
    raw_bytes: u32,
    pub records: u32,
    pub first_ns: u64,
    pub last_ns: u64,
    checksum: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextBlock {
    /// The payload follows.
    Block(Header),
    /// The file ends after a whole block.
    End,
    /// The remaining bytes are not a whole block.
    Rest,
}

pub(super) fn pack(kind: u8, raw: &[u8], records: u32, [first_ns, last_ns]: [u64; 2]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(raw);
    let (codec, payload) = if packed.len() < raw.len() { (LZ4, packed.as_slice()) } else { (PLAIN, raw) };
    let mut block = Vec::with_capacity(HEADER_BYTES + payload.len());
    block.extend_from_slice(&MAGIC);
    block.extend_from_slice(&[kind, codec, 0, 0]);
    for number in [payload.len() as u32, raw.len() as u32, records, 0] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    for time in [first_ns, last_ns] {
        block.extend_from_slice(&time.to_le_bytes());
    }
    block.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    block.extend_from_slice(&crc32fast::hash(&block).to_le_bytes());
    block.extend_from_slice(payload);
    block
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let is_whole = bytes[..4] == MAGIC && u32_at(bytes, 44) == crc32fast::hash(&bytes[..44]);
        let header = Header {
            kind: BlockKind::from_repr(bytes[4]),
            codec: bytes[5],
            stored_bytes: u32_at(bytes, 8),
            raw_bytes: u32_at(bytes, 12),
            records: u32_at(bytes, 16),
            first_ns: u64_at(bytes, 24),
            last_ns: u64_at(bytes, 32),
            checksum: u32_at(bytes, 40),
        };
        (is_whole && header.stored_bytes <= BLOCK_BYTES_MAX && header.raw_bytes <= BLOCK_BYTES_MAX).then_some(header)
    }
}

/// Reads the next header.
///
/// # Errors
/// The file cannot be read.
pub(super) fn next(file: &mut impl Read) -> io::Result<NextBlock> {
    let mut bytes = [0; HEADER_BYTES];
    match read_up_to(file, &mut bytes)? {
        0 => Ok(NextBlock::End),
        HEADER_BYTES => Ok(Header::parse(&bytes).map_or(NextBlock::Rest, NextBlock::Block)),
        _ => Ok(NextBlock::Rest),
    }
}

/// Reads the payload after a header.
///
/// None: the payload is damaged. The file position is then behind it, or at the end.
///
/// # Errors
/// The file cannot be read.
pub(super) fn payload(file: &mut impl Read, header: &Header) -> io::Result<Option<Vec<u8>>> {
    let mut stored = vec![0; header.stored_bytes as usize];
    let got = read_up_to(file, &mut stored)?;
    if got < stored.len() || crc32fast::hash(&stored) != header.checksum {
        return Ok(None);
    }
    match header.codec {
        PLAIN => Ok(Some(stored)),
        LZ4 => Ok(unpack(&stored, header.raw_bytes as usize)),
        _ => Ok(None),
    }
}

fn unpack(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let mut raw = vec![0; raw_bytes];
    let got = lz4_flex::block::decompress_into(stored, &mut raw).ok()?;
    (got == raw_bytes).then_some(raw)
}

fn read_up_to(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Groups all first bytes, all second bytes and so on. Similar bytes then lie together and compress well.
pub(super) fn transpose(records: &[u8], record_bytes: usize) -> Vec<u8> {
    let count = records.len() / record_bytes;
    let mut columns = vec![0; records.len()];
    for (row, record) in records.chunks_exact(record_bytes).enumerate() {
        record.iter().enumerate().for_each(|(column, &byte)| columns[column * count + row] = byte);
    }
    columns
}

/// The inverse of [`transpose`].
///
/// None: the length is not that of `count` records.
pub(super) fn transpose_back(columns: &[u8], record_bytes: usize, count: usize) -> Option<Vec<u8>> {
    if count.checked_mul(record_bytes) != Some(columns.len()) {
        return None;
    }
    let mut records = vec![0; columns.len()];
    for (row, record) in records.chunks_exact_mut(record_bytes).enumerate() {
        record.iter_mut().enumerate().for_each(|(column, byte)| *byte = columns[column * count + row]);
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &[u8]) -> Option<(Header, Vec<u8>)> {
        let mut file = block;
        match next(&mut file).unwrap() {
            NextBlock::Block(header) => Some((header, payload(&mut file, &header).unwrap()?)),
            NextBlock::End | NextBlock::Rest => None,
        }
    }

    #[test]
    fn blocks_survive_writing_and_reading() {
        for raw in [Vec::new(), vec![7; 100_000], (0..=255).collect()] {
            let (header, payload) = read(&pack(BlockKind::Facts as u8, &raw, 3, [5, 9])).unwrap();
            assert_eq!(
                (header.kind, header.records, header.first_ns, header.last_ns),
                (Some(BlockKind::Facts), 3, 5, 9)
            );
            assert_eq!(payload, raw);
        }
    }

    #[test]
    fn a_block_that_is_cut_or_changed_anywhere_is_not_read() {
        let block = pack(BlockKind::Events as u8, &[1, 2, 3, 1, 2, 3], 2, [0, 0]);
        assert!((0..block.len()).all(|length| read(&block[..length]).is_none()));
        for at in 0..block.len() {
            let mut changed = block.clone();
            changed[at] ^= 0x10;
            assert_eq!(read(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn records_survive_transposition() {
        let records: Vec<u8> = (0..60).collect();
        let columns = transpose(&records, 5);
        assert_eq!(columns[..3], [0, 5, 10]);
        assert_eq!(transpose_back(&columns, 5, 12), Some(records));
        assert_eq!(transpose_back(&columns, 5, 11), None);
        assert_eq!(transpose_back(&columns, usize::MAX, 12), None);
    }
}
