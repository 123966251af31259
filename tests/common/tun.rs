//! A TUN device of this thread's network namespace, as a file: each read is an IP packet sent, each write one received.

use std::ffi::c_short;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

nix::ioctl_write_int!(set_interface, b'T', 202);

/// `struct ifreq` with its flags.
#[repr(C)]
struct TunRequest {
    name: [u8; 16],
    flags: c_short,
    rest: [u8; 22],
}

/// Creates a device, down and without address, that lives as long as the file; reads do not wait.
///
/// `name`: at most 15 characters; the kernel chooses one when it is empty.
pub fn open(name: &str) -> io::Result<File> {
    let device = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = TunRequest { name: [0; 16], flags: (libc::IFF_TUN | libc::IFF_NO_PI) as c_short, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the descriptor is open and the request is a whole `struct ifreq` that outlives the call.
    unsafe { set_interface(device.as_raw_fd(), &raw const request as u64) }?;
    Ok(device)
}
