//! Virtual time beside the user-space link: with one seed both lose the same packets.

use crate::common::experiment::finished;
use crate::common::{needs, tccc};
use crate::lab::virtual_time::{Bench, record, scenario};
use serde_json::Value;

/// Most attempts at a run, because a busy host sends late or misses the path's parameters.
const ATTEMPTS: u32 = 5;

/// The run over the user-space link. A late run counts here: which packets are lost depends on their numbers alone.
fn emulated(bench: &Bench) -> Value {
    let out = bench.out("kernel");
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let mut run = tccc();
        run.args(["run", "--runs", "1", "--out"]).arg(&out).arg(bench.folder.path().join("x.toml"));
        said = String::from_utf8_lossy(&run.output().unwrap().stderr).into_owned();
        let records = finished(&out).into_iter().map(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).unwrap());
        if let Some(record) = records.into_iter().find(|record| record["status"] != "failed") {
            return record;
        }
    }
    panic!("no run in {ATTEMPTS} attempts: {said}");
}

#[test]
fn links_lose_the_packets_that_the_emulator_loses() {
    needs!(guest, root, struct_ops, tun, cgroup2, iperf3);
    // Datagrams alone: what else crosses the real link depends on a clock.
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
