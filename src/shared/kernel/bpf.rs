//! Ids, descriptors, pins and links of BPF objects.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::io_error;
use crate::poll::poll;

/// # Errors
/// No map has this id; not permitted.
pub fn open_map(id: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes a plain number.
    owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id(id) }).with_context(|| format!("open BPF map {id}"))
}

/// # Errors
/// Nothing is pinned there; not permitted.
pub fn open_pin(path: &Path) -> Result<OwnedFd> {
    let text = CString::new(path.as_os_str().as_bytes()).context("pass the path of a pin")?;
    // SAFETY: the string ends with a zero and outlives the call.
    owned(unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) }).with_context(|| format!("open the pin {}", path.display()))
}

/// Pins a map, program or link.
///
/// Side effects: the object lives until the file is removed.
///
/// # Errors
/// Something is pinned there; no such folder; not a BPF file system; not permitted.
pub fn pin(object: &OwnedFd, path: &Path) -> Result<()> {
    let text = CString::new(path.as_os_str().as_bytes()).context("pass the path of a pin")?;
    // SAFETY: the descriptor is open, the string ends with a zero and outlives the call.
    checked(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), text.as_ptr()) })
        .with_context(|| format!("pin at {}", path.display()))
}

/// Removes a pin. A missing one is no error.
///
/// # Errors
/// Not permitted; the BPF file system is read-only.
pub fn remove_pin(path: &Path) -> Result<()> {
    io_error::remove_file(path).with_context(|| format!("remove the pin {}", path.display()))
}

/// # Errors
/// The descriptor is of no BPF object.
pub fn map_id(map: &OwnedFd) -> Result<u32> {
    Ok(map_info(map).context("ask for the number of a map")?.id)
}

/// Waits up to `limit` until the kernel has freed a map that nothing holds.
///
/// It never opens the map. Linux clears an array of programs in the background once its last descriptor is closed. An
/// array that is reopened meanwhile is never freed (`prog_array_map_clear`, kernel/bpf/arraymap.c).
pub fn await_map_gone(id: u32, limit: Duration) {
    let is_there = || {
        let mut next = 0;
        // SAFETY: the call writes one number.
        let answer = unsafe { libbpf_sys::bpf_map_get_next_id(id.saturating_sub(1), &raw mut next) };
        answer == 0 && next == id
    };
    poll(limit, Duration::from_millis(1), || !is_there());
}

/// # Errors
/// No program has this id; not permitted.
pub fn open_program(id: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes a plain number.
    owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) }).with_context(|| format!("open BPF program {id}"))
}

/// The map of this name that a program uses. `None` also without the right to look at it.
pub fn map_of_program(program: &OwnedFd, name: &str) -> Option<OwnedFd> {
    const MOST: usize = 64;
    let mut ids = [0u32; MOST];
    // `ids` has room for that many ids and outlives the call.
    let room =
        libbpf_sys::bpf_prog_info { nr_map_ids: MOST as u32, map_ids: ids.as_mut_ptr() as u64, ..Default::default() };
    let info = info(libbpf_sys::bpf_prog_get_info_by_fd, program, room).ok()?;
    let maps = ids[..MOST.min(info.nr_map_ids as usize)].iter().filter_map(|&id| open_map(id).ok());
    // The kernel keeps fifteen characters of a name.
    let is_it = |map: &OwnedFd| map_info(map).is_ok_and(|info| name.starts_with(&text(&info.name.map(|it| it as u8))));
    maps.into_iter().find(is_it)
}

/// The text before the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// # Errors
/// The descriptor is of no BPF object.
pub fn program_id(program: &impl AsRawFd) -> Result<u32> {
    Ok(program_info(program).context("ask for the number of a program")?.id)
}

/// `None` also without the right to look at the program.
pub fn program_name(id: u32) -> Option<String> {
    let info = program_info(&open_program(id).ok()?).ok()?;
    Some(text(&info.name.map(|byte| byte as u8)))
}

