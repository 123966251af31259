//! What every BPF object has in common: numbers, descriptors, pins and links.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Opens a map by its number.
///
/// Errors: gone, or not permitted.
pub fn open_map(id: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes a plain number.
    owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id(id) }).with_context(|| format!("open BPF map {id}"))
}

/// Opens what is pinned at a path.
///
/// Errors: nothing there, or not permitted.
pub fn open_pin(path: &Path) -> Result<OwnedFd> {
    let text = CString::new(path.as_os_str().as_bytes()).context("pass the path of a pin")?;
    // SAFETY: the string ends with a zero and outlives the call.
    owned(unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) }).with_context(|| format!("open the pin {}", path.display()))
}

/// Pins a map or link.
///
/// Errors: something is pinned there; no such folder; not a BPF file system; not permitted.
/// Side effects: the object lives until the file is removed.
pub fn pin(object: &OwnedFd, path: &Path) -> Result<()> {
    let text = CString::new(path.as_os_str().as_bytes()).context("pass the path of a pin")?;
    // SAFETY: the descriptor is open, the string ends with a zero and outlives the call.
    checked(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), text.as_ptr()) })
        .with_context(|| format!("pin at {}", path.display()))
}

/// Number of the map.
///
/// Errors: not a map.
pub fn map_id(map: &OwnedFd) -> Result<u32> {
    Ok(map_info(map).context("ask for the number of a map")?.id)
}

/// Whether a link to a cgroup still has it: links outlive the cgroup, which then has taken the program with it.
pub fn is_attached_to_cgroup(link: &OwnedFd) -> bool {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut length = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: the descriptor is open; the structure is as long as `length` says and outlives the call.
    let answer = unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length) };
    // SAFETY: the kernel filled this arm of the union, as its type says.
    answer == 0
        && info.type_ == libbpf_sys::BPF_LINK_TYPE_CGROUP
        && unsafe { info.__bindgen_anon_1.cgroup.cgroup_id } != 0
}

/// Ends a link's registration even if another process has the link open; kernels before 6.11 cannot, which is no error.
///
/// Side effects: the algorithm can no longer be chosen; sockets that have it keep it.
pub fn detach_link(link: &OwnedFd) {
    // SAFETY: the descriptor is open.
    let _ = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
}

pub(super) fn map_info(map: &OwnedFd) -> io::Result<libbpf_sys::bpf_map_info> {
    let mut info = libbpf_sys::bpf_map_info::default();
    let mut length = size_of::<libbpf_sys::bpf_map_info>() as u32;
    // SAFETY: the descriptor is open; the structure is as long as `length` says and outlives the call.
    checked(unsafe { libbpf_sys::bpf_map_get_info_by_fd(map.as_raw_fd(), &raw mut info, &raw mut length) })?;
    Ok(info)
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
