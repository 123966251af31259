//! One-way delays and frames of datagrams in virtual time, and how long packets wait in queues.

use serde_json::Value;

use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::{Bench, record};
use crate::scene;

/// A call over a link of 10 Mbit/s and 20 ms, with these fields, and flows beside it.
fn scenario(call: &str, link: &str, beside: &str) -> String {
    let link = format!("rate = '10mbit'\ndelay = '20ms'\nqueue = '100pkts'\n{link}");
    [
        "title = 'x'\nclaim = 'y'\nprofile = 'native'\nkernel = '6.12'\nduration = '10s'\nruns = 1\nseed = 3\nsample = '10ms'\n\n",
        &scene::link(["s", "r"], &link),
        &scene::flow("call", ["s", "r"], &format!("protocol = 'udp'\n{call}")),
        beside,
        "[report]\nmetrics = ['delay_p50_us', 'delay_p99_us', 'late_ratio', 'wait_p50_us', 'drop_ratio']\n",
    ]
    .concat()
}

fn call_of(record: &Value) -> Value {
    record["flows"][0].clone()
}

fn near(value: &Value, expected_us: f64) -> bool {
    value.as_f64().is_some_and(|value| (value / expected_us - 1.0).abs() < 0.02)
}

#[test]
fn delay_of_a_datagram_is_its_serialisation_and_the_delay_of_the_link() {
    needs!(guest);
    let bench = Bench::new(&scenario("rate = '400kbit'\npacket = '1000B'", "", ""));
    let call = call_of(&record(&bench.runs("out", "")));
    let delay = &call["delay_us"];
    assert!(["mean", "p50", "p95", "p99", "max"].iter().all(|name| near(&delay[name], 20_800.0)), "{call}");
    // The last datagram is due before the end, and each is a frame.
    assert_eq!(call["frames"], serde_json::json!({ "sent": 500, "in_time": 500 }));
}

/// Each datagram is alone in its batch. The fourth of the seven in a frame ends a batch, and the others wait for its time.
#[test]
fn packets_wait_for_their_batch_and_leave_together() {
    needs!(guest);
    let bench = Bench::new(&scenario("rate = '400kbit'\npacket = '1000B'", "hold = 'aggregated:time=8ms,pkts=4'", ""));
    let record_alone = record(&bench.runs("alone", ""));
    let delay = &call_of(&record_alone)["delay_us"];
    assert!(["mean", "p50", "p99", "max"].iter().all(|name| near(&delay[name], 28_800.0)), "{delay}");
    let held = |record: &Value| record["links"][0]["counters"].clone();
    assert_eq!(
        (&held(&record_alone)[0]["held_pkts"], &held(&record_alone)[1]["held_pkts"]),
        (&500.into(), &Value::Null)
    );
    let frames = scenario("frames = 'per_second=25,size=10kB'", "hold = 'aggregated:time=8ms,pkts=4'", "");
    bench.write("x.toml", &frames);
    let record = record(&bench.runs("frames", ""));
    let delay = &call_of(&record)["delay_us"];
    // The fourth leaves the queue 4.8 ms after the frame was sent, and the fifth 6 ms.
    assert!(near(&delay["max"], 34_000.0) && near(&delay["p50"], 24_800.0), "{delay}");
}

/// draft-huitema-ccwg-c4-test-04: 6 / 90 of the packets are some 90 ms late, and those behind them wait.
#[test]
fn wifi_delays_few_packets_for_long_and_those_behind_them() {
    needs!(guest);
    let bench = Bench::new(&scenario("rate = '400kbit'\npacket = '1000B'", "jitter = 'wifi:mean=7ms'", ""));
    let [first, second] = ["first", "second"].map(|out| record(&bench.runs(out, "")));
    assert_eq!((&first["flows"], &first["links"]), (&second["flows"], &second["links"]));
    let delay = &call_of(&first)["delay_us"];
    let ms = |name: &str| delay[name].as_f64().unwrap() / 1e3;
    assert!((20.8..25.0).contains(&ms("p50")) && (80.0..200.0).contains(&ms("p99")), "{delay}");
    assert!((28.0..60.0).contains(&ms("mean")) && ms("max") < 250.0, "{delay}");
}

/// 10 kB take seven packets of 1500 B and a rest, 8.3 ms at this rate.
#[test]
fn frame_is_in_time_when_its_last_packet_is() {
    needs!(guest);
    let frames = |deadline: &str| format!("frames = 'per_second=25,size=10kB'\ndeadline = '{deadline}'");
    let bench = Bench::new(&scenario(&frames("28ms"), "", ""));
    let early = call_of(&record(&bench.runs("early", "")));
    assert_eq!(early["frames"], serde_json::json!({ "sent": 250, "in_time": 0 }), "{early}");
    bench.write("x.toml", &scenario(&frames("29ms"), "", ""));
    let out = bench.runs("in time", "");
    let call = call_of(&record(&out));
    assert_eq!(call["frames"], serde_json::json!({ "sent": 250, "in_time": 250 }), "{call}");
    assert!(near(&call["delay_us"]["p50"], 24_800.0) && near(&call["delay_us"]["max"], 28_171.0), "{call}");
    assert_eq!(call["delivered_pkts"], 7 * 250, "{call}");
    // One lost packet of a frame makes it late.
    bench.write("x.toml", &scenario(&frames("29ms"), "loss = [3, 4, 12]", ""));
    let call = call_of(&record(&bench.runs("lost", "")));
    assert_eq!(call["frames"], serde_json::json!({ "sent": 250, "in_time": 248 }), "{call}");
}

