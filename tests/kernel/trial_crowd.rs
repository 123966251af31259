//! Many connections transfer all the while that everything is done to them that a host's operator can do; and thousands of
//! cycles leave the kernel as it was.

mod crowd;
mod cycles;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::common::{STATE_FOLDER, host_has, inhabit, poll_until, tccc};
use crate::lab::policy::traffic::Carried;
use crate::lab::sandbox::{available, check, run};
use crate::lab::trial::{BEFORE, Lab, SOON, in_lab, last_trial, on_trial, processes, start, status};
use crowd::Crowd;

/// Variable for the number that the requirement names; CI has time for fewer.
const CONNECTIONS: &str = "TCCC_TRIAL_CONNECTIONS";
const CONNECTIONS_IN_CI: usize = 200;
const NAME: &str = "ldk_crowd";
const UPGRADES: usize = 20;
/// Lowest retransmission timeout of Linux.
const RTO: Duration = Duration::from_millis(200);
/// The port of connections that rules are for, of those that they are not for, and of those that trip the guard.
const TREATED: u16 = 7300;
const CONTROL: u16 = 7400;
const TRIP: u16 = 7500;

fn policy(lab: &Lab, percent: u32, more: &str) -> std::path::PathBuf {
    let arms = match percent {
        100 => format!("use = \"{NAME}\""),
        _ => format!("split = {{ {NAME} = {percent}, keep = {} }}", 100 - percent),
    };
    let file = lab.file("policy.toml");
    let rule = |name: &str, port, rest: &str| {
        format!("[[rule]]\nname = \"{name}\"\nnetns = \"{}\"\nremote_port = {port}\n{rest}\n", lab.place())
    };
    fs::write(&file, format!("version = 1\n{}{more}", rule("crowd", TREATED, &arms))).unwrap();
    file
}

#[track_caller]
fn apply(lab: &Lab, percent: u32, more: &str) {
    check(0, tccc().args(["policy", "apply", "--live", "--accept-risk"]).arg(policy(lab, percent, more)));
}

#[test]
fn transfers_stand_whatever_is_done_to_them() {
    let count = std::env::var(CONNECTIONS).map_or(CONNECTIONS_IN_CI, |text| text.parse().unwrap());
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let _inhabitant = inhabit(&lab.netns);
        // A quarter of them is left alone.
        let treated = Crowd::gather(&lab.netns, TREATED, count * 3 / 4);
        let control = Crowd::gather(&lab.netns, CONTROL, count / 4);
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
        let mut unload = start(tccc().args(["unload", NAME, "--drain", "60s"]));
        poll_until(SOON, "it is unregistered", || !available().contains(&NAME.to_owned()));
        treated.goes_on();
        control.goes_on();
        assert_eq!(treated.with(NAME), count * 3 / 4, "open connections keep it");
        let [treated, control] = [treated, control].map(Crowd::end);
        assert!(unload.wait().unwrap().success(), "the drain ends with the last connection");
        report(count, &treated, &control);
    });
}

fn report(count: usize, treated: &Carried, control: &Carried) {
    let bytes = treated.bytes + control.bytes;
    println!(
        "{count} connections, {} MiB checked; longest stall {:?}, of those left alone {:?}",
        bytes >> 20,
        treated.longest,
        control.longest
    );
    assert!(treated.longest <= control.longest + RTO, "{treated:?} {control:?}");
}

/// A second rule gets a guard, and its connections are reset: everything goes back to the policy before.
fn trip(lab: &Lab) {
    let rule = format!(
        "[[rule]]\nname = \"trip\"\nnetns = \"{}\"\nremote_port = {TRIP}\nuse = \"{BEFORE}\"\nguard = \"abnormal_ends<5%\"\n",
        lab.place()
    );
    let before = status()["policy"]["generation"].clone();
    apply(lab, 100, &rule);
    poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
    lab.netns
        .run(|| {
            let listener = TcpListener::bind(("127.0.0.1", TRIP))?;
            for _ in 0..200 {
                let mut client = std::net::TcpStream::connect(("127.0.0.1", TRIP))?;
                client.write_all(&[7])?;
                drop(listener.accept()?.0); // with a byte that nobody read: a reset
                let _ = client.read(&mut [0]);
            }
            Ok(())
        })
        .unwrap();
    poll_until(SOON, "the guard trips", || on_trial().is_null());
    poll_until(SOON, "its guard ends", || processes().is_empty());
    assert_eq!((last_trial().0.as_str(), &status()["policy"]["generation"]), ("reverted", &before));
    assert!(Path::new(STATE_FOLDER).join("incidents").is_dir());
}
