//! What a link can be asked for.

use std::time::Duration;

use crate::units::BitsPerSec;

/// Slowest and fastest rate a link can be asked for.
pub(crate) const RATE_RANGE: [BitsPerSec; 2] = [BitsPerSec(1_000), BitsPerSec(10_000_000_000)];
/// Longest delay, and longest jitter, a link can be asked for.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(10);
/// Smallest and largest MTU of a link, bytes: what IPv4 requires, and jumbo frames.
pub(crate) const MTU_RANGE: [u32; 2] = [68, 9_000];
/// Longest queue of a link, in packets and in bytes: what the emulator can hold in memory.
pub(crate) const QUEUE_MAX: (u32, u64) = (100_000, 150_000_000);
