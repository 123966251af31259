//! Experiments on Mininet's hosts, which behave as our own namespaces and end with tccc; and a plain Mininet script.

use std::process::Command;

use tccc::emulate::mininet::Mininet;
use tccc::kernel::process::{OWNER, Process};
use tccc::lab::layout::settings_in_force;

use super::*;
use crate::common::experiment::{descendants, is_alive};
use crate::common::{Owned, TCCC, stdout};
use crate::experiments::ATTEMPTS;
use crate::lab::sandbox::Sandbox;

const RUNS: usize = 3;
/// Two hosts and a router. A run takes about two seconds.
const SMALL: &str = include_str!("../fixtures/scenarios/small.toml");

#[test]
fn hosts_of_mininet_lose_the_same_packets_as_our_namespaces() {
    needs!(root, tun, mininet);
    let scenario = Scenario::parse("small.toml", SMALL).unwrap();
    let plan = Plan::new(&scenario, &Choices::default()).unwrap();
    let arrived = |network: &dyn Network| {
        let topology = network.build(&plan.layout(&plan.runs[0])).unwrap();
        assert_eq!(topology.offloads().unwrap(), "off");
        let settings = settings_in_force(&topology).unwrap();
        (numbers_that_arrive(&topology, ["a", "c"], 400).unwrap(), settings)
    };
    let own = arrived(&Namespaces::new(Box::new(TunLink)));
    let mininet = arrived(&Mininet::on_this_host(Box::new(TunLink)).unwrap());
    assert!((380..400).contains(&own.0.len()), "a loss of 1 % takes some of 400 packets: {}", own.0.len());
    assert_eq!(own, mininet);
}

#[test]
fn killed_experiment_leaves_nothing_of_mininet_and_resumes() {
    needs!(root, struct_ops, cgroup2, iperf3, mininet);
    let _host = HostSnapshot::take(&["mnet"]);
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("results");
    let start = || spawn(place.path(), &out);
    // At the worst moment: one host of Mininet hangs, and others do not exist yet.
    let mut first = start();
    poll_until(Duration::from_secs(60), "Mininet's hosts are there", || hosts(first.id()).len() >= 2);
    signal(hosts(first.id())[0], Signal::SIGSTOP);
    kill_with_descendants(&mut first);
    // At any moment of a run.
    let mut second = until_a_run_begins(&start, &out);
    let moment = Duration::from_millis(u64::from(SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_millis()) * 4);
    println!("killed {moment:?} after the first run began");
    let began = Instant::now();
    let is_over = &mut || began.elapsed() >= moment || second.try_wait().unwrap().is_some();
    poll_until(Duration::from_secs(90), "the moment has come", is_over);
    kill_with_descendants(&mut second);
    let kept = finished(&out);
    if quiet_attempt(ATTEMPTS, || until_a_run_begins(&start, &out).output()).is_none() {
        return;
    }
    let all = finished(&out);
    assert!(kept.iter().all(|one| all.contains(one)), "a finished run was repeated");
    assert!(all.len() >= RUNS && unfinished(&out).is_empty(), "{:?}", unfinished(&out));
    let host: Value = serde_json::from_slice(&fs::read(out.join("host.json")).unwrap()).unwrap();
    assert_eq!(host["network"], "mininet");
}

fn spawn(place: &Path, out: &Path) -> Owned {
    let scenario = place.join("mnet.toml");
    fs::write(&scenario, SMALL).unwrap();
    let mut command = tccc();
    command.args(["run", "--network", "mininet", "--jobs", "2"]).arg(scenario).arg("--out").arg(out);
    begin(&mut command)
}

/// Starts the experiment. Repeats that if the calibration fails on a busy host.
fn until_a_run_begins(start: &dyn Fn() -> Owned, out: &Path) -> Owned {
    for _ in 0..3 {
        let mut child = start();
        let has_begun = || !unfinished(out).is_empty() || finished(out).len() == RUNS;
        let is_decided = || has_begun() || child.try_wait().unwrap().is_some();
        poll_until(Duration::from_secs(180), "a run began", is_decided);
        if has_begun() {
            return child;
        }
        println!("{}", stderr(&child.output()));
    }
    panic!("no run began at the third start");
}

/// Process ids of the shells of Mininet's hosts.
fn hosts(pid: u32) -> Vec<u32> {
    let arguments = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    descendants(pid).into_iter().filter(|pid| arguments(pid).contains("mininet:")).collect()
}

