//! Every network namespace of this host that can be entered.
//!
//! Found by the threads that live in one and by the names of `ip netns` and of container engines. A namespace that
//! only a file descriptor holds, with no thread in it, cannot be found.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::netns::Netns;

/// Where namespaces are kept by name.
const NAMED: [&str; 2] = ["/run/netns", "/run/docker/netns"];

/// The namespaces of a host, as of the moment they were looked for.
#[derive(Debug)]
pub struct NamespaceSurvey {
    /// Shape: one per namespace, ascending inode.
    pub reachable: Vec<Netns>,
    /// Processes and names whose namespace this process may not look at: not all of its capabilities are theirs.
    pub hidden: usize,
}

/// Looks for every network namespace of this host.
///
/// Errors: /proc is not mounted.
pub fn all() -> Result<NamespaceSurvey> {
    let mut search = Search::default();
    search.offer(Path::new("/proc/thread-self/ns/net"));
    for process in entries(Path::new("/proc")).context("look for network namespaces")? {
        if process.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()) {
            // A process may end while it is looked at.
            let threads = entries(&process.join("task")).unwrap_or_default();
            // A process that is hidden is so in all its threads.
            let _ = threads.iter().all(|thread| search.offer(&thread.join("ns/net")));
        }
    }
    for place in NAMED {
        for name in entries(Path::new(place)).unwrap_or_default() {
            search.offer(&name);
        }
    }
    Ok(NamespaceSurvey { reachable: search.found.into_values().collect(), hidden: search.hidden })
}

#[derive(Default)]
struct Search {
    found: BTreeMap<u32, Netns>,
    hidden: usize,
}

impl Search {
    /// Opens the namespace behind a path, unless it is found already or gone; false where it may not be looked at.
    fn offer(&mut self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        match fs::metadata(path) {
            Ok(file) if self.found.contains_key(&(file.ino() as u32)) => {}
            Ok(_) => {
                if let Ok(netns) = Netns::open(path) {
                    self.found.insert(netns.inode(), netns);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.hidden += 1;
                return false;
            }
            Err(_) => {}
        }
        true
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}
