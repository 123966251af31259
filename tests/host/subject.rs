//! The algorithms for the proof and the fuzzer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use tccc::author::compile::BuildFolder;
pub use tccc::author::subject::Subject;
use tccc::catalog;

use crate::compile::in_tree;

/// Provides the headers while the test runs.
fn bench() -> &'static BuildFolder {
    static BENCH: OnceLock<BuildFolder> = OnceLock::new();
    BENCH.get_or_init(|| BuildFolder::set_up(Path::new("none")).expect("the headers are written"))
}

/// The algorithms in `TCCC_ALGORITHMS`, separated by spaces; all if it is not set.
pub fn chosen() -> Vec<Subject<'static>> {
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let ids: Vec<&str> = catalog::all().iter().map(|algorithm| algorithm.id.as_str()).collect();
    let unknown: Vec<_> = wanted.iter().filter(|name| !ids.contains(name)).collect();
    assert!(unknown.is_empty(), "there are no algorithms {unknown:?} in bpf/cc");
    let all = catalog::all()
        .iter()
        .map(|algorithm| Subject::new(&in_tree(&format!("bpf/cc/{}.bpf.c", algorithm.id)), algorithm, bench()));
    all.filter(|subject| wanted.is_empty() || wanted.contains(&subject.id.as_str())).collect()
}

/// A file of `tests/fixtures/broken` with fixed tunables.
pub fn broken(id: &str) -> Subject<'static> {
    let source = in_tree(&format!("tests/fixtures/broken/{id}.bpf.c"));
    let algorithm = catalog::open(&bench().object(&source, &[]).expect("it compiles for BPF")).expect("an algorithm");
    Subject::new(&source, &algorithm, bench()).untuned()
}

/// Runs `work` for all subjects in parallel, and calls `show` in the order of the list.
pub fn for_each<R: Send>(
    subjects: &[Subject<'_>],
    work: impl Fn(&Subject) -> R + Sync,
    mut show: impl FnMut(&Subject, &R),
) {
    let next = Mutex::new(subjects.iter().enumerate());
    let (sender, receiver) = std::sync::mpsc::channel();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((index, subject)) = { next.lock().expect("no worker panics inside").next() } {
                    sender.send((index, work(subject))).expect("the receiver outlives the workers");
                }
            });
        }
        drop(sender);
        let (mut early, mut shown) = (BTreeMap::new(), 0);
        for (index, result) in receiver {
            early.insert(index, result);
            while let Some(result) = early.remove(&shown) {
                show(&subjects[shown], &result);
                shown += 1;
            }
        }
    });
}
