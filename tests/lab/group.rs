//! cgroups of a test: made below the cgroup v2 mount, joined for a while, removed at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tccc::kernel::cgroup;

use crate::common::poll_until;

/// How long processes may take to leave a cgroup on a busy host.
const SOON: Duration = Duration::from_secs(30);

/// A cgroup with everything below it; removed when dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// The uppermost folder that was made for it.
    root: PathBuf,
}

impl Group {
    /// Makes the cgroup at a path below the mount: `/ldk_tccc.slice/a.service`.
    pub fn create(below: &str) -> Self {
        let mount = cgroup::mount_point().unwrap();
        let path = mount.join(below.trim_start_matches('/'));
        let first = Path::new(below.trim_start_matches('/')).iter().next().expect("a name");
        fs::create_dir_all(&path).unwrap();
        Group { path, root: mount.join(first) }
    }

    /// The kernel's id of it.
    pub fn id(&self) -> u64 {
        cgroup::find(&self.path).unwrap()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Works with this process in the cgroup: sockets made meanwhile belong to it.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let home = Home::of_this_process();
        join(&self.path);
        let done = work();
        drop(home); // also after a panic
        done
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

/// Removes a cgroup with all below it, once the last process that ended in it is collected.
pub fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    poll_until(SOON, "the cgroup is empty", || fs::remove_dir(path).is_ok() || !path.exists());
}

/// Moves this process into a cgroup.
pub fn join(path: &Path) {
    fs::write(path.join("cgroup.procs"), "0").unwrap();
}

/// The cgroup to which this process goes back.
struct Home(PathBuf);

impl Home {
    fn of_this_process() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).expect("a cgroup of version 2");
        Home(cgroup::mount_point().unwrap().join(own))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        join(&self.0);
    }
}
