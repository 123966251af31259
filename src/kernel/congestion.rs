//! Which algorithms sockets can choose, and which one they get when they do not.

use anyhow::{Context, Result};

use super::netns::Netns;
use super::sysctl;

const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const DEFAULT: &str = "net.ipv4.tcp_congestion_control";

/// Names of the registered algorithms, the kernel's own and others.
///
/// Errors: the kernel has no TCP.
pub fn available() -> Result<Vec<String>> {
    let names = sysctl::read(&Netns::current()?, AVAILABLE)?.with_context(|| format!("read {AVAILABLE}"))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// The default algorithm of this network namespace.
///
/// Errors: the kernel has no TCP.
pub fn default() -> Result<String> {
    sysctl::read(&Netns::current()?, DEFAULT)?.with_context(|| format!("read {DEFAULT}"))
}

/// Makes an algorithm the default of this network namespace.
///
/// Errors: no such algorithm; not permitted.
/// Side effects: sockets that open from now on get it unless they choose another.
pub fn set_default(name: &str) -> Result<()> {
    sysctl::set_all(&Netns::current()?, &[(DEFAULT, name)])?;
    Ok(())
}
