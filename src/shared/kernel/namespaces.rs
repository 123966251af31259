//! Finds the network namespaces of this host that can be entered.
//!
//! The search covers the threads of all processes and the names of `ip netns` and of container engines. It cannot find a
//! namespace that has no thread and is held only by a file descriptor.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::netns::Netns;
use super::process;

/// Says that [`NamespaceSurvey::is_partial`].
pub const PARTIAL: &str =
    "processes outside this PID namespace are not visible: their network namespaces may be missing";
/// What shows a process in a container all others.
pub const SEE_ALL: &str =
    "run it in the PID namespace of the host: `hostPID: true` in Kubernetes, `--pid=host` for a container";
const NAMED: [&str; 2] = ["/run/netns", "/run/docker/netns"];

#[derive(Debug)]
pub struct NamespaceSurvey {
    /// Shape: one per namespace, ascending inode.
    pub reachable: Vec<Netns>,
    /// Processes and names whose namespace this process has no right to look at.
    pub hidden: usize,
    /// There may be processes that this one does not see at all, as in a container.
    pub is_partial: bool,
}

impl NamespaceSurvey {
    /// A phrase for each reason why a namespace may be missing.
    pub fn gaps(&self) -> Vec<String> {
        let one = (self.hidden > 0).then(|| uninspected(self.hidden));
        one.into_iter().chain(self.is_partial.then(|| PARTIAL.to_owned())).collect()
    }
}

/// Says that the namespaces of some processes are unknown.
pub fn uninspected(hidden: usize) -> String {
    let processes = if hidden == 1 { "process" } else { "processes" };
    format!("the network namespace of {hidden} {processes} could not be inspected")
}

/// # Errors
/// /proc is not mounted.
pub fn all() -> Result<NamespaceSurvey> {
    let (mut found, mut hidden) = (BTreeMap::new(), 0);
    // Opens the namespace behind a path unless it is gone or was found before. Returns false without the right to look.
    let mut offer = |path: &Path| match fs::metadata(path) {
        Ok(file) if found.contains_key(&(file.ino() as u32)) => true,
        Ok(_) => {
            found.extend(Netns::open(path).map(|netns| (netns.inode(), netns)));
            true
        }
        Err(error) => {
            let is_hidden = error.kind() == io::ErrorKind::PermissionDenied;
            hidden += usize::from(is_hidden);
            !is_hidden
        }
    };
    offer(Path::new("/proc/thread-self/ns/net"));
    for process in entries(Path::new("/proc")).context("find network namespaces")? {
        if process.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()) {
            // A process may end meanwhile.
            let threads = entries(&process.join("task")).unwrap_or_default();
            // All threads of a hidden process are hidden.
            let _ = threads.iter().all(|thread| offer(&thread.join("ns/net")));
        }
    }
    for name in named() {
        offer(&name);
    }
    Ok(NamespaceSurvey { reachable: found.into_values().collect(), hidden, is_partial: !process::sees_all() })
}

/// The name of a namespace in `ip netns` or in a container engine.
pub fn name_of(inode: u32) -> Option<String> {
    named().find(|path| is_at(path, inode))?.file_name()?.to_str().map(str::to_owned)
}

/// A path by which a person can enter a namespace: that of its name, or of a process in it.
pub fn path_of(inode: u32) -> Option<PathBuf> {
    let of_processes = process::all().into_iter().map(|pid| PathBuf::from(format!("/proc/{pid}/ns/net")));
    named().chain(of_processes).find(|path| is_at(path, inode))
}

fn named() -> impl Iterator<Item = PathBuf> {
    NAMED.iter().flat_map(|place| entries(Path::new(place)).unwrap_or_default())
}

fn is_at(path: &Path, inode: u32) -> bool {
    fs::metadata(path).is_ok_and(|file| file.ino() as u32 == inode)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}
