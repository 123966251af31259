//! The BPF file system, which holds pins. If none is mounted, tccc mounts one as bpftool does.
//!
//! `/proc/mounts` shows "tccc" as the source of such a mount.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::mount::{MntFlags, MsFlags};
use procfs::process::{MountInfo, MountInfos};
use procfs::{FromRead, ProcResult};

use super::privilege::{self, Capability};
use crate::failure::Failure;

/// Where distributions mount it.
pub const USUAL_PLACE: &str = "/sys/fs/bpf";
/// Some kernels pin these in each new BPF file system.
const PRELOADED: [&str; 2] = ["maps.debug", "progs.debug"];
/// The source of our mounts in `/proc/mounts`.
const OURS: &str = "tccc";

/// Where a BPF file system is mounted, preferably the usual place.
pub fn mount() -> Option<PathBuf> {
    let places: Vec<PathBuf> = mounts().map(|mount| mount.mount_point).collect();
    places.iter().find(|place| *place == Path::new(USUAL_PLACE)).or(places.first()).cloned()
}

/// Mounts a BPF file system at the usual place if none is mounted. Returns its place.
///
/// Only one process at a time may call this, because a second mount would hide the pins of the first.
///
/// Errors: not permitted; the place does not exist.
/// Side effects: a mount. [`unmount_ours`] removes it when nothing is pinned in it.
pub fn mount_missing() -> Result<PathBuf> {
    if let Some(place) = mount() {
        return Ok(place);
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mounted = nix::mount::mount(Some(OURS), USUAL_PLACE, Some("bpf"), flags, Some("mode=700"));
    mounted.map_err(|errno| {
        Failure::unmet(format!("cannot mount the BPF file system at {USUAL_PLACE}: {}", errno.desc()))
            .hint(format!("run as root, or `mount -t bpf bpf {USUAL_PLACE}`"))
    })?;
    Ok(PathBuf::from(USUAL_PLACE))
}

/// Where a BPF file system is mounted, or where [`mount_missing`] would mount it.
///
/// Errors: none is mounted, and this process has no right to mount one.
pub fn place() -> Result<PathBuf> {
    let missing = || {
        Failure::unmet(format!("no BPF file system is mounted at {USUAL_PLACE}"))
            .hint(format!("`mount -t bpf bpf {USUAL_PLACE}`, or run as root: tccc then mounts it"))
    };
    let can_mount = privilege::missing(&[Capability::SysAdmin]).is_empty() && Path::new(USUAL_PLACE).is_dir();
    let usual = can_mount.then(|| PathBuf::from(USUAL_PLACE));
    mount().or(usual).ok_or_else(|| missing().into())
}

/// What [`mount_missing`] would do. `None` if nothing.
pub fn mount_phrase() -> Option<String> {
    mount().is_none().then(|| format!("mount the BPF file system at {USUAL_PLACE}"))
}

/// Whether tccc mounted the file system at this place.
pub fn is_ours(place: &Path) -> bool {
    let latest = mounts().filter(|mount| mount.mount_point == place).last();
    latest.is_some_and(|mount| mount.mount_source.as_deref() == Some(OURS))
}

/// Unmounts our file system if nothing is pinned in it.
pub fn unmount_ours() {
    let Some(place) = mount().filter(|place| is_ours(place)) else { return };
    let is_pin = |entry: &fs::DirEntry| !PRELOADED.iter().any(|name| entry.file_name() == *name);
    let is_empty = fs::read_dir(&place).is_ok_and(|entries| !entries.flatten().any(|entry| is_pin(&entry)));
    if is_empty {
        // Detached, because another process may read it. Nobody pins now.
        let _ = nix::mount::umount2(&place, MntFlags::MNT_DETACH);
    }
}

fn mounts() -> impl Iterator<Item = MountInfo> {
    mounts_of("bpf").into_iter().flatten()
}

/// The file systems of this type that this thread sees, the latest mount last.
pub(super) fn mounts_of(kind: &str) -> ProcResult<impl Iterator<Item = MountInfo>> {
    let mounts = MountInfos::from_file("/proc/thread-self/mountinfo")?.into_iter();
    Ok(mounts.filter(move |mount| mount.fs_type == kind))
}
