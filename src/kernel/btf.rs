//! A small reader of BPF type information (BTF): enough to see which types, members and functions exist.
//!
//! One pass over the running kernel's five megabytes takes a few milliseconds, a third of what a full parse takes;
//! that is why this is not done by libbpf, which would parse the same bytes a second time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use anyhow::{Result, anyhow};
use memmap2::Mmap;

use crate::failure::Failure;

/// Where the running kernel shows its types.
pub const RUNNING_KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// Where the kernel shows the types of an algorithm's module, while it is loaded.
pub fn module_types(algorithm: &str) -> String {
    format!("/sys/kernel/btf/tcp_{algorithm}")
}

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

/// Kinds of types, with the numbers of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pointer.
    Pointer = 2,
    /// A structure.
    Struct = 4,
    /// A union.
    Union = 5,
    /// A name for another type.
    Typedef = 8,
    /// A function.
    Function = 12,
    /// A function's prototype.
    Prototype = 13,
}

/// Number of a type within its type information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeId(u32);

/// One member of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// Where it begins, bytes.
    pub offset: usize,
}

/// The binary form, in memory of our own or of the kernel.
#[derive(Debug)]
enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mmap),
}

impl Bytes {
    /// Kernels since 6.16 let the file be mapped, which spares copying it page by page.
    fn of_file(file: &mut File) -> io::Result<Self> {
        // SAFETY: the file is the kernel's own and never changes while the kernel runs.
        if let Ok(mapped) = unsafe { Mmap::map(&*file) } {
            return Ok(Bytes::Mapped(mapped));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Bytes::Owned(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(mapped) => mapped,
        }
    }
}

/// Type information of the kernel or of an object.
#[derive(Debug)]
pub struct Types {
    bytes: Bytes,
    /// Where each type begins in `bytes`; the first has number 1.
    places: Vec<u32>,
    strings: usize,
}

impl Types {
    /// Reads the running kernel's types.
    ///
    /// Errors: the kernel was built without them (`CONFIG_DEBUG_INFO_BTF`), or /sys is not mounted.
    pub fn of_running_kernel() -> Result<Self> {
        let file = File::open(RUNNING_KERNEL).and_then(|mut file| Bytes::of_file(&mut file));
        let bytes = file.map_err(|error| {
            Failure::unmet(format!("this kernel shows no type information: {RUNNING_KERNEL}: {}", reason(&error)))
                .hint("use a kernel built with CONFIG_DEBUG_INFO_BTF, as Debian's are; `tccc doctor` lists what this host lacks")
        })?;
        Self::of(bytes)
    }

    /// Reads types from their binary form.
    ///
    /// Errors: not BTF, or cut short.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        Self::of(Bytes::Owned(bytes))
    }

    fn of(bytes: Bytes) -> Result<Self> {
        let whole = places(&bytes).ok_or_else(|| anyhow!("the type information is damaged"))?;
        let (places, strings) = whole;
        Ok(Types { bytes, places, strings })
    }

    /// The type of this kind and name, or of a flavour of that name (`name___flavour`), as libbpf matches them.
    pub fn find(&self, kind: Kind, name: &str) -> Option<TypeId> {
        let numbers = 1..=self.places.len() as u32;
        numbers.map(TypeId).find(|&id| self.kind(id) == kind as u32 && self.name_is(id, name))
    }

    /// Those of `names` that are functions here.
    pub fn functions_among(&self, names: &[&'static str]) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        for id in (1..=self.places.len() as u32).map(TypeId) {
            if self.kind(id) == Kind::Function as u32 {
                found.extend(names.iter().copied().filter(|name| self.name_is(id, name)));
            }
        }
        found
    }

    /// Members of a structure, in order.
    pub fn members(&self, id: TypeId) -> Vec<Member> {
        let place = self.place(id);
        let count = (self.word(place + 4) & 0xffff) as usize;
        let is_packed_with_width = self.word(place + 4) >> 31 == 1;
        let read = |index: usize| {
            let at = place + TYPE_BYTES + index * 12;
            let bits = if is_packed_with_width { self.word(at + 8) & 0xff_ffff } else { self.word(at + 8) };
            Member { name: self.text(self.word(at)), type_id: TypeId(self.word(at + 4)), offset: bits as usize / 8 }
        };
        (0..count).map(read).collect()
    }

