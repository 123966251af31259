//! TUN devices as files: a read returns an IP packet that the host sent, a write makes it receive one.

use std::ffi::c_short;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

nix::ioctl_write_int!(set_interface, b'T', 202);

/// `struct ifreq` with its flags.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: c_short,
    rest: [u8; 22],
}

/// Creates a device in this thread's network namespace, down and without address. Reads of the file do not block, and the
/// device is removed when the file is closed.
///
/// `name`: at most 15 characters. If it is empty, the kernel chooses one.
pub fn open(name: &str) -> io::Result<File> {
    let device = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as c_short;
    let mut request = InterfaceRequest { name: [0; 16], flags, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the descriptor is open and the request is a whole `struct ifreq` that outlives the call.
    unsafe { set_interface(device.as_raw_fd(), &raw const request as u64) }?;
    Ok(device)
}
