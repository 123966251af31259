//! The BPF file system: where pins live. It is found, never mounted, by tccc.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::failure::Failure;

/// Where distributions mount it.
pub const USUAL_PLACE: &str = "/sys/fs/bpf";

/// Where a BPF file system is mounted: the usual place if it is one, else the first.
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    let places: Vec<&str> = mounts.lines().filter_map(bpffs_place).collect();
    places.iter().find(|place| **place == USUAL_PLACE).or(places.first()).map(PathBuf::from)
}

/// Where it is mounted, as a need.
///
/// Errors: mounted nowhere.
pub fn required() -> Result<PathBuf> {
    let missing = Failure::unmet(format!("no BPF file system is mounted at {USUAL_PLACE}"))
        .hint(format!("`mount -t bpf bpf {USUAL_PLACE}`, then again"));
    mount().ok_or_else(|| missing.into())
}

/// `/proc/thread-self/mounts` lists device, place, kind.
fn bpffs_place(line: &str) -> Option<&str> {
    let mut words = line.split(' ').skip(1);
    let place = words.next()?;
    (words.next()? == "bpf").then_some(place)
}
