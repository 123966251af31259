//! Upgrades on trial, and upgrades on kernels that cannot swap code under a name.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Mutex;

use tccc::catalog;
use tccc::catalog::Setting;
use tccc::gate;
use tccc::loader::{LoadOptions, Request};
use tccc::trial::ShareTrial;

use super::*;

const NAME: &str = "ldk_up";
const TRIAL_NAME: &str = "ldk_up_g2";
const CONNECTIONS: usize = 200;

fn choose(lab: &TrialLab) -> [TcpStream; 2] {
    let ends = lab.netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        Ok([connect_with(listener.local_addr()?, NAME)?, listener.accept()?.0])
    });
    ends.unwrap()
}

/// Counts the connections that choose [`NAME`] and get the code on trial.
fn tried(lab: &TrialLab) -> usize {
    let names: Vec<String> = (0..CONNECTIONS).map(|_| algorithm_of(&choose(lab)[0])).collect();
    assert!(names.iter().all(|name| name == NAME || name == TRIAL_NAME), "{names:?}");
    names.iter().filter(|name| *name == TRIAL_NAME).count()
}

#[test]
fn upgrade_on_trial_can_be_confirmed_or_ended() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    run(0, &format!("load dtcp --as {NAME}"));
    let begin = |options: &str| run(0, &format!("upgrade {NAME} --set keep_avoidance=896 {options}"));
    let aborted = || drop(run(0, "policy abort"));
    let waited = || poll_until(SOON, "the time is over", || on_trial().is_null());
    let unloaded = || drop(run(0, &format!("unload {TRIAL_NAME}")));
    let ends: [(&str, &dyn Fn(), &str); 3] =
        [("1m", &aborted, "reverted"), ("5s", &waited, "reverted"), ("1m", &unloaded, "interrupted")];
    for (time, end, result) in ends {
        begin(&format!("--trial {time} --percent 50")).stdout_has("50 % of the new connections");
        let count = tried(lab);
        assert!((60..140).contains(&count), "{count} of {CONNECTIONS}");
        let guard = guard();
        end();
        until_ended(guard);
        assert_eq!((tried(lab), generation(NAME)), (0, (Some(1), None)));
        assert_eq!((is_available(TRIAL_NAME), last_trial().0.as_str()), (false, result));
    }
    begin("--trial 1m");
    let mut open = choose(lab);
    assert_eq!((tried(lab), algorithm_of(&open[0]).as_str()), (CONNECTIONS, TRIAL_NAME));
    assert_eq!(run(0, "confirm").stdout(), format!("the upgrade of \"{NAME}\" is confirmed and stays\n"));
    assert_eq!((tried(lab), algorithm_of(&open[0]).as_str()), (0, TRIAL_NAME), "open connections keep it");
    assert_eq!((generation(NAME), instance(NAME)["previous_generation"].as_u64()), ((Some(2), Some(896)), Some(1)));
    assert!(!is_available(TRIAL_NAME) && !Path::new("/sys/fs/bpf/tccc/policy").exists());
    let [client, server] = &mut open;
    client.write_all(&[7; 1000]).unwrap();
    let mut received = [0; 1000];
    server.read_exact(&mut received).unwrap();
    assert_eq!(received, [7; 1000]);
    run(0, &format!("rollback {NAME}"));
    run(0, &format!("unload {NAME}"));
}

/// A rule that gives the old code gives the code on trial to half of its connections.
#[test]
fn upgrade_on_trial_splits_the_connections_of_rules() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    run(0, &format!("load dtcp --as {NAME}"));
    lab.apply(0, &format!("use = \"{NAME}\""), "");
    run(0, &format!("upgrade {NAME} --set keep_avoidance=896 --trial 1m --percent 50"));
    let names: Vec<String> = (0..CONNECTIONS).map(|_| algorithm_of(&lab.connect()[0])).collect();
    let count = names.iter().filter(|name| *name == TRIAL_NAME).count();
    assert!((60..140).contains(&count) && names.iter().all(|name| name.starts_with(NAME)), "{names:?}");
    run(0, "confirm");
    assert_eq!((lab.given().as_str(), generation(NAME).0), (NAME, Some(2)));
    assert_eq!(status()["policy"]["generation"], 1, "the earlier policy");
    run(0, "policy remove");
    run(0, &format!("unload {NAME}"));
}

