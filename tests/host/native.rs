//! The algorithms of `bpf/cc` as native code.

use std::path::Path;
use std::sync::OnceLock;

pub use tccc::author::ring::native::*;

use crate::compile;

/// Compiles and loads a file.
pub fn load(source: &Path) -> Native {
    let (_folder, library) = compile::library(&[&compile::in_tree("bpf/host/shim.c"), source]);
    Native::open(&library, &compile::stem(source)).expect("the algorithm's library loads")
}

/// One algorithm of `bpf/cc`, in a copy whose tunables nobody else uses.
pub fn own(id: &str) -> Native {
    load(&compile::in_tree(&format!("bpf/cc/{id}.bpf.c")))
}

/// Every algorithm of `bpf/cc`, compiled once.
pub fn every() -> &'static [Native] {
    static EVERY: OnceLock<Vec<Native>> = OnceLock::new();
    EVERY.get_or_init(|| {
        std::thread::scope(|scope| {
            let jobs: Vec<_> = compile::sources().into_iter().map(|s| scope.spawn(move || load(&s))).collect();
            jobs.into_iter().map(|job| job.join().expect("every algorithm compiles natively")).collect()
        })
    })
}

/// The algorithm with this id among [`every`].
pub fn find(id: &str) -> &'static Native {
    every().iter().find(|native| native.id == id).expect("an algorithm of bpf/cc")
}
