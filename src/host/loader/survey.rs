//! Finds what tccc registered, by its records, its pins and the kernel's tables.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Result;

use crate::state::pins::Pins;
use crate::state::{Owner, Record, Store};
use shared::catalog::StateLayout;
use shared::kernel::btf::{RUNNING_KERNEL, module_types};
use shared::kernel::device::devices;
use shared::kernel::netns::Netns;
use shared::kernel::probe::Features;
use shared::kernel::process::Process;
use shared::kernel::struct_ops::{self, OpsTable};
use shared::kernel::{bpf, bpffs, congestion, process};

/// Why a registration of ours has no pin here.
pub const ELSEWHERE: &str = "its pin is not in a BPF file system that is mounted here, or a process holds its link";

/// A name that tccc registered, or was about to register.
#[derive(Debug)]
pub struct LoadedName {
    pub name: String,
    /// `None` if the record was lost.
    pub record: Option<Record>,
    pub has_link_pin: bool,
    pub has_map_pin: bool,
    pub has_companion_pin: bool,
    /// The companion program is attached to a cgroup that exists, or to network devices.
    pub is_companion_attached: bool,
    /// Devices without the companion program, which needs all of its network namespace. Empty in another namespace.
    pub devices_without: Vec<String>,
    /// `None` if the table is gone, or without the right to look at it.
    pub table: Option<OpsTable>,
    /// Sockets can choose it.
    pub is_registered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadState {
    /// Registered by a pin.
    Pinned,
    /// Registered by a running process.
    Run,
    /// Registered, but this process finds no pin of it. `tccc unload` cannot unregister it from here.
    Elsewhere,
    /// Parts that nobody needs are left. `tccc unload` removes them.
    Leftover,
}

impl LoadedName {
    pub fn standing(&self) -> LoadState {
        let is_pinned = self.has_link_pin || (self.has_map_pin && self.is_map_held());
        if self.is_receiver() {
            return if self.has_companion_pin { LoadState::Pinned } else { LoadState::Leftover };
        }
        let is_run = matches!(&self.record, Some(record) if record.owner != Owner::Pinned && record.owner.is_alive());
        match (self.is_registered, is_run, is_pinned) {
            (true, false, true) => LoadState::Pinned,
            (_, true, _) => LoadState::Run,
            _ if self.is_held_elsewhere() => LoadState::Elsewhere,
            _ => LoadState::Leftover,
        }
    }

    /// Only the companion program is loaded, because this host receives.
    pub fn is_receiver(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.receiver && record.owner == Owner::Pinned)
    }

    /// The process that wrote the record is gone.
    pub fn is_of_the_dead(&self) -> bool {
        self.record.as_ref().is_some_and(|record| !record.owner.is_alive())
    }

    /// Registered by a pin in another BPF file system, or by a process that holds the link.
    pub fn is_held_elsewhere(&self) -> bool {
        let is_ours = self.record.as_ref().is_some_and(|record| record.owner == Owner::Pinned);
        self.is_registered && is_ours && !self.has_link_pin && !self.is_map_held()
    }

    /// The record matches the registered code. False after an interrupted upgrade.
    pub fn is_as_recorded(&self) -> bool {
        let (Some(record), Some(table)) = (&self.record, &self.table) else { return true };
        let is_on_the_way = record.next.as_ref().is_some_and(|next| next.map_id == table.map_id);
        !self.has_link_pin || (record.map_id == table.map_id && !is_on_the_way)
    }

    /// The map itself is the registration, without a link.
    pub fn is_map_held(&self) -> bool {
        self.table.as_ref().is_some_and(|table| !table.by_link)
    }

    /// The algorithm's id from the record, or else the name of the kernel's map.
    pub fn algorithm(&self) -> &str {
        let map = self.table.as_ref().map_or("", |table| table.map_name.as_str());
        self.record.as_ref().map_or(map, |record| record.algorithm.as_str())
    }

    /// The process with whose end the registration ends.
    pub fn owner(&self) -> Option<Process> {
        match self.record.as_ref()?.owner {
            Owner::Process(process) => Some(process),
            Owner::Pinned => None,
        }
    }

    /// [`LoadedName::owner`] for messages, such as "pid 17".
    pub fn owner_identity(&self) -> String {
        self.owner().map(|owner| owner.identity()).unwrap_or_default()
    }
}

