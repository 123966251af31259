//! Congestion control tables in the kernel, whoever registered them. Each is a BPF map.
//!
//! The map's value has the algorithm's name and the program id of each callback.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};

use super::bpf::{self, checked, link_info, map_info, open_map, open_program, owned, program_info, text};
use super::probe::Features;

/// Bytes of a name with its closing zero: the kernel's TCP_CA_NAME_MAX.
const NAME_BYTES: usize = 16;

/// Offset of the kernel's `enum bpf_struct_ops_state` in the value.
const STATE_AT: usize = 4;
const STATE_TO_BE_FREED: u32 = 2;
/// The kernel's TCP_CONG_NEEDS_ECN.
const NEEDS_ECN: u32 = 2;
/// The kernel's own algorithms that want ECN. The kernel does not show this flag of a module (net/ipv4/tcp_dctcp.c).
const KERNEL_WANTS_ECN: [&str; 2] = ["dctcp", "dctcp-reno"];

#[derive(Debug)]
pub struct OpsTable {
    pub map: OwnedFd,
    pub map_id: u32,
    /// The variable in the source, usually the algorithm's id.
    pub map_name: String,
    /// The algorithm's name in the kernel.
    pub name: String,
    /// A link holds the registration. Otherwise the map does.
    pub by_link: bool,
    /// The kernel's flag TCP_CONG_NEEDS_ECN.
    pub wants_ecn: bool,
    /// Callback to id of its program.
    pub programs: BTreeMap<String, u32>,
}

/// The cost of one program. Calls are counted only while the kernel's BPF statistics are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramCost {
    /// Instructions that the verifier processed. 0 if the kernel does not show it.
    pub verified_instructions: u32,
    pub calls: u64,
    /// Time in those calls.
    pub nanoseconds: u64,
}

/// # Errors
/// Not permitted to list maps (needs CAP_SYS_ADMIN).
pub fn tables(features: &Features) -> Result<Vec<OpsTable>> {
    let table = |id| open_map(id).ok().and_then(|map| table_of(map, features));
    bpf::look_at(libbpf_sys::bpf_map_get_next_id, table).context("list the kernel's BPF maps")
}

/// Whether an algorithm has the flag TCP_CONG_NEEDS_ECN.
pub fn wants_ecn(tables: &[OpsTable], name: &str) -> bool {
    match tables.iter().find(|table| table.name == name) {
        Some(table) => table.wants_ecn,
        None => KERNEL_WANTS_ECN.contains(&name),
    }
}

