//! Writes the folder of `tccc new`: a template of an algorithm, a page, and everything clang needs to compile it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::compile::FOR_AUTHORS;
use shared::catalog::source::SOURCES;
use shared::failure::Failure;
use shared::kernel::io_error::reason;

/// The algorithm's name in the template's files and file names.
const PLACEHOLDER: &str = "mine";
const FOLDER: &str = "template/";
/// The page that leads from pseudo code to a file.
pub const PAGE: &str = "PORTING.md";
/// Prefixes of the headers of the policy, the tracer and companions. No algorithm includes them.
const NOT_FOR_ALGORITHMS: [&str; 3] = ["policy_", "trace_", "sock_ops"];

/// Writes the template of an algorithm and the headers into a folder; returns the file to edit.
///
/// # Errors
/// The folder is not empty, is a file, or cannot be written. A folder created here is then removed.
pub fn write(name: &str, folder: &Path) -> Result<PathBuf> {
    let is_new = prepare(folder)?;
    let written = fill(name, folder);
    if written.is_err() && is_new {
        let _ = fs::remove_dir_all(folder);
    }
    written
}

/// Returns whether the folder was created.
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
    let others = FOR_AUTHORS.iter().filter(|(file, _)| file.starts_with("libbpf/") || *file == PAGE);
    for (file, text) in headers.chain(others) {
        put(folder, file, text)?;
    }
    Ok(folder.join(format!("{name}.bpf.c")))
}

/// Writes a file and its folder.
pub(super) fn put(folder: &Path, file: &str, text: &str) -> Result<()> {
    let place = folder.join(file);
    let parent = place.parent().unwrap_or(folder);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&place, text));
    written.with_context(|| format!("write \"{}\"", place.display()))
}
