//! The input of the proof and the fuzzer: an algorithm's file, the headers, and the ranges of its tunables.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::compile::BuildFolder;
use shared::catalog::{Algorithm, Tunable, TunableKind};

#[derive(Debug)]
pub struct Subject<'a> {
    pub id: String,
    pub source: PathBuf,
    pub bench: &'a BuildFolder,
    tunables: Vec<Tunable>,
    phases: usize,
}

impl<'a> Subject<'a> {
    pub fn new(source: &Path, algorithm: &Algorithm, bench: &'a BuildFolder) -> Self {
        Subject {
            id: algorithm.id.clone(),
            source: source.to_owned(),
            bench,
            tunables: algorithm.tunables.clone(),
            phases: algorithm.layout.phases.len(),
        }
    }

    /// Keeps every tunable at its default.
    pub fn untuned(self) -> Self {
        Subject { tunables: Vec::new(), ..self }
    }

    /// Writes `tunables.h`: `TUNABLES(EACH)`, one `EACH(type, name, lowest, highest)` per tunable, and `PHASE_COUNT`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write_tunables(&self, folder: &Path) -> Result<()> {
        let each = |t: &Tunable| format!(" EACH({}, {}, {}, {})", kind(t), t.name, t.low, t.high);
        let list: String = self.tunables.iter().map(each).collect();
        let text = format!("#define TUNABLES(EACH){list}\n#define PHASE_COUNT {}\n", self.phases);
        std::fs::write(folder.join("tunables.h"), text).context("write the ranges of the tunables")
    }
}

fn kind(tunable: &Tunable) -> String {
    match tunable.kind {
        TunableKind::Unsigned => format!("u{}", 8 * tunable.size),
        TunableKind::Signed => format!("s{}", 8 * tunable.size),
        TunableKind::Bool => "bool".into(),
    }
}
