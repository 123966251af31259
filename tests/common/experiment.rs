//! What tests of experiments use: scenarios, result directories, processes of a run, packets that arrive.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Result;
use procfs::process::Process;
use tccc::emulate::topology::Topology;

use super::{poll_until, tccc};

/// Datagrams beyond the rate over a link with a long queue, copies, and packets that are held back for longer than others
/// stay in the queue. The datagrams begin when the other flow has its connections: none is made through a full queue.
pub const OVERLOADED: &str = include_str!("../fixtures/scenarios/overloaded.toml");

/// Of this sender the first packet is lost, by which its connection is made a second late.
pub fn late_connection(sender: &str) -> String {
    let head = "title = \"Late\"\nclaim = \"x\"\nprofile = \"paper\"\nduration = \"3s\"\nruns = 1\nseed = 5\n";
    let link = "[[link]]\nends = [\"s\", \"r\"]\nrate = \"8mbit\"\ndelay = \"5ms\"\nqueue = \"30pkts\"\nloss = [1]\n";
    let flow = "[[flow]]\nname = \"data\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\n";
    format!("{head}[virtual]\nstart_spread = \"0s\"\n{link}{flow}sender = \"{sender}\"\n")
}

/// Ten packets a round trip of 100 ms for a second: the connection takes the first of them, and nine carry data. The first
/// ten have the flow's own opening among them.
pub const TEN_A_ROUND_TRIP: &str = r#"
title = "Ten a round trip"
claim = "x"
profile = "paper"
duration = "1s"
runs = 1
seed = 5
virtual = { start_spread = "0s" }

[[link]]
ends = ["s", "r"]
rate = "100mbit"
delay = "50ms"
queue = "100pkts"

[[flow]]
name = "data"
from = "s"
to = "r"
algorithm = "reno"
window_cap = 10
initial_cwnd = 10
sender = "tccc"
"#;

/// Asserts what a run of [`TEN_A_ROUND_TRIP`] brought, whatever engine made it.
#[track_caller]
pub fn assert_ten_a_round_trip(received_bytes: u64, mss_bytes: u64) {
    let packets = received_bytes as f64 / mss_bytes as f64;
    assert!((88.0..=90.0).contains(&packets), "{packets} packets");
}

/// A small scenario: three variants of one sender over two links; every run takes about three seconds.
pub const TINY: &str = include_str!("../fixtures/scenarios/tiny.toml");

/// A directory with the tiny scenario in it.
pub fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let scenario = place.path().join("tiny.toml");
    fs::write(&scenario, TINY).unwrap();
    let out = place.path().join("results");
    (place, scenario, out)
}

pub fn run_command(scenario: &Path, out: &Path) -> Command {
    let mut command = tccc();
    command.arg("run").arg(scenario).arg("--out").arg(out);
    command
}

/// The links of small scenarios: from `a` over `b` to `c`, with this loss on the second.
pub fn two_links(loss: &str) -> String {
    let link = |ends: &str, rate: &str| {
        format!("[[link]]\nends = [{ends}]\nrate = \"{rate}\"\ndelay = \"5ms\"\nqueue = \"100pkts\"\n")
    };
    format!("\n{}\n{}loss = \"{loss}\"\n", link("\"a\", \"b\"", "10mbit"), link("\"b\", \"c\"", "8mbit"))
}

/// Finished runs by id, with the bytes of their record.
pub fn finished(out: &Path) -> Vec<(String, Vec<u8>)> {
    let folders = fs::read_dir(out.join("runs")).into_iter().flatten().flatten();
    let mut finished: Vec<(String, Vec<u8>)> = folders
        .filter(|folder| !folder.file_name().to_string_lossy().starts_with('.'))
        .filter_map(|folder| {
            Some((folder.file_name().into_string().ok()?, fs::read(folder.path().join("run.json")).ok()?))
        })
        .collect();
    finished.sort();
    finished
}

/// Folders of runs that were never finished.
pub fn unfinished(out: &Path) -> Vec<String> {
    let folders = fs::read_dir(out.join("runs")).into_iter().flatten().flatten();
    let names = folders.map(|folder| folder.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

/// Children of a process, theirs, and so on, by the kernel's list.
pub fn descendants(pid: u32) -> Vec<u32> {
    let tasks = Process::new(pid as i32).and_then(|process| process.tasks()).into_iter().flatten().flatten();
    let children: Vec<u32> = tasks.filter_map(|task| task.children().ok()).flatten().collect();
    let below = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, below].concat()
}

/// Whether a process still runs.
pub fn is_alive(pid: u32) -> bool {
    Process::new(pid as i32).is_ok_and(|process| process.is_alive())
}

/// Kills a process, and waits until its descendants are gone as well.
pub fn kill_with_descendants(child: &mut Child) {
    let started = descendants(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    poll_until(Duration::from_secs(20), "its processes are gone", || !started.iter().any(|pid| is_alive(*pid)));
}

/// Sends numbered packets from one node to another, few enough at a time that no queue fills; returns those that arrive.
pub fn numbers_that_arrive(topology: &Topology, [from, to]: [&str; 2], packets: u32) -> Result<Vec<u32>> {
    let [from, to] = [topology.node(from)?, topology.node(to)?];
    let receiver = to.netns.run(|| Ok(UdpSocket::bind((to.address, 0))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = from.netns.run(|| Ok(UdpSocket::bind((from.address, 0))?))?;
    let mut arrived = Vec::new();
    let mut packet = [0; 4];
    for number in 0..packets {
        sender.send_to(&number.to_ne_bytes(), receiver.local_addr()?)?;
        if number % 50 == 49 {
            while receiver.recv(&mut packet).is_ok() {
                arrived.push(u32::from_ne_bytes(packet));
            }
        }
    }
    Ok(arrived)
}
