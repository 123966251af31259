//! Whether files can be trusted that decide what runs in the kernel: only root, or who reads them, can have written them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{getegid, geteuid};

use crate::failure::Failure;

/// In a folder with this bit only the owner of a file can replace it.
const STICKY: u32 = 0o1000;
/// Bits of a mode that let a group, and everybody, write.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Refuses a file that somebody else can change, by itself or by a folder above it. One that is missing is not refused here.
///
/// Errors: says which file or folder, why, and the command that repairs it.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let Ok(real) = path.canonicalize() else { return Ok(()) };
    check_above(&real)?;
    // A link leads elsewhere: who can replace it decides, too.
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
            return refuse(&why, format!("look at what it says, then `chown root: {shown}`"));
        }
        let is_shared_folder = meta.is_dir() && meta.mode() & STICKY != 0;
        let has_foreign_group = meta.gid() != 0 && meta.gid() != getegid().as_raw();
        let by_group = meta.mode() & GROUP_WRITES != 0 && has_foreign_group;
        if !is_shared_folder && (meta.mode() & ALL_WRITE != 0 || by_group) {
            let who = if by_group { format!("group {}", meta.gid()) } else { "every user".to_owned() };
            return refuse(
                &format!("{who} can write to it"),
                format!("look at what it says, then `chmod go-w {shown}`"),
            );
        }
    }
    Ok(())
}

/// Lists of prefixes that a policy names, each relative to the policy's folder.
pub(super) fn lists_of(policy: &str) -> Vec<String> {
    let document: toml::Table = policy.parse().unwrap_or_default();
    let rules = document.get("rule").and_then(toml::Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| rule.get("to_file")?.as_str().map(str::to_owned)).collect()
}
