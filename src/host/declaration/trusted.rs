//! Checks that only root, or the user of this process, can change the files that decide what runs in the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{getegid, geteuid};

use shared::failure::Failure;

/// In a folder with this bit, only a file's owner can replace the file.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Accepts a missing file.
///
/// # Errors
/// Another user can change the file or a folder above it; the hint has the command that fixes this.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let Ok(real) = path.canonicalize() else { return Ok(()) };
    check_above(&real)?;
    // The path may be a symbolic link, which must not be replaceable either.
    match path.parent().and_then(|folder| folder.canonicalize().ok()) {
        Some(folder) if !real.starts_with(&folder) => check_above(&folder),
        _ => Ok(()),
    }
}

fn check_above(real: &Path) -> Result<(), Failure> {
    for place in real.ancestors() {
        let Ok(meta) = fs::metadata(place) else { continue };
        let shown = place.display();
        let refuse = |why: &str, hint: String| Err(Failure::usage(format!("cannot trust {shown}: {why}")).hint(hint));
        if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
            let why = format!("its owner is user {}, not root", meta.uid());
            return refuse(&why, format!("check its content, then `chown root: {shown}`"));
        }
        let is_shared_folder = meta.is_dir() && meta.mode() & STICKY != 0;
        let has_foreign_group = meta.gid() != 0 && meta.gid() != getegid().as_raw();
        let by_group = meta.mode() & GROUP_WRITES != 0 && has_foreign_group;
        if !is_shared_folder && (meta.mode() & ALL_WRITE != 0 || by_group) {
            let who = if by_group { format!("group {}", meta.gid()) } else { "every user".to_owned() };
            let hint = format!("check its content, then `chmod go-w {shown}`");
            return refuse(&format!("{who} can write to it"), hint);
        }
    }
    Ok(())
}

/// Paths of the prefix lists that a policy names, relative to its folder.
pub(super) fn lists_of(policy: &str) -> Vec<String> {
    let document: toml::Table = policy.parse().unwrap_or_default();
    let rules = document.get("rule").and_then(toml::Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| rule.get("to_file")?.as_str().map(str::to_owned)).collect()
}
