//! The target of libFuzzer for one parser per process; `cargo xtask fuzz --parsers` builds and runs it.
//!
//! Without the feature it reads saved inputs again: `cargo run --package parsers -- NAME FILE...`.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;

use parsers::Parser;

/// Largest allocation, bytes: a file may have 16 MiB, and need a few times as much.
const PIECE_MAX: usize = 256 << 20;

/// Refuses large allocations, which crashes the program. A length in an input must not decide how much is allocated.
struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

// SAFETY: every call goes to the system's allocator, or returns null for "no memory".
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > PIECE_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(piece, layout) }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > PIECE_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(piece, layout, size) }
    }
}

fn find(name: &str) -> &'static Parser {
    let found = parsers::ALL.iter().find(|parser| parser.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<&str> = parsers::ALL.iter().map(|parser| parser.name).collect();
        panic!("no parser \"{name}\": expected one of {}", names.join(", "))
    })
}

/// The folder for inputs that are files: `TCCC_SCRATCH`, or the system's temporary folder.
fn scratch() -> PathBuf {
    std::env::var_os("TCCC_SCRATCH").map_or_else(std::env::temp_dir, PathBuf::from)
}

#[cfg(not(feature = "libfuzzer"))]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let parser = find(&arguments.next().unwrap_or_default());
    let scratch = scratch();
    for file in arguments {
        (parser.read)(&std::fs::read(&file).unwrap_or_else(|why| panic!("read \"{file}\": {why}")), &scratch);
        println!("{file}: read");
    }
}

/// Functions that libFuzzer calls.
#[cfg(feature = "libfuzzer")]
mod libfuzzer {
    use std::path::Path;
    use std::sync::OnceLock;

    use parsers::Parser;

    static CHOSEN: OnceLock<(&'static Parser, std::path::PathBuf)> = OnceLock::new();

    fn variable(name: &str) -> String {
        std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask fuzz --parsers` sets it"))
    }

    /// Called once, before libFuzzer reads the corpus; writes seeds into the folder `TCCC_SEEDS`.
    #[unsafe(no_mangle)]
    extern "C" fn LLVMFuzzerInitialize(_count: *mut i32, _words: *mut *mut *mut u8) -> i32 {
        let parser = super::find(&variable("TCCC_PARSER"));
        if let Ok(folder) = std::env::var("TCCC_SEEDS") {
            for (index, seed) in (parser.seeds)().into_iter().enumerate() {
                std::fs::write(Path::new(&folder).join(format!("seed-{index}")), seed).expect("write a seed");
            }
        }
        // As at the start of Rust programs, which libFuzzer's `main` replaces: writing to a closed socket is an error.
        // SAFETY: no thread runs yet, and no handler is set.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        // A panic on any thread ends the process, even where a server would catch it.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            std::process::abort();
        }));
        CHOSEN.set((parser, super::scratch())).unwrap_or_else(|_| panic!("called once"));
        0
    }

    /// Called for each input.
    #[unsafe(no_mangle)]
    extern "C" fn LLVMFuzzerTestOneInput(bytes: *const u8, count: usize) -> i32 {
        // SAFETY: libFuzzer passes this many bytes; an empty input may have no pointer.
        let bytes = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, count) } };
        let (parser, scratch) = CHOSEN.get().expect("libFuzzer initializes first");
        (parser.read)(bytes, scratch);
        0
    }
}
