//! The ranges of a link's properties.

use std::time::Duration;

use shared::units::{BitsPerSec, ParseError, format_duration, parse_duration};

pub(crate) const RATE_RANGE: [BitsPerSec; 2] = [BitsPerSec(1_000), BitsPerSec(10_000_000_000)];
/// Longest delay, and longest jitter.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(10);
/// Bytes: from what IPv4 requires to jumbo frames.
pub(crate) const MTU_RANGE: [u32; 2] = [68, 9_000];
/// Longest queue in packets and in bytes that the emulator can hold in memory.
pub(crate) const QUEUE_MAX: (u32, u64) = (100_000, 150_000_000);

pub(super) fn wrong_rate(rate: Option<BitsPerSec>) -> Option<ParseError> {
    let [slowest, fastest] = RATE_RANGE;
    let wrong = rate.filter(|rate| !(slowest..=fastest).contains(rate))?;
    Some(ParseError::because(wrong, format!("outside {slowest}..{fastest}")))
}

pub(super) fn wrong_delay(delay: Duration) -> Option<ParseError> {
    let why = || format!("outside 0us..{}", format_duration(DELAY_MAX));
    (delay > DELAY_MAX).then(|| ParseError::because(format_duration(delay), why()))
}

/// Reads a delay above 0.
pub(super) fn some_delay(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    let is_allowed = !time.is_zero() && time <= DELAY_MAX;
    let most = format_duration(DELAY_MAX);
    is_allowed.then_some(time).ok_or_else(|| format!("\"{text}\": expected more than 0us and at most {most}"))
}
