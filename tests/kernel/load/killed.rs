//! Killed at any moment: what is there afterwards is nothing, or is listed and can be removed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tccc::catalog;
use tccc::kernel::probe::Features;
use tccc::loader::{self, LoadOptions, Request};

use crate::common::{host_has, poll_until, tccc, test_alone};
use crate::lab::sandbox::{assert_nothing_left, available, default, in_sandbox, registered, run, status};

const KILLS: u32 = 30;
/// The host is changed within about this time, once that has begun.
const WHILE_CHANGING: Duration = Duration::from_millis(15);
/// Seed of the moments.
const SEED: u128 = 20;

/// Starts, kills after a random part of the usual duration, and removes what is left, many times.
fn kill_at_random_moments(start: impl Fn() -> Child) {
    let before = default();
    let mut whole = start();
    let begun = Instant::now();
    assert!(whole.wait().unwrap().success());
    let usual = begun.elapsed();
    run(0, "unload --all");
    assert_nothing_left();
    let mut random = Pcg64Mcg::new(SEED);
    let mut left_something = 0;
    for kill in 0..KILLS {
        let mut child = start();
        let mut part_of = |whole: Duration| whole.mul_f64(f64::from(random.next_u32()) / f64::from(u32::MAX));
        if kill % 3 == 0 {
            std::thread::sleep(part_of(usual)); // the moment is the subject of the test, not a wait for a condition
        } else {
            let has_begun = || Path::new("/run/tccc").exists() || child.try_wait().unwrap().is_some();
            poll_until(Duration::from_secs(20), "the host is being changed", has_begun);
            std::thread::sleep(part_of(WHILE_CHANGING)); // likewise
        }
        let _ = child.kill();
        child.wait().unwrap();
        // Whatever is registered is listed as well.
        let listed: Vec<String> = status().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        poll_until(Duration::from_secs(5), "every registration is listed by `tccc status`", || {
            registered().iter().all(|name| listed.contains(name))
        });
        left_something += u32::from(!listed.is_empty());
        run(0, "unload --all");
        assert_nothing_left();
        assert_eq!(default(), before);
    }
    assert!(left_something > 0, "no kill came while the host was being changed: this test tested nothing");
}

#[test]
fn load_killed_at_any_moment_leaves_nothing_unlisted() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        kill_at_random_moments(|| quiet(tccc().args(["load", "dtcp", "--as", "ldk_kill", "--default"])));
    });
}

#[test]
fn load_with_companion_killed_at_any_moment_leaves_nothing_unlisted() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        kill_at_random_moments(|| quiet(tccc().args(["load", "mswift", "--as", "ldk_both"])));
    });
}

#[test]
fn receiver_killed_at_any_moment_leaves_nothing_unlisted() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        kill_at_random_moments(|| quiet(tccc().args(["load", "mswift", "--as", "ldk_end", "--receiver"])));
    });
}

#[test]
fn load_by_map_killed_at_any_moment_leaves_nothing_unlisted() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || kill_at_random_moments(|| inner("load_by_map")));
}

#[test]
fn run_killed_at_any_moment_leaves_nothing_unlisted() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || kill_at_random_moments(|| inner("register_by_map")));
}

#[test]
fn unload_killed_at_any_moment_can_be_continued() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        kill_at_random_moments(|| {
            run(0, "load dtcp --as ldk_undo --default");
            quiet(tccc().args(["unload", "ldk_undo"]))
        });
    });
}

#[test]
fn killed_run_unregisters_by_itself_where_links_exist() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        if !Features::probe().unwrap().links {
            return; // the map registration has its own test above
        }
        let mut child = inner("register_and_wait");
        poll_until(Duration::from_secs(20), "the run registers", || available().contains(&"ldk_run".to_owned()));
        run(1, "unload ldk_run").stderr_has("a tccc run uses it");
        child.kill().unwrap();
        child.wait().unwrap();
        poll_until(Duration::from_secs(5), "the kernel unregisters", || !available().contains(&"ldk_run".to_owned()));
        run(0, "load dtcp --as ldk_next"); // any command that changes something sweeps the record
        assert_eq!(status().len(), 1);
        run(0, "unload ldk_next");
    });
}

fn quiet(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// This test program again, in a process that can be killed.
fn inner(what: &str) -> Child {
    quiet(test_alone(module_path!(), "inner_process").env("LDK_INNER", what))
}

#[test]
#[ignore = "started by the tests above, to be killed"]
fn inner_process() {
    let features = Features { links: false, link_update: false, ..Features::probe().unwrap() };
    let dtcp = catalog::find("dtcp").unwrap();
    let request = Request { name: "ldk_inner", ..Request::of(dtcp) };
    match std::env::var("LDK_INNER").as_deref() {
        Ok("load_by_map") => {
            let options = LoadOptions { make_default: true, ..LoadOptions::default() };
            loader::load(&request, options, &features).unwrap();
        }
        Ok("register_by_map") => drop(loader::register(&request, &features).unwrap()),
        Ok("register_and_wait") => {
            let request = Request { name: "ldk_run", ..request };
            let _registered = loader::register(&request, &Features::probe().unwrap()).unwrap();
            std::thread::sleep(Duration::from_secs(60)); // until it is killed
        }
        other => panic!("LDK_INNER is {other:?}"),
    }
}
