//! Objects for `bpftool struct_ops register`: one ops table, registered by its map, with the members that every kernel
//! with struct_ops has.
//!
//! libbpf before 1.4, as in the bpftool of Debian 12, cannot register by link. It also refuses a table with a member
//! that the kernel lacks, even an empty one. tccc's own loader adapts an object to the kernel; bpftool does not.

use std::path::Path;

use anyhow::{Context, Result};

use super::compile::BuildFolder;
use shared::catalog::Algorithm;
use shared::catalog::source::SOURCES;

/// A callback that only newer kernels have, instead of one event of `cwnd_event`.
const OF_NEWER_KERNELS: &str = "cwnd_event_tx_start";
/// The form of `cong_control` before Linux 6.10. There, bpftool cannot register an algorithm with this callback.
const OF_OLDER_KERNELS: &str = "cong_control___2";

/// Creates a folder with the headers for these objects.
///
/// # Errors
/// The system's folder for temporary files cannot be written.
pub fn bench() -> Result<BuildFolder> {
    let bench = BuildFolder::set_up(Path::new(""))?;
    for (file, text) in SOURCES.iter().filter(|(file, _)| file.starts_with("include/")) {
        std::fs::write(bench.path().join(file), without(text, OF_NEWER_KERNELS)).context("write the headers")?;
    }
    Ok(bench)
}

/// Compiles an algorithm of the catalogue for bpftool.
///
/// # Errors
/// Clang is missing (unmet), or rejects the file.
pub fn object(algorithm: &Algorithm, bench: &BuildFolder) -> Result<Vec<u8>> {
    let id = &algorithm.id;
    let name = format!("cc/{id}.bpf.c");
    let text = SOURCES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text);
    let source = bench.path().join(format!("{id}.bpf.c"));
    let text = without(text.context("find the source")?, OF_NEWER_KERNELS);
    std::fs::write(&source, without(&text, OF_OLDER_KERNELS)).context("write the source")?;
    let object = bench.object(&source, &["-DTCCC_FOR_BPFTOOL"]).with_context(|| format!("compile \"{id}\""))?;
    std::fs::read(object).context("read the object")
}

/// Removes a callback from C: its member in the ops table, and its function.
fn without(text: &str, member: &str) -> String {
    let Some((before, rest)) = text.split_once(&format!(".{member} = (void *)")) else { return text.to_owned() };
    let (program, after) = rest.split_once(',').unwrap_or((rest, ""));
    let begin = format!("CC_OP(void, {program}, ");
    let head = match before.split_once(&begin) {
        Some((head, function)) => head.to_owned() + function.split_once("\n}\n").map_or("", |(_, tail)| tail),
        None => before.to_owned(),
    };
    head + after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_goes_with_its_function() {
        let text = "CC_OP(void, a_start, struct sock *sk)\n{\n\tx();\n}\nrest\nA = {\n\t.start = (void *)a_start,\n\t.b = 1,\n};";
        assert_eq!(without(text, "start"), "rest\nA = {\n\t\n\t.b = 1,\n};");
        assert_eq!(without("#define A .start = (void *)a, .b = 1 \\\n", "start"), "#define A  .b = 1 \\\n");
        assert_eq!(without("A = {};", "start"), "A = {};");
    }
}
