//! Ports with deviations undone by `bpf_NAME.patch`.
//!
//! A patch begins with `Undoes 1, 2. RMS at most 10 %.`: the numbers of the deviations in the port's header, and the limit
//! for the unpatched port. The reasons follow. A header comes before the headers that it includes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::compile::in_tree;

/// File name of the patched port.
pub const FILE: &str = "undone.bpf.c";

pub struct Undone {
    /// Numbers of the deviations.
    pub numbers: Vec<String>,
    /// Largest RMS difference of the unpatched port's windows, in percent of the mean window.
    pub limit_percent: f64,
    port: String,
    patch: PathBuf,
    /// Paths of the changed files in the tree.
    changes: Vec<String>,
}

impl Undone {
    /// The patch of a port; `None` without one.
    pub fn of(port: &str) -> Option<Undone> {
        let patch = in_tree(&format!("tests/twins/{port}.patch"));
        let text = fs::read_to_string(&patch).ok()?;
        let head = text.lines().next().unwrap_or_default();
        let (numbers, limit) = read_head(head).unwrap_or_else(|| panic!("{port}.patch begins with {head:?}"));
        let changes = text.lines().filter_map(|line| line.strip_prefix("--- a/")).map(str::to_owned).collect();
        Some(Undone { numbers, limit_percent: limit, port: port.to_owned(), patch, changes })
    }

    /// The patched source in one file; a patched header, or a part of the port, replaces its `#include`.
    pub fn source(&self) -> String {
        let copy = tempfile::tempdir().unwrap();
        for path in &self.changes {
            let to = copy.path().join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(in_tree(path), to).unwrap();
        }
        let mut program = Command::new("patch");
        program.args(["--quiet", "--strip=1", "--fuzz=0", "--input"]).arg(&self.patch).current_dir(copy.path());
        let output = program.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{} does not apply; regenerate it: {said}", self.patch.display());
        let port = format!("bpf/cc/{}.bpf.c", self.port);
        let own = if self.changes.contains(&port) { copy.path().join(&port) } else { in_tree(&port) };
        let mut source = fs::read_to_string(own).unwrap();
        let included = |name: &str| {
            let header = format!("bpf/include/{name}");
            let patched = self.changes.contains(&header).then(|| copy.path().join(&header));
            let part = || name.starts_with(&self.port).then(|| in_tree(&header));
            patched.or_else(part).map(|path| fs::read_to_string(path).unwrap())
        };
        // Once more for each header that another one may include.
        for _ in 0..=self.changes.len() {
            let line = |line: &str| {
                let name = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix("\"\n"));
                name.and_then(included).unwrap_or_else(|| line.to_owned())
            };
            source = source.split_inclusive('\n').map(line).collect();
        }
        source.replace(&self.port, "undone")
    }
}

/// Reads numbers and limit from `Undoes 1, 2. RMS at most 10 %.`.
fn read_head(head: &str) -> Option<(Vec<String>, f64)> {
    let (numbers, limit) = head.strip_prefix("Undoes ")?.strip_suffix(" %.")?.split_once(". RMS at most ")?;
    Some((numbers.split(", ").map(str::to_owned).collect(), limit.parse().ok()?))
}
