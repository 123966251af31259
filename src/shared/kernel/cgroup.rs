//! Looks up cgroups by path and id, and creates those of runs.
//!
//! The cgroup of a run is named after its process. Once the process is dead, a later command removes the cgroup.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::mounts::Mounts;
use super::process::Process;
use crate::failure::Failure;
use crate::kernel::io_error;
use crate::poll::{POLL_INTERVAL, poll};

/// Folder of all our cgroups under the mount.
const OURS: &str = "tccc";
/// The root of the cgroups has it, whatever the namespace in which it is looked at.
const ROOT_INODE: u64 = 1;
/// A killed child leaves its cgroup within this time.
const EMPTY_WITHIN: Duration = Duration::from_secs(2);

/// Removed when dropped.
#[derive(Debug)]
pub struct RunCgroup {
    path: PathBuf,
}

impl RunCgroup {
    /// Creates a cgroup, after removing those of dead processes.
    ///
    /// # Errors
    /// Cgroup v2 is not mounted; not permitted.
    pub fn create() -> Result<Self> {
        let ours = mount_point()?.join(OURS);
        sweep_stale()?;
        let own = Process::this().ok_or_else(|| anyhow!("read the start time of this process from /proc"))?;
        let name = (0..).map(|n| name_for(&own, n));
        for path in name.map(|name| ours.join(name)) {
            // Another process may remove the parent in between, because its last run ended.
            match fs::create_dir_all(&ours).and_then(|()| fs::create_dir(&path)) {
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => continue,
                other => other.with_context(|| format!("create the cgroup \"{}\"", path.display()))?,
            }
            return Ok(RunCgroup { path });
        }
        unreachable!("the numbers do not end")
    }

    /// A process joins by writing `0` to this file.
    pub fn joining_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunCgroup {
    fn drop(&mut self) {
        // A later command removes what cannot be removed now.
        let _ = remove_when_empty(&self.path);
        if let Some(ours) = self.path.parent() {
            let _ = fs::remove_dir(ours);
        }
    }
}

/// Paths of cgroups that dead processes left. Empty without cgroup v2.
///
/// # Errors
/// The cgroup v2 mount cannot be read.
pub fn stale() -> Result<Vec<PathBuf>> {
    let Ok(ours) = mount_point().map(|mount| mount.join(OURS)) else { return Ok(Vec::new()) };
    let entries = match fs::read_dir(&ours) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("list \"{}\"", ours.display()))?,
    };
    let names = entries.filter_map(|entry| entry.ok()).map(|entry| (entry.path(), entry.file_name()));
    let stale = names.filter(|(_, name)| owner(&name.to_string_lossy()).is_some_and(|owner| !owner.lives()));
    Ok(stale.map(|(path, _)| path).collect())
}

/// Removes and returns what [`stale`] finds.
///
/// # Errors
/// Not permitted; a process is still inside one.
pub fn sweep_stale() -> Result<Vec<PathBuf>> {
    let stale = stale()?;
    for path in &stale {
        remove_when_empty(path)?;
    }
    if let Ok(mount) = mount_point() {
        let _ = fs::remove_dir(mount.join(OURS)); // fails while live runs have theirs in it
    }
    Ok(stale)
}

/// Where cgroup v2 is mounted, which differs between distributions. Preferably the root of this host's cgroups, or else a
/// cgroup below it, as in a container.
///
/// # Errors
/// It is not mounted; another mount hides it.
pub fn mount_point() -> Result<PathBuf> {
    let mounts = Mounts::of("cgroup2").context("read the mounts of this process")?;
    mounts.check_reachable("cgroup v2 file system")?;
    let places: Vec<PathBuf> = mounts.visible.into_iter().map(|mount| mount.mount_point).collect();
    places.iter().find(|place| is_root(place)).or(places.first()).cloned().ok_or_else(|| {
        let hint = "mount it: `mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified`";
        Failure::unmet("cgroup v2 is not mounted, and programs for sockets need it").hint(hint).into()
    })
}

/// The mount of the root of this host's cgroups. What is attached there reaches every socket.
///
/// # Errors
/// Cgroup v2 is not mounted; only a cgroup below the root is mounted, as in a container.
pub fn root() -> Result<PathBuf> {
    let mount = mount_point()?;
    if !is_root(&mount) {
        let place = mount.display();
        let what = format!("{place} is not the root of this host's cgroups: only processes below it would be reached");
        let hint = "run it in the cgroups of the host: `nsenter --target=1 --cgroup --mount tccc …`";
        return Err(Failure::unmet(what).hint(hint).into());
    }
    Ok(mount)
}

