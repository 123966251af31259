//! Every parser of tccc for untrusted input, as a function of bytes. No input may crash it. Accepted input that is written and
//! read again must mean the same.

mod files;
pub mod names;
mod server;
mod texts;

use std::path::{Path, PathBuf};

/// Separates the files in an input: ASCII's record separator.
const FILE_END: u8 = 0x1e;

pub struct Parser {
    pub name: &'static str,
    /// Seeds from files of the tree.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input, with the folder for files. Panics if the parser has a defect.
    pub read: fn(&[u8], &Path),
}

/// All parsers in Rust.
pub const ALL: [Parser; 13] = [
    Parser { name: "policy", seeds: texts::policies, read: texts::read_policy },
    Parser { name: "declaration", seeds: files::declarations, read: files::read_declaration },
    Parser { name: "scenario", seeds: texts::scenarios, read: texts::read_scenario },
    Parser { name: "path", seeds: texts::paths, read: texts::read_path },
    Parser { name: "words", seeds: texts::words, read: texts::read_words },
    Parser { name: "results", seeds: files::results, read: files::read_results },
    Parser { name: "recording", seeds: files::recordings, read: files::read_recording },
    Parser { name: "records", seeds: files::records, read: files::read_records },
    Parser { name: "object", seeds: files::objects, read: files::read_object },
    Parser { name: "types", seeds: files::types, read: files::read_types },
    Parser { name: "ns2", seeds: texts::simulations, read: texts::read_simulation },
    Parser { name: "iperf3", seeds: texts::iperf3, read: texts::read_iperf3 },
    Parser { name: "http", seeds: server::requests, read: server::read_request },
];

/// A path in the source tree.
fn in_tree(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn content(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|why| panic!("read {}: {why}", path.display()))
}

/// The files below a folder of the tree with this ending, sorted.
fn files_below(folder: &str, end: &str) -> Vec<PathBuf> {
    fn collect(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of the tree is listed") {
            let path = entry.expect("an entry is read").path();
            if path.is_dir() {
                collect(&path, end, found);
            } else if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&in_tree(folder), end, &mut found);
    found.sort();
    found
}

/// The files in an input.
fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == FILE_END)
}

/// An input with several files.
fn joined<const N: usize>(files: [Vec<u8>; N]) -> Vec<u8> {
    files.join(&FILE_END)
}

/// An input as text. Invalid UTF-8 is replaced, because most parsers see text only.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg32;
    use rand_pcg::rand_core::Rng;

    use super::*;

    /// Damaged copies of each seed.
    const COPIES: usize = 8;

    #[test]
    fn names_are_those_that_the_command_knows() {
        let known: Vec<&str> = names::NAMES.iter().map(|(name, _)| *name).take(ALL.len()).collect();
        assert_eq!(ALL.map(|parser| parser.name).to_vec(), known);
    }

    /// Changes, removes or repeats bytes.
    fn damaged(seed: &[u8], random: &mut Pcg32) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=random.next_u32() % 4 {
            let at = |bytes: &[u8], random: &mut Pcg32| random.next_u32() as usize % bytes.len().max(1);
            let (one, other) = (at(&bytes, random), at(&bytes, random));
            match random.next_u32() % 4 {
                0 => bytes.truncate(one),
                1 if one < other => drop(bytes.drain(one..other.min(one + 16))),
                2 if one < other => bytes.extend_from_within(one..other),
                _ => bytes.get_mut(one).into_iter().for_each(|byte| *byte = random.next_u32() as u8),
            }
        }
        bytes
    }

    /// A quick check for CI; the fuzzer needs its own build.
    #[test]
    fn seeds_and_damaged_copies_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let mut random = Pcg32::new(18, 6);
        for parser in &ALL {
            let seeds = (parser.seeds)();
            assert!(!seeds.is_empty(), "{} has nothing to begin with", parser.name);
            for seed in seeds {
                (parser.read)(&seed, scratch.path());
                (0..COPIES).for_each(|_| (parser.read)(&damaged(&seed, &mut random), scratch.path()));
            }
        }
    }
}
