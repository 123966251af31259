//! Looks up sections, symbols and relocations of an untrusted BPF object file.

use std::ops::Range;

use object::elf::{EM_BPF, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};

use crate::btf::NAMES_MAX;

/// Most relocations to examine in a range. An ops table has some tens of members.
const REFERENCES_MAX: usize = 1024;

#[derive(Debug)]
pub struct Symbol<'a> {
    pub name: &'a str,
    pub section: SectionIndex,
    pub offset: u64,
}

pub struct Elf<'a> {
    file: ElfFile64<'a, LittleEndian>,
    symbols: Vec<Symbol<'a>>,
}

impl<'a> Elf<'a> {
    /// # Errors
    /// The reason why the file is not a BPF object, as the second half of a sentence.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err("it is not an ELF object");
        }
        let header = FileHeader64::<LittleEndian>::parse(bytes);
        if !header.is_ok_and(|header| header.is_little_endian() && header.e_machine(LittleEndian) == EM_BPF) {
            return Err("it is not a little-endian BPF object; compile it with clang --target=bpf");
        }
        let file = ElfFile64::parse(bytes).map_err(|_| "its section table is damaged or cut off")?;
        let symbols = symbols(&file).ok_or("its symbol table is damaged")?;
        Ok(Elf { file, symbols })
    }

    /// The bytes of a section. Shape: empty if it reaches past the end of the file.
    pub fn section(&self, name: &str) -> Option<&'a [u8]> {
        Some(self.file.section_by_name(name)?.data().unwrap_or_default())
    }

    /// The name and the bytes of a section.
    pub fn section_at(&self, index: SectionIndex) -> Option<(&'a str, &'a [u8])> {
        let section = self.file.section_by_index(index).ok()?;
        Some((section.name().ok()?, section.data().ok()?))
    }

    pub fn symbol(&self, name: &str) -> Option<&Symbol<'a>> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }

    /// The relocations in a range of a section: offset in the section, and name of the target.
    ///
    /// Shape: in the order of the file.
    pub fn references(&self, section: SectionIndex, range: Range<u64>) -> Vec<(u64, &'a str)> {
        let Ok(section) = self.file.section_by_index(section) else { return Vec::new() };
        let relocations = section.relocations().filter(|(at, _)| range.contains(at)).take(REFERENCES_MAX);
        let named = |(at, relocation): (u64, object::Relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let target = self.file.symbol_by_index(index).ok()?;
            if target.kind() != SymbolKind::Section {
                return Some((at, target.name().ok()?));
            }
            // The place itself holds the offset in the target's section. libbpf knows no other relocations.
            if !relocation.has_implicit_addend() {
                return None;
            }
            let place = section.data().ok()?.get(usize::try_from(at).ok()?..)?;
            let offset = u64::from_le_bytes(*place.first_chunk()?);
            let is_there = |symbol: &&Symbol| Some(symbol.section) == target.section_index() && symbol.offset == offset;
            Some((at, self.symbols.iter().find(is_there)?.name))
        };
        relocations.filter_map(named).collect()
    }
}

/// The symbols that stand for a place in a section, and for more than the section. `None`: one has no name that is
/// text, or all names together are too long.
fn symbols<'a>(file: &ElfFile64<'a, LittleEndian>) -> Option<Vec<Symbol<'a>>> {
    let mut room = NAMES_MAX;
    let places = file.symbols().filter(|symbol| symbol.kind() != SymbolKind::Section);
    let places = places.filter_map(|symbol| Some((symbol.section_index()?, symbol)));
    let named = places.map(|(section, symbol)| {
        let name = symbol.name().ok()?;
        room = room.checked_sub(name.len())?;
        Some(Symbol { name, section, offset: symbol.address() })
    });
    named.collect()
}
