//! Reads BPF type information (BTF) of an object file or of the kernel, without trusting any byte of it.
//!
//! Parsing only builds an index of where each type begins: the kernel's five megabytes take a few milliseconds.
//!
//! Source: Linux, Documentation/bpf/btf.rst.
//!
//! Layer 0: standard library only.

use std::borrow::Cow;
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const HEAD_BYTES: usize = 12;
/// A longer chain of typedef, const and volatile is a loop in a damaged file.
const CHAIN_LIMIT: usize = 32;
/// Most bytes of names in one struct or enum. Its members may all share one long name.
const MEMBER_NAMES_MAX: usize = 1 << 20;
/// Longest text, bytes. The header of an algorithm's file is one text.
const TEXT_MAX: usize = 64 << 10;
/// Most bytes of all names. Types may share one long name, so that a small file could become gigabytes.
pub const NAMES_MAX: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    Int,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Enum64,
    Typedef,
    Function,
    Prototype,
    Var,
    Section,
    Tag,
    /// A qualifier of the type it refers to.
    Qualifier,
    /// Void, and kinds that are not used.
    Other,
}

impl TypeKind {
    /// The kind with this number in the format, and the bytes after the head of a type with `count` members.
    fn numbered(number: u32, count: usize) -> Option<(TypeKind, usize)> {
        Some(match number {
            1 => (TypeKind::Int, 4),
            2 => (TypeKind::Ptr, 0),
            3 => (TypeKind::Array, 12),
            4 => (TypeKind::Struct, 12 * count),
            5 => (TypeKind::Union, 12 * count),
            6 => (TypeKind::Enum, 8 * count),
            7 | 16 => (TypeKind::Other, 0),
            8 => (TypeKind::Typedef, 0),
            9..=11 | 18 => (TypeKind::Qualifier, 0),
            12 => (TypeKind::Function, 0),
            13 => (TypeKind::Prototype, 8 * count),
            14 => (TypeKind::Var, 4),
            15 => (TypeKind::Section, 12 * count),
            17 => (TypeKind::Tag, 4),
            19 => (TypeKind::Enum64, 12 * count),
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Type<'a> {
    pub kind: TypeKind,
    /// Bytes, or the id of another type, depending on the kind.
    pub size_or_type: u32,
    flag: bool,
    extra: &'a [u8],
    name_at: u32,
    strings: Strings<'a>,
}

#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub name: &'a str,
    pub type_id: u32,
    pub bit_offset: u32,
    /// Width of a bit field, else 0.
    pub bits: u32,
}

impl Member<'_> {
    /// The byte in which the member begins.
    pub fn offset(&self) -> usize {
        self.bit_offset as usize / 8
    }
}

/// How the bytes of an integer type are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Unsigned,
    Signed,
    Bool,
}

/// Where the types and their names are in the binary form.
#[derive(Debug, Clone, Default)]
pub struct TypeIndex {
    /// Offset of each type; the first one has id 1.
    types: Vec<u32>,
    strings: Range<usize>,
}

impl TypeIndex {
    /// `None` for other data, a later format, or a damaged file.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if u16_at(bytes, 0)? != MAGIC || bytes.get(2)? != &1 {
            return None;
        }
        let header = u32_at(bytes, 4)? as usize;
        let part = |at: usize| {
            let start = header.checked_add(u32_at(bytes, at)? as usize)?;
            let end = start.checked_add(u32_at(bytes, at + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end) // before memory is reserved for it
        };
        let (types, strings) = (part(8)?, part(16)?);
        let mut places = Vec::with_capacity(types.len() / HEADER_BYTES);
        let mut at = types.start;
        while at < types.end {
            places.push(at as u32);
            let info = u32_at(bytes, at + 4)?;
            at += HEAD_BYTES + TypeKind::numbered(info >> 24 & 0x1f, (info & 0xffff) as usize)?.1;
        }
        (at == types.end).then_some(TypeIndex { types: places, strings })
    }
}