#[test]
fn process_of_a_dead_run_is_listed_and_ended() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let dead = Process { started: 1, ..Process::this().unwrap() };
    let mut left = Command::new("sleep").arg("600").env(OWNER, dead.owner_text()).spawn().unwrap();
    let pid = left.id();
    let listed = || {
        let document: Value = run(0, "status -o json").json();
        document["stale_processes"].as_array().unwrap().iter().any(|process| process["pid"] == pid)
    };
    assert!(listed());
    run(0, "status").stdout_has(format!("left by a killed run: process {pid} (sleep)"));
    run(0, "unload --all --dry-run").stdout_has(format!("end the process {pid} of a dead run"));
    assert!(is_alive(pid));
    run(0, "unload --all").stdout_has(format!("process {pid} of a dead run ended"));
    assert!(!listed() && !is_alive(pid));
    left.wait().unwrap();
}

#[test]
fn plain_mininet_script_sends_with_an_algorithm_of_tccc() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/mininet/loss_sweep.py");
    let asked = ["--algorithm", "dtcp", "--as", "ldk_mnet", "--loss", "0", "5", "--seconds", "1"];
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, tun, iperf3, mininet);
    let mut python = Command::new("/usr/bin/python3");
    let said = stdout(&check(0, python.arg(&script).args(asked).env("TCCC", TCCC)));
    let rows: Vec<Vec<f64>> = said.lines().skip(1).map(numbers).collect();
    let [clean, lossy] = &rows[..] else { panic!("two rows: {said}") };
    assert_eq!((clean[0], lossy[0]), (0.0, 5.0), "{said}");
    // 20 Mbit/s with an RTT of 40 ms. With 5 % loss each way no sender comes near, but dtcp, which reduces little, may
    // reach half of it in so short a time.
    for (algorithm, least) in [(1, 2.0), (2, 1.25)] {
        assert!(clean[algorithm] <= 20.0 && clean[algorithm] > least * lossy[algorithm], "{said}");
        assert!(lossy[algorithm] > 0.0, "{said}");
    }
}

/// Makes a link in a thread, and tries parameters that the class cannot honour.
const LINKS_OF_A_SCRIPT: &str = r#"
import subprocess, threading
from mininet.node import Node
from tccc_link import TcccLink
h1, h2, links = Node("h1"), Node("h2"), []
maker = threading.Thread(target=lambda: links.append(TcccLink(h1, h2, bw=10, delay="1ms")))
maker.start()
maker.join()
try:
    print("ended", links[0].process.wait(timeout=1))
except subprocess.TimeoutExpired:
    print("alive", "h1-eth0" in h1.cmd("ip -br link"))
def refused(act, **given):
    try:
        act(**given)
        print("accepted", given)
    except TypeError as error:
        print(error)
refused(links[0].intf1.config, bw=1)
for given in (dict(bw=10, enable_ecn=True), dict(dealy="5ms"), dict(params1=dict(bw=3)), dict(delay=5)):
    refused(lambda **given: TcccLink(h1, h2, **given), **given)
links[0].delete(), h1.terminate(), h2.terminate()
"#;

/// The link ended with the thread that made it. A misspelt `delay` and other parameters did nothing.
#[test]
fn link_of_a_mininet_script_lives_as_long_as_it_and_refuses_what_it_cannot_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/mininet");
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, tun, mininet);
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", LINKS_OF_A_SCRIPT]).env("PYTHONPATH", folder).env("TCCC", TCCC);
    let said = stdout(&check(0, &mut python));
    let expected = [
        "alive True",
        "an interface of TcccLink cannot set \"bw\": it has ifconfig, ip, mac, up",
        "TcccLink cannot set \"enable_ecn\": it has addr1, ",
        "TcccLink cannot set \"dealy\": it has addr1, ",
        "params1 of TcccLink cannot set \"bw\": it has ifconfig, ip, up",
        "TcccLink: delay = 5: expected a time with its unit, such as \"5ms\"",
    ];
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{said}");
    assert!(lines.iter().zip(expected).all(|(line, begin)| line.starts_with(begin)), "{said}");
}

fn numbers(row: &str) -> Vec<f64> {
    row.split_whitespace().map(|word| word.trim_end_matches('%').parse().unwrap()).collect()
}
