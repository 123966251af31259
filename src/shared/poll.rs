//! Waits for a state that nothing announces.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// For states that come within milliseconds, and cost little to look at.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Looks every `interval`, at least once and for no longer than `limit`. Returns whether the condition came true.
pub fn poll(limit: Duration, interval: Duration, mut condition: impl FnMut() -> bool) -> bool {
    try_poll(limit, interval, || Ok(condition())).unwrap_or(false)
}

/// As [`poll`], with a condition that may fail.
///
/// # Errors
/// Those of the condition.
pub fn try_poll(limit: Duration, interval: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<bool> {
    let begin = Instant::now();
    loop {
        if condition()? {
            return Ok(true);
        }
        let left = limit.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        thread::sleep(interval.min(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_looked_at_until_it_is_true_or_the_time_is_over() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 3
        };
        assert!(poll(Duration::from_secs(60), Duration::from_millis(1), third));
        assert_eq!(looks, 3);
        assert!(!poll(Duration::from_millis(3), Duration::from_millis(1), || false));
        assert!(poll(Duration::ZERO, Duration::from_secs(60), || true), "it looks at least once");
        assert!(try_poll(Duration::from_secs(60), Duration::ZERO, || anyhow::bail!("gone")).is_err());
    }
}
