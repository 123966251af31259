//! The clocks of this host.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

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

/// Nanoseconds since boot, suspended time included: the same for every process of this boot.
///
/// Errors: the host has no such clock.
pub fn boottime_ns() -> Result<u64> {
    nanoseconds(ClockId::CLOCK_BOOTTIME)
}

/// Returns when [`boottime_ns`] has reached a moment, or is past it.
///
/// Errors: the host has no such clock.
pub fn wait_until_boottime(moment_ns: u64) -> Result<()> {
    let moment = TimeSpec::from(Duration::from_nanos(moment_ns));
    loop {
        match clock_nanosleep(ClockId::CLOCK_BOOTTIME, ClockNanosleepFlags::TIMER_ABSTIME, &moment) {
            Err(Errno::EINTR) => {}
            done => return done.map(drop).context("wait for the clock"),
        }
    }
}

fn nanoseconds(clock: ClockId) -> Result<u64> {
    let now = clock_gettime(clock).context("read the clock")?;
    Ok(Duration::from(now).as_nanos() as u64)
}
