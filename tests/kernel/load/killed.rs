//! Commands killed at any moment: whatever they leave is listed and can be removed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;

use tccc::gate;

use super::*;

const KILLS: u32 = 20;
/// About how long a command changes the host.
const WHILE_CHANGING: Duration = Duration::from_millis(15);
const SEED: u128 = 20;

/// Repeatedly starts a command, kills it at a random moment, and removes what is left.
fn kill_at_random_moments(start: impl Fn() -> Owned) {
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
            std::thread::sleep(part_of(usual)); // the moment of the kill is what the test varies
        } else {
            let has_begun = || Path::new("/run/tccc").exists() || child.try_wait().unwrap().is_some();
            poll_until(SOON, "the host is being changed", has_begun);
            std::thread::sleep(part_of(WHILE_CHANGING)); // likewise
        }
        drop(child);
        let listed: Vec<String> = status().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        poll_until(SOON, "`tccc status` lists every registration", || {
            registered().iter().all(|name| listed.contains(name))
        });
        left_something += u32::from(!listed.is_empty());
        run(0, "unload --all");
        assert_nothing_left();
        assert_eq!(default(), before);
    }
    assert!(left_something > 0, "no kill came while the host was being changed");
}

#[test]
fn loads_and_runs_killed_at_any_moment_leave_nothing_unlisted() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    for load in ["dtcp --as ldk_kill --default", "mswift --as ldk_both", "mswift --as ldk_end --receiver"] {
        kill_at_random_moments(|| begin_quietly(tccc().arg("load").args(load.split(' '))));
    }
    for by_map in ["load_by_map", "register_by_map"] {
        kill_at_random_moments(|| inner(by_map));
    }
}

#[test]
fn unload_killed_at_any_moment_can_be_continued() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    kill_at_random_moments(|| {
        run(0, "load dtcp --as ldk_undo --default");
        begin_quietly(tccc().args(["unload", "ldk_undo"]))
    });
}

#[test]
fn killed_run_unregisters_by_itself_where_links_exist() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    if !Features::probe().unwrap().links {
        return; // the tests above cover registration by a map
    }
    let child = inner("register_and_wait");
    poll_until(SOON, "the run registers", || is_available("ldk_run"));
    run(1, "unload ldk_run").stderr_has("a tccc run uses it");
    drop(child);
    poll_until(SOON, "the kernel unregisters", || !is_available("ldk_run"));
    run(0, "load dtcp --as ldk_next"); // a command that changes the host removes stale records
    assert_eq!(status().len(), 1);
    run(0, "unload ldk_next");
}

fn inner(what: &str) -> Owned {
    begin_quietly(test_alone(module_path!(), "inner_process").env("LDK_INNER", what))
}

#[test]
#[ignore = "started by the tests above, to be killed"]
fn inner_process() {
    let (features, request) = (without_links(), dtcp_as("ldk_inner"));
    match std::env::var("LDK_INNER").as_deref() {
        Ok("load_by_map") => {
            let options = LoadOptions { make_default: true, ..LoadOptions::default() };
            gate::load(&request, options, &features).unwrap();
        }
        Ok("register_by_map") => drop(loader::register(&request, &features).unwrap()),
        Ok("register_and_wait") => {
            let _registered = loader::register(&dtcp_as("ldk_run"), &Features::probe().unwrap()).unwrap();
            std::thread::sleep(Duration::from_secs(60)); // until it is killed
        }
        other => panic!("LDK_INNER is {other:?}"),
    }
}
