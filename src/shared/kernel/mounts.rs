//! The mounts that this thread sees, and whether a mount that it makes would outlive it.
//!
//! A later mount over the same path, or over a folder above it, hides a mount. The kernel still lists it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use procfs::process::{MountInfo, MountInfos, MountOptFields};
use procfs::{FromRead as _, ProcResult};

use super::process;
use crate::failure::Failure;

/// How a command enters the mounts of process 1.
pub const ENTER: &str = "nsenter --mount=/proc/1/ns/mnt";

/// The mounts of one type of file system, the latest last.
#[derive(Debug, Default)]
pub struct Mounts {
    pub visible: Vec<MountInfo>,
    /// Where one is mounted that its path does not lead to.
    pub hidden: Vec<PathBuf>,
}

impl Mounts {
    pub fn of(kind: &str) -> ProcResult<Self> {
        let mounts = own()?.into_iter().filter(|mount| mount.fs_type == kind);
        let (hidden, visible): (Vec<_>, Vec<_>) = mounts.partition(is_hidden);
        Ok(Mounts { visible, hidden: hidden.into_iter().map(|mount| mount.mount_point).collect() })
    }

    /// Refuses a host where `what` is mounted, but only where this process cannot reach it.
    pub fn check_reachable(&self, what: &str) -> Result<(), Failure> {
        let ([], Some(place)) = (self.visible.as_slice(), self.hidden.first()) else { return Ok(()) };
        let what = format!("the {what} at {} is hidden: another file system is mounted over it", place.display());
        Err(Failure::unmet(what).hint(format!("run it with the mounts of the host: `{ENTER} tccc …`")))
    }
}

fn own() -> ProcResult<MountInfos> {
    MountInfos::from_file("/proc/thread-self/mountinfo")
}

/// False also where this user has no right to look.
fn is_hidden(mount: &MountInfo) -> bool {
    match mount_id(&mount.mount_point) {
        Ok(id) => id != mount.mnt_id,
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// The id of the mount that a path leads to. No two mounts of a host have the same one, whatever their namespaces.
fn mount_id(place: &Path) -> io::Result<i32> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(place)?;
    let facts = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd()))?;
    let id = facts.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| ErrorKind::Unsupported.into())
}

/// Whether process 1 sees this file system, also at another path.
pub fn is_seen_by_process_1(mount: &MountInfo) -> io::Result<bool> {
    Ok(of_process_1()?.iter().any(|other| other.majmin == mount.majmin))
}

fn of_process_1() -> io::Result<Vec<MountInfo>> {
    let mounts = MountInfos::from_file("/proc/1/mountinfo").map_err(io::Error::other)?;
    Ok(mounts.into_iter().collect())
}

/// Refuses to mount `what` where the mount would end with the command: in a mount namespace that is not that of process 1,
/// unless the mount below reaches process 1.
///
/// # Errors
/// It would end; the mounts of process 1 cannot be read.
pub fn check_lasting(what: &str, place: &Path) -> Result<(), Failure> {
    let refuse = |why: String| {
        let hint = format!("`{ENTER} tccc …` uses the mounts of the host; or mount it there first");
        Err(Failure::unmet(format!("cannot mount the {what} at {}: {why}", place.display())).hint(hint))
    };
    if process::is_process_1_of_a_container() {
        return refuse("this command is process 1 of its PID namespace, and the mount would end with it".to_owned());
    }
    match reaches_process_1(place) {
        Ok(true) => Ok(()),
        Ok(false) => refuse(
            "this mount namespace is not that of process 1, and everything pinned there would be gone with its last \
             process"
                .to_owned(),
        ),
        Err(error) => refuse(format!("cannot tell whether it would outlive this command: {error}")),
    }
}

/// Whether a mount made at this place appears in the mount namespace of process 1: the mount that it is made on is there, or
/// passes it on to one that is.
fn reaches_process_1(place: &Path) -> io::Result<bool> {
    let below = mount_id(place)?;
    let group =
        own().map_err(io::Error::other)?.into_iter().find(|mount| mount.mnt_id == below).and_then(|it| peers(&it));
    let reaches = |mount: &MountInfo| mount.mnt_id == below || (group.is_some() && peers(mount) == group);
    let theirs = of_process_1().map_err(|error| io::Error::other(format!("read the mounts of process 1: {error}")))?;
    Ok(theirs.iter().any(reaches))
}

/// The number of the group of mounts that share their mounts.
fn peers(mount: &MountInfo) -> Option<u32> {
    mount.opt_fields.iter().find_map(|field| match field {
        MountOptFields::Shared(group) => Some(*group),
        _ => None,
    })
}
