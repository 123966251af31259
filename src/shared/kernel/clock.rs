//! The clocks of this host.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use crate::units::nanos;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

const NS_PER_S: i64 = 1_000_000_000;

/// The clock of event timestamps.
///
/// # Errors
/// The kernel refuses to read the clock, for example because of a seccomp filter.
pub fn monotonic_ns() -> Result<u64> {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
///
/// # Errors
/// As [`monotonic_ns`].
pub fn realtime_ns() -> Result<u64> {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

/// Nanoseconds since boot, including suspended time. The value is the same in every time namespace and in BPF programs.
///
/// # Errors
/// As [`monotonic_ns`].
pub fn boottime_ns() -> Result<u64> {
    Ok(nanoseconds(ClockId::CLOCK_BOOTTIME)?.saturating_add_signed(-boottime_offset_ns()))
}

/// How far CLOCK_BOOTTIME of this process's time namespace is ahead of the host's.
pub fn boottime_offset_ns() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        // Some kernels have no time namespaces.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        offset_in(&offsets).unwrap_or(0)
    })
}

/// `/proc/self/timens_offsets` lists `boottime 3600 500`: seconds and nanoseconds.
fn offset_in(offsets: &str) -> Option<i64> {
    let words = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = words.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(seconds * NS_PER_S + nanoseconds)
}

/// Returns once [`boottime_ns`] has reached a moment.
///
/// # Errors
/// The kernel refuses to wait, for example because of a seccomp filter.
pub fn wait_until_boottime(moment_ns: u64) -> Result<()> {
    let here_ns = moment_ns.saturating_add_signed(boottime_offset_ns());
    let moment = TimeSpec::from(Duration::from_nanos(here_ns));
    loop {
        match clock_nanosleep(ClockId::CLOCK_BOOTTIME, ClockNanosleepFlags::TIMER_ABSTIME, &moment) {
            Err(Errno::EINTR) => {}
            done => return done.map(drop).context("wait for the clock"),
        }
    }
}

fn nanoseconds(clock: ClockId) -> Result<u64> {
    let now = clock_gettime(clock).context("read the clock")?;
    Ok(nanos(now.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_of_a_time_namespace_is_read() {
        let offsets = "monotonic           0         0\nboottime       -86400 500000000\n";
        assert_eq!(offset_in(offsets), Some(-86_399_500_000_000));
        assert_eq!((offset_in(""), offset_in("boottime x 0")), (None, None));
    }
}