    /// Number of parameters, when the type is a pointer to a function.
    ///
    /// None: any other type.
    pub fn parameters(&self, id: TypeId) -> Option<u8> {
        let pointer = self.without_modifiers(id);
        if self.kind(pointer) != Kind::Pointer as u32 {
            return None;
        }
        let target = self.without_modifiers(TypeId(self.word(self.place(pointer) + 8)));
        (self.kind(target) == Kind::Prototype as u32).then(|| (self.word(self.place(target) + 4) & 0xffff) as u8)
    }

    /// Follows const, volatile, restrict, typedefs and tags.
    fn without_modifiers(&self, mut id: TypeId) -> TypeId {
        const MODIFIERS: [u32; 5] = [8, 9, 10, 11, 18];
        const DEEPEST: usize = 32; // damaged information could name itself
        for _ in 0..DEEPEST {
            if !MODIFIERS.contains(&self.kind(id)) {
                break;
            }
            id = TypeId(self.word(self.place(id) + 8));
        }
        id
    }

    /// Where the type begins; type 0, `void`, has no place and reads as kind 0.
    fn place(&self, id: TypeId) -> usize {
        (id.0 as usize)
            .checked_sub(1)
            .and_then(|index| self.places.get(index))
            .map_or(usize::MAX / 2, |&at| at as usize)
    }

    fn kind(&self, id: TypeId) -> u32 {
        (self.word(self.place(id) + 4) >> 24) & 0x1f
    }

    fn name_is(&self, id: TypeId, name: &str) -> bool {
        let at = self.strings + self.word(self.place(id)) as usize;
        let rest = self.bytes.get(at..).unwrap_or_default();
        let after = rest.strip_prefix(name.as_bytes()).unwrap_or(b"x");
        after.starts_with(b"\0") || after.starts_with(b"___")
    }

    fn text(&self, offset: u32) -> String {
        let rest = self.bytes.get(self.strings + offset as usize..).unwrap_or_default();
        let text = rest.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    fn word(&self, at: usize) -> u32 {
        word(&self.bytes, at).unwrap_or(0)
    }
}

/// Begin of every type, and of the strings.
fn places(bytes: &[u8]) -> Option<(Vec<u32>, usize)> {
    if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC || bytes.len() < HEADER_BYTES {
        return None;
    }
    let header = word(bytes, 4)? as usize;
    let begin = header + word(bytes, 8)? as usize;
    let end = begin + word(bytes, 12)? as usize;
    if end > bytes.len() {
        return None; // before memory is taken for what is not there
    }
    let mut places = Vec::with_capacity((end - begin) / 24);
    let mut at = begin;
    while at < end {
        places.push(at as u32);
        at += TYPE_BYTES + extra_bytes(word(bytes, at + 4)?)?;
    }
    (at == end).then_some((places, header + word(bytes, 16)? as usize))
}

/// How many bytes follow the head of a type.
fn extra_bytes(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    match (info >> 24) & 0x1f {
        2 | 7..=12 | 16 | 18 => Some(0),
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        4 | 5 | 15 | 19 => Some(count * 12),
        6 | 13 => Some(count * 8),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The kernel's words for an I/O error, without the number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_information_is_refused() {
        assert!(Types::parse(Vec::new()).is_err());
        assert!(Types::parse(vec![0; 64]).is_err());
        let mut cut = MAGIC.to_ne_bytes().to_vec();
        cut.extend([1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(Types::parse(cut).is_err());
    }

    /// Memory for 180 million types was taken before the file was found to end.
    #[test]
    fn length_beyond_the_file_is_refused_before_memory_is_taken() {
        let mut head = [MAGIC.to_ne_bytes().as_slice(), &[1, 0]].concat();
        for number in [24u32, 0, u32::MAX, u32::MAX, 0] {
            head.extend(number.to_ne_bytes());
        }
        assert!(places(&head).is_none());
    }

    #[test]
    fn reason_has_no_number() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(reason(&error), "no such file or directory");
    }
}