/// Whether a folder is the root of this host's cgroups. False if it cannot be looked at.
pub fn is_root(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|facts| facts.ino() == ROOT_INODE)
}

/// The frozen cgroup that stops a process: its own or an ancestor. `None` also for a process that is gone.
pub fn frozen(pid: u32) -> Option<PathBuf> {
    let mount = mount_point().ok()?;
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let inside = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = mount.join(inside);
    let is_frozen = |folder: &&Path| fs::read_to_string(folder.join("cgroup.freeze")).is_ok_and(|it| it.trim() == "1");
    folder.ancestors().take_while(|above| above.starts_with(&mount)).find(is_frozen).map(Path::to_owned)
}

/// The kernel's id of a cgroup. `path` is absolute, or relative to the mount.
///
/// # Errors
/// Cgroup v2 is not mounted; no such cgroup.
pub fn find(path: &Path) -> Result<u64> {
    let whole = resolve(path)?;
    Ok(fs::metadata(&whole).with_context(|| format!("look at the cgroup {}", whole.display()))?.ino())
}

/// The absolute path of a cgroup. `path` is absolute, or relative to the mount.
///
/// # Errors
/// Cgroup v2 is not mounted; no such cgroup.
pub fn resolve(path: &Path) -> Result<PathBuf> {
    let mount = mount_point()?;
    let inside = path.strip_prefix(&mount).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let whole = mount.join(inside);
    fs::metadata(whole.join("cgroup.procs")).map_err(|_| {
        let what = format!("no cgroup \"{}\" under the cgroup v2 mount {}", path.display(), mount.display());
        Failure::usage(what).hint("`systemd-cgls` shows them; give the path below the mount, such as system.slice")
    })?;
    Ok(whole)
}

/// Ids of cgroups with their paths relative to the mount. `/` is the root.
///
/// Shape: parents before their children; at most `limit`.
///
/// # Errors
/// Cgroup v2 is not mounted.
pub fn paths(limit: usize) -> Result<Vec<(u64, String)>> {
    let mut found = Vec::new();
    let take = |id, path: &PathBuf| {
        found.push((id, path.display().to_string()));
        Ok(found.len() < limit)
    };
    walk(PathBuf::from("/"), |above, name| above.join(name), take)?;
    Ok(found)
}

/// Visits every cgroup by its id until `visit` returns false. A parent is visited before its children are listed.
///
/// `below` computes the value of a cgroup from its parent's value and its name. A cgroup that vanishes meanwhile is left
/// out.
///
/// # Errors
/// Cgroup v2 is not mounted; those of `visit`.
pub fn walk<T>(root: T, below: impl Fn(&T, &OsStr) -> T, mut visit: impl FnMut(u64, &T) -> Result<bool>) -> Result<()> {
    let mut waiting = VecDeque::from([(mount_point()?, root)]);
    while let Some((folder, known)) = waiting.pop_front() {
        let Ok(id) = fs::metadata(&folder).map(|it| it.ino()) else { continue };
        if !visit(id, &known)? {
            break;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(folders.map(|entry| (entry.path(), below(&known, &entry.file_name()))));
    }
    Ok(())
}

/// Removes a cgroup. Retries, because this works only a moment after the cgroup's last process died.
fn remove_when_empty(path: &Path) -> Result<()> {
    let mut removed = Ok(());
    poll(EMPTY_WITHIN, POLL_INTERVAL, || {
        removed = io_error::accept(ErrorKind::NotFound, fs::remove_dir(path));
        removed.is_ok()
    });
    removed.with_context(|| format!("remove the cgroup \"{}\"", path.display()))
}

/// `run-PID-STARTED-PIDNAMESPACE-NUMBER`.
fn name_for(owner: &Process, number: u32) -> String {
    let namespace = owner.pid_namespace.map_or(String::new(), |inode| format!("{inode}-"));
    format!("run-{}-{namespace}{number}", owner.owner_text())
}

/// The process in the name of a run's cgroup. Earlier versions left out its PID namespace.
fn owner(name: &str) -> Option<Process> {
    let parts: Vec<u64> = name.strip_prefix("run-")?.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (pid, started, pid_namespace) = match parts[..] {
        [pid, started, _] => (pid, started, None),
        [pid, started, inode, _] => (pid, started, Some(inode)),
        _ => return None,
    };
    Some(Process { pid: pid.try_into().ok()?, started, pid_namespace })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_process() {
        let own = Process::this().unwrap();
        assert_eq!(owner(&name_for(&own, 0)), Some(own));
        assert_eq!(owner("run-7-50-0"), Some(Process { pid: 7, started: 50, pid_namespace: None }));
        assert_eq!(owner("another"), None);
    }
}
