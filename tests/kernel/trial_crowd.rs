//! Many connections carry checked bytes through policies, upgrades and trials; and thousands of cycles leave nothing.

mod crowd;
mod cycles;

use std::io::{Read as _, Write as _};

use crowd::CheckedCrowd;

use super::*;
use crate::common::{STATE_FOLDER, holds_within};
use crate::lab::policy::traffic::TrafficSummary;
use crate::lab::socket::path_of;
use crate::lab::trial::{BEFORE, DEFAULT, TrialLab, last_trial, status, until_guard_has_looked, until_no_process};

/// A variable for the number of connections. CI has time for fewer than the requirement has.
const CONNECTIONS: &str = "TCCC_TRIAL_CONNECTIONS";
const CONNECTIONS_IN_CI: usize = 200;
const NAME: &str = "ldk_crowd";
const UPGRADES: usize = 20;
/// Linux's minimum retransmission timeout.
const RTO: Duration = Duration::from_millis(200);
/// Ports of connections that match the rules, that match none, and that trip the guard.
const TREATED: u16 = 7300;
const CONTROL: u16 = 7400;
const TRIP: u16 = 7500;

fn policy(lab: &TrialLab, percent: u32, more: &str) -> std::path::PathBuf {
    let arms = match percent {
        100 => format!("use = \"{NAME}\""),
        _ => format!("split = {{ {NAME} = {percent}, keep = {} }}", 100 - percent),
    };
    let file = lab.file("policy.toml");
    let rule = |name: &str, port, rest: &str| {
        format!("[[rule]]\nname = \"{name}\"\nnetns = \"{}\"\nremote_port = {port}\n{rest}\n", path_of(&lab.netns))
    };
    fs::write(&file, format!("version = 1\n{}{more}", rule("crowd", TREATED, &arms))).unwrap();
    file
}

#[track_caller]
fn apply(lab: &TrialLab, percent: u32, more: &str) {
    check(0, tccc().args(["policy", "apply", "--live", "--accept-risk"]).arg(policy(lab, percent, more)));
}

#[test]
fn transfers_survive_policies_upgrades_and_trials() {
    let count = std::env::var(CONNECTIONS).map_or(CONNECTIONS_IN_CI, |text| text.parse().unwrap());
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    // A quarter matches no rule.
    let treated = CheckedCrowd::gather(&lab.netns, TREATED, count * 3 / 4);
    let control = CheckedCrowd::gather(&lab.netns, CONTROL, count / 4);
    run(0, &format!("load dtcp --as {NAME}"));
    for percent in [5, 50, 100] {
        apply(lab, percent, "");
        treated.goes_on();
    }
    assert_eq!(treated.with(NAME), count * 3 / 4, "--live moved them");
    for number in 0..UPGRADES {
        let sockets = if number % 2 == 0 { " --sockets" } else { "" };
        run(0, &format!("upgrade {NAME} --accept-risk --set keep_avoidance={}{sockets}", 850 + number));
    }
    treated.goes_on();
    run(0, &format!("rollback {NAME} --sockets"));
    treated.goes_on();
    trip(lab);
    treated.goes_on();
    assert_eq!(treated.with(NAME), count * 3 / 4);
    run(0, "policy remove");
    let mut unload = begin_quietly(tccc().args(["unload", NAME, "--drain", "60s"]));
    poll_until(SOON, "the name is unregistered", || !is_available(NAME));
    treated.goes_on();
    control.goes_on();
    assert_eq!(treated.with(NAME), count * 3 / 4, "open connections keep it");
    let [treated, control] = [treated, control].map(CheckedCrowd::end);
    assert!(unload.wait().unwrap().success(), "the drain ends with the last connection");
    report(count, &treated, &control);
}

fn report(count: usize, treated: &TrafficSummary, control: &TrafficSummary) {
    let bytes = treated.bytes + control.bytes;
    println!(
        "{count} connections, {} MiB checked; longest stall {:?}, of those left alone {:?}",
        bytes >> 20,
        treated.longest,
        control.longest
    );
    assert!(treated.longest <= control.longest + RTO, "{treated:?} {control:?}");
}

/// Applies a second rule with a guard and resets its connections. The guard restores the earlier policy.
fn trip(lab: &TrialLab) {
    let rule = format!(
        "[[rule]]\nname = \"trip\"\nnetns = \"{}\"\nremote_port = {TRIP}\nuse = \"{BEFORE}\"\nguard = \"abnormal_ends<5%\"\n",
        path_of(&lab.netns)
    );
    let before = status()["policy"]["generation"].clone();
    let _short = shorten_waits("guard.look=1000 guard.tick=200");
    apply(lab, 100, &rule);
    until_guard_has_looked();
    lab.netns
        .run(|| {
            let listener = TcpListener::bind(("127.0.0.1", TRIP))?;
            for _ in 0..200 {
                let mut client = std::net::TcpStream::connect(("127.0.0.1", TRIP))?;
                client.write_all(&[7])?;
                drop(listener.accept()?.0); // the unread byte causes a reset
                let _ = client.read(&mut [0]);
            }
            Ok(())
        })
        .unwrap();
    poll_until(SOON, "the guard trips", || on_trial().is_null());
    until_no_process();
    assert_eq!((last_trial().0.as_str(), &status()["policy"]["generation"]), ("reverted", &before));
    assert!(Path::new(STATE_FOLDER).join("incidents").is_dir());
}
