//! The network devices of this network namespace.

use anyhow::{Context, Result};
use nix::net::if_::if_nameindex;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub index: u32,
    pub name: String,
}

/// All devices, loopback included.
///
/// Shape: in the kernel's order, by index.
///
/// # Errors
/// The kernel does not list them.
pub fn devices() -> Result<Vec<Device>> {
    let all = if_nameindex().context("list the network devices")?;
    Ok(all.iter().map(|one| Device { index: one.index(), name: one.name().to_string_lossy().into_owned() }).collect())
}
