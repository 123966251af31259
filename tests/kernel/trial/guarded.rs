//! The guard on real traffic: what is worse is taken back, with its evidence; what is equal stays.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use tccc::path::Direction;
use tccc::policy::rule::{OnFail, RuleTrial};
use tccc::units::{BitsPerSec, QueueSize};

use crate::common::{STATE_FOLDER, host_has, poll_until, tccc};
use crate::lab::policy::object::compile_text;
use crate::lab::pty::Session;
use crate::lab::sandbox::{assert_nothing_left, check, run, stdout};
use crate::lab::trial::{BEFORE, DEFAULT, Lab, SOON, algorithm_of, in_lab, last_trial, on_trial, processes, status};
use crate::trial::link::Link;
use crate::trial::steps::begin;

/// The guard looks every ten seconds.
const LOOK: Duration = Duration::from_secs(10);
/// From the look that shows harm until new connections are decided as before.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Waits until the guard has looked for the first time: from then on it counts.
fn until_it_counts() {
    poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
}

/// Connections to many peers of the loopback interface; the server resets those for which `resets` says so.
fn connect_many(lab: &Lab, connections: usize, resets: impl Fn(&TcpStream, usize) -> bool) {
    const PEERS: usize = 200;
    lab.netns
        .run(|| {
            let listener = TcpListener::bind("0.0.0.0:7100")?;
            for number in 0..connections {
                let peer = Ipv4Addr::new(127, 3, 0, 1 + (number % PEERS) as u8);
                let mut client = TcpStream::connect(SocketAddrV4::new(peer, 7100))?;
                let mut server = listener.accept()?.0;
                client.write_all(&[7; 2000])?;
                server.read_exact(&mut [0; 2000])?;
                if resets(&client, number) {
                    setsockopt(&server, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
                    drop(server);
                } else {
                    drop(server);
                    client.shutdown(Shutdown::Write)?;
                }
                let _ = client.read(&mut [0]); // the reset, or the end
            }
            Ok(())
        })
        .unwrap();
}

/// A rule for the clients of [`connect_many`].
fn policy(lab: &Lab, guard: &str) -> PathBuf {
    lab.policy(&format!("remote_port = 7100\nsplit = {{ {BEFORE} = 50, keep = 50 }}\nguard = {guard}"))
}

/// The folders of incidents so far.
fn incidents() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(STATE_FOLDER).join("incidents")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Reads the one incident, and its recording as a user does.
fn incident() -> Value {
    let mut folders = incidents();
    poll_until(SOON, "the incident is written", || {
        folders = incidents();
        folders.len() == 1 && folders[0].join("incident.json").exists()
    });
    let incident: Value = serde_json::from_slice(&fs::read(folders[0].join("incident.json")).unwrap()).unwrap();
    assert_eq!(incident["schema"], 1);
    let recordings: Vec<&str> =
        incident["recordings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(recordings.last(), Some(&"recording.tccc"), "the recording is there");
    let recording = folders[0].join("recording.tccc");
    let report = stdout(&check(0, tccc().arg("report").arg(&recording).args(["-o", "json"])));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(!report.is_null());
    let events = stdout(&check(0, tccc().args(["trace", "-o", "csv", "--replay"]).arg(&recording)));
    assert!(events.lines().count() > 100, "{} events", events.lines().count());
    let mut session = Session::start(120, 40, &["top", "--replay", recording.to_str().unwrap()]);
    session.until("connections of the recording", |screen| screen.contains("sockets") && screen.contains(DEFAULT));
    session.send("q");
    assert_eq!(session.end(), Some(0));
    incident
}

#[test]
fn limit_that_is_crossed_reverts_everything_and_keeps_the_evidence() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(0, "remote_port = 7200\nuse = \"cubic\"", "");
        let file = policy(lab, "[\"abnormal_ends<1.2x\", \"timeouts<2x\"]");
        check(0, tccc().args(["policy", "apply"]).arg(&file));
        until_it_counts();
        // A proxy that breaks one of ten connections, but one of three of those that are treated.
        connect_many(lab, 2_400, |client, number| number % if algorithm_of(client) == BEFORE { 3 } else { 10 } == 0);
        let before = Instant::now();
        poll_until(LOOK + SOON, "the look that shows it", || !last_trial().0.is_empty());
        println!("reverted {:?} after the last connection", before.elapsed());
        assert!(before.elapsed() < LOOK + AT_ONCE);
        let (result, why) = last_trial();
        let words = "rule \"web\": \"cubic\" crossed the limit abnormal_ends<1.2x: abnormal_ends is ";
        assert!(result == "reverted" && why.starts_with(words), "{why}");
        assert_eq!(status()["policy"]["generation"], 1, "the policy before decides");
        poll_until(SOON, "the guard ends", || processes().is_empty());
        let incident = incident();
        assert_eq!((&incident["why"], &incident["subject"]["kind"]), (&Value::from(why), &Value::from("policy")));
        assert_eq!(incident["file"], file.to_str().unwrap());
        assert!(incident["policy"].as_str().unwrap().contains("guard = [\"abnormal_ends<1.2x\", \"timeouts<2x\"]"));
        let rule = &incident["rules"][0];
        for (arm, share) in rule["arms"].as_array().unwrap().iter().zip([0.33, 0.1]) {
            assert!((arm["values"]["abnormal_ends"].as_f64().unwrap() - share).abs() < 0.05, "{arm}");
            assert!((1000..1400).contains(&arm["connections"].as_u64().unwrap()), "{arm}");
        }
        let limit = &rule["limits"][0];
        assert!(limit["evidence"][0].as_f64() >= limit["needed"].as_f64() && limit["state"] == "crossed", "{limit}");
        assert!(limit["ratio"].as_f64().unwrap() > 2.0 && limit["interval"][0].as_f64().unwrap() > 1.2, "{limit}");
        assert_eq!(
            (&rule["limits"][1]["state"], rule["is_broken"].as_bool()),
            (&Value::from("undecided"), Some(false))
        );
        assert!(incident["history"].as_array().unwrap().len() >= 2);
        run(0, "policy remove");
    });
}