/// The algorithms that new connections of the host and of the lab got while `act` ran.
fn watched(lab: &TrialLab, act: impl FnOnce()) -> BTreeSet<String> {
    let (here, seen, is_over) = (Netns::current().unwrap(), Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let got = [connect(&here), lab.connect()].map(|ends| algorithm_of(&ends[0]));
                seen.lock().unwrap().extend(got);
            }
        });
        act();
        is_over.store(true, Ordering::Relaxed);
    });
    seen.into_inner().unwrap()
}

fn other_settings() -> Vec<Setting> {
    catalog::find("dtcp").unwrap().settings(&["keep_avoidance=896".to_owned()]).unwrap()
}

#[test]
fn upgrade_without_links_leaves_no_gap_for_rules_and_the_default() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let (features, before) = (without_links(), default());
    let settings = other_settings();
    let other = Request { settings: &settings, ..dtcp_as(NAME) };
    for on_trial_first in [false, true] {
        gate::load(&dtcp_as(NAME), LoadOptions { make_default: true, ..LoadOptions::default() }, &features).unwrap();
        lab.apply(0, &format!("use = \"{NAME}\""), "");
        let seen = if on_trial_first {
            let trial =
                ShareTrial { patience: Duration::from_secs(60), portion: Portion(5000), limits: RuleTrial::default() };
            gate::try_upgrade(&other, &features, &trial, tccc().args(["guard", "--trial"])).unwrap();
            // The confirmation was once refused because the trial was still running.
            let seen = watched(lab, || drop(gate::keep(Some(NAME), &features).unwrap()));
            until_no_process();
            assert!(on_trial().is_null());
            seen
        } else {
            watched(lab, || drop(gate::upgrade(&other, &features, false).unwrap()))
        };
        assert_eq!(seen, BTreeSet::from([NAME.to_owned(), TRIAL_NAME.to_owned()]));
        assert_eq!(generation(NAME), (Some(2), Some(896)));
        if !on_trial_first {
            let seen = watched(lab, || drop(gate::rollback(NAME, &features, false).unwrap()));
            assert_eq!(seen, BTreeSet::from([NAME.to_owned(), format!("{NAME}_g3")]));
            assert_eq!(generation(NAME), (Some(3), None));
        }
        assert_eq!((default().as_str(), lab.given().as_str()), (NAME, NAME));
        assert_eq!(status()["instances"].as_array().unwrap().len(), 1, "no temporary name is left");
        assert!(!is_available(TRIAL_NAME));
        run(0, "policy remove");
        run(0, &format!("unload {NAME}"));
        assert_eq!(default(), before, "the default before the first load");
    }
}

/// An algorithm that was loaded with a policy was once unloaded during the upgrade, because no rule named it for a moment.
#[test]
fn algorithm_of_a_policy_is_upgraded_without_links() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(0, "use = \"dtcp\"", "");
    let settings = other_settings();
    let request = Request { settings: &settings, ..dtcp_as("dtcp") };
    gate::upgrade(&request, &without_links(), false).unwrap();
    assert_eq!(lab.given(), "dtcp");
    let instances = status()["instances"].clone();
    assert_eq!((instances[0]["generation"].as_u64(), instances[0]["with_policy"].as_bool()), (Some(2), Some(true)));
    assert_eq!(instances.as_array().unwrap().len(), 1);
    run(0, "policy remove");
    assert!(!is_available("dtcp"), "it is unloaded with the policy");
    run(1, "confirm").stderr_has("nothing");
}
