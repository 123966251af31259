//! The running kernel's type information (BTF), and that of objects being loaded.
//!
//! libbpf would take three times as long, because it parses everything.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;

use anyhow::{Result, anyhow};
use memmap2::Mmap;

use crate::btf::{Btf, Member, TypeIndex, TypeKind};
use crate::failure::Failure;
use crate::kernel::io_error::reason;

pub const RUNNING_KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// The file with the types of an algorithm's kernel module, present while the module is loaded.
pub fn module_types(algorithm: &str) -> String {
    format!("/sys/kernel/btf/tcp_{algorithm}")
}

/// The binary form on the heap, or mapped from the kernel.
type TypeBytes = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Type information of the kernel or of an object, with its bytes.
pub struct Types {
    bytes: TypeBytes,
    index: TypeIndex,
}

impl Types {
    /// # Errors
    /// The kernel was built without types (`CONFIG_DEBUG_INFO_BTF`), or /sys is not mounted.
    pub fn of_running_kernel() -> Result<Self> {
        Self::of(running_kernel().map_err(|error| lacking(&error))?)
    }

    /// # Errors
    /// Not BTF, or cut short.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        Self::of(Box::new(bytes))
    }

    fn of(bytes: TypeBytes) -> Result<Self> {
        let index = TypeIndex::of((*bytes).as_ref()).ok_or_else(|| anyhow!("the type information is damaged"))?;
        Ok(Types { bytes, index })
    }

    pub fn view(&self) -> Btf<'_> {
        Btf::indexed((*self.bytes).as_ref(), &self.index)
    }

    pub fn has(&self, kind: TypeKind, name: &str) -> bool {
        self.view().find(kind, name).is_some()
    }

    /// The members of a struct in order. Empty if there is no such struct.
    pub fn members(&self, name: &str) -> Vec<Member<'_>> {
        self.view().find(TypeKind::Struct, name).and_then(|found| found.members()).unwrap_or_default()
    }

    /// The subset of `names` that are functions.
    pub fn functions_among(&self, names: &[&'static str]) -> BTreeSet<&'static str> {
        let types = self.view();
        let functions = types.of_kind(TypeKind::Function);
        functions.flat_map(|found| names.iter().copied().filter(move |name| found.is_named(name))).collect()
    }
}

/// Checks that the running kernel provides its types, without reading them.
///
/// # Errors
/// It does not (unmet).
pub fn require() -> Result<(), Failure> {
    File::open(RUNNING_KERNEL).map(drop).map_err(|error| lacking(&error))
}

fn lacking(error: &io::Error) -> Failure {
    let what = format!("this kernel provides no type information: {RUNNING_KERNEL}: {}", reason(error));
    Failure::unmet(what).hint(
        "use a kernel built with CONFIG_DEBUG_INFO_BTF, as Debian's are; `tccc doctor` lists what this host lacks",
    )
}

/// Maps the file, which kernels since 6.16 allow. Mapping avoids a copy page by page.
fn running_kernel() -> io::Result<TypeBytes> {
    let file = File::open(RUNNING_KERNEL)?;
    // SAFETY: the file is the kernel's own and never changes while the kernel runs.
    match unsafe { Mmap::map(&file) } {
        Ok(mapped) => Ok(Box::new(mapped)),
        Err(_) => Ok(Box::new(fs::read(RUNNING_KERNEL)?)),
    }
}