/// Nowhere to write the evidence: the limit counts all the same. It is absolute, and needs no comparison.
#[test]
fn absolute_limit_reverts_where_nothing_can_be_written_too() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let rule = format!("remote_port = 7100\nuse = \"{BEFORE}\"\nguard = \"abnormal_ends<5%\"");
        let mut apply = tccc();
        apply.args(["policy", "apply"]).arg(lab.policy(&rule)).env("STATE_DIRECTORY", "/proc/tccc");
        check(0, &mut apply);
        until_it_counts();
        connect_many(lab, 300, |_, number| number % 10 == 0);
        poll_until(LOOK + SOON, "the limit is crossed", || on_trial().is_null());
        assert_eq!(lab.given(), DEFAULT);
        poll_until(SOON, "the guard ends", || processes().is_empty());
        assert!(incidents().is_empty());
        assert_nothing_left();
    });
}

#[test]
fn rule_that_freezes_stays_as_it_is_with_its_evidence() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let limits = vec!["abnormal_ends<5%".parse().unwrap()];
        begin(lab, 50, RuleTrial { limits, on_fail: OnFail::Freeze, ..RuleTrial::default() });
        until_it_counts();
        connect_many(lab, 400, |_, number| number % 5 == 0);
        let state = || on_trial()["view"]["rules"][0]["state"].clone();
        poll_until(LOOK + SOON, "an incident", || incidents().len() == 1);
        assert_eq!(incident()["rules"][0]["limits"][0]["state"], "crossed");
        poll_until(LOOK + SOON, "the rule is frozen", || state() == "frozen");
        assert_eq!(
            (on_trial()["guard_lives"].as_bool(), incidents().len()),
            (Some(true), 1),
            "it is not crossed again"
        );
        run(0, "policy abort");
    });
}

