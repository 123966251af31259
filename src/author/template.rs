//! The folder that `tccc new` writes: an algorithm to begin with, and all that clang needs to compile it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::compile::FOR_AUTHORS;
use crate::bounded::reason;
use crate::catalog::source::SOURCES;
use crate::failure::Failure;

/// The template's algorithm, in every file and file name.
const PLACEHOLDER: &str = "mine";
const FOLDER: &str = "template/";
/// How headers of the policy, the tracer and companions begin, which no algorithm includes.
const NOT_FOR_ALGORITHMS: [&str; 3] = ["policy_", "trace_", "sock_ops"];

/// Writes the template of an algorithm and the headers into a folder.
///
/// Returns the file that is to be edited.
///
/// Errors: the folder is not empty, is no folder, or cannot be written.
/// Side effects: a folder that did not exist is removed again when it cannot be filled.
pub fn write(name: &str, folder: &Path) -> Result<PathBuf> {
    let is_new = prepare(folder)?;
    let written = fill(name, folder);
    if written.is_err() && is_new {
        let _ = fs::remove_dir_all(folder);
    }
    written
}

/// Returns whether the folder was made.
fn prepare(folder: &Path) -> Result<bool> {
    let what = |why: &str| format!("cannot write into \"{}\": {why}", folder.display());
    match fs::read_dir(folder).map(|entries| entries.count()) {
        Ok(1..) => Err(Failure::usage(what("the folder is not empty"))
            .hint("name one that does not exist, or is empty")
            .into()),
        Ok(0) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(Failure::usage(what("it is not a folder")).into())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::failed(what(&reason(&error))).into()),
        Err(_) => {
            fs::create_dir_all(folder).map_err(|error| Failure::failed(what(&reason(&error))))?;
            Ok(true)
        }
    }
}

fn fill(name: &str, folder: &Path) -> Result<PathBuf> {
    for (file, text) in FOR_AUTHORS.iter().filter(|(file, _)| file.starts_with(FOLDER)) {
        let file = file.trim_start_matches(FOLDER).replace(PLACEHOLDER, name);
        put(folder, &file, &text.replace(PLACEHOLDER, name))?;
    }
    let is_wanted = |file: &str| !NOT_FOR_ALGORITHMS.iter().any(|begin| file.starts_with(&format!("include/{begin}")));
    let headers = SOURCES.iter().filter(|(file, _)| file.starts_with("include/") && is_wanted(file));
    let libbpf = FOR_AUTHORS.iter().filter(|(file, _)| file.starts_with("libbpf/"));
    for (file, text) in headers.chain(libbpf) {
        put(folder, file, text)?;
    }
    Ok(folder.join(format!("{name}.bpf.c")))
}

fn put(folder: &Path, file: &str, text: &str) -> Result<()> {
    let place = folder.join(file);
    let parent = place.parent().unwrap_or(folder);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&place, text));
    written.with_context(|| format!("write \"{}\"", place.display()))
}
