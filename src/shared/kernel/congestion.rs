//! The algorithms that sockets can choose, and the default.
//!
//! `/proc/sys/net` shows the reader's own network namespace, and needs no privileges to be read.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use crate::failure::Failure;
use crate::kernel::io_error::reason;

/// Linux's own algorithms, loaded or not.
pub const OF_LINUX: [&str; 17] = [
    "reno",
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

pub const DEFAULT_SYSCTL: &str = "net.ipv4.tcp_congestion_control";

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// A sysctl that exists only in the initial network namespace.
const ONLY_IN_THE_FIRST: &str = "/proc/sys/net/ipv4/tcp_mem";

/// Names of all registered algorithms, including the kernel's own.
///
/// # Errors
/// The kernel has no TCP; /proc is not mounted.
pub fn available() -> Result<Vec<String>> {
    names_in(AVAILABLE)
}

fn names_in(file: &str) -> Result<Vec<String>> {
    let names = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// # Errors
/// As [`available`].
pub fn is_available(name: &str) -> Result<bool> {
    Ok(available()?.iter().any(|other| other == name))
}

/// Whether everybody may choose an algorithm, also in other network namespaces.
///
/// # Errors
/// As [`available`].
pub fn is_allowed(name: &str) -> Result<bool> {
    Ok(names_in(ALLOWED)?.iter().any(|other| other == name))
}

/// Lets every process choose an algorithm, or only those with CAP_NET_ADMIN. Writes nothing if nothing changes.
///
/// Side effects: the kernel's list of allowed algorithms, for every network namespace.
///
/// # Errors
/// No such algorithm; not permitted.
pub fn set_allowed(name: &str, is_allowed: bool) -> Result<()> {
    let mut names = names_in(ALLOWED)?;
    if names.iter().any(|other| other == name) == is_allowed {
        return Ok(());
    }
    names.retain(|other| other != name);
    names.extend(is_allowed.then(|| name.to_owned()));
    let names = names.join(" ");
    fs::write(ALLOWED, &names).with_context(|| format!("write \"{names}\" to {ALLOWED}"))
}

/// The default algorithm of this network namespace.
///
/// # Errors
/// As [`available`].
pub fn default() -> Result<String> {
    Ok(fs::read_to_string(DEFAULT).with_context(|| format!("read {DEFAULT}"))?.trim().to_owned())
}

/// New connections per second in this network namespace, in both directions. It is the mean since boot, or the current
/// rate if that is higher.
///
/// # Errors
/// As [`available`].
pub fn connection_rate() -> Result<f64> {
    const SAMPLE_TIME: Duration = Duration::from_secs(1);
    let uptime = fs::read_to_string("/proc/uptime").context("read /proc/uptime")?;
    let uptime_s: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).context("read /proc/uptime")?;
    let first = connections_made()?;
    std::thread::sleep(SAMPLE_TIME);
    let now = connections_made()?.saturating_sub(first) as f64 / SAMPLE_TIME.as_secs_f64();
    Ok(now.max(first as f64 / uptime_s.max(1.0)))
}

/// Connections since boot, both directions.
fn connections_made() -> Result<u64> {
    const COUNTS: &str = "/proc/net/snmp";
    let text = fs::read_to_string(COUNTS).with_context(|| format!("read {COUNTS}"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = lines.next().zip(lines.next()).with_context(|| format!("find TCP in {COUNTS}"))?;
    let counts = names.split(' ').zip(values.split(' '));
    let wanted = counts.filter(|(name, _)| matches!(*name, "ActiveOpens" | "PassiveOpens"));
    Ok(wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}

/// Checks that this process can set the default. Only the initial network namespace can choose any algorithm.
///
/// Check before setting, because some kernels keep an algorithm in memory forever once they have refused it as a default.
///
/// # Errors
/// Another network namespace; `/proc/sys` is read-only; not permitted.
pub fn check_settable() -> Result<(), Failure> {
    let refuse = |why: &str| Failure::unmet(format!("cannot change the default algorithm: {why}"));
    // `access` would check the real user without capabilities.
    faccessat(AT_FDCWD, DEFAULT, AccessFlags::W_OK, AtFlags::AT_EACCESS).map_err(|errno| {
        refuse(&format!("{DEFAULT}: {}", reason(&errno.into()))).hint("run as root where /proc/sys can be written")
    })?;
    if Path::new(ONLY_IN_THE_FIRST).exists() {
        return Ok(());
    }
    let why = "this is not the host's initial network namespace, and the kernel allows it only there";
    Err(refuse(why).hint("run it outside the container; here sockets choose it by name"))
}

/// Changes the default of this network namespace, which new sockets get unless they choose another algorithm.
///
/// # Errors
/// No such algorithm; not permitted.
pub fn set_default(name: &str) -> Result<()> {
    fs::write(DEFAULT, name).with_context(|| format!("write \"{name}\" to {DEFAULT}"))
}
