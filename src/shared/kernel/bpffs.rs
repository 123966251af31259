//! The BPF file system, which holds pins. If none is mounted, tccc mounts one as bpftool does.
//!
//! `/proc/mounts` shows "tccc" as the source of such a mount.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::mount::{MntFlags, MsFlags};
use nix::unistd::geteuid;
use procfs::process::MountInfo;

use super::mounts::{self, Mounts};
use super::privilege::{self, Capability};
use crate::failure::Failure;

/// Where distributions mount it.
pub const USUAL_PLACE: &str = "/sys/fs/bpf";
/// Some kernels pin these in each new BPF file system.
const PRELOADED: [&str; 2] = ["maps.debug", "progs.debug"];
/// The source of our mounts in `/proc/mounts`, and the name of our folder in a BPF file system.
const OURS: &str = "tccc";
/// Without it, every user may create folders in the file system.
const PRIVATE: &str = "mode=700";

/// Where a BPF file system is mounted that this process can reach: preferably one with pins of tccc, or else the usual place.
pub fn mount() -> Option<PathBuf> {
    let places = places();
    let usual = |place: &&PathBuf| *place == Path::new(USUAL_PLACE);
    let with_pins: Vec<&PathBuf> = places.iter().filter(|place| has_our_folder(place)).collect();
    let preferred = with_pins.iter().copied().find(usual).or(with_pins.first().copied());
    preferred.or(places.iter().find(usual)).or(places.first()).cloned()
}

/// Where BPF file systems are mounted that this process can reach. Of several places of one file system, only the first.
pub fn places() -> Vec<PathBuf> {
    let mut mounts = mounts().visible;
    let mut seen = BTreeSet::new();
    mounts.retain(|mount| seen.insert(mount.majmin.clone()));
    mounts.into_iter().map(|mount| mount.mount_point).collect()
}

/// The folder of our pins in a BPF file system.
pub fn our_folder(place: &Path) -> PathBuf {
    place.join(OURS)
}

/// Whether tccc pinned something there. A folder of another user does not count.
pub fn has_our_folder(place: &Path) -> bool {
    let folder = our_folder(place);
    folder.symlink_metadata().is_ok() && check_owner(&folder).is_ok()
}

/// Refuses a folder in which another user could rename or remove our pins.
///
/// # Errors
/// Not a folder; it belongs to another user; others can write to it.
pub fn check_owner(folder: &Path) -> io::Result<()> {
    let facts = folder.symlink_metadata()?;
    let (owner, mode) = (facts.uid(), facts.mode());
    let is_sticky = mode & libc::S_ISVTX != 0;
    let why = match () {
        () if !facts.is_dir() => "it is not a folder".to_owned(),
        () if owner != 0 && owner != geteuid().as_raw() => format!("it belongs to user {owner}"),
        () if mode & 0o022 != 0 && !is_sticky => format!("others can write to it (mode {:o})", mode & 0o7777),
        () => return Ok(()),
    };
    Err(io::Error::other(why))
}

/// Checks that no BPF file system is hidden, because pins in a hidden one are neither seen nor removed.
///
/// # Errors
/// One is mounted, and another file system is mounted over it.
pub fn check_reachable() -> Result<(), Failure> {
    mounts().check_reachable("BPF file system")
}

/// Advice for pins that are in none of the file systems that this process can reach.
pub fn way_to_lost_pins() -> String {
    match mounts().hidden.first() {
        Some(place) => format!("a later mount hides a BPF file system at {}: unmount what covers it", place.display()),
        None => format!(
            "run it in the mount namespace where it was loaded: `{} tccc …` for that of the host",
            mounts::ENTER
        ),
    }
}

/// Mounts a BPF file system at the usual place if none is mounted. Returns its place.
///
/// Only one process at a time may call this, because a second mount would hide the pins of the first.
///
/// Side effects: a mount. [`unmount_ours`] removes it when nothing is pinned in it.
///
/// # Errors
/// As [`place`]; the kernel refuses.
pub fn mount_missing() -> Result<PathBuf> {
    if let Some(place) = mount() {
        return Ok(place);
    }
    let place = place()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mounted = nix::mount::mount(Some(OURS), &place, Some("bpf"), flags, Some(PRIVATE));
    mounted.map_err(|errno| {
        Failure::unmet(format!("cannot mount the BPF file system at {USUAL_PLACE}: {}", errno.desc()))
            .hint(format!("run as root, or `{}`", mount_command()))
    })?;
    Ok(place)
}

/// The command that mounts it as systemd does.
pub fn mount_command() -> String {
    format!("mount -t bpf -o {PRIVATE} bpf {USUAL_PLACE}")
}

/// Where a BPF file system is mounted, or where [`mount_missing`] would mount it.
///
/// # Errors
/// None is mounted, and this process has no right to mount one, or the mount would end with this process; another mount
/// hides it.
pub fn place() -> Result<PathBuf> {
    if let Some(place) = mount() {
        return Ok(place);
    }
    check_reachable()?;
    let usual = Path::new(USUAL_PLACE);
    if !privilege::missing(&[Capability::SysAdmin]).is_empty() || !usual.is_dir() {
        let what = format!("no BPF file system is mounted at {USUAL_PLACE}");
        let hint = format!("`{}`, or run as root: tccc then mounts it", mount_command());
        return Err(Failure::unmet(what).hint(hint).into());
    }
    mounts::check_lasting("BPF file system", usual)?;
    Ok(usual.to_owned())
}

/// What [`mount_missing`] would do. `None` if nothing.
pub fn mount_phrase() -> Option<String> {
    mount().is_none().then(|| format!("mount the BPF file system at {USUAL_PLACE}"))
}

/// Whether tccc mounted the file system at this place.
pub fn is_ours(place: &Path) -> bool {
    mounts().visible.iter().any(|mount| mount.mount_point == place && is_our_mount(mount))
}

/// Whether pins at this place end with the last process of this mount namespace. False if that is unknown.
pub fn is_private(place: &Path) -> bool {
    let is_seen = |mount: &MountInfo| mounts::is_seen_by_process_1(mount).unwrap_or(true);
    mounts().visible.iter().any(|mount| mount.mount_point == place && !is_seen(mount))
}

/// Unmounts our file systems in which nothing is pinned.
pub fn unmount_ours() {
    let is_pin = |entry: &fs::DirEntry| !PRELOADED.iter().any(|name| entry.file_name() == *name);
    let has_pin = |place: &Path| fs::read_dir(place).map(|entries| entries.flatten().any(|entry| is_pin(&entry)));
    for MountInfo { mount_point, .. } in mounts().visible.into_iter().filter(is_our_mount) {
        if matches!(has_pin(&mount_point), Ok(false)) {
            // Detached, because another process may read it. Nobody pins now.
            let _ = nix::mount::umount2(&mount_point, MntFlags::MNT_DETACH);
        }
    }
}

fn is_our_mount(mount: &MountInfo) -> bool {
    mount.mount_source.as_deref() == Some(OURS)
}

fn mounts() -> Mounts {
    Mounts::of("bpf").unwrap_or_default()
}