/// The bytes and the index of one BTF section.
#[derive(Debug, Clone, Default)]
struct TypeSection<'a> {
    bytes: &'a [u8],
    index: Cow<'a, TypeIndex>,
}

impl<'a> TypeSection<'a> {
    fn strings(&self) -> &'a [u8] {
        &self.bytes[self.index.strings.clone()]
    }

    fn of_kind(&self, kind: TypeKind, strings: Strings<'a>) -> impl Iterator<Item = Type<'a>> + '_ {
        let is_of_kind = move |at: usize| {
            let info = u32_at(self.bytes, at + 4).unwrap_or(0);
            TypeKind::numbered(info >> 24 & 0x1f, 0).is_some_and(|(found, _)| found == kind)
        };
        let places = self.index.types.iter().enumerate().filter(move |(_, at)| is_of_kind(**at as usize));
        places.filter_map(move |(place, _)| self.get(place, strings))
    }

    fn get(&self, place: usize, strings: Strings<'a>) -> Option<Type<'a>> {
        let head = self.bytes.get(*self.index.types.get(place)? as usize..)?;
        let info = u32_at(head, 4)?;
        let (kind, extra) = TypeKind::numbered(info >> 24 & 0x1f, (info & 0xffff) as usize)?;
        let extra = head.get(HEAD_BYTES..HEAD_BYTES + extra)?;
        let (name_at, size_or_type) = (u32_at(head, 0)?, u32_at(head, 8)?);
        Some(Type { kind, size_or_type, flag: info >> 31 == 1, extra, name_at, strings })
    }
}

/// All types of an object or of a kernel; type 0 is void.
#[derive(Debug)]
pub struct Btf<'a> {
    own: TypeSection<'a>,
    /// The kernel's types if `own` has those of a module, else empty.
    base: TypeSection<'a>,
}

/// Names; the offsets of a module's names continue where the kernel's end.
#[derive(Debug, Clone, Copy)]
struct Strings<'a> {
    base: &'a [u8],
    own: &'a [u8],
}

impl<'a> Strings<'a> {
    fn bytes_from(self, offset: u32) -> Option<&'a [u8]> {
        let offset = offset as usize;
        match offset.checked_sub(self.base.len()) {
            Some(beyond) => self.own.get(beyond..),
            None => self.base.get(offset..),
        }
    }

    fn text(self, offset: u32) -> Option<&'a str> {
        text_at(self.bytes_from(offset)?, 0)
    }
}

