//! Receivers that do something wrong, in virtual time.

use serde_json::Value;

use crate::common::{needs, stderr, tccc};
use crate::lab::virtual_time::{Bench, record};
use crate::scene::{flow, link};

/// One flow over 10 Mbit/s and 40 ms with this receiver.
fn scenario(receiver: &str, path: &str, fields: &str) -> String {
    let head = "title = \"x\"\nclaim = \"y\"\nprofile = \"native\"\nkernel = \"6.12\"\nduration = \"10s\"\nruns = 1\nseed = 3\n";
    let path = link(["s", "r"], &format!("rate = \"10mbit\"\ndelay = \"20ms\"\n{path}"));
    let fields = format!("algorithm = \"reno\"\nreceiver = \"{receiver}\"\n{fields}");
    format!("{head}{path}{}", flow("data", ["s", "r"], &fields))
}

/// The run with an honest receiver, and the one with this receiver.
fn runs(receiver: &str, path: &str, fields: &str) -> [Value; 2] {
    let bench = Bench::new("");
    ["honest", receiver].map(|receiver| {
        bench.write("x.toml", &scenario(receiver, path, fields));
        record(&bench.runs(receiver, ""))
    })
}

fn goodput_mbps(run: &Value) -> f64 {
    run["flows"][0]["goodput_bps"].as_f64().unwrap() / 1e6
}

/// A count of the link: from the sender, and from the receiver.
fn counts(run: &Value, name: &str) -> [u64; 2] {
    [0, 1].map(|side| run["links"][0]["counters"][side][name].as_u64().unwrap())
}

/// RFC 3168, 20.2: the queue then grows until it drops packets.
#[test]
fn sender_whose_receiver_hides_marks_fills_the_queue() {
    needs!(guest);
    let [honest, hiding] = runs("hides_marks", "queue = \"200pkts\"\nmark = \"20pkts\"", "ecn = 1");
    let echoed = |run: &Value| run["flows"][0]["ecn"]["delivered_ce_pkts"].as_u64().unwrap();
    assert!(echoed(&honest) > 100 && echoed(&hiding) == 0, "{honest:#}\n{hiding:#}");
    assert_eq!(counts(&honest, "overflow_pkts")[0], 0);
    assert!(counts(&hiding, "overflow_pkts")[0] > 100 && counts(&hiding, "marked_pkts")[0] > 1000);
    assert_eq!([&honest, &hiding].map(|run| counts(run, "max_queue_pkts")[0] == 200), [false, true]);
}

/// Linux counts whole segments, so a part of one opens no window (RFC 3465, 2.1: count bytes, not ACKs).
#[test]
fn divided_acks_gain_nothing_from_linux() {
    needs!(guest);
    let [honest, dividing] = runs("divides_acks", "queue = \"200pkts\"", "size = \"1MB\"");
    let [acks, parts] = [&honest, &dividing].map(|run| counts(run, "received_pkts")[1]);
    assert!(parts > 8 * acks, "{parts} instead of {acks}");
    let took = |run: &Value| run["flows"][0]["completions"][0]["took_s"].as_f64().unwrap();
    let ratio = took(&dividing) / took(&honest);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

/// Linux believes an ACK for data that it has sent. What is lost then is never retransmitted.
#[test]
fn early_acks_are_faster_until_a_packet_is_lost() {
    needs!(guest);
    let took = |run: &Value| run["flows"][0]["completions"][0]["took_s"].as_f64().unwrap();
    let [honest, early] = runs("acks_early", "queue = \"200pkts\"", "size = \"300kB\"");
    assert!(took(&early) < 0.97 * took(&honest), "{} and {}", took(&early), took(&honest));
    let [honest, early] = runs("acks_early", "loss = [300]", "sender = \"tccc\"");
    assert!(goodput_mbps(&honest) > 9.0 && goodput_mbps(&early) < 1.0, "{honest:#}\n{early:#}");
}

#[test]
fn receiver_without_sack_makes_the_sender_recover_a_packet_each_round_trip() {
    needs!(guest);
    let [honest, without] = runs("no_sack", "loss = [300, 302, 304, 306, 308]", "sender = \"tccc\"");
    assert_eq!([&honest, &without].map(|run| run["flows"][0]["tcp_sack"].as_bool().unwrap()), [true, false]);
    assert!(goodput_mbps(&without) < 0.995 * goodput_mbps(&honest), "{honest:#}\n{without:#}");
}

#[test]
fn other_engines_refuse_receivers_that_they_do_not_have() {
    let bench = Bench::new(&scenario("hides_marks", "", "ecn = 1"));
    let dry_run = |engine: &str| {
        let mut command = tccc();
        command.args(["run", "--engine", engine, "--dry-run"]).arg(bench.folder.path().join("x.toml"));
        stderr(&command.output().unwrap())
    };
    let refused = dry_run("kernel");
    assert!(refused.contains("x.toml:19: flow.receiver: Linux has no receiver that is \"hides_marks\""), "{refused}");
    assert!(refused.contains("`--engine virtual` has it"), "{refused}");
    bench.write("x.toml", &(scenario("no_sack", "", "") + "[ns2]\nagents = { reno = \"TCP/Sack1\" }\n"));
    let refused = dry_run("ns2");
    assert!(refused.contains("ns-2's receivers do nothing wrong here"), "{refused}");
}
