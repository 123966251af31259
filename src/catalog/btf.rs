//! The type information (BTF) of an object file or of the kernel, read without trusting one byte of it.
//!
//! Source: Linux, Documentation/bpf/btf.rst.

use super::elf::{NAMES_MAX, text_at, u16_at, u32_at};

const MAGIC: u16 = 0xeb9f;
/// Chains of typedef, const and volatile longer than this are a loop in a damaged file.
const CHAIN_LIMIT: usize = 32;
/// Most bytes of the names in one struct or enum, which may all be one long text.
const PARTS_MAX: usize = 1 << 20;

/// The kinds of types that the catalogue looks at; numbers as in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Enum64,
    Var,
    Section,
    Tag,
    /// Another name or qualifier of the type it refers to.
    Alias,
    /// A kind that the catalogue has no use for.
    Other,
}

/// One type.
#[derive(Debug, Clone, Copy)]
pub struct Type<'a> {
    pub name: &'a str,
    pub kind: Kind,
    /// Bytes, or the number of the type referred to: which one depends on the kind.
    pub size_or_type: u32,
    flag: bool,
    extra: &'a [u8],
}

/// A member of a struct or union.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub name: &'a str,
    pub type_id: u32,
    pub bit_offset: u32,
    /// Zero: not a bit field.
    pub bits: u32,
}

/// What an integer type says beyond its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Unsigned,
    Signed,
    Bool,
}

/// All types of an object; type 0 is void.
#[derive(Debug)]
pub struct Btf<'a> {
    types: Vec<Type<'a>>,
    strings: Strings<'a>,
}

/// Names; those of a kernel module continue where the kernel's own end.
#[derive(Debug, Clone, Copy)]
struct Strings<'a> {
    base: &'a [u8],
    own: &'a [u8],
}

impl<'a> Strings<'a> {
    fn text(self, offset: u32) -> Option<&'a str> {
        let offset = offset as usize;
        match offset.checked_sub(self.base.len()) {
            Some(beyond) => text_at(self.own, beyond),
            None => text_at(self.base, offset),
        }
    }
}

impl<'a> Btf<'a> {
    /// Reads the contents of a `.BTF` section.
    ///
    /// None: when it is damaged or of a later format.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let void = Type { name: "", kind: Kind::Other, size_or_type: 0, flag: false, extra: &[] };
        Btf { types: vec![void], strings: Strings { base: &[], own: &[] } }.continued(bytes)
    }

    /// These types and those of a kernel module, which continue their numbers and names.
    ///
    /// None: as [`Btf::parse`].
    pub fn continued(mut self, bytes: &'a [u8]) -> Option<Self> {
        if u16_at(bytes, 0)? != MAGIC || bytes.get(2)? != &1 {
            return None;
        }
        let body = bytes.get(u32_at(bytes, 4)? as usize..)?;
        let part = |at: usize| {
            let start = u32_at(bytes, at)? as usize;
            body.get(start..start.checked_add(u32_at(bytes, at + 4)? as usize)?)
        };
        let (mut rest, own) = (part(8)?, part(16)?);
        let base = self.strings.own;
        self.strings = Strings { base, own };
        let mut room = NAMES_MAX;
        while !rest.is_empty() {
            let (next, length) = one_type(rest, self.strings)?;
            room = room.checked_sub(next.name.len())?;
            self.types.push(next);
            rest = rest.get(length..)?;
        }
        Some(self)
    }

    /// The type with this number.
    pub fn get(&self, id: u32) -> Option<Type<'a>> {
        self.types.get(id as usize).copied()
    }

    /// All types with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Type<'a>)> + '_ {
        (0..).zip(self.types.iter().copied())
    }

    /// The type behind typedefs and qualifiers.
    pub fn resolve(&self, mut id: u32) -> Option<Type<'a>> {
        for _ in 0..CHAIN_LIMIT {
            let found = self.get(id)?;
            if found.kind != Kind::Alias {
                return Some(found);
            }
            id = found.size_or_type;
        }
        None
    }

    /// The variable with this name: its number and its type.
    pub fn variable(&self, name: &str) -> Option<(u32, Type<'a>)> {
        let (id, variable) = self.iter().find(|(_, t)| t.kind == Kind::Var && t.name == name)?;
        Some((id, self.resolve(variable.size_or_type)?))
    }

    /// The texts of the tags on a type.
    pub fn tags(&self, id: u32) -> impl Iterator<Item = &'a str> + '_ {
        let on_it = move |t: &Type| t.kind == Kind::Tag && t.size_or_type == id;
        self.iter().map(|(_, t)| t).filter(on_it).map(|t| t.name)
    }

    /// Members of a struct or union; none where their names are too long together.
    pub fn members(&self, of: Type<'a>) -> Option<Vec<Member<'a>>> {
        let mut room = PARTS_MAX;
        let member = |entry: &'a [u8]| {
            let name = self.text(u32_at(entry, 0)?)?;
            room = room.checked_sub(name.len())?;
            let place = u32_at(entry, 8)?;
            let (bits, bit_offset) = if of.flag { (place >> 24, place & 0xff_ffff) } else { (0, place) };
            Some(Member { name, type_id: u32_at(entry, 4)?, bit_offset, bits })
        };
        of.extra.chunks_exact(12).map(member).collect()
    }

    /// Names and values of an enum; none for other kinds, or where the names are too long together.
    pub fn enumerators(&self, of: Type<'a>) -> Option<Vec<(&'a str, i64)>> {
        let mut room = PARTS_MAX;
        let named = |entry: &'a [u8]| {
            let name = self.text(u32_at(entry, 0)?)?;
            room = room.checked_sub(name.len())?;
            let low = u32_at(entry, 4)?;
            let value = match of.kind {
                Kind::Enum if of.flag => i64::from(low as i32),
                Kind::Enum => i64::from(low),
                _ => (i64::from(u32_at(entry, 8)?) << 32) | i64::from(low),
            };
            Some((name, value))
        };
        match of.kind {
            Kind::Enum => of.extra.chunks_exact(8).map(named).collect(),
            Kind::Enum64 => of.extra.chunks_exact(12).map(named).collect(),
            _ => None,
        }
    }

    fn text(&self, offset: u32) -> Option<&'a str> {
        self.strings.text(offset)
    }
}

