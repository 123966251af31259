//! The guard on real traffic: it reverts what is worse and keeps evidence; what is equal stays.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::path::{Path, PathBuf};

use tccc::trial::incident::TRANSIENT;

use super::*;
use crate::lab::sandbox::{BALLAST, fill_run, resize_run};
use crate::trial::link::{ManyPeers, short_queue};
use crate::trial::steps::begin;

const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// For trials whose result does not depend on how much traffic passes between two looks.
pub const LOOKS_OFTEN: &str = "guard.look=1000 guard.tick=200";
/// Time from the look that shows harm until the trial is reverted.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Connects to many peers of the loopback interface. The server resets the connections for which `resets` returns true.
fn connect_many(lab: &TrialLab, connections: usize, resets: impl Fn(&TcpStream, usize) -> bool) {
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

fn policy(lab: &TrialLab, guard: &str) -> PathBuf {
    lab.policy(&format!("remote_port = 7100\nsplit = {{ {BEFORE} = 50, keep = 50 }}\nguard = {guard}"))
}

fn incidents() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(STATE_FOLDER).join("incidents")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Reads the only incident, and its recording as a user does.
fn incident() -> Value {
    let mut folders = incidents();
    poll_until(SOON, "the incident is written", || {
        folders = incidents();
        folders.len() == 1 && folders[0].join("incident.json").exists()
    });
    let incident: Value = serde_json::from_slice(&fs::read(folders[0].join("incident.json")).unwrap()).unwrap();
    assert_eq!(incident["schema"], 1);
    assert_eq!(incident["recordings"].as_array().unwrap().last().unwrap(), "recording.tccc");
    let recording = folders[0].join("recording.tccc");
    assert!(!check(0, tccc().arg("report").arg(&recording).args(["-o", "json"])).json().is_null());
    let events = check(0, tccc().args(["trace", "-o", "csv", "--replay"]).arg(&recording)).stdout();
    assert!(events.lines().count() > 100, "{} events", events.lines().count());
    let mut session = Session::start(120, 40, &["top", "--replay", recording.to_str().unwrap()]);
    session.until("connections of the recording", |screen| screen.contains("sockets") && screen.contains(DEFAULT));
    session.send("q");
    assert_eq!(session.end(), Some(0));
    incident
}

#[test]
fn crossed_limit_reverts_the_trial_and_keeps_evidence() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(0, "remote_port = 7200\nuse = \"cubic\"", "");
    let file = policy(lab, "[\"abnormal_ends<1.2x\", \"timeouts<2x\"]");
    check(0, tccc().args(["policy", "apply"]).arg(&file));
    until_guard_has_looked();
    // Resets one of ten connections, but one of three treated ones.
    connect_many(lab, 2_400, |client, number| number % if algorithm_of(client) == BEFORE { 3 } else { 10 } == 0);
    let before = Instant::now();
    poll_until(LOOK_INTERVAL + SOON, "the look that shows it", || !last_trial().0.is_empty());
    println!("reverted {:?} after the last connection", before.elapsed());
    assert!(before.elapsed() < LOOK_INTERVAL + AT_ONCE);
    let (result, why) = last_trial();
    let words = "rule \"web\": \"cubic\" crossed the limit abnormal_ends<1.2x: abnormal_ends is ";
    assert!(result == "reverted" && why.starts_with(words), "{why}");
    assert_eq!(status()["policy"]["generation"], 1, "the earlier policy decides");
    until_no_process();
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
    assert_eq!((rule["limits"][1]["state"].as_str(), &rule["is_broken"]), (Some("undecided"), &Value::from(false)));
    assert!(incident["history"].as_array().unwrap().len() >= 2);
    run(0, "policy remove");
}

/// The recording grew to 64 MiB whatever was free, and kept its files after `/run` was full.
#[test]
fn recording_leaves_run_to_others_when_space_is_short() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    resize_run("20m");
    lab.apply(0, &format!("use = \"{BEFORE}\"\nguard = \"retransmitted<50%\""), "--trial 5m");
    let recorded = || TRANSIENT.iter().any(|name| Path::new("/run/tccc/policy").join(name).exists());
    poll_until(SOON, "the recording begins", recorded);
    fill_run("20m");
    poll_until(SOON, "the recording makes room", || !recorded());
    fs::remove_file(BALLAST).unwrap();
    assert!(!on_trial().is_null(), "the trial goes on");
    run(0, "policy abort");
    until_no_process();
}

/// The evidence cannot be written, but the limit still reverts the trial.
#[test]
fn absolute_limit_reverts_without_a_writable_state_folder() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let _short = shorten_waits(LOOKS_OFTEN);
    let rule = format!("remote_port = 7100\nuse = \"{BEFORE}\"\nguard = \"abnormal_ends<5%\"");
    let mut apply = tccc();
    apply.args(["policy", "apply"]).arg(lab.policy(&rule)).env("STATE_DIRECTORY", "/proc/tccc");
    check(0, &mut apply);
    until_guard_has_looked();
    connect_many(lab, 300, |_, number| number % 2 == 0);
    poll_until(LOOK_INTERVAL + SOON, "the limit is crossed", || on_trial().is_null());
    assert_eq!(lab.given(), DEFAULT);
    until_no_process();
    assert!(incidents().is_empty());
    assert_nothing_left();
}

