//! Waits that a test shortens, so that it need not wait as long as a person. Uses no other module.
//!
//! Release builds wait as long as usual, whatever the variable says.

use std::time::Duration;

/// Environment variable that lists the shorter waits in milliseconds, such as `guard.look=1000 lock=2000`.
pub const VARIABLE: &str = "TCCC_WAITS";

/// Every wait that a test can shorten.
pub const WAITS: [&str; 5] = ["check.endless", "guard.look", "guard.tick", "lock", "unload.gone"];

/// The time of a wait: `usual`, or less if a test shortens it.
pub fn time_of(wait: &'static str, usual: Duration) -> Duration {
    if !cfg!(debug_assertions) {
        return usual;
    }
    assert!(WAITS.contains(&wait), "{wait} is not in the list");
    shorter(wait, &std::env::var(VARIABLE).unwrap_or_default()).map_or(usual, |time| time.min(usual))
}

fn shorter(wait: &str, list: &str) -> Option<Duration> {
    let of_this = |one: &str| one.strip_prefix(wait)?.strip_prefix('=')?.parse().ok();
    list.split(' ').find_map(of_this).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_shortened_by_name_and_never_lengthened() {
        let list = "guard.look=1000 lock=20";
        assert_eq!(shorter("lock", list), Some(Duration::from_millis(20)));
        assert_eq!(shorter("guard.look", list), Some(Duration::from_secs(1)));
        assert_eq!([shorter("guard.tick", list), shorter("loc", list), shorter("lock", "lock=x")], [None; 3]);
        let usual = Duration::from_secs(10);
        assert_eq!(time_of("lock", usual), usual, "no test shortens it here");
    }
}
