//! Reads and turns off the offloads of an interface, with the ethtool ioctl.
//!
//! Without offloads, every packet on a path is at most one MTU long and carries its checksum.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::errno::Errno;

use crate::kernel::netlink::check_interface_name;
use crate::kernel::netns::Netns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// The device computes checksums of sent packets.
    pub send_checksum: bool,
    /// The device gets TCP packets larger than the MTU.
    pub tso: bool,
    /// The stack builds packets larger than the MTU and segments them before the device, if it must.
    pub gso: bool,
    /// Received packets are merged.
    pub gro: bool,
}

/// Commands of the ethtool ioctl: linux/ethtool.h.
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// # Errors
/// No such interface; not permitted; the driver does not allow it.
pub fn turn_offloads_off(netns: &Netns, name: &str) -> Result<()> {
    // Segmentation first: once checksums are off, the kernel turns segmentation off itself and logs that.
    const OFF: [(u32, &str); 4] =
        [(ETHTOOL_STSO, "TSO"), (ETHTOOL_SGSO, "GSO"), (ETHTOOL_SGRO, "GRO"), (ETHTOOL_STXCSUM, "checksum offload")];
    netns.run(|| {
        for (command, what) in OFF {
            ethtool(name, command, 0).with_context(|| format!("turn off {what} of \"{name}\""))?;
        }
        Ok(())
    })
}

/// # Errors
/// No such interface.
pub fn offloads(netns: &Netns, name: &str) -> Result<Offloads> {
    netns
        .run(|| {
            let is_on = |command| Ok::<_, anyhow::Error>(ethtool(name, command, 0)? != 0);
            Ok(Offloads {
                send_checksum: is_on(ETHTOOL_GTXCSUM)?,
                tso: is_on(ETHTOOL_GTSO)?,
                gso: is_on(ETHTOOL_GGSO)?,
                gro: is_on(ETHTOOL_GGRO)?,
            })
        })
        .with_context(|| format!("read the offloads of \"{name}\""))
}

fn ethtool(name: &str, command: u32, data: u32) -> Result<u32> {
    check_interface_name(name)?;
    // SAFETY: a plain system call; the descriptor it returns is owned by nobody else.
    let socket = unsafe {
        let fd = Errno::result(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        OwnedFd::from_raw_fd(fd)
    };
    let mut value = EthtoolValue { command, data };
    // SAFETY: `ifreq` is plain data for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` holds a zero-terminated name and a pointer to `value`, which outlives the call.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })?;
    Ok(value.data)
}
