//! The running kernel's type information (BTF), and that of objects being loaded.
//!
//! libbpf would take three times as long: it parses everything.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use anyhow::{Result, anyhow};
use memmap2::Mmap;

use crate::btf::{Btf, Member, TypeIndex, TypeKind};
use crate::failure::Failure;

pub const RUNNING_KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// Where the kernel shows the types of an algorithm's module, while it is loaded.
pub fn module_types(algorithm: &str) -> String {
    format!("/sys/kernel/btf/tcp_{algorithm}")
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

/// Type information of the kernel or of an object, with its bytes.
#[derive(Debug)]
pub struct Types {
    bytes: Bytes,
    index: TypeIndex,
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
        let index = TypeIndex::of(&bytes).ok_or_else(|| anyhow!("the type information is damaged"))?;
        Ok(Types { bytes, index })
    }

    pub fn view(&self) -> Btf<'_> {
        Btf::indexed(&self.bytes, &self.index)
    }

    /// Whether there is a type of this kind and name.
    pub fn has(&self, kind: TypeKind, name: &str) -> bool {
        self.view().find(kind, name).is_some()
    }

    /// Members of the struct with this name, in order; empty where there is none.
    pub fn members(&self, name: &str) -> Vec<Member<'_>> {
        self.view().find(TypeKind::Struct, name).and_then(|found| found.members()).unwrap_or_default()
    }

    /// Those of `names` that are functions here.
    pub fn functions_among(&self, names: &[&'static str]) -> BTreeSet<&'static str> {
        let types = self.view();
        let functions = types.of_kind(TypeKind::Function);
        functions.flat_map(|found| names.iter().copied().filter(move |name| found.is_named(name))).collect()
    }
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
    fn reason_has_no_number() {
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(reason(&error), "no such file or directory");
    }
}