/// All instances on this host, sorted by name.
///
/// # Errors
/// The BPF file system is hidden, so that pins would seem to be gone.
pub fn instances(store: &Store, features: &Features) -> Result<Vec<LoadedName>> {
    bpffs::check_reachable()?;
    let available = congestion::available()?;
    let pins = Pins::of_host();
    let mut names = store.names();
    names.extend(pins.iter().flat_map(Pins::names));
    Ok(names.into_iter().map(|name| instance(name, (store, pins.as_ref()), &available, features)).collect())
}

/// `None` if the name has neither record nor pin.
///
/// # Errors
/// As [`instances`].
pub fn find(name: &str, store: &Store, features: &Features) -> Result<Option<LoadedName>> {
    bpffs::check_reachable()?;
    let available = congestion::available()?;
    let pins = Pins::of_host();
    let is_known = store.has(name) || pins.as_ref().is_some_and(|pins| pins.has(name));
    Ok(is_known.then(|| instance(name.to_owned(), (store, pins.as_ref()), &available, features)))
}

fn instance(
    name: String,
    (store, pins): (&Store, Option<&Pins>),
    available: &[String],
    features: &Features,
) -> LoadedName {
    let record = store.record(&name);
    let open = |place: fn(&Pins, &str) -> PathBuf| pins.and_then(|pins| bpf::open_pin(&place(pins, &name)).ok());
    let companions = pins.map(|pins| pins.companion_links(&name)).unwrap_or_default();
    let (link, map) = (open(Pins::link), open(Pins::map));
    let (has_link_pin, has_map_pin, has_companion_pin) = (link.is_some(), map.is_some(), !companions.is_empty());
    let attached: BTreeSet<u32> = companions.iter().filter_map(attached_device).collect();
    let netns = record.as_ref().and_then(|record| record.companion.as_ref()?.netns);
    let is_here = netns.is_some() && Netns::current().is_ok_and(|here| Some(here.inode()) == netns);
    let is_companion_attached = companions.iter().any(bpf::is_attached_to_cgroup) || !attached.is_empty();
    let linked = link.and_then(|link| struct_ops::link_target(&link).ok()).map(|target| target.map_id);
    let by_number = linked.or(record.as_ref().map(|record| record.map_id));
    let map = by_number.and_then(|id| bpf::open_map(id).ok()).or(map);
    let table = map.and_then(|map| struct_ops::table_of(map, features)).filter(|table| table.name == name);
    let is_held = linked != Some(0) && table.is_some();
    let is_registered = is_held && available.contains(&name);
    LoadedName {
        name,
        record,
        has_link_pin,
        has_map_pin,
        has_companion_pin,
        devices_without: if is_here && !attached.is_empty() { devices_besides(&attached) } else { Vec::new() },
        is_companion_attached,
        table,
        is_registered,
    }
}

fn attached_device(link: &OwnedFd) -> Option<u32> {
    bpf::device_link(link).ok().map(|link| link.device).filter(|&device| device != 0)
}

fn devices_besides(attached: &BTreeSet<u32>) -> Vec<String> {
    let all = devices().unwrap_or_default().into_iter();
    all.filter(|device| !attached.contains(&device.index)).map(|device| device.name).collect()
}

/// The record of a name with the registered code, also after an interrupted upgrade.
///
/// None: the registered code is not recorded. Without the right to look at pins, the record counts.
pub fn trusted_record(name: &str, store: &Store) -> Option<Record> {
    let record = store.record(name)?;
    let link = Pins::of_host().and_then(|pins| bpf::open_pin(&pins.link(name)).ok());
    let registered = link.and_then(|link| struct_ops::link_target(&link).ok()).map(|target| target.map_id);
    match registered {
        Some(map_id) => record.code_of(map_id).map(|code| record.with_code(code)),
        None => Some(record),
    }
}

/// The layout of the private state of the kernel's own algorithm, from the running kernel's type information.
///
/// None: the kernel has no such algorithm, no type information, or several structs of the name.
pub fn layout_in_kernel(algorithm: &str) -> Option<StateLayout> {
    let kernel = fs::read(RUNNING_KERNEL).ok()?;
    let module = fs::read(module_types(algorithm)).ok();
    StateLayout::of_kernel(algorithm, &kernel, module.as_deref())
}

/// A process with a descriptor of this map or of a link to it.
pub fn holder_of(map_id: u32) -> Option<(u32, String)> {
    let wanted = format!("map_id:\t{map_id}");
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_to_string(file.path()).ok())
            .any(|text| text.lines().any(|line| line == wanted))
    };
    let own = std::process::id();
    let pid = process::all().into_iter().filter(|&pid| pid != own).find(holds)?;
    Some((pid, process::command(pid).unwrap_or_default()))
}
