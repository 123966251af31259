//! cgroups of a test: created below the cgroup v2 mount, joined for a while, removed at the end.

use std::fs;
use std::path::{Path, PathBuf};

use tccc::kernel::cgroup;

use crate::common::{SOON, poll_until};

/// A cgroup, removed with everything below it when dropped.
#[derive(Debug)]
pub struct TestCgroup {
    path: PathBuf,
    /// The topmost folder of `path` below the mount.
    root: PathBuf,
}

impl TestCgroup {
    /// Creates the cgroup at a path below the mount, for example `/ldk_tccc.slice/a.service`.
    pub fn create(below: &str) -> Self {
        let mount = cgroup::mount_point().unwrap();
        let path = mount.join(below.trim_start_matches('/'));
        let first = Path::new(below.trim_start_matches('/')).iter().next().expect("a name");
        fs::create_dir_all(&path).unwrap();
        TestCgroup { path, root: mount.join(first) }
    }

    pub fn id(&self) -> u64 {
        cgroup::find(&self.path).unwrap()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `work` with this process in the cgroup. Sockets that it creates belong to the cgroup.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _return = Home::of_this_process();
        join(&self.path);
        work()
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        remove(&self.root);
    }
}

/// Removes a cgroup with everything below it, after the last ended process in it was reaped.
pub fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    poll_until(SOON, "the cgroup is empty", || fs::remove_dir(path).is_ok() || !path.exists());
}

pub fn join(path: &Path) {
    fs::write(path.join("cgroup.procs"), "0").unwrap();
}

/// The cgroup of this process, to which it returns when this is dropped.
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
