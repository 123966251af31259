//! The algorithms that the proof and the fuzzer work on.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use tccc::author::compile::BuildFolder;
pub use tccc::author::subject::Subject;
use tccc::catalog;

/// A path in the source tree.
fn in_tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The headers, for as long as the test runs.
fn bench() -> &'static BuildFolder {
    static BENCH: OnceLock<BuildFolder> = OnceLock::new();
    BENCH.get_or_init(|| BuildFolder::set_up(Path::new("none")).expect("the headers are written"))
}

/// Those that `TCCC_ALGORITHMS` names, separated by spaces; every file of `bpf/cc` when it is not set.
///
/// Panics: with the names that no file has.
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

/// A file of `tests/fixtures/broken`, whose tunables stay as they are.
pub fn broken(id: &str) -> Subject<'static> {
    let source = in_tree(&format!("tests/fixtures/broken/{id}.bpf.c"));
    let algorithm = catalog::open(&bench().object(&source, &[]).expect("it compiles for BPF")).expect("an algorithm");
    Subject::new(&source, &algorithm, bench()).untuned()
}

/// Does the work for each subject, as many at once as there are processors; `show` is called in the order of the list.
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
                    sender.send((index, work(subject))).expect("the receiver lives as long");
                }
            });
        }
        drop(sender);
        let mut results: Vec<Option<R>> = subjects.iter().map(|_| None).collect();
        let mut shown = 0;
        for (index, result) in receiver {
            results[index] = Some(result);
            while let Some(Some(result)) = results.get(shown) {
                show(&subjects[shown], result);
                shown += 1;
            }
        }
    });
}
