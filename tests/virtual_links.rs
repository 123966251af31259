//! Virtual time beside the user-space link: with one seed both lose the same packets.

mod common;
mod virtual_lab;

use common::{needs, tccc};
use serde_json::Value;
use virtual_lab::{Bench, record, scenario};

#[test]
fn links_lose_the_packets_that_the_emulator_loses() {
    needs!(guest, root, struct_ops, tun, cgroup2, iperf3);
    // Datagrams alone: what else crosses the real link depends on a clock.
    let text = scenario("cubic", "3%");
    let datagrams =
        text.replace(&text[text.find("[[flow]]").unwrap()..text.find("[[flow]]\nname = \"noise\"").unwrap()], "");
    let bench = Bench::new(&datagrams);
    let virtual_ = record(&bench.runs("virtual", "--runs 1"));
    let mut kernel = tccc();
    kernel.args(["run", "--runs", "1", "--out"]).arg(bench.out("kernel")).arg(bench.folder.path().join("x.toml"));
    let output = kernel.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kernel = record(&bench.out("kernel"));
    let counters = |record: &Value, name: &str| record["links"][1]["counters"][0][name].clone();
    assert!(counters(&kernel, "lost_positions").as_array().unwrap().len() > 5);
    for name in ["received_pkts", "lost_pkts", "lost_positions", "overflow_pkts"] {
        assert_eq!(counters(&virtual_, name), counters(&kernel, name), "{name}");
    }
}
