//! Reads the sections, symbols and relocations of an untrusted BPF object file.

use std::ops::Range;

use crate::btf::{NAMES_MAX, text_at, u16_at, u32_at};

const EM_BPF: u16 = 247;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
const SHT_REL: u32 = 9;
/// `st_info` of a symbol that stands for a whole section.
const STT_SECTION: u8 = 3;
const HEADER_BYTES: usize = 64;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const REL_BYTES: usize = 16;
/// Most relocations to examine in a range. An ops table has some tens of members.
const REFERENCES_MAX: usize = 1024;

#[derive(Debug)]
pub struct ElfSection<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
    kind: u32,
    link: u32,
    info: u32,
}

#[derive(Debug)]
pub struct Symbol<'a> {
    pub name: &'a str,
    pub section: usize,
    pub offset: usize,
    is_section: bool,
}

#[derive(Debug)]
pub struct Elf<'a> {
    pub sections: Vec<ElfSection<'a>>,
    pub symbols: Vec<Symbol<'a>>,
}

/// Reads a little-endian number of eight bytes. None: it does not fit `usize`.
pub fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok()
}

impl<'a> Elf<'a> {
    /// Errors: the reason why the file is not a BPF object, as the second half of a sentence.
    pub fn parse(file: &'a [u8]) -> Result<Self, &'static str> {
        if !file.starts_with(b"\x7fELF") {
            return Err("it is not an ELF object");
        }
        if file.get(4..6) != Some(&[2, 1]) || u16_at(file, 18) != Some(EM_BPF) {
            return Err("it is not a little-endian BPF object; compile it with clang --target=bpf");
        }
        let sections = sections(file).ok_or("its section table is damaged or cut off")?;
        let symbols = symbols(&sections).ok_or("its symbol table is damaged")?;
        Ok(Elf { sections, symbols })
    }

    /// The index of a section.
    pub fn section(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.name == name)
    }

    pub fn symbol(&self, name: &str) -> Option<&Symbol<'a>> {
        self.symbols.iter().find(|symbol| symbol.name == name && !symbol.is_section)
    }

    /// The relocations in a range of a section: offset in the section, and name of the target.
    ///
    /// Shape: in the order of the file.
    pub fn references(&self, section: usize, range: Range<usize>) -> Vec<(usize, &'a str)> {
        let tables = self.sections.iter().filter(|s| s.kind == SHT_REL && s.info as usize == section);
        let entries = tables.flat_map(|table| table.bytes.chunks_exact(REL_BYTES));
        let entries = entries.filter(|entry| size_at(entry, 0).is_some_and(|at| range.contains(&at)));
        entries.take(REFERENCES_MAX).filter_map(|entry| self.reference(section, entry)).collect()
    }

    fn reference(&self, section: usize, entry: &[u8]) -> Option<(usize, &'a str)> {
        let at = size_at(entry, 0)?;
        let symbol = self.symbols.get(u32_at(entry, 12)? as usize)?;
        if !symbol.is_section {
            return Some((at, symbol.name));
        }
        let target = size_at(self.sections.get(section)?.bytes, at)?;
        let named = |s: &&Symbol| !s.is_section && s.section == symbol.section && s.offset == target;
        Some((at, self.symbols.iter().find(named)?.name))
    }
}

fn sections(file: &[u8]) -> Option<Vec<ElfSection<'_>>> {
    if file.len() < HEADER_BYTES || u16_at(file, 58)? as usize != SECTION_HEADER_BYTES {
        return None;
    }
    let table = size_at(file, 40)?;
    let count = u16_at(file, 60)? as usize;
    let headers = file.get(table..table.checked_add(count.checked_mul(SECTION_HEADER_BYTES)?)?)?;
    let headers: Vec<&[u8]> = headers.chunks_exact(SECTION_HEADER_BYTES).collect();
    let names = contents(file, headers.get(u16_at(file, 62)? as usize)?)?;
    headers
        .iter()
        .map(|header| {
            Some(ElfSection {
                name: text_at(names, u32_at(header, 0)? as usize)?,
                bytes: contents(file, header)?,
                kind: u32_at(header, 4)?,
                link: u32_at(header, 40)?,
                info: u32_at(header, 44)?,
            })
        })
        .collect()
}

fn contents<'a>(file: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let kind = u32_at(header, 4)?;
    if kind == 0 || kind == SHT_NOBITS {
        return Some(&[]);
    }
    let start = size_at(header, 24)?;
    file.get(start..start.checked_add(size_at(header, 32)?)?)
}

fn symbols<'a>(sections: &[ElfSection<'a>]) -> Option<Vec<Symbol<'a>>> {
    let Some(table) = sections.iter().find(|section| section.kind == SHT_SYMTAB) else { return Some(Vec::new()) };
    let names = sections.get(table.link as usize)?.bytes;
    let entries = table.bytes.chunks_exact(SYMBOL_BYTES);
    let mut room = NAMES_MAX;
    entries
        .map(|entry| {
            let name = text_at(names, u32_at(entry, 0)? as usize)?;
            room = room.checked_sub(name.len())?;
            Some(Symbol {
                name,
                section: u16_at(entry, 6)? as usize,
                offset: size_at(entry, 8)?,
                is_section: entry[4] & 0xf == STT_SECTION,
            })
        })
        .collect()
}