/// `None` if it is another kind of map, or was never filled.
pub fn table_of(map: OwnedFd, features: &Features) -> Option<OpsTable> {
    let info = map_info(&map).ok()?;
    let value = (info.type_ == libbpf_sys::BPF_MAP_TYPE_STRUCT_OPS).then(|| map_value(&map, &info).ok())??;
    let name_at = features.slots.get("name")?.offset;
    let name = text(value.get(name_at..name_at + NAME_BYTES)?);
    let word = |at: usize| value.get(at..at + 4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
    if name.is_empty() || word(STATE_AT)? == STATE_TO_BE_FREED {
        return None;
    }
    let callbacks = features.slots.iter().filter(|(_, slot)| slot.parameters.is_some());
    let programs = callbacks.filter_map(|(name, slot)| Some((name.clone(), word(slot.offset).filter(|&id| id != 0)?)));
    Some(OpsTable {
        map_id: info.id,
        map_name: text(&info.name.map(|byte| byte as u8)),
        name,
        by_link: info.map_flags & libbpf_sys::BPF_F_LINK != 0,
        wants_ecn: features.slots.get("flags").and_then(|slot| word(slot.offset)).is_some_and(|it| it & NEEDS_ECN != 0),
        programs: programs.collect(),
        map,
    })
}

/// # Errors
/// The descriptor is not a link of the struct_ops kind.
pub fn link_target(link: &OwnedFd) -> Result<LinkTarget> {
    let info = link_info(link).context("ask what a link registers")?;
    anyhow::ensure!(info.type_ == libbpf_sys::BPF_LINK_TYPE_STRUCT_OPS, "the link is not of the struct_ops kind");
    // SAFETY: the kernel filled this arm of the union, as its type says.
    let map_id = unsafe { info.__bindgen_anon_1.struct_ops.map_id };
    Ok(LinkTarget { link_id: info.id, map_id })
}

/// # Errors
/// Not permitted to list links (needs CAP_SYS_ADMIN).
pub fn links() -> Result<Vec<LinkTarget>> {
    bpf::look_at_links(|link| link_target(&link).ok()).context("list the kernel's BPF links")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkTarget {
    pub link_id: u32,
    /// Id of the registered map. 0 once the link is detached.
    pub map_id: u32,
}

/// Removes a registration that the map itself holds.
///
/// Side effects: the algorithm can no longer be chosen; sockets that have it keep it.
///
/// # Errors
/// Not permitted. An unregistered map is no error.
pub fn delete_registration(map: &OwnedFd) -> Result<()> {
    let key = 0u32;
    // SAFETY: the descriptor is open and the key is the four bytes that such a map takes.
    let answer = unsafe { libbpf_sys::bpf_map_delete_elem(map.as_raw_fd(), (&raw const key).cast()) };
    if answer == -nix::libc::ENOENT || answer == -nix::libc::EINPROGRESS {
        return Ok(());
    }
    checked(answer).context("unregister the algorithm")
}

/// Points a link to another table with the same name.
///
/// Side effects: new sockets get the new code; sockets that have the old code keep it.
///
/// # Errors
/// The link points to another table than `expected`; the kernel cannot swap code; the new table has another name or was
/// never filled.
pub fn update_link(link: &OwnedFd, map: &OwnedFd, expected: &OwnedFd) -> Result<()> {
    let expected = expected.as_raw_fd() as u32;
    let options = libbpf_sys::bpf_link_update_opts { old_map_fd: expected, ..Default::default() };
    bpf::update_link(link, map, options).context("point the link to other code")
}

/// Keeps the kernel's BPF statistics on until it is dropped or the process ends.
#[derive(Debug)]
pub struct Statistics {
    _descriptor: OwnedFd,
}

impl Statistics {
    /// Makes the kernel count calls and time of every program.
    ///
    /// Side effects: each call of a program reads the clock twice.
    ///
    /// # Errors
    /// Not permitted (needs CAP_SYS_ADMIN); a kernel before 5.8.
    pub fn begin() -> Result<Statistics> {
        // SAFETY: the call takes a plain number.
        let descriptor = owned(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) });
        Ok(Statistics { _descriptor: descriptor.context("have the kernel count the time of BPF programs")? })
    }
}

/// # Errors
/// No program has this id; not permitted.
pub fn program_cost(id: u32) -> Result<ProgramCost> {
    cost_of(&open_program(id)?)
}

/// # Errors
/// The descriptor is of no BPF object.
pub fn cost_of(program: &impl AsRawFd) -> Result<ProgramCost> {
    let info = program_info(program).context("ask for the cost of a BPF program")?;
    Ok(ProgramCost { verified_instructions: info.verified_insns, calls: info.run_cnt, nanoseconds: info.run_time_ns })
}

/// The value of a map with one entry.
fn map_value(map: &OwnedFd, info: &libbpf_sys::bpf_map_info) -> io::Result<Vec<u8>> {
    let key = 0u32;
    let mut value = vec![0u8; info.value_size as usize];
    // SAFETY: key and value are as long as the map says and outlive the call.
    checked(unsafe {
        libbpf_sys::bpf_map_lookup_elem(map.as_raw_fd(), (&raw const key).cast(), value.as_mut_ptr().cast())
    })?;
    Ok(value)
}
