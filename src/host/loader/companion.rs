//! Companion programs: loaded with an algorithm that needs one, attached to a cgroup, and pinned under the same name.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, Object, ObjectBuilder, OpenObject};

use shared::catalog;
use shared::failure::Failure;
use shared::kernel::libbpf_log;

/// A companion program that the kernel has verified, and that is not attached yet.
#[derive(Debug)]
pub struct LoadedCompanion {
    object: Object,
    program: String,
}

impl LoadedCompanion {
    /// `shared`: the map of an earlier companion that this one replaces.
    ///
    /// # Errors
    /// This binary has no such program; the kernel refuses it; the map has another form.
    pub fn verify(wanted: &catalog::Companion, name: &str, shared: Option<BorrowedFd>) -> Result<Self> {
        let refuse = |why: Failure| Failure { what: format!("cannot load \"{name}\": {}", why.what), ..why };
        let bytes = wanted.object().map_err(refuse)?;
        libbpf_log::start();
        let opened = ObjectBuilder::default().name(&wanted.program)?.open_memory(bytes);
        let reuse = |mut object: OpenObject| {
            let map = object.maps_mut().find(|map| map.name() == OsStr::new(&wanted.map));
            let reused = map.zip(shared).map_or(Ok(()), |(mut map, fd)| map.reuse_fd(fd));
            reused.map(|()| object)
        };
        let loaded = opened.and_then(reuse).and_then(|object| object.load()).map_err(|error| {
            let last = libbpf_log::take_last(&error);
            let program = &wanted.program;
            let what = format!("the kernel refuses its companion program \"{program}\" (sock_ops): {last}");
            refuse(Failure::unmet(what).hint("TCP header options for sock_ops programs need Linux 5.10 or newer"))
        });
        Ok(LoadedCompanion { object: loaded?, program: wanted.program.clone() })
    }

    pub fn map(&self, name: &str) -> Result<OwnedFd> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.with_context(|| format!("find the map {name} of the companion program"))?;
        Ok(map.as_fd().try_clone_to_owned()?)
    }

    pub fn program(&self) -> Result<OwnedFd> {
        let program = self.object.progs().next().context("find the companion's program")?;
        Ok(program.as_fd().try_clone_to_owned()?)
    }

    /// Attaches the program to a cgroup for as long as the link is held or pinned.
    ///
    /// Side effects: the program runs for every new TCP socket in the cgroup.
    ///
    /// # Errors
    /// No such cgroup; not permitted; the kernel refuses.
    pub fn attach(&mut self, cgroup: &Path) -> Result<OwnedFd> {
        let folder = File::open(cgroup).with_context(|| format!("open the cgroup {}", cgroup.display()))?;
        let program = self.object.progs_mut().next().context("find the companion's program")?;
        let link = program.attach_cgroup(folder.as_fd().as_raw_fd());
        let link = link.with_context(|| format!("attach \"{}\" to the cgroup {}", self.program, cgroup.display()))?;
        Ok(link.as_fd().try_clone_to_owned()?)
    }
}