/// A sender that always keeps so many packets in flight that a short queue loses a part of them.
const GREEDY: &str = include_str!("../../fixtures/objects/greedy.bpf.c.in");

/// Transfers at a time.
const WORKERS: usize = 4;

fn short_queue() -> Direction {
    Direction {
        rate: Some(BitsPerSec(200_000_000)),
        delay: Duration::from_millis(2),
        queue: QueueSize::Packets(40),
        seed: 3,
        ..Direction::default()
    }
}

#[test]
fn algorithm_that_loses_more_packets_is_taken_back() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2, tun, clang), |lab| {
        let link = Link::build(&lab.netns, 100, short_queue());
        check(0, tccc().arg("load").arg(compile_text(lab.folder(), "greedy", GREEDY)));
        let rule = "direction = \"out\"\nsplit = { ldk_greedy = 50, keep = 50 }\nguard = \"retransmitted<1.2x\"";
        let file = lab.policy(rule);
        check(0, tccc().args(["policy", "apply"]).arg(&file)).stdout_has("rule \"web\", retransmitted<1.2x:");
        until_it_counts();
        let begin = Instant::now();
        link.transfer(&lab.netns, WORKERS, &[90_000; 1_400], drop);
        println!("1,400 transfers in {:?}", begin.elapsed());
        poll_until(2 * LOOK + SOON, "the limit is crossed", || on_trial().is_null());
        let (result, why) = last_trial();
        assert!(result == "reverted" && why.contains("\"ldk_greedy\" crossed the limit retransmitted<1.2x"), "{why}");
        assert_eq!(lab.given(), DEFAULT);
        println!("{why}, {:?} after the first connection", begin.elapsed());
        assert!(incident()["rules"][0]["arms"][0]["values"]["retransmitted"].as_f64().unwrap() > 0.01);
        run(0, "unload ldk_greedy");
    });
}

/// Variable for a longer run than CI has time for, seconds.
const EQUAL_SECONDS: &str = "TCCC_GUARD_EQUAL_SECONDS";

#[test]
fn equal_algorithm_stays() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2, tun), |lab| {
        let seconds = std::env::var(EQUAL_SECONDS).map_or(6, |text| text.parse().unwrap());
        let direction = Direction { loss: tccc::units::Share(0.01).into(), ..short_queue() };
        let link = Link::build(&lab.netns, 100, direction);
        let split = format!("split = {{ {DEFAULT} = 50, keep = 50 }}");
        let limits = "guard = [\"retransmitted<1.2x\", \"timeouts<1.5x\", \"rtt_inflation<1.2x\", \"goodput>0.8x\", \"abnormal_ends<1.5x\"]";
        lab.apply(0, &format!("direction = \"out\"\n{split}\n{limits}"), "");
        until_it_counts();
        let (begin, mut rounds) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(seconds) {
            link.transfer(&lab.netns, WORKERS, &[40_000; 400], drop);
            rounds += 1;
        }
        poll_until(LOOK + SOON, "a look at all of them", || {
            let arms = on_trial()["view"]["rules"][0]["arms"].clone();
            let seen =
                arms.as_array().map_or(0, |arms| arms.iter().filter_map(|arm| arm["connections"].as_u64()).sum());
            seen >= rounds * 400
        });
        let view = on_trial()["view"]["rules"][0].clone();
        println!("{} s, {} connections: {}", begin.elapsed().as_secs(), rounds * 400, view["limits"]);
        assert_eq!(view["is_broken"], false);
        let states: Vec<&Value> = view["limits"].as_array().unwrap().iter().map(|limit| &limit["state"]).collect();
        assert!(states.len() == 5 && states.iter().all(|state| **state != "crossed"), "{view}");
        run(0, "policy abort");
    });
}