/// # Errors
/// The descriptor is not a link to a cgroup.
pub fn cgroup_link(link: &OwnedFd) -> Result<CgroupLink> {
    let info = link_info(link).context("ask what a link attaches")?;
    anyhow::ensure!(info.type_ == libbpf_sys::BPF_LINK_TYPE_CGROUP, "the link is not to a cgroup");
    // SAFETY: the kernel filled this arm of the union, as its type says.
    let cgroup = unsafe { info.__bindgen_anon_1.cgroup.cgroup_id };
    Ok(CgroupLink { program: info.prog_id, cgroup })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupLink {
    /// Id of the program.
    pub program: u32,
    /// Id of the cgroup. 0 once the link is detached or the cgroup is gone.
    pub cgroup: u64,
}

/// Attaches a sock_ops program to a cgroup for as long as the link is held or pinned.
///
/// Side effects: the program runs for the TCP sockets of the cgroup and of all cgroups below it.
///
/// # Errors
/// A program that is attached there allows no others; not permitted.
pub fn attach_sock_ops(program: &OwnedFd, cgroup: &File) -> io::Result<OwnedFd> {
    let kind = libbpf_sys::BPF_CGROUP_SOCK_OPS;
    // SAFETY: both descriptors are open; null options mean none.
    owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), cgroup.as_raw_fd(), kind, std::ptr::null()) })
}

/// Attaches a tc program to the egress of a network device for as long as the link is held or pinned.
///
/// Side effects: the program runs for every packet that leaves by the device.
///
/// # Errors
/// No such device; a kernel before 6.6; not permitted.
pub fn attach_to_egress(program: &OwnedFd, device: u32) -> io::Result<OwnedFd> {
    let kind = libbpf_sys::BPF_TCX_EGRESS;
    // SAFETY: the descriptor is open, and the kernel takes the number of a device here; null options mean none.
    owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), device as i32, kind, std::ptr::null()) })
}

/// # Errors
/// The descriptor is not a link to a network device.
pub fn device_link(link: &OwnedFd) -> Result<DeviceLink> {
    let info = link_info(link).context("ask what a link attaches")?;
    anyhow::ensure!(info.type_ == libbpf_sys::BPF_LINK_TYPE_TCX, "the link is not to a network device");
    // SAFETY: the kernel filled this arm of the union, as its type says.
    let device = unsafe { info.__bindgen_anon_1.tcx.ifindex };
    Ok(DeviceLink { program: info.prog_id, device })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLink {
    /// Id of the program.
    pub program: u32,
    /// Index of the device. 0 once the link is detached or the device is gone.
    pub device: u32,
}

/// Replaces the program that a link attaches. Each call runs either the old or the new program.
///
/// # Errors
/// The link attaches another program than `expected`; it is detached.
pub fn replace_program(link: &OwnedFd, program: &OwnedFd, expected: &OwnedFd) -> io::Result<()> {
    let expected = expected.as_raw_fd() as u32;
    update_link(link, program, libbpf_sys::bpf_link_update_opts { old_prog_fd: expected, ..Default::default() })
}

/// Points a link to another program or map. `options` has the one that is expected there now.
pub(super) fn update_link(
    link: &OwnedFd,
    to: &OwnedFd,
    mut options: libbpf_sys::bpf_link_update_opts,
) -> io::Result<()> {
    options.sz = size_of::<libbpf_sys::bpf_link_update_opts>() as libbpf_sys::size_t;
    options.flags = libbpf_sys::BPF_F_REPLACE;
    // SAFETY: the descriptors are open; the options outlive the call.
    checked(unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), to.as_raw_fd(), &raw const options) })
}

