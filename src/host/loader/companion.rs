//! Companion programs: loaded with an algorithm that needs one, attached to a cgroup or to network devices, and pinned under
//! the same name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, Object, ObjectBuilder, OpenObject};

use crate::state::Attachment;
use crate::state::pins::Pins;
use shared::catalog;
use shared::failure::Failure;
use shared::kernel::bpf::{self, DeviceLink};
use shared::kernel::device::{Device, devices};
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
            let map = object.maps_mut().find(|map| wanted.map().is_some_and(|name| map.name() == OsStr::new(name)));
            let reused = map.zip(shared).map_or(Ok(()), |(mut map, fd)| map.reuse_fd(fd));
            reused.map(|()| object)
        };
        let loaded = opened.and_then(reuse).and_then(|object| object.load()).map_err(|error| {
            let last = libbpf_log::take_last(&error);
            let program = &wanted.program;
            let (kind, hint) = match wanted.is_at_egress() {
                true => ("tcx", "tcx programs need Linux 6.6 or newer"),
                false => ("sock_ops", "TCP header options for sock_ops programs need Linux 5.10 or newer"),
            };
            let what = format!("the kernel refuses its companion program \"{program}\" ({kind}): {last}");
            refuse(Failure::unmet(what).hint(hint))
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

    /// Attaches the program for as long as the links are held or pinned.
    ///
    /// Side effects: the program runs for every new TCP socket in the cgroup, or every packet that leaves by a device.
    ///
    /// # Errors
    /// No such cgroup; not permitted; the kernel refuses.
    pub fn attach(&self, place: &Attachment) -> Result<Vec<CompanionLink>> {
        let program = self.program()?;
        let Some(cgroup) = &place.cgroup else { return self.attach_to_devices(&program, &BTreeSet::new()) };
        let folder = File::open(cgroup).with_context(|| format!("open the cgroup {}", cgroup.display()))?;
        let link = bpf::attach_sock_ops(&program, &folder);
        let link = link.with_context(|| format!("attach \"{}\" to {}", self.program, place.place()))?;
        Ok(vec![CompanionLink { device: None, link }])
    }

    /// Attaches the program to the devices that no link of `present` covers.
    fn attach_to_devices(&self, program: &OwnedFd, present: &BTreeSet<u32>) -> Result<Vec<CompanionLink>> {
        let mut made = Vec::new();
        for Device { index, name } in devices()?.into_iter().filter(|device| !present.contains(&device.index)) {
            match bpf::attach_to_egress(program, index) {
                Ok(link) => made.push(CompanionLink { device: Some(index), link }),
                Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => {} // it vanished meanwhile
                Err(error) => {
                    return Err(error).with_context(|| format!("attach \"{}\" to the egress of {name}", self.program));
                }
            }
        }
        Ok(made)
    }

    /// Puts the program in the place of an earlier one at the devices, and at those that appeared since.
    ///
    /// # Errors
    /// As [`LoadedCompanion::attach`].
    pub fn renew(&self, pins: &Pins, name: &str) -> Result<Vec<CompanionLink>> {
        let program = self.program()?;
        let mut present = BTreeSet::new();
        for link in pins.companion_links(name) {
            let Ok(DeviceLink { program: earlier, device: device @ 1.. }) = bpf::device_link(&link) else { continue };
            bpf::replace_program(&link, &program, &bpf::open_program(earlier)?)
                .context("replace the earlier companion")?;
            present.insert(device);
        }
        self.attach_to_devices(&program, &present)
    }
}

/// One attachment of a companion.
#[derive(Debug)]
pub struct CompanionLink {
    /// Index of the device. `None` for a cgroup.
    pub device: Option<u32>,
    pub link: OwnedFd,
}

impl CompanionLink {
    /// Pins it under the name of its algorithm. Returns the pin.
    ///
    /// # Errors
    /// Not permitted; the pin exists.
    pub fn pin(&self, pins: &Pins, name: &str) -> Result<PathBuf> {
        let place = match self.device {
            None => pins.companion(name),
            Some(device) => pins.companion_at(name, device)?,
        };
        bpf::remove_pin(&place)?;
        bpf::pin(&self.link, &place)?;
        Ok(place)
    }
}
