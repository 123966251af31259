//! For tests of experiments: scenarios, result directories, the processes of a run, numbered packets.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Result;
use procfs::process::Process;
use serde_json::Value;
use tccc::emulate::topology::Topology;

use super::{SOON, poll_until, tccc};

/// More datagrams than the link carries, a long queue, copied packets, and packets that are delayed longer than the
/// queue delays others. The datagrams start after the other flow has connected, because no connection gets through a
/// full queue.
pub const OVERLOADED: &str = include_str!("../fixtures/scenarios/overloaded.toml");

/// A scenario that loses the sender's first packet, which makes its connection a second late.
pub fn late_connection(sender: &str) -> String {
    format!("{}sender = \"{sender}\"\n", include_str!("../fixtures/scenarios/late-connection.toml"))
}

/// Ten packets per round trip of 100 ms, for one second. The handshake takes the first round trip, and the first ten
/// packets include the flow's own opening.
pub const TEN_A_ROUND_TRIP: &str = include_str!("../fixtures/scenarios/ten-a-round-trip.toml");

/// Asserts the result of a run of [`TEN_A_ROUND_TRIP`], which is the same for every engine.
#[track_caller]
pub fn assert_ten_a_round_trip(received_bytes: u64, mss_bytes: u64) {
    let packets = received_bytes as f64 / mss_bytes as f64;
    assert!((88.0..=90.0).contains(&packets), "{packets} packets");
}

/// A flow limited by its receive window, one by its send buffer, and one by its congestion window.
pub const LIMITS: &str = include_str!("../fixtures/scenarios/limits.toml");

/// Asserts what limited each flow of [`LIMITS`], which every engine records.
///
/// `by_buffer` is the smallest share of the time that the flow with a small send buffer waited for it. A real kernel
/// counts less of this wait: only after packets that a full buffer preceded.
#[track_caller]
pub fn assert_limits(record: &Value, by_buffer: f64) {
    let flows = record["flows"].as_array().unwrap();
    let of = |index: usize, field: &str| {
        let limited = &flows[index]["limited"];
        limited[field].as_f64().unwrap() / limited["busy_s"].as_f64().unwrap()
    };
    let shares: Vec<[f64; 2]> =
        (0..3).map(|index| ["receive_window_s", "send_buffer_s"].map(|it| of(index, it))).collect();
    assert!(shares[0][0] > 0.5 && shares[0][1] < 0.1, "{record}");
    assert!(shares[1][1] >= by_buffer, "{record}");
    assert!(shares[2][0] < 0.1 && shares[2][1] < 0.1, "{record}");
    let busy_s = |flow: &Value| flow["limited"]["busy_s"].as_f64().unwrap();
    assert!(flows.iter().all(|flow| (2.8..4.0).contains(&busy_s(flow))), "{record}");
}

/// Three variants of one sender over two links. Each run takes about three seconds.
pub const TINY: &str = include_str!("../fixtures/scenarios/tiny.toml");

/// A directory, the file of the tiny scenario in it, and a path for results.
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

/// The links of small scenarios: from `a` via `b` to `c`, with this loss on the second link.
pub fn two_links(loss: &str) -> String {
    let link = |ends: &str, rate: &str| {
        format!("[[link]]\nends = [{ends}]\nrate = \"{rate}\"\ndelay = \"5ms\"\nqueue = \"100pkts\"\n")
    };
    format!("\n{}\n{}loss = \"{loss}\"\n", link("\"a\", \"b\"", "10mbit"), link("\"b\", \"c\"", "8mbit"))
}

/// Finished runs: the id and the bytes of `run.json` of each, sorted by id.
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

pub fn unfinished(out: &Path) -> Vec<String> {
    let folders = fs::read_dir(out.join("runs")).into_iter().flatten().flatten();
    let names = folders.map(|folder| folder.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

pub fn descendants(pid: u32) -> Vec<u32> {
    let tasks = Process::new(pid as i32).and_then(|process| process.tasks()).into_iter().flatten().flatten();
    let children: Vec<u32> = tasks.filter_map(|task| task.children().ok()).flatten().collect();
    let below = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, below].concat()
}

pub fn is_alive(pid: u32) -> bool {
    Process::new(pid as i32).is_ok_and(|process| process.is_alive())
}

pub fn kill_with_descendants(child: &mut Child) {
    let started = descendants(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    poll_until(SOON, "its processes are gone", || !started.iter().any(|pid| is_alive(*pid)));
}

/// Sends numbered packets from one node to another and returns the numbers that arrive. Batches are so small that no
/// queue fills.
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
