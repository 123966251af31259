//! Commands killed at any moment, also between two fault points: whatever they leave is listed and can be removed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;

use super::*;

/// A variable for the number of kills of each command.
const VARIABLE: &str = "TCCC_KILLS";
const KILLS_IN_CI: u32 = 5;
/// About how long a command changes the host.
const WHILE_CHANGING: Duration = Duration::from_millis(15);
const SEED: u128 = 20;

fn kills() -> u32 {
    std::env::var(VARIABLE).map_or(KILLS_IN_CI, |text| text.parse().unwrap())
}

/// Repeatedly starts a command, kills it and its guard at a random moment, and removes what is left. Returns how often
/// something was left.
fn kill_at_random_moments(start: &dyn Fn() -> Owned) -> usize {
    let host = || (default(), given_on_host());
    let before = host();
    let mut whole = start();
    let begun = Instant::now();
    assert!(whole.wait().unwrap().success());
    let usual = begun.elapsed();
    run(0, "unload --all");
    assert_nothing_left();
    let mut random = Pcg64Mcg::new(SEED);
    let mut left_something = 0;
    for kill in 0..kills() {
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
        kill_all();
        assert_listed();
        left_something += usize::from(!registered().is_empty());
        run(0, "unload --all");
        assert_nothing_left();
        assert_eq!(host(), before);
    }
    left_something
}

#[test]
fn loads_and_unloads_killed_at_any_moment_leave_nothing_unlisted() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let load = |words: &'static str| move || begin_quietly(tccc().arg("load").args(words.split(' ')));
    let unload = || {
        run(0, "load dtcp --as ldk_undo --default");
        begin_quietly(tccc().args(["unload", "ldk_undo"]))
    };
    let left: [usize; 6] = [
        kill_at_random_moments(&load("dtcp --as ldk_kill --default")),
        kill_at_random_moments(&load("mswift --as ldk_both")),
        kill_at_random_moments(&load("mswift --as ldk_end --receiver")),
        kill_at_random_moments(&unload),
        kill_at_random_moments(&|| inner("load_by_map")),
        kill_at_random_moments(&|| inner("register_by_map")),
    ];
    assert!(left.iter().sum::<usize>() > 0, "no kill came while the host was being changed");
}

/// The lease ends what neither the command nor its guard can end any more.
#[test]
fn default_on_trial_killed_at_any_moment_is_back_after_the_lease() {
    let _lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let given = || given_on_host()[0].clone();
    let (before, before_given) = (default(), given());
    let load = || begin_quietly(tccc().args(["load", "dtcp", "--as", "ldk_kill", "--default", "--confirm", "5s"]));
    kill_at_random_moments(&load);
    let command = load();
    poll_until(SOON, "the trial decides", || given() == "ldk_kill");
    drop(command);
    kill_all();
    assert_eq!(default(), before);
    assert_listed();
    poll_until(SOON, "new connections get the default again", || given() == before_given);
    assert_listed();
    run(0, "unload --all");
    assert_nothing_left();
    assert_eq!((default(), given()), (before, before_given));
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
    assert_eq!(crate::lab::sandbox::status().len(), 1);
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
