//! Which algorithms sockets can choose, and which one they get when they do not.
//!
//! `/proc/sys/net` shows the network namespace of whoever reads it, so that nothing here needs a right to read.

use std::fs;

use anyhow::{Context, Result};

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Names of the registered algorithms, the kernel's own and others.
///
/// Errors: the kernel has no TCP, or /proc is not mounted.
pub fn available() -> Result<Vec<String>> {
    let names = fs::read_to_string(AVAILABLE).with_context(|| format!("read {AVAILABLE}"))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// The default algorithm of this network namespace.
///
/// Errors: the kernel has no TCP, or /proc is not mounted.
pub fn default() -> Result<String> {
    Ok(fs::read_to_string(DEFAULT).with_context(|| format!("read {DEFAULT}"))?.trim().to_owned())
}

/// Makes an algorithm the default of this network namespace.
///
/// Errors: no such algorithm; not permitted.
/// Side effects: sockets that open from now on get it unless they choose another.
pub fn set_default(name: &str) -> Result<()> {
    fs::write(DEFAULT, name).with_context(|| format!("write \"{name}\" to {DEFAULT}"))
}
