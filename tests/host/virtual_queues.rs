//! Queues over time and the limits of flows, as virtual time records them.

use std::fs;

use serde_json::Value;

use crate::common::experiment::{LIMITS, assert_limits};
use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::{Bench, record};
use crate::scene;
use tccc::model::queue::QueueSample;

/// One flow over a link with a drop-tail queue, with these fields.
fn scenario(profile: &str, link: &str, flow: &str) -> String {
    format!(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"{profile}\"\nkernel = \"6.12\"\nduration = \"5s\"\nruns = 1\nseed = 3\nsample = \"20ms\"\n\n\
         [[link]]\nends = [\"s\", \"r\"]\n{link}\n\n\
         [[flow]]\nname = \"data\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\n{flow}\n\n\
         [report]\nmetrics = [\"queue_p95_pkts\", \"overflow_pkts\"]\nfrom = \"1s\"\n"
    )
}

#[test]
fn queue_is_sampled_at_the_interval_and_agrees_with_the_counters() {
    needs!(guest);
    let bench = Bench::new(&scenario("paper", "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"40pkts\"", ""));
    let out = bench.runs("out", "");
    let run = fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path();
    let lines = fs::read_to_string(run.join("queues.jsonl")).unwrap();
    let samples: Vec<QueueSample> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let there: Vec<&QueueSample> = samples.iter().filter(|sample| sample.from == "s").collect();
    assert_eq!((there.len(), samples.len()), (251, 253), "each 20 ms of 5 s, and the ends of the idle way back");
    assert!(there.windows(2).all(|pair| pair[1].time_ns - pair[0].time_ns == 20_000_000));
    assert!(there.iter().all(|sample| sample.queue_pkts <= 40));
    assert!(there.iter().any(|sample| sample.queue_pkts > 30), "reno fills the queue");
    // 1.2 ms a packet; the one that is being sent takes up to as long.
    let fits = |sample: &&&QueueSample| sample.wait_ns.abs_diff(sample.queue_pkts * 1_200_000) > 1_200_000;
    assert_eq!(there.iter().find(fits), None);
    let counted = record(&out)["links"][0]["counters"][0]["overflow_pkts"].as_u64().unwrap();
    assert!(counted > 0 && there.last().unwrap().overflow_pkts == counted);
    let report = check(0, tccc().arg("report").arg(&out).args(["-o", "json"])).json();
    let mean = |index: usize| report["cells"][index]["measured"]["mean"].as_f64().unwrap();
    assert!((30.0..=40.0).contains(&mean(0)) && mean(1) < counted as f64, "slow start is outside the part");
}

/// Packets that wait when the queue shrinks stay, so it empties first.
#[test]
fn queue_and_jitter_change_during_a_run() {
    needs!(guest);
    let link = "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"80pkts\"\n\
                change = [{ at = \"2s\", queue = \"8pkts\" }, { at = \"4s\", jitter = \"15ms\", queue = \"80pkts\" }]";
    let bench = Bench::new(&scenario("native", link, ""));
    let out = bench.runs("out", "");
    let run = fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path();
    let lines = fs::read_to_string(run.join("queues.jsonl")).unwrap();
    let samples = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let there: Vec<QueueSample> = samples.filter(|sample: &QueueSample| sample.from == "s").collect();
    let longest = |samples: &[QueueSample]| samples.iter().map(|sample| sample.queue_pkts).max().unwrap();
    let [before, after] = [longest(&there[..100]), longest(&there[110..200])];
    assert!(before > 60 && (5..=8).contains(&after), "{before} packets, then {after}");
    assert!(bench.runs("again", "").join("runs").exists());
    let again = fs::read_dir(bench.out("again").join("runs")).unwrap().next().unwrap().unwrap().path();
    let events = |run: &std::path::Path| fs::read(run.join("events.jsonl")).unwrap();
    assert!(events(&run) == events(&again), "the same events to the byte");
}

