//! The engine's clock, and waits that end on time.

use std::time::Duration;

use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use shared::units::nanos;

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Subtract this from a wall-clock time stamp of the kernel to get monotonic nanoseconds.
pub fn wall_offset() -> u64 {
    read(ClockId::CLOCK_REALTIME).wrapping_sub(now())
}

fn read(clock: ClockId) -> u64 {
    nanos(clock_gettime(clock).expect("the kernel has this clock").into())
}

/// Share of a core for spinning: enough for a few thousand deadlines a second.
const SPIN_SHARE_PERCENT: u64 = 10;
/// Most spinning time that idle periods save up.
const SPIN_SAVED_MAX: u64 = 2_000_000;
/// Longest time to wake before a deadline. Spinning does not help a host that wakes later.
const LEAD_MAX: u64 = 60_000;
/// The lead follows the wake-up lateness. It grows by 9 steps when too short and shrinks by one when long enough, so
/// about nine wake-ups in ten come before the deadline.
const LEAD_STEP: u64 = 100;
const LEAD_GROWTH: u64 = 9;

const LOAD_WINDOW: u64 = 5_000_000;
/// Above the first load, percent of a core, packets are gathered longer; below the second, shorter. The load must stay
/// below 95 %: if a real-time thread uses more, the kernel stops it for a twentieth of every second.
const LOAD_BOUNDS: (u64, u64) = (75, 60);
/// Change of the gathering time per window.
const GATHER_STEP: u64 = 10_000;
const GATHER_MAX: u64 = 500_000;

/// Waits for descriptors or a moment. It wakes a little early and spins for the rest, within a budget.
#[derive(Debug)]
pub struct Waiter {
    /// How long before a deadline the thread wakes.
    lead: u64,
    spin_saved: u64,
    accounted_to: u64,
    /// Start of the window over which the load is measured, and the sleep in it.
    window_start: u64,
    slept: u64,
    /// How long packets are gathered before they are sent. Waking costs more than sending, so gathering trades some
    /// tens of microseconds of punctuality for processor time that the hosts need.
    gather: u64,
}

impl Waiter {
    pub fn new() -> Self {
        let started = now();
        Waiter { lead: 0, spin_saved: 0, accounted_to: started, window_start: started, slept: 0, gather: 0 }
    }

    /// Returns when a descriptor is ready or the moment, if any, has come.
    ///
    /// Returns `true` if it ignored the descriptors to gather packets; any of them may be ready then.
    pub fn wait(&mut self, descriptors: &mut [PollFd], until: Option<u64>) -> bool {
        let started = now();
        self.earn(started);
        self.judge(started);
        let Some(until) = until else {
            let _ = ppoll(descriptors, None, None);
            self.slept += now() - started;
            return false;
        };
        let gathered = started + self.gather;
        // Gathers only if something is due within the gathering time. Else an arrival or a request would wait for it.
        let gathers = self.gather > 0 && until <= gathered;
        let until = until.max(if gathers { gathered } else { started });
        let lead = if self.spin_saved > self.lead && !gathers { self.lead } else { 0 };
        let wake_at = until.saturating_sub(lead);
        if wake_at > started {
            let nap = TimeSpec::from(Duration::from_nanos(wake_at - started));
            let descriptors = if gathers { &mut [] } else { descriptors };
            let is_ready = ppoll(descriptors, Some(nap), None).unwrap_or(0) > 0;
            let woke = now();
            self.slept += woke - started;
            if is_ready {
                return false;
            }
            self.learn(woke.saturating_sub(wake_at));
        }
        if lead > 0 {
            self.spin(until);
        }
        gathers
    }

    fn spin(&mut self, until: u64) {
        let started = now();
        let mut time = started;
        while time < until {
            std::hint::spin_loop();
            time = now();
        }
        self.spin_saved = self.spin_saved.saturating_sub(time - started);
    }

    fn earn(&mut self, now: u64) {
        let earned = (now - self.accounted_to) * SPIN_SHARE_PERCENT / 100;
        self.spin_saved = (self.spin_saved + earned).min(SPIN_SAVED_MAX);
        self.accounted_to = now;
    }

    /// Adapts the gathering time to the thread's load.
    fn judge(&mut self, now: u64) {
        let window = now - self.window_start;
        if window < LOAD_WINDOW {
            return;
        }
        let busy_percent = 100 - (self.slept.min(window) * 100 / window);
        let (high, low) = LOAD_BOUNDS;
        if busy_percent > high {
            self.gather = (self.gather + GATHER_STEP).min(GATHER_MAX);
        } else if busy_percent < low {
            self.gather = self.gather.saturating_sub(GATHER_STEP);
        }
        (self.window_start, self.slept) = (now, 0);
    }

    fn learn(&mut self, woke_late_by: u64) {
        self.lead = if woke_late_by > self.lead {
            (self.lead + LEAD_GROWTH * LEAD_STEP).min(LEAD_MAX)
        } else {
            self.lead.saturating_sub(LEAD_STEP)
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use nix::poll::PollFlags;
    use nix::sys::eventfd::EventFd;

    use super::*;

    #[test]
    fn lead_settles_where_nine_wake_ups_in_ten_are_early_and_never_exceeds_its_bound() {
        let mut waiter = Waiter::new();
        (0..20_000u64).for_each(|n| waiter.learn(n * 7_919 % 100 * 200));
        assert!((16_000..20_000).contains(&waiter.lead), "lead {} ns for lateness 0..20 us", waiter.lead);
        (0..10_000).for_each(|_| waiter.learn(10_000_000));
        assert_eq!(waiter.lead, LEAD_MAX);
    }

    #[test]
    fn spinning_stays_within_its_share_of_the_time() {
        let mut waiter = Waiter::new();
        let started = now();
        let mut spun = 0;
        while now() - started < 50_000_000 {
            waiter.lead = LEAD_MAX;
            let before = waiter.spin_saved;
            waiter.wait(&mut [], Some(now() + 30_000));
            spun += before.saturating_sub(waiter.spin_saved);
        }
        let share = spun as f64 / (now() - started) as f64;
        assert!(share < 0.15, "spun {share} of the time");
    }

    #[test]
    fn loaded_waiter_still_hears_when_nothing_is_due_soon() {
        let bell = EventFd::new().unwrap();
        bell.write(1).unwrap();
        let mut waiter = Waiter::new();
        waiter.gather = GATHER_MAX;
        let mut descriptors = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        let started = now();
        let left_out = waiter.wait(&mut descriptors, Some(started + 5_000_000_000));
        assert!(now() - started < 2_000_000_000, "a ready descriptor was left for {} ns", now() - started);
        assert!(!left_out && descriptors[0].any().unwrap());
        let soon = now() + GATHER_MAX / 2;
        assert!(waiter.wait(&mut descriptors, Some(soon)), "packets that are due soon are gathered");
    }

    #[test]
    fn wait_never_returns_before_the_moment() {
        let mut waiter = Waiter::new();
        for _ in 0..100 {
            let until = now() + 100_000;
            waiter.wait(&mut [], Some(until));
            assert!(now() >= until - LEAD_MAX);
        }
    }
}