impl Type<'_> {
    /// Whether an integer is signed or a truth value.
    pub fn encoding(&self) -> Encoding {
        match u32_at(self.extra, 0).unwrap_or(0) >> 24 & 0xf {
            1 => Encoding::Signed,
            4 => Encoding::Bool,
            _ => Encoding::Unsigned,
        }
    }

    /// Element type and count of an array.
    pub fn elements(&self) -> Option<(u32, u32)> {
        if self.kind != Kind::Array {
            return None;
        }
        Some((u32_at(self.extra, 0)?, u32_at(self.extra, 8)?))
    }

    /// Numbers of the variables in a section.
    pub fn section_variables(&self) -> Vec<u32> {
        self.extra.chunks_exact(12).filter_map(|entry| u32_at(entry, 0)).collect()
    }
}

/// The type at the beginning of `bytes`, and its length.
fn one_type<'a>(bytes: &'a [u8], strings: Strings<'a>) -> Option<(Type<'a>, usize)> {
    let name = strings.text(u32_at(bytes, 0)?)?;
    let info = u32_at(bytes, 4)?;
    let count = (info & 0xffff) as usize;
    let (kind, extra) = match info >> 24 & 0x1f {
        1 => (Kind::Int, 4),
        2 => (Kind::Ptr, 0),
        3 => (Kind::Array, 12),
        4 => (Kind::Struct, 12 * count),
        5 => (Kind::Union, 12 * count),
        6 => (Kind::Enum, 8 * count),
        8..=11 | 18 => (Kind::Alias, 0),
        7 | 12 | 16 => (Kind::Other, 0),
        13 => (Kind::Other, 8 * count),
        14 => (Kind::Var, 4),
        15 => (Kind::Section, 12 * count),
        17 => (Kind::Tag, 4),
        19 => (Kind::Enum64, 12 * count),
        _ => return None,
    };
    let length = 12 + extra;
    let found =
        Type { name, kind, size_or_type: u32_at(bytes, 8)?, flag: info >> 31 == 1, extra: bytes.get(12..length)? };
    Some((found, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 32, 0, 0, 0];

    /// Types before their strings, of which the second begins at 1.
    fn section(types: &[u8], name: &str) -> Vec<u8> {
        let strings = format!("\0{name}\0");
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for number in [24, 0, types.len(), types.len(), strings.len()] {
            bytes.extend((number as u32).to_le_bytes());
        }
        [bytes, types.to_vec(), strings.into_bytes()].concat()
    }

    /// A file of some megabytes became gigabytes, or took minutes: its entries named one long text again and again.
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
            btf.enumerators(btf.get(1).unwrap()).map(|values| values.len())
        };
        assert_eq!((shown(3), shown(100)), (Some(3), None), "180 KB and 6 MB of names");
    }
}