#[test]
fn key_frames_come_first_and_every_so_often() {
    needs!(guest);
    let frames = "frames = 'per_second=30,size=3kB,key=15kB,every=60'\ndeadline = '100ms'";
    let call = call_of(&record(&Bench::new(&scenario(frames, "", "")).runs("out", "")));
    // 5 key frames of 11 packets, and 295 others of 3.
    assert_eq!(
        (&call["delivered_pkts"], &call["frames"]["in_time"]),
        (&(5 * 11 + 295 * 3).into(), &300.into()),
        "{call}"
    );
    assert!(near(&call["delay_us"]["max"], 32_528.0), "{call}");
}

#[test]
fn call_beside_a_download_waits_for_its_queue_and_the_report_says_so() {
    needs!(guest);
    let call = "frames = 'per_second=50,size=160B'\ndeadline = '100ms'";
    let bulk = scene::flow("bulk", ["s", "r"], "algorithm = 'cubic'");
    let bench = Bench::new(&scenario(call, "", &bulk));
    let out = bench.runs("out", "");
    let record = record(&out);
    let (p99, wait) = (&record["flows"][0]["delay_us"]["p99"], &record["links"][0]["counters"][0]["wait_us"]);
    // The queue of 100 packets takes 120 ms.
    assert!(p99.as_f64() > Some(100e3) && p99.as_f64() < Some(145e3), "{p99}");
    assert!(wait["max"].as_f64() > Some(110e3) && wait["max"].as_f64() < Some(123e3), "{wait}");
    assert!(wait["p50"].as_f64() < wait["p95"].as_f64(), "{wait}");
    let back = &record["links"][0]["counters"][1]["wait_us"];
    assert_eq!((&back["p50"], back["max"].as_f64() < Some(5e3)), (&0.0.into(), true), "{back}");
    let report = check(0, tccc().arg("report").arg(&out).args(["-o", "json"])).json();
    let cells = report["cells"].as_array().unwrap();
    let of_bulk = |metric: &str| {
        let cell = cells.iter().find(|cell| cell["metric"] == metric && cell["variant"] == "cubic");
        cell.unwrap_or_else(|| panic!("{report}"))["measured"]["mean"].clone()
    };
    assert_eq!(of_bulk("delay_p99_us"), *p99, "a value of the download's algorithm");
    assert!(of_bulk("late_ratio").as_f64() > Some(0.2), "{report}");
    assert_eq!(of_bulk("wait_p50_us"), wait["p50"]);
    let counters = &record["links"][0]["counters"][0];
    let [dropped, received] = ["overflow_pkts", "received_pkts"].map(|name| counters[name].as_f64().unwrap());
    assert!(dropped > 0.0 && (of_bulk("drop_ratio").as_f64().unwrap() - dropped / received).abs() < 1e-12);
}

/// They counted as lost, because they arrive before the sender knows that it has sent them.
#[test]
fn datagrams_arrive_on_a_path_without_any_delay() {
    needs!(guest);
    let link = scene::link(["s", "r"], "");
    let call = scene::flow("call", ["s", "r"], "protocol = 'udp'\nrate = '1mbit'");
    let head = "title = 'x'\nclaim = 'y'\nprofile = 'native'\nkernel = '6.12'\nduration = '5s'\nruns = 1\nseed = 3\n\
                virtual = { host_delay = '0s', start_spread = '0s' }\n";
    let call = call_of(&record(&Bench::new(&[head, &link, &call].concat()).runs("out", "")));
    assert_eq!((&call["lost_pkts"], &call["delay_us"]["max"]), (&0.into(), &0.0.into()), "{call}");
}

/// Without the download, the variant has no flow that is compared.
#[test]
fn call_is_compared_with_and_without_a_download() {
    needs!(guest);
    let bulk = scene::flow("bulk", ["s", "r"], "algorithm = 'cubic'");
    let text = scenario("rate = '100kbit'\npacket = '200B'", "", &bulk);
    let variants = "[variant]\nalone = { without = ['bulk'] }\nbeside = {}\n[report]\nbaseline = 'alone'\n";
    let bench = Bench::new(&text.replace("[report]\n", variants).replace("runs = 1", "runs = 3"));
    let report = check(0, tccc().arg("report").arg(bench.runs("out", "")).args(["-o", "json"])).json();
    let cells = report["cells"].as_array().unwrap();
    let of = |variant: &str| {
        let is_it = |cell: &&Value| cell["metric"] == "delay_p99_us" && cell["variant"] == variant;
        cells.iter().find(is_it).unwrap_or_else(|| panic!("{report}"))
    };
    let (alone, beside) = (&of("alone")["measured"]["mean"], of("beside"));
    // 20.16 ms, and up to 1.2 ms inside the host.
    assert!((20e3..21.5e3).contains(&alone.as_f64().unwrap()), "{alone}");
    assert!(beside["measured"]["mean"].as_f64() > Some(100e3), "{beside}");
    assert!(beside["ratio_to_baseline"]["measured"].as_f64() > Some(5.0), "{beside}");
}
