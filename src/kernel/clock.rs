//! The clocks of this host.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock, which events are stamped with.
///
/// Errors: the host has no such clock.
pub fn monotonic_ns() -> Result<u64> {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, which people know.
///
/// Errors: the host has no such clock.
pub fn realtime_ns() -> Result<u64> {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

fn nanoseconds(clock: ClockId) -> Result<u64> {
    let now = clock_gettime(clock).context("read the clock")?;
    Ok(Duration::from(now).as_nanos() as u64)
}
