//! Upgrades on trial, and upgrades where the kernel cannot swap code under a name.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lab::socket::connect_with;
use tccc::catalog::{self, Setting};
use tccc::kernel::netns::Netns;
use tccc::kernel::probe::Features;
use tccc::loader::{self, LoadOptions, Request};
use tccc::policy::rule::Portion;
use tccc::trial::upgrade::{self, UpgradeTrial};

use crate::common::{host_has, poll_until, tccc};
use crate::lab::sandbox::{assert_nothing_left, available, default, instance, run, stdout};
use crate::lab::trial::{
    Lab, SOON, algorithm_of, connect, guard, in_lab, is_gone, last_trial, on_trial, processes, start, status,
};

const NAME: &str = "ldk_up";
const TRIAL_NAME: &str = "ldk_up_g2";
const CONNECTIONS: usize = 200;

/// A connection whose client chose the algorithm itself.
fn choose(lab: &Lab) -> [TcpStream; 2] {
    let ends = lab.netns.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        Ok([connect_with(listener.local_addr()?, NAME)?, listener.accept()?.0])
    });
    ends.unwrap()
}

/// How many of new connections that choose the name get the code on trial.
fn tried(lab: &Lab) -> usize {
    let names: Vec<String> = (0..CONNECTIONS).map(|_| algorithm_of(&choose(lab)[0])).collect();
    assert!(names.iter().all(|name| name == NAME || name == TRIAL_NAME), "{names:?}");
    names.iter().filter(|name| *name == TRIAL_NAME).count()
}

#[test]
fn upgrade_on_trial_is_confirmed_aborted_or_over() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        run(0, &format!("load dtcp --as {NAME}"));
        let begin = |options: &str| run(0, &format!("upgrade {NAME} --set keep_avoidance=896 {options}"));
        let aborted = || drop(run(0, "policy abort"));
        let waited = || poll_until(SOON, "the time is over", || on_trial().is_null());
        let unloaded = || drop(run(0, &format!("unload {TRIAL_NAME}")));
        let ends: [(&str, &dyn Fn()); 3] = [("1m", &aborted), ("5s", &waited), ("1m", &unloaded)];
        for (time, end) in ends {
            assert!(stdout(&begin(&format!("--trial {time} --percent 50"))).contains("50 % of the new connections"));
            let count = tried(lab);
            assert!((60..140).contains(&count), "{count} of {CONNECTIONS}");
            let guard = guard();
            end();
            poll_until(SOON, "the guard ends", || is_gone(guard));
            assert_eq!((tried(lab), instance(NAME)["generation"].as_u64()), (0, Some(1)));
            assert_eq!((available().contains(&TRIAL_NAME.to_owned()), last_trial().0.as_str()), (false, "reverted"));
        }
        begin("--trial 1m");
        let mut open = choose(lab);
        assert_eq!((tried(lab), algorithm_of(&open[0]).as_str()), (CONNECTIONS, TRIAL_NAME));
        assert_eq!(stdout(&run(0, "confirm")), format!("the upgrade of \"{NAME}\" is confirmed and stays\n"));
        assert_eq!((tried(lab), algorithm_of(&open[0]).as_str()), (0, TRIAL_NAME), "open connections keep it");
        let now = instance(NAME);
        assert_eq!((now["generation"].as_u64(), now["previous_generation"].as_u64()), (Some(2), Some(1)));
        assert_eq!(now["tunables"]["keep_avoidance"], 896);
        assert!(!available().contains(&TRIAL_NAME.to_owned()) && !Path::new("/sys/fs/bpf/tccc/policy").exists());
        carry(&mut open);
        run(0, &format!("rollback {NAME}"));
        run(0, &format!("unload {NAME}"));
    });
}

fn carry([client, server]: &mut [TcpStream; 2]) {
    use std::io::{Read as _, Write as _};
    client.write_all(&[7; 1000]).unwrap();
    let mut received = [0; 1000];
    server.read_exact(&mut received).unwrap();
    assert_eq!(received, [7; 1000]);
}

/// Arms of the policy that give the old code are divided; rules for other connections decide as before.
#[test]
fn upgrade_on_trial_divides_what_rules_give() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        run(0, &format!("load dtcp --as {NAME}"));
        lab.apply(0, &format!("use = \"{NAME}\""), "");
        run(0, &format!("upgrade {NAME} --set keep_avoidance=896 --trial 1m --percent 50"));
        let names: Vec<String> = (0..CONNECTIONS).map(|_| algorithm_of(&lab.connect()[0])).collect();
        let count = names.iter().filter(|name| *name == TRIAL_NAME).count();
        assert!((60..140).contains(&count) && names.iter().all(|name| name.starts_with(NAME)), "{names:?}");
        run(0, "confirm");
        assert_eq!((lab.given().as_str(), instance(NAME)["generation"].as_u64()), (NAME, Some(2)));
        assert_eq!(status()["policy"]["generation"], 1, "the policy before");
        run(0, "policy remove");
        run(0, &format!("unload {NAME}"));
    });
}

