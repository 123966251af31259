//! Native builds of the algorithms of `bpf/cc`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};

pub use tccc::author::ring::native::*;
use tccc::catalog;

use crate::compile;

/// The native library of each algorithm, compiled on first use.
static LIBRARIES: LazyLock<BTreeMap<String, Library>> =
    LazyLock::new(|| compile::sources().into_iter().map(|s| (compile::stem(&s), Library::of(s))).collect());

struct Library {
    source: PathBuf,
    bytes: OnceLock<Vec<u8>>,
    /// A copy that tests share in turn.
    copy: OnceLock<Mutex<Native>>,
}

impl Library {
    fn of(source: PathBuf) -> Self {
        Library { source, bytes: OnceLock::new(), copy: OnceLock::new() }
    }

    /// Loads a copy of the file, because two loads of one file share its tunables.
    fn load(&self) -> Native {
        let bytes = self.bytes.get_or_init(|| {
            let (_folder, library) = compile::library(&[&compile::in_tree("bpf/host/shim.c"), &self.source]);
            std::fs::read(library).expect("the compiler's library is read")
        });
        let folder = tempfile::tempdir().expect("a scratch folder");
        let copy = folder.path().join("algorithm.so");
        std::fs::write(&copy, bytes).expect("a copy of the library is written");
        Native::open(&copy, &compile::stem(&self.source)).expect("the algorithm's library loads")
    }
}

pub fn load(source: &Path) -> Native {
    Library::of(source.to_owned()).load()
}

/// A copy with these settings, in the form of `--set`. The copy stays loaded until the process ends.
pub fn tuned(id: &str, settings: &[&str]) -> &'static Native {
    let mut native = LIBRARIES[id].load();
    set(&mut native, settings);
    Box::leak(Box::new(native))
}

/// A shared copy with these settings while the value lives. This suits tests with many cases.
pub fn borrowed(id: &str, settings: &[&str]) -> MutexGuard<'static, Native> {
    let copy = LIBRARIES[id].copy.get_or_init(|| Mutex::new(LIBRARIES[id].load()));
    // A failed case poisons the lock, which is harmless: all tunables are set again.
    let mut native = copy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for tunable in &catalog::find(id).unwrap().tunables {
        native.set(&tunable.name, &tunable.encode(tunable.default));
    }
    set(&mut native, settings);
    native
}

fn set(native: &mut Native, settings: &[&str]) {
    for setting in catalog::find(&native.id).unwrap().settings(settings).unwrap() {
        native.set(&setting.name, &setting.bytes);
    }
}

/// Every algorithm of `bpf/cc` with default tunables.
pub fn every() -> &'static [Native] {
    static EVERY: OnceLock<Vec<Native>> = OnceLock::new();
    EVERY.get_or_init(|| {
        std::thread::scope(|scope| {
            let jobs: Vec<_> = LIBRARIES.values().map(|library| scope.spawn(|| library.load())).collect();
            jobs.into_iter().map(|job| job.join().expect("every algorithm compiles natively")).collect()
        })
    })
}

/// An algorithm with default tunables.
pub fn find(id: &str) -> &'static Native {
    every().iter().find(|native| native.id == id).expect("an algorithm of bpf/cc")
}
