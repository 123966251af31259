//! DCTCP, `bpf_dctcp` and a user's, written from RFC 8257 outside of `bpf/cc`: ECN, and the receiver's part of an algorithm.

use std::fs;
use std::path::{Path, PathBuf};

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;
use serde_json::Value;
use tccc::author::ring::connection::SimulatedConnection;
use tccc::author::ring::native::{INFINITE_SSTHRESH, Native};
use tccc::author::ring::operations::Operation;

use crate::algorithms::native;
use crate::common::experiment::finished;
use crate::common::{check, needs, tccc};
use crate::compile::in_tree;
use crate::lab::virtual_time::Bench;

fn source() -> PathBuf {
    in_tree("tests/fixtures/author/rfc8257.bpf.c")
}

#[test]
fn user_dctcp_passes_every_check() {
    needs!(clang);
    check(0, tccc().arg("check").arg(source()).args(["--fuzz", "1s"])).stdout_lacks("FAILED");
}

/// RFC 8257, 3.2: the bytes acknowledged with ECE are the bytes that arrived marked. Yet ACKs are delayed.
#[test]
fn dctcp_receiver_echoes_exactly_the_marked_packets() {
    let user = native::load(&source());
    [&user, native::find("bpf_dctcp")].iter().for_each(|native| check_echo(native));
}

fn check_echo(native: &Native) {
    const ARRIVALS: u32 = 2000;
    for marked_permille in [0, 10, 200, 500, 990] {
        let mut connection = SimulatedConnection::over(native, 10, INFINITE_SSTHRESH);
        let (mut dice, mut marked) = (Pcg32::new(1, 0), 0);
        for _ in 0..ARRIVALS {
            let is_marked = dice.next_u32() % 1000 < marked_permille;
            marked += u32::from(is_marked);
            connection.apply(Operation::Receive { packets: 1, is_marked });
        }
        // The second of two packets ends the delay of the last ACK.
        (0..2).for_each(|_| connection.apply(Operation::Receive { packets: 1, is_marked: false }));
        assert_eq!(connection.cc.echoed_pkts(), marked, "{}: {marked_permille} of 1000 marked", native.id);
        assert!(connection.cc.acks_sent() < ARRIVALS, "{} ACKs: none was delayed", connection.cc.acks_sent());
    }
}

/// The path of review/truth.md: 100 Mbit/s, 2 ms, marks from 20 packets on.
fn scenario(other: &str) -> String {
    format!(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"paper\"\nduration = \"5s\"\nruns = 3\nseed = 1\n\n\
         [sweep]\nalgorithm = [\"dctcp\", \"{other}\"]\n\n\
         [[link]]\nends = [\"a\", \"b\"]\nrate = \"100mbit\"\ndelay = \"2ms\"\nqueue = \"200pkts\"\nmark = \"20pkts\"\n\n\
         [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\necn = 1\n"
    )
}

/// One figure of every run of an algorithm.
#[derive(Debug)]
struct Figure(Vec<f64>);

impl Figure {
    fn of(out: &Path, algorithm: &str, figure: impl Fn(&Path, &Value) -> f64) -> Self {
        let read =
            |(id, bytes): (String, Vec<u8>)| (out.join("runs").join(id), serde_json::from_slice(&bytes).unwrap());
        let runs = finished(out).into_iter().map(read);
        let own = runs.filter(|(_, run): &(PathBuf, Value)| run["at"]["algorithm"] == algorithm);
        Figure(own.map(|(folder, run)| figure(&folder, &run)).collect())
    }

    /// Mean, and half the width of the 95 % interval of three runs (Student).
    fn interval(&self) -> (f64, f64) {
        const T_95_OF_3: f64 = 4.303;
        assert_eq!(self.0.len(), 3, "{self:?}");
        let mean = self.0.iter().sum::<f64>() / 3.0;
        let variance = self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
        (mean, T_95_OF_3 * (variance / 3.0).sqrt())
    }

    fn agrees_with(&self, other: &Figure) -> bool {
        let ((mean, half), (other_mean, other_half)) = (self.interval(), other.interval());
        (mean - other_mean).abs() <= half + other_half
    }
}

fn goodput_bps(_: &Path, run: &Value) -> f64 {
    run["flows"][0]["goodput_bps"].as_f64().unwrap()
}

fn marked_pkts(_: &Path, run: &Value) -> f64 {
    run["links"][0]["counters"][0]["marked_pkts"].as_f64().unwrap()
}

/// Share of the delivered packets whose ACK echoed a mark.
fn echoed_share(folder: &Path, _: &Value) -> f64 {
    let events = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let count = |name: &str| last[name].as_f64().unwrap();
    count("delivered_ce_pkts") / count("delivered_pkts")
}

#[test]
fn user_dctcp_in_virtual_time_is_as_the_kernels_own() {
    needs!(guest);
    let bench = Bench::new(&scenario("rfc8257.bpf.c"));
    bench.write("rfc8257.bpf.c", &fs::read_to_string(source()).unwrap());
    let out = bench.runs("out", "");
    for figure in [goodput_bps, marked_pkts, echoed_share] {
        let of = |algorithm: &str| Figure::of(&out, algorithm, figure);
        let (kernels, users) = (of("dctcp"), of("rfc8257.bpf.c"));
        assert!(users.agrees_with(&kernels), "{users:?} for {kernels:?}");
    }
}

/// Without the receiver's part, one mark is echoed for a whole round trip: the sender believes that more were marked.
#[test]
fn user_dctcp_without_the_receivers_part_counts_more_marks() {
    needs!(guest);
    let text = fs::read_to_string(source()).unwrap().replace("rfc8257", "half");
    let bench = Bench::new(&scenario("half.bpf.c"));
    bench.write("half.bpf.c", &text.replace("\t.cwnd_event = (void *)half_cwnd_event,\n", ""));
    let out = bench.runs("out", "");
    let mean = |algorithm: &str| Figure::of(&out, algorithm, echoed_share).interval().0;
    assert!(mean("half.bpf.c") > 2.0 * mean("dctcp"), "{} for {}", mean("half.bpf.c"), mean("dctcp"));
}