/// A second upgrade would forget the code before.
#[test]
fn confirmation_of_an_upgrade_killed_at_each_step_is_carried_out_once() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for point in [
            "confirm.noted",
            "upgrade.noted",
            "upgrade.linked",
            "confirm.upgraded",
            "revert.swapped",
            "confirm.swapped",
        ] {
            run(0, &format!("load dtcp --as {NAME}"));
            run(0, &format!("upgrade {NAME} --set keep_avoidance=896 --trial 1m"));
            let mut killed = start(tccc().arg("confirm").env(tccc::fault::VARIABLE, point));
            assert!(!killed.wait().unwrap().success(), "{point} was not reached");
            poll_until(SOON, "the guard ends", || processes().is_empty());
            assert_eq!((tried(lab), on_trial().is_null()), (0, true), "{point}");
            let now = instance(NAME);
            assert_eq!(
                (now["generation"].as_u64(), now["previous_generation"].as_u64()),
                (Some(2), Some(1)),
                "{point}"
            );
            run(0, &format!("rollback {NAME}"));
            assert!(instance(NAME)["tunables"].as_object().unwrap().is_empty(), "{point}: the code before is kept");
            run(0, "unload --all");
            assert_nothing_left();
        }
    });
}

/// As a kernel before 6.4: no links for struct_ops.
fn without_links() -> Features {
    Features { links: false, link_update: false, ..Features::probe().unwrap() }
}

/// What new connections of the host, and of the lab's rule, got while something was done.
fn watched(lab: &Lab, act: impl FnOnce()) -> BTreeSet<String> {
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

/// The algorithm is the default, and a rule gives it; returns the tunables of other code for it.
fn given_by_default_and_rule(lab: &Lab, features: &Features) -> Vec<Setting> {
    let dtcp = catalog::find("dtcp").unwrap();
    let request = Request { name: NAME, ..Request::of(dtcp) };
    loader::load(&request, LoadOptions { make_default: true, ..LoadOptions::default() }, features).unwrap();
    lab.apply(0, &format!("use = \"{NAME}\""), "");
    dtcp.settings(&["keep_avoidance=896".to_owned()]).unwrap()
}

#[test]
fn upgrade_without_links_leaves_no_gap_for_rules_and_the_default() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let (features, before) = (without_links(), default());
        let settings = given_by_default_and_rule(lab, &features);
        let other = Request { name: NAME, settings: &settings, ..Request::of(catalog::find("dtcp").unwrap()) };
        let bridge = |number: u32| BTreeSet::from([NAME.to_owned(), format!("{NAME}_g{number}")]);
        let seen = watched(lab, || drop(upgrade::at_once(&other, &features, false).unwrap()));
        assert_eq!(seen, bridge(2));
        let now = instance(NAME);
        assert_eq!((now["generation"].as_u64(), now["tunables"]["keep_avoidance"].as_i64()), (Some(2), Some(896)));
        let seen = watched(lab, || drop(upgrade::rollback(NAME, &features, false).unwrap()));
        assert_eq!(seen, bridge(3));
        let now = instance(NAME);
        assert_eq!((now["generation"].as_u64(), now["tunables"].as_object().map(|it| it.len())), (Some(3), Some(0)));
        assert_eq!((default().as_str(), lab.given().as_str()), (NAME, NAME));
        assert_eq!(status()["instances"].as_array().unwrap().len(), 1, "no bridge is left");
        run(0, "policy remove");
        run(0, &format!("unload {NAME}"));
        assert_eq!(default(), before, "the default from before the first load");
    });
}

/// It was refused, because the trial was still on.
#[test]
fn upgrade_on_trial_without_links_can_be_confirmed() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let (features, before) = (without_links(), default());
        let settings = given_by_default_and_rule(lab, &features);
        let other = Request { name: NAME, settings: &settings, ..Request::of(catalog::find("dtcp").unwrap()) };
        let trial = UpgradeTrial { patience: Duration::from_secs(60), portion: Portion(5000), limits: None };
        upgrade::on_trial(&other, &features, &trial, tccc().args(["guard", "--trial"])).unwrap();
        let seen = watched(lab, || upgrade::conclude(NAME, TRIAL_NAME, &features).unwrap());
        assert_eq!(seen, BTreeSet::from([NAME.to_owned(), TRIAL_NAME.to_owned()]));
        poll_until(SOON, "the guard ends", || processes().is_empty());
        let now = instance(NAME);
        assert_eq!((now["generation"].as_u64(), now["tunables"]["keep_avoidance"].as_i64()), (Some(2), Some(896)));
        assert_eq!((default().as_str(), lab.given().as_str(), on_trial().is_null()), (NAME, NAME, true));
        assert!(!available().contains(&TRIAL_NAME.to_owned()));
        run(0, "policy remove");
        run(0, &format!("unload {NAME}"));
        assert_eq!(default(), before);
    });
}

/// An algorithm that was loaded with a policy went away under the upgrade, since for a moment no rule named it.
#[test]
fn algorithm_of_a_policy_is_upgraded_without_links() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(0, "use = \"dtcp\"", "");
        let dtcp = catalog::find("dtcp").unwrap();
        let settings = dtcp.settings(&["keep_avoidance=896".to_owned()]).unwrap();
        let request = Request { settings: &settings, ..Request::of(dtcp) };
        upgrade::at_once(&request, &without_links(), false).unwrap();
        assert_eq!(lab.given(), "dtcp");
        let instances = status()["instances"].clone();
        assert_eq!((instances[0]["generation"].as_u64(), instances[0]["with_policy"].as_bool()), (Some(2), Some(true)));
        assert_eq!(instances.as_array().unwrap().len(), 1);
        run(0, "policy remove");
        assert!(!available().contains(&"dtcp".to_owned()), "it goes with the policy");
        run(1, "confirm").stderr_has("nothing");
    });
}
