//! The available algorithms, read from the type information (BTF) of the embedded objects or of a user's own.
//!
//! Layer 1: bytes in, plain data out, without the kernel. The build embeds every file of `bpf/cc`, and each object
//! describes itself.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use crate::failure::Failure;
use crate::kernel::io_error;
use crate::read_limited;
use crate::suggest::nearest;

mod algorithm;
mod card;
mod elf;
mod layout;
mod need;
mod object;
pub mod risk;
pub mod source;
pub mod tunable;

pub use algorithm::{Algorithm, Callback, Companion, CompanionPlace};
pub use card::Card;
pub use layout::{FieldKind, Phase, STATE_BYTES_MAX, StateField, StateLayout, StateValue};
pub use need::KernelNeed;
pub use object::{NAME_LENGTH_MAX, OPS_TYPE, check_name};
pub use tunable::{Setting, Tunable, TunableKind};

/// Stem and object of every algorithm in `bpf/cc`.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/catalog.rs"));
/// Largest object file that is read. An algorithm's object has some tens of kilobytes.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// The embedded algorithms.
///
/// Shape: sorted by id.
pub fn all() -> &'static [Algorithm] {
    static ALL: OnceLock<Vec<Algorithm>> = OnceLock::new();
    ALL.get_or_init(|| {
        let read = |(stem, bytes): &(&str, &'static [u8])| {
            object::read(Cow::Borrowed(*bytes), None)
                .unwrap_or_else(|why| panic!("the build made a bad {stem}.bpf.o: {why}"))
        };
        let mut all: Vec<Algorithm> = EMBEDDED.iter().map(read).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    })
}

/// Finds an embedded algorithm.
///
/// # Errors
/// There is none; the hint names the nearest one.
pub fn find(id: &str) -> Result<&'static Algorithm, Failure> {
    all().iter().find(|algorithm| algorithm.id == id).ok_or_else(|| unknown(id, &[]))
}

/// The failure for an id that is neither embedded nor among the kernel's names.
pub fn unknown(id: &str, kernel: &[&str]) -> Failure {
    let ids = all().iter().map(|algorithm| algorithm.id.as_str());
    let near = nearest(id, ids.chain(kernel.iter().copied()));
    let near = near.map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
    let hint = format!("{near}`tccc list` shows all of them");
    Failure::usage(format!("unknown algorithm \"{}\"", id.escape_debug())).hint(hint)
}

/// Whether a text names an object file, as a path, `FILE.o` or `FILE.o:TABLE`, and not an embedded algorithm.
pub fn is_object_file(text: &str) -> bool {
    text.contains('/') || text.ends_with(".o") || text.contains(".o:")
}

/// The file of `FILE` or `FILE:TABLE`. `None` for the id of an embedded algorithm.
pub fn file_of(text: &str) -> Option<&Path> {
    is_object_file(text).then(|| split_table(Path::new(text)).0)
}

/// Splits `FILE:TABLE`. There is no table if the whole text names a file, or has no colon.
fn split_table(path: &Path) -> (&Path, Option<&str>) {
    let split = path.to_str().and_then(|text| text.rsplit_once(':')).filter(|_| !path.exists());
    match split {
        Some((file, table)) if !table.contains('/') => (Path::new(file), Some(table)),
        _ => (path, None),
    }
}

/// Reads a user's own object file, `FILE`, or `FILE:TABLE` if it has several ops tables, and its evaluation if there is one.
///
/// # Errors
/// The file cannot be read, is too large, or is not an object with one congestion control algorithm under the GPL.
pub fn open(path: &Path) -> Result<Algorithm, Failure> {
    let (file, table) = split_table(path);
    let refuse = |why: &str| Failure::usage(format!("cannot read \"{}\": {why}", file.display()));
    let bytes = read_limited::read(file, OBJECT_BYTES_MAX).map_err(|error| refuse(&io_error::reason(&error)))?;
    let algorithm = object::read(bytes.into(), table).map_err(|why| match file.extension() {
        Some(c) if c == "c" => refuse(&why).hint("it is C source: compile it, and name the object, FILE.bpf.o"),
        _ => refuse(&why),
    })?;
    Ok(Algorithm { findings: risk::beside(file), ..algorithm })
}

/// Reads an algorithm from the bytes of an object with one ops table.
///
/// # Errors
/// The reason, as the second half of a sentence.
pub fn from_bytes(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Algorithm, String> {
    object::read(bytes.into(), None)
}