/// It once looked like a bad algorithm.
#[test]
fn flow_that_its_receive_window_limits_is_noted_before_and_after_the_run() {
    needs!(guest);
    let link = "rate = \"100mbit\"\ndelay = \"100ms\"\nqueue = \"1bdp\"";
    let bench = Bench::new(&scenario("native", link, "receive_buffer = \"256kB\""));
    let plan = check(0, &mut bench.command("out", "--dry-run")).stderr();
    assert!(plan.contains("the socket buffers of flow \"data\" let it have at most 0.1 MB in flight"), "{plan}");
    let out = bench.runs("out", "");
    let limited = &record(&out)["flows"][0]["limited"];
    assert!(limited["receive_window_s"].as_f64() > Some(2.0), "{limited}");
    let told = check(0, tccc().arg("report").arg(&out));
    told.stdout_has("flow \"data\" waited for the receive window for up to ");
    assert!(!told.stdout().contains("socket buffers"), "the record is exact: {}", told.stdout());
    bench.write("x.toml", &scenario("native", link, "receive_buffer = \"64MB\"\nsend_buffer = \"256kB\""));
    // The kernel counts only a part of the time in which the send buffer is the limit.
    check(0, tccc().arg("report").arg(bench.runs("sent", "")))
        .stdout_has("the socket buffers of flow \"data\" let it have");
    bench.write("x.toml", &scenario("native", link, "receive_buffer = \"64MB\"\nsend_buffer = \"64MB\""));
    assert!(!check(0, &mut bench.command("wide", "--dry-run")).stderr().contains("socket buffers"));
}

#[test]
fn limits_of_flows_are_recorded() {
    needs!(guest);
    assert_limits(&record(&Bench::new(LIMITS).runs("out", "--kernel 6.12")), 0.2);
}

/// A run of 64 flows failed if one of them was starved.
#[test]
fn flow_that_delivers_nothing_is_a_result_and_is_noted() {
    needs!(guest);
    let link = |ends, cut: &str| {
        let fields = format!("rate = '10mbit'\ndelay = '50ms'\nchange = [{{ at = '{cut}', up = false }}]");
        scene::link(ends, &fields)
    };
    let flow = |name, ends, fields: &str| scene::flow(name, ends, &format!("algorithm = 'reno'\n{fields}"));
    let bench = Bench::new(
        &[
            "title = 'x'\nclaim = 'y'\nprofile = 'paper'\nduration = '3s'\nruns = 1\nseed = 1\n\n",
            &link(["a", "b"], "500ms"),
            &link(["c", "d"], "180ms"), // the opening and its ACK pass, which take two round trips
            &flow("late", ["a", "b"], "start = '1s'"),
            &flow("own", ["a", "b"], "start = '1s'\nsender = 'tccc'"),
            &flow("pages", ["a", "b"], "start = '1s'\nsize = '10kB'\ncount = 2\ninterval = '500ms'"),
            &flow("starved", ["c", "d"], ""),
        ]
        .concat(),
    );
    let out = bench.runs("out", "");
    let record = record(&out);
    for (flow, connects) in record["flows"].as_array().unwrap().iter().zip([false, false, false, true]) {
        let counts = ["goodput_bps", "received_bytes", "delivered_pkts"].map(|field| flow[field].as_f64());
        assert_eq!((counts, flow["socket"].is_null()), ([Some(0.0); 3], !connects), "{flow}");
    }
    assert_eq!(record["flows"][2]["completions"].as_array().unwrap().len(), 2);
    assert!(record["flows"][3]["retrans_pkts"].as_u64() > Some(1), "{record}");
    let report = check(0, tccc().arg("report").arg(&out)).stdout();
    for noted in ["a bulk flow never connected, such as \"late\"", "a bulk flow delivered nothing, such as \"starved\""]
    {
        assert!(report.split_whitespace().collect::<Vec<_>>().join(" ").contains(noted), "{report}");
    }
}

/// The kernel keeps the number of lost packets when it drops the packets, so their difference was once 4 294 967 124.
#[test]
fn connection_that_closes_in_recovery_has_nothing_in_flight() {
    needs!(guest);
    let link = "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"20pkts\"\nloss = \"5%\"";
    let bench = Bench::new(&scenario("paper", link, "copies = 8"));
    let out = bench.runs("out", "");
    let run = fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let closes = || events.iter().filter(|event| event["kind"] == "close");
    assert!(closes().any(|event| event["ca_state"] != "Open"), "no connection closes in recovery");
    assert_eq!(closes().find(|event| event["inflight_pkts"] != 0), None);
}
