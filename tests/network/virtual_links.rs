//! Virtual time and the user-space link lose the same packets for the same seed.

use super::*;
use crate::lab::virtual_time::{Bench, record, scenario};

/// Attempts at a run. On a busy host, runs are late or the calibration fails.
const ATTEMPTS: u32 = 5;

/// The record of a run over the user-space link. Late runs count, because losses depend on packet numbers only.
fn emulated(bench: &Bench) -> Value {
    let out = bench.out("kernel");
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let mut run = run_command(&bench.folder.path().join("x.toml"), &out);
        said = stderr(&run.args(["--runs", "1"]).output().unwrap());
        let records = finished(&out).into_iter().map(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).unwrap());
        if let Some(record) = records.into_iter().find(|record| record["status"] != "failed") {
            return record;
        }
    }
    panic!("no run in {ATTEMPTS} attempts: {said}");
}

#[test]
fn links_in_virtual_time_lose_the_same_packets_as_the_emulator() {
    needs!(guest, root, struct_ops, tun, cgroup2, iperf3);
    // Datagrams only: other packets on the real link depend on a clock.
    let text = scenario("cubic", "3%");
    let datagrams =
        text.replace(&text[text.find("[[flow]]").unwrap()..text.find("[[flow]]\nname = \"noise\"").unwrap()], "");
    let bench = Bench::new(&datagrams);
    let virtual_ = record(&bench.runs("virtual", "--runs 1"));
    let kernel = emulated(&bench);
    let counters = |record: &Value, name: &str| record["links"][1]["counters"][0][name].clone();
    assert!(counters(&kernel, "lost_positions").as_array().unwrap().len() > 5);
    for name in ["received_pkts", "lost_pkts", "lost_positions", "overflow_pkts"] {
        assert_eq!(counters(&virtual_, name), counters(&kernel, name), "{name}");
    }
}