impl<'a> Btf<'a> {
    /// Reads the contents of a `.BTF` section.
    ///
    /// `None` if it is damaged or of a later format, or has too many bytes of names.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::checked(TypeSection { bytes, index: Cow::Owned(TypeIndex::of(bytes)?) }, TypeSection::default())
    }

    /// Uses an existing index, and does not check the names.
    pub fn indexed(bytes: &'a [u8], index: &'a TypeIndex) -> Self {
        Btf { own: TypeSection { bytes, index: Cow::Borrowed(index) }, base: TypeSection::default() }
    }

    /// Adds the types of a kernel module, whose ids continue those of the kernel.
    ///
    /// `None` as for [`Btf::parse`].
    pub fn continued(self, bytes: &'a [u8]) -> Option<Self> {
        Self::checked(TypeSection { bytes, index: Cow::Owned(TypeIndex::of(bytes)?) }, self.own)
    }

    fn checked(own: TypeSection<'a>, base: TypeSection<'a>) -> Option<Self> {
        let btf = Btf { own, base };
        let (first, strings) = (btf.base.index.types.len(), btf.strings());
        let mut room = NAMES_MAX;
        for number in 0..btf.own.index.types.len() {
            let name = strings.text(btf.get((first + number) as u32 + 1)?.name_at)?;
            room = room.checked_sub(name.len())?;
        }
        Some(btf)
    }

    fn strings(&self) -> Strings<'a> {
        Strings { base: self.base.strings(), own: self.own.strings() }
    }

    pub fn get(&self, id: u32) -> Option<Type<'a>> {
        let strings = self.strings();
        let Some(place) = (id as usize).checked_sub(1) else {
            return Some(Type { kind: TypeKind::Other, size_or_type: 0, flag: false, extra: &[], name_at: 0, strings });
        };
        match place.checked_sub(self.base.index.types.len()) {
            Some(beyond) => self.own.get(beyond, strings),
            None => self.base.get(place, strings),
        }
    }

    /// All types with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Type<'a>)> + '_ {
        (0..).map_while(|id| Some((id, self.get(id)?)))
    }

    /// Faster than filtering [`Btf::iter`], because it reads little of the other types.
    pub fn of_kind(&self, kind: TypeKind) -> impl Iterator<Item = Type<'a>> + '_ {
        let strings = self.strings();
        [&self.base, &self.own].into_iter().flat_map(move |section| section.of_kind(kind, strings))
    }

    /// Also finds a flavour of the name (`name___flavour`), as libbpf does.
    pub fn find(&self, kind: TypeKind, name: &str) -> Option<Type<'a>> {
        self.of_kind(kind).find(|found| found.is_named(name))
    }

    /// Follows typedefs and qualifiers.
    pub fn resolve(&self, mut id: u32) -> Option<Type<'a>> {
        for _ in 0..CHAIN_LIMIT {
            let found = self.get(id)?;
            if !matches!(found.kind, TypeKind::Typedef | TypeKind::Qualifier) {
                return Some(found);
            }
            id = found.size_or_type;
        }
        None
    }

    /// Number of parameters that a function pointer takes.
    pub fn parameters(&self, id: u32) -> Option<u8> {
        let pointer = self.resolve(id).filter(|found| found.kind == TypeKind::Ptr)?;
        let target = self.resolve(pointer.size_or_type).filter(|found| found.kind == TypeKind::Prototype)?;
        u8::try_from(target.extra.len() / 8).ok()
    }

    /// The id of the variable with this name, and its type.
    pub fn variable(&self, name: &str) -> Option<(u32, Type<'a>)> {
        let (id, variable) = self.iter().find(|(_, t)| t.kind == TypeKind::Var && t.name() == name)?;
        Some((id, self.resolve(variable.size_or_type)?))
    }

    /// The texts of the tags on a type.
    pub fn tags(&self, id: u32) -> impl Iterator<Item = &'a str> + '_ {
        self.of_kind(TypeKind::Tag).filter(move |tag| tag.size_or_type == id).map(|tag| tag.name())
    }
}

