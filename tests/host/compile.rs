//! Calls the system's C compiler during tests, for native libraries of algorithms.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Undefined behaviour ends the test with file and line. The warnings are those of the BPF build.
const FLAGS: &str = "-shared -fPIC -O1 -g -DTCCC_HOST -Wall -Wextra -Werror \
                     -Wno-unused-parameter -fno-builtin -fsanitize=undefined -fno-sanitize-recover=all -Wl,-Bsymbolic";

/// A path in the source tree. The package is its root or a folder of it.
pub fn in_tree(path: &str) -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("bpf/cc").is_dir()).expect("the source tree has algorithms").join(path)
}

/// The algorithms' files in `bpf/cc`, sorted.
pub fn sources() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(in_tree("bpf/cc")).expect("bpf/cc is read");
    let files = folder.map(|entry| entry.expect("an entry of bpf/cc").path());
    let mut sources: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(".bpf.c")).collect();
    sources.sort();
    sources
}

pub fn stem(source: &Path) -> String {
    source.file_name().expect("a file name").to_string_lossy().trim_end_matches(".bpf.c").to_owned()
}

/// Compiles a library from C files, in a folder that is removed when dropped.
pub fn library(sources: &[&Path]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("algorithm.so");
    run(compiler().arg("-o").arg(&path).args(sources));
    (folder, path)
}

/// Checks the static assertions of a C file.
pub fn check(source: &str) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("checked.c");
    std::fs::write(&path, source).expect("the file is written");
    run(compiler().arg("-fsyntax-only").arg(&path));
}

fn compiler() -> Command {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(FLAGS.split(' ')).arg("-I").arg(in_tree("bpf/include"));
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("the C compiler runs");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
