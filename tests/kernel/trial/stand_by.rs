//! The process that stands by: it clears what a dead guard left, without a command of anybody.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{begin, end, host_has, poll_until, tccc};
use crate::lab::sandbox::{available, run};
use crate::lab::systemd::Manager;
use crate::lab::trial::{BEFORE, SOON, TRIED, guard, in_lab, last_trial, on_trial, processes, shorten_lease, status};

/// Shorter than the product's, to save time.
const LEASE: Duration = Duration::from_secs(6);
const WATCHDOG: Duration = Duration::from_secs(4);

#[test]
fn what_dead_guards_left_is_cleared_as_soon_as_their_time_is_over() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let manager = Manager::new();
        let mut command = tccc();
        command.args(["guard", "--stand-by"]);
        manager.manage(&mut command, Some(WATCHDOG));
        let stand_by = begin(&mut command);
        assert_eq!(manager.next(SOON).unwrap().lines().collect::<Vec<_>>(), ["READY=1", "STATUS=standing by"]);
        assert_eq!(manager.next(WATCHDOG).as_deref().map(str::trim), Some("WATCHDOG=1"));

        lab.apply_before();
        lab.try_policy("1m");
        shorten_lease(LEASE);
        kill(guard(), Signal::SIGKILL).unwrap();
        assert_eq!(lab.given(), TRIED, "the lease is not over");
        // The record of the end is written after the policy is taken back.
        let reverted = ("reverted".to_owned(), "its guard died, and the lease was over".to_owned());
        poll_until(LEASE + SOON, "the trial is cleared", || on_trial().is_null() && last_trial() == reverted);
        assert_eq!((lab.given(), available().contains(&TRIED.to_owned())), (BEFORE.to_owned(), false));

        run(0, "load dtcp --as ldk_late --confirm 5s");
        let waiting = status()["instances"].as_array().unwrap().iter().find_map(|it| it["confirm_pid"].as_i64());
        kill(Pid::from_raw(waiting.unwrap() as i32), Signal::SIGKILL).unwrap();
        poll_until(SOON, "it is unloaded", || !available().contains(&"ldk_late".to_owned()));
        run(0, "policy remove");

        kill(Pid::from_raw(stand_by.id() as i32), Signal::SIGTERM).unwrap();
        // Signs of life have filled the socket; the process waits until they are read.
        poll_until(SOON, "the end is announced", || manager.next(SOON).unwrap().trim() == "STOPPING=1");
        end(0, stand_by)
            .stderr_has("tccc: note: the trial of the policy is over: its guard died, and the lease was over\n")
            .stderr_has("tccc: note: \"ldk_late\" is unloaded: nobody confirmed it in time\n");
        assert!(processes().is_empty());
    });
}