impl<'a> Type<'a> {
    /// Empty for a type without a name.
    pub fn name(&self) -> &'a str {
        self.strings.text(self.name_at).unwrap_or_default()
    }

    /// Whether the type has this name or a flavour of it.
    pub fn is_named(&self, name: &str) -> bool {
        let rest = self.strings.bytes_from(self.name_at).and_then(|rest| rest.strip_prefix(name.as_bytes()));
        rest.is_some_and(|after| after.starts_with(b"\0") || after.starts_with(b"___"))
    }

    /// Members of a struct or union; `None` if they have too many bytes of names.
    pub fn members(&self) -> Option<Vec<Member<'a>>> {
        let mut room = MEMBER_NAMES_MAX;
        let member = |entry: &'a [u8]| {
            let name = self.strings.text(u32_at(entry, 0)?)?;
            room = room.checked_sub(name.len())?;
            let place = u32_at(entry, 8)?;
            let (bits, bit_offset) = if self.flag { (place >> 24, place & 0xff_ffff) } else { (0, place) };
            Some(Member { name, type_id: u32_at(entry, 4)?, bit_offset, bits })
        };
        self.extra.chunks_exact(12).map(member).collect()
    }

    /// Names and values of an enum; `None` for other kinds, or too many bytes of names.
    pub fn enumerators(&self) -> Option<Vec<(&'a str, i64)>> {
        let mut room = MEMBER_NAMES_MAX;
        let named = |entry: &'a [u8]| {
            let name = self.strings.text(u32_at(entry, 0)?)?;
            room = room.checked_sub(name.len())?;
            let low = u32_at(entry, 4)?;
            let value = match self.kind {
                TypeKind::Enum if self.flag => i64::from(low as i32),
                TypeKind::Enum => i64::from(low),
                _ => (i64::from(u32_at(entry, 8)?) << 32) | i64::from(low),
            };
            Some((name, value))
        };
        match self.kind {
            TypeKind::Enum => self.extra.chunks_exact(8).map(named).collect(),
            TypeKind::Enum64 => self.extra.chunks_exact(12).map(named).collect(),
            _ => None,
        }
    }

    pub fn encoding(&self) -> Encoding {
        match u32_at(self.extra, 0).unwrap_or(0) >> 24 & 0xf {
            1 => Encoding::Signed,
            4 => Encoding::Bool,
            _ => Encoding::Unsigned,
        }
    }

    /// Element type and count of an array; `None` for other kinds.
    pub fn elements(&self) -> Option<(u32, u32)> {
        let array = Some(self.extra).filter(|_| self.kind == TypeKind::Array)?;
        Some((u32_at(array, 0)?, u32_at(array, 8)?))
    }

    /// Ids of the variables in a section.
    pub fn section_variables(&self) -> Vec<u32> {
        self.extra.chunks_exact(12).filter_map(|entry| u32_at(entry, 0)).collect()
    }
}

/// Little-endian number at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// As [`u16_at`], for four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The UTF-8 text from an offset to the next zero byte; `None` if it is too long.
pub fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let rest = &rest[..rest.len().min(TEXT_MAX)];
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 32, 0, 0, 0];

    /// A BTF section with these types. `name` is the second string and begins at offset 1.
    fn section(types: &[u8], name: &str) -> Vec<u8> {
        let strings = format!("\0{name}\0");
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for number in [24, 0, types.len(), types.len(), strings.len()] {
            bytes.extend((number as u32).to_le_bytes());
        }
        [bytes, types.to_vec(), strings.into_bytes()].concat()
    }

    /// A file of a few megabytes used to fill gigabytes of memory, because its entries shared one long name.
    #[test]
    fn long_names_that_are_shared_do_not_multiply() {
        let long = "a".repeat(60_000);
        let many = section(&INT.repeat(300), &long);
        assert!(Btf::parse(&many).is_none(), "18 MB of names");
        assert!(Btf::parse(&section(&INT, &"a".repeat(70_000))).is_none(), "a name of 70 KB");
        let values = |count: u16| {
            let head = [1, 0, 0, 0, count as u8, 0, 0, 6, 4, 0, 0, 0];
            [head.to_vec(), [1, 0, 0, 0, 7, 0, 0, 0].repeat(count.into())].concat()
        };
        let shown = |count| {
            let bytes = section(&values(count), &long);
            let btf = Btf::parse(&bytes).expect("the types are whole");
            btf.get(1).unwrap().enumerators().map(|values| values.len())
        };
        assert_eq!((shown(3), shown(100)), (Some(3), None), "180 KB and 6 MB of names");
    }

    #[test]
    fn damaged_information_is_refused() {
        let whole = section(&INT, "int");
        let mut long = whole[..HEADER_BYTES].to_vec();
        long[12..20].fill(0xff); // memory for 180 million types used to be reserved
        assert!(TypeIndex::of(&whole).is_some());
        for damaged in [&[][..], &[0; 64], &whole[..whole.len() - 1], &long] {
            assert!(TypeIndex::of(damaged).is_none(), "{damaged:?}");
        }
    }
}