#[test]
fn rule_that_freezes_keeps_its_share_and_evidence() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let _short = shorten_waits(LOOKS_OFTEN);
    let limits = vec!["abnormal_ends<5%".parse().unwrap()];
    begin(lab, 50, RuleTrial { limits, on_fail: OnFail::Freeze, ..RuleTrial::default() });
    until_guard_has_looked();
    connect_many(lab, 400, |_, number| number % 2 == 0);
    let state = || on_trial()["view"]["rules"][0]["state"].clone();
    poll_until(LOOK_INTERVAL + SOON, "an incident", || incidents().len() == 1);
    assert_eq!(incident()["rules"][0]["limits"][0]["state"], "crossed");
    poll_until(LOOK_INTERVAL + SOON, "the rule is frozen", || state() == "frozen");
    assert_eq!((on_trial()["guard_lives"].as_bool(), incidents().len()), (Some(true), 1));
    run(0, "policy abort");
}

/// A sender that keeps so many packets in flight that a short queue drops some.
const GREEDY: &str = include_str!("../../fixtures/objects/greedy.bpf.c.in");

const WORKERS: usize = 4;

#[test]
fn algorithm_that_loses_more_packets_is_reverted() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2, tun, clang);
    let _short = shorten_waits(LOOKS_OFTEN);
    let link = ManyPeers::build(&lab.netns, 100, short_queue());
    check(0, tccc().arg("load").arg(compile_text(lab.folder(), "greedy", GREEDY)));
    let rule = "direction = \"out\"\nsplit = { ldk_greedy = 50, keep = 50 }\nguard = \"retransmitted<1.2x\"";
    let file = lab.policy(rule);
    check(0, tccc().args(["policy", "apply"]).arg(&file)).stdout_has("rule \"web\", retransmitted<1.2x:");
    until_guard_has_looked();
    let begin = Instant::now();
    link.transfer(&lab.netns, WORKERS, &[90_000; 1_400], drop);
    println!("1,400 transfers in {:?}", begin.elapsed());
    poll_until(2 * LOOK_INTERVAL + SOON, "the limit is crossed", || on_trial().is_null());
    let (result, why) = last_trial();
    assert!(result == "reverted" && why.contains("\"ldk_greedy\" crossed the limit retransmitted<1.2x"), "{why}");
    assert_eq!(lab.given(), DEFAULT);
    println!("{why}, {:?} after the first connection", begin.elapsed());
    assert!(incident()["rules"][0]["arms"][0]["values"]["retransmitted"].as_f64().unwrap() > 0.01);
    run(0, "unload ldk_greedy");
    poll_until(SOON, "the guard has ended", || processes().is_empty());
    run(0, "policy remove"); // and the labels of connections whose last packet was lost
}

/// A variable for a longer run than in CI, in seconds.
const EQUAL_SECONDS: &str = "TCCC_GUARD_EQUAL_SECONDS";

#[test]
fn equal_algorithm_stays() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2, tun);
    let _short = shorten_waits("guard.look=2000 guard.tick=200");
    let seconds = std::env::var(EQUAL_SECONDS).map_or(6, |text| text.parse().unwrap());
    let direction = Direction { loss: tccc::units::Share(0.01).into(), ..short_queue() };
    let link = ManyPeers::build(&lab.netns, 100, direction);
    let split = format!("split = {{ {DEFAULT} = 50, keep = 50 }}");
    let limits = "guard = [\"retransmitted<1.2x\", \"timeouts<1.5x\", \"rtt_inflation<1.2x\", \"goodput>0.8x\", \"abnormal_ends<1.5x\"]";
    lab.apply(0, &format!("direction = \"out\"\n{split}\n{limits}"), "");
    until_guard_has_looked();
    let (begin, mut rounds) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(seconds) {
        link.transfer(&lab.netns, WORKERS, &[40_000; 400], drop);
        rounds += 1;
    }
    poll_until(LOOK_INTERVAL + SOON, "a look at all of them", || counted_connections() >= rounds * 400);
    let view = on_trial()["view"]["rules"][0].clone();
    println!("{} s, {} connections: {}", begin.elapsed().as_secs(), rounds * 400, view["limits"]);
    assert_eq!(view["is_broken"], false);
    let states: Vec<&Value> = view["limits"].as_array().unwrap().iter().map(|limit| &limit["state"]).collect();
    assert!(states.len() == 5 && states.iter().all(|state| **state != "crossed"), "{view}");
    run(0, "policy abort");
    run(0, "policy remove"); // as above
}
