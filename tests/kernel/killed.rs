//! Commands killed at every fault point: what they leave is true and listed, and the next command continues or clears it.
//!
//! A row is a command. The driver kills it at each of the row's points and checks what holds after every kill. The row adds
//! what holds after its own.

mod moments;
mod rows;
mod stopped;

use tccc::fault::POINTS;
use tccc::gate;
use tccc::kernel::{bpf, struct_ops};
use tccc::loader::{LoadOptions, Request};

use super::*;
use crate::common::CommandOutput;
use crate::lab::pair::attached;
use crate::lab::policy::fault::die_at;
use crate::lab::policy::{Endpoints, show};
use crate::lab::sandbox::{drift, registered};
use crate::lab::trial::{
    BEFORE, DEFAULT, TRIED, TrialLab, end_guard, given_on_host, guard, kill_all, last_trial, processes, status,
    until_no_process,
};

const NAME: &str = "ldk_kill";
/// Algorithms with a policy file of that name, whose rule gives them to every connection of the lab.
const POLICIES: [&str; 5] = [BEFORE, TRIED, "tahoe", "bbr", NAME];

struct Row {
    /// Commands before the kill. Each list is a case of its own.
    before: &'static [&'static [&'static str]],
    kill: fn(&Kill),
    points: &'static [&'static str],
    /// What the kill must leave, besides what [`Kill::check`] asserts.
    left: fn(&Kill),
    /// The next command. Each is a case of its own.
    next: &'static [&'static str],
    /// What holds after the next command.
    after: fn(&Kill),
}

/// One case of a row.
struct Kill<'a> {
    lab: &'a TrialLab,
    before: &'static [&'static str],
    point: &'static str,
    next: &'static str,
    /// Map of the code under [`NAME`], and its generation, before the kill.
    code: Option<u32>,
    generation: Option<u64>,
}

impl Row {
    fn check(&self, lab: &TrialLab) {
        for name in POLICIES {
            fs::rename(lab.policy(&format!("use = \"{name}\"")), lab.file(&format!("{name}.toml"))).unwrap();
        }
        for before in self.before {
            for point in self.points {
                for next in self.next {
                    Kill { lab, before, point, next, code: None, generation: None }.check(self);
                }
            }
        }
    }
}

impl Kill<'_> {
    fn check(mut self, row: &Row) {
        println!("{} after {:?}, then {}", self.point, self.before, self.next); // shown if the test fails
        let host = (default(), given_on_host());
        self.before.iter().for_each(|line| drop(self.run(line)));
        let is_loaded = is_available(NAME);
        self.code = is_loaded.then(code);
        self.generation = is_loaded.then(|| generation(NAME).0.unwrap());
        let mut open = vec![self.connect(&Endpoints::loopback())];
        open.extend(is_loaded.then(|| self.connect(&Endpoints::choosing(NAME))));
        let algorithms = |open: &[SocketPair]| Vec::from_iter(open.iter().map(SocketPair::algorithms));
        let was = algorithms(&open);

        (row.kill)(&self);
        open.iter_mut().for_each(|pair| pair.exchange(50_000));
        assert_eq!(algorithms(&open), was, "open connections keep their algorithms");
        if is_loaded {
            self.connect(&Endpoints::choosing(NAME)).exchange(1000);
        }
        assert_listed();
        (row.left)(&self);

        self.run(self.next);
        open.iter_mut().for_each(|pair| pair.exchange(1000));
        (row.after)(&self);
        drop(open);
        self.run("unload --all");
        until_no_process();
        assert_nothing_left();
        assert!(attached().is_empty(), "the companion is attached");
        assert_eq!((default(), given_on_host(), self.lab.given().as_str()), (host.0, host.1, DEFAULT));
    }

    fn command(&self, line: &str) -> Command {
        let mut command = tccc();
        command.args(line.split(' ')).current_dir(self.lab.folder());
        command
    }

    #[track_caller]
    fn run(&self, line: &str) -> CommandOutput {
        check(0, &mut self.command(line))
    }

    /// Kills this command at the case's point.
    #[track_caller]
    fn dies(&self, line: &str) {
        die_at(self.point, &mut self.command(line));
    }

    fn connect(&self, ends: &Endpoints) -> SocketPair {
        self.lab.netns.run(|| Ok(SocketPair::open(ends))).unwrap()
    }

    /// Asserts that the trial is over once its guard has ended, and what new connections get.
    #[track_caller]
    fn assert_decided(&self, algorithm: &str) {
        until_no_process();
        self.lab.assert_over(algorithm, self.point);
        assert_listed();
    }
}

/// The map of the code that new connections get under [`NAME`].
fn code() -> u32 {
    let link = bpf::open_pin(format!("/sys/fs/bpf/tccc/links/{NAME}").as_ref()).unwrap();
    struct_ops::link_target(&link).unwrap().map_id
}

#[track_caller]
fn assert_listed() {
    poll_until(SOON, "`tccc status` lists every registration", || {
        let instances = status()["instances"].as_array().unwrap().clone();
        let is_listed = |name: &String| instances.iter().any(|it| it["name"] == name.as_str());
        available().iter().filter(|name| name.starts_with("ldk") || name.as_str() == TRIED).all(is_listed)
    });
}

#[test]
fn every_fault_point_is_in_a_row() {
    let rows = rows::ALL.iter().flat_map(|row| row.points.iter().copied());
    assert_eq!(BTreeSet::from_iter(rows), BTreeSet::from(POINTS));
}
