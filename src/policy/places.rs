//! The cgroups that exist when a policy comes: each that matters to a rule is noted by its id.
//!
//! Those made later are noted by the kernel program. A cgroup is noted before what is below it is listed: so one that is
//! made meanwhile is either listed here, or its parent is known to the kernel program.

use anyhow::Result;

use super::table::{CgroupPlace, CgroupTree};
use crate::kernel::cgroup;

/// Notes every cgroup that matters.
///
/// Errors: no cgroup v2 mount; those of `note`. A cgroup that vanishes meanwhile is left out.
pub fn fill(tree: &CgroupTree, mut note: impl FnMut(u64, CgroupPlace) -> Result<()>) -> Result<()> {
    let note = |id, place: &CgroupPlace| {
        if *place != CgroupPlace::default() {
            note(id, *place)?;
        }
        Ok(true)
    };
    cgroup::walk(tree.root(), |above, name| tree.place(*above, &name.to_string_lossy()), note)
}
