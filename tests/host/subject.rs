//! What the proof and the fuzzer work on: an algorithm's file and the ranges of its tunables.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tccc::catalog::{self, Tunable, TunableKind};

use crate::compile;

/// One algorithm.
pub struct Subject {
    pub id: String,
    pub source: PathBuf,
    tunables: Vec<Tunable>,
    phases: usize,
}

impl Subject {
    /// Those that `TCCC_ALGORITHMS` names, separated by spaces; every file of `bpf/cc` when it is not set.
    ///
    /// Panics: with the names that no file has.
    pub fn chosen() -> Vec<Subject> {
        let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        let every: Vec<Subject> = compile::sources().into_iter().map(Subject::of_catalog).collect();
        let unknown: Vec<_> = wanted.iter().filter(|name| every.iter().all(|subject| subject.id != **name)).collect();
        assert!(unknown.is_empty(), "there are no algorithms {unknown:?} in bpf/cc");
        every.into_iter().filter(|subject| wanted.is_empty() || wanted.contains(&subject.id.as_str())).collect()
    }

    fn of_catalog(source: PathBuf) -> Subject {
        let id = compile::stem(&source);
        let algorithm = catalog::find(&id).expect("a file of bpf/cc is in the catalogue");
        Subject { id, source, tunables: algorithm.tunables.clone(), phases: algorithm.layout.phases.len() }
    }

    /// A file of `tests/fixtures/broken`, whose tunables stay as they are.
    pub fn broken(id: &str, phases: usize) -> Subject {
        let source = compile::in_tree(&format!("tests/fixtures/broken/{id}.bpf.c"));
        Subject { id: id.into(), source, tunables: Vec::new(), phases }
    }

    /// Writes `tunables.h`: `TUNABLES(EACH)` with `EACH(type, name, lowest, highest)` for each, and `PHASE_COUNT`.
    pub fn write_tunables(&self, folder: &Path) {
        let each = |t: &Tunable| format!(" EACH({}, {}, {}, {})", kind(t), t.name, t.low, t.high);
        let list: String = self.tunables.iter().map(each).collect();
        let text = format!("#define TUNABLES(EACH){list}\n#define PHASE_COUNT {}\n", self.phases);
        std::fs::write(folder.join("tunables.h"), text).expect("tunables.h is written");
    }
}

/// The type in C.
fn kind(tunable: &Tunable) -> String {
    match tunable.kind {
        TunableKind::Unsigned => format!("u{}", 8 * tunable.size),
        TunableKind::Signed => format!("s{}", 8 * tunable.size),
        TunableKind::Bool => "bool".into(),
    }
}

/// Does the work for each subject, as many at once as there are processors; `show` is called in the order of the list.
pub fn for_each<R: Send>(
    subjects: &[Subject],
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
