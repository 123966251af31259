//! The cgroups that exist when a policy comes: each that matters to a rule is noted by its id.
//!
//! Those made later are noted by the kernel program. A cgroup is noted before what is below it is listed: so one that is
//! made meanwhile is either listed here, or its parent is known to the kernel program.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use anyhow::Result;

use super::table::{CgroupPlace, CgroupTree};
use crate::kernel::cgroup;

/// Notes every cgroup that matters.
///
/// Errors: no cgroup v2 mount; those of `note`. A cgroup that vanishes meanwhile is left out.
pub fn fill(tree: &CgroupTree, mut note: impl FnMut(u64, CgroupPlace) -> Result<()>) -> Result<()> {
    let mount = cgroup::mount_point()?;
    let mut waiting = VecDeque::from([(mount, tree.root())]);
    while let Some((folder, place)) = waiting.pop_front() {
        let Ok(id) = fs::metadata(&folder).map(|it| it.ino()) else { continue };
        if place != CgroupPlace::default() {
            note(id, place)?;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let below = tree.place(place, &entry.file_name().to_string_lossy());
            waiting.push_back((entry.path(), below));
        }
    }
    Ok(())
}