/// The sock_ops programs of a cgroup, without those of its ancestors.
///
/// # Errors
/// Not a cgroup v2; not permitted.
pub fn sock_ops_of(cgroup: &File) -> io::Result<AttachedPrograms> {
    const MOST: usize = 64; // the kernel's BPF_CGROUP_MAX_PROGS
    let mut ids = [0u32; MOST];
    let (mut count, mut flags) = (MOST as u32, 0u32);
    let kind = libbpf_sys::BPF_CGROUP_SOCK_OPS;
    // SAFETY: the descriptor is open; `ids` has room for `count` numbers, and all three outlive the call.
    checked(unsafe {
        libbpf_sys::bpf_prog_query(cgroup.as_raw_fd(), kind, 0, &raw mut flags, ids.as_mut_ptr(), &raw mut count)
    })?;
    let allows_others = count == 0 || flags & libbpf_sys::BPF_F_ALLOW_MULTI != 0;
    Ok(AttachedPrograms { ids: ids[..count as usize].to_vec(), allows_others })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPrograms {
    /// In the order in which they run.
    pub ids: Vec<u32>,
    /// Attached with `BPF_F_ALLOW_MULTI`, or none is attached.
    pub allows_others: bool,
}

/// The results of `look` for every link of the kernel, in the order of ids.
///
/// # Errors
/// Not permitted to list links (needs CAP_SYS_ADMIN).
pub fn look_at_links<T>(look: impl Fn(OwnedFd) -> Option<T>) -> io::Result<Vec<T>> {
    // SAFETY: the call takes a plain number.
    let open = |id| owned(unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) }).ok();
    look_at(libbpf_sys::bpf_link_get_next_id, |id| open(id).and_then(&look))
}

/// The results of `look` for all objects of one kind. libbpf's function `next` writes the id after a given one.
pub(super) fn look_at<T>(
    next: unsafe extern "C" fn(u32, *mut u32) -> i32,
    look: impl Fn(u32) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    let mut id = 0;
    loop {
        // SAFETY: the second argument points to a number that outlives the call.
        let answer = unsafe { next(id, &raw mut id) };
        if answer == -nix::libc::ENOENT {
            return Ok(found);
        }
        checked(answer)?;
        found.extend(look(id));
    }
}

/// The links that attach one of these programs to an existing cgroup.
///
/// # Errors
/// As [`look_at_links`].
pub fn cgroup_links_of(programs: &[u32]) -> io::Result<Vec<OwnedFd>> {
    let is_it = |link: &OwnedFd| cgroup_link(link).is_ok_and(|it| it.cgroup != 0 && programs.contains(&it.program));
    look_at_links(|link| Some(link).filter(is_it))
}

/// False once the cgroup is gone. The link outlives it.
pub fn is_attached_to_cgroup(link: &OwnedFd) -> bool {
    cgroup_link(link).is_ok_and(|link| link.cgroup != 0)
}

/// Detaches a link even if another process has it open. Does nothing for struct_ops links on kernels before 6.11.
///
/// Side effects: a detached algorithm can no longer be chosen; sockets that have it keep it.
pub fn detach_link(link: &OwnedFd) {
    // SAFETY: the descriptor is open.
    let _ = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
}

/// libbpf's call for the information about one kind of object: descriptor, structure, length of the structure.
type AskInfo<T> = unsafe extern "C" fn(i32, *mut T, *mut u32) -> i32;

fn info<T: Default>(ask: AskInfo<T>, object: &impl AsRawFd, mut info: T) -> io::Result<T> {
    let mut length = size_of::<T>() as u32;
    // SAFETY: the descriptor is open; the structure is as long as `length` says and outlives the call.
    checked(unsafe { ask(object.as_raw_fd(), &raw mut info, &raw mut length) })?;
    Ok(info)
}

pub(super) fn map_info(map: &OwnedFd) -> io::Result<libbpf_sys::bpf_map_info> {
    info(libbpf_sys::bpf_map_get_info_by_fd, map, Default::default())
}

pub(super) fn program_info(program: &impl AsRawFd) -> io::Result<libbpf_sys::bpf_prog_info> {
    info(libbpf_sys::bpf_prog_get_info_by_fd, program, Default::default())
}

pub(super) fn link_info(link: &OwnedFd) -> io::Result<libbpf_sys::bpf_link_info> {
    info(libbpf_sys::bpf_link_get_info_by_fd, link, Default::default())
}

/// libbpf answers with a negative error number.
pub(super) fn checked(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

pub(super) fn owned(answer: i32) -> io::Result<OwnedFd> {
    checked(answer)?;
    // SAFETY: the call that answered has just opened this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}
