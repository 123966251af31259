//! Flows whose transfers start at random or as a file says, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::experiment::finished;
use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::{Bench, record};
use crate::scene::{flow, link};

const LOGNORMAL: &str = "size = 'lognormal:median=20kB,sigma=1.5'";

fn scenario(head: &str, flows: &[String]) -> String {
    let head =
        format!("title = 'x'\nclaim = 'y'\nprofile = 'native'\nkernel = '6.12'\nduration = '5s'\nseed = 3\n{head}\n\n");
    head + &link(["a", "b"], "rate = '20mbit'\ndelay = '10ms'\nqueue = '100pkts'") + &flows.concat()
}

/// Start in microseconds and size of each transfer, by the name of its flow.
type Sent = BTreeMap<String, Vec<(i64, u64)>>;

fn sent(record: &Value) -> Sent {
    let of_flow = |flow: &Value| {
        let one =
            |it: &Value| ((it["start_s"].as_f64().unwrap() * 1e6).round() as i64, it["size_bytes"].as_u64().unwrap());
        (flow["name"].as_str().unwrap().to_owned(), flow["completions"].as_array().unwrap().iter().map(one).collect())
    };
    record["flows"].as_array().unwrap().iter().map(of_flow).collect()
}

/// What each run sent, by algorithm and repeat.
fn all_sent(out: &Path) -> BTreeMap<(String, u64), Sent> {
    let run = |(_, bytes): &(_, Vec<u8>)| {
        let record: Value = serde_json::from_slice(bytes).unwrap();
        let algorithm = record["at"]["algorithm"].as_str().unwrap().to_owned();
        ((algorithm, record["repeat"].as_u64().unwrap()), sent(&record))
    };
    finished(out).iter().map(run).collect()
}

#[test]
fn all_variants_of_a_repeat_send_the_same_and_repeats_differ() {
    needs!(guest);
    let drawn = |name: &str, more: &str| {
        let arrivals = format!("arrivals = 'poisson:load=20%{more}'\nduration = '4s'");
        flow(name, ["a", "b"], &format!("algorithm = '$algorithm'\n{LOGNORMAL}\n{arrivals}"))
    };
    let flows = [drawn("one", ""), drawn("own", ""), drawn("left", ",stream=1"), drawn("right", ",stream=1")];
    let bench = Bench::new(&scenario("runs = 2\nsweep = { algorithm = ['reno', 'cubic'] }", &flows));
    let sent = all_sent(&bench.runs("out", ""));
    let of = |algorithm: &str, repeat| &sent[&(algorithm.to_owned(), repeat)];
    assert_eq!(of("reno", 0), of("cubic", 0));
    assert_eq!(of("reno", 1), of("cubic", 1));
    let (first, second) = (of("reno", 0), of("reno", 1));
    assert_eq!(first["left"], first["right"]);
    for (one, other) in
        [(&first["one"], &first["own"]), (&first["one"], &second["one"]), (&first["left"], &second["left"])]
    {
        assert!(one[1] != other[1] && one[0].1 != other[0].1, "{one:?} and {other:?}");
    }
    // 20 % of 20 Mbit/s for four seconds, in transfers of 62 kB.
    let count: usize = sent.values().flat_map(BTreeMap::values).map(Vec::len).sum();
    assert!((16 * 24..16 * 44).contains(&count), "{count} transfers in sixteen flows");
    let last = |all: &[(i64, u64)]| all.last().unwrap().0;
    assert!(sent.values().flat_map(BTreeMap::values).all(|all| (3_000_000..4_000_000).contains(&last(all))));
}

#[test]
fn transfers_of_a_file_start_as_it_says() {
    needs!(guest);
    let of_file = flow("web", ["a", "b"], "algorithm = 'cubic'\narrivals = 'trace:web.txt'\nstart = '500ms'");
    let bench = Bench::new(&scenario("runs = 1\nvirtual = { start_spread = '0s' }", &[of_file]));
    bench.write("web.txt", "# start and size\n0.25 1000\n0.25 20000\n1.5 300000\n4.4 1\n4.5 1\n9 1\n");
    let out = bench.runs("out", "");
    let record = record(&out);
    // Starts are counted from the first transfer.
    let expected = [(0, 1000), (0, 20_000), (1_250_000, 300_000), (4_150_000, 1)];
    assert_eq!(sent(&record)["web"], expected);
    assert_eq!(record["flows"][0]["received_bytes"], 321_001);
    assert!((record["flows"][0]["begin_s"].as_f64().unwrap() - 0.75).abs() < 1e-6, "{record}");
    assert!(out.join("web.txt").exists(), "results keep the file");
}

/// A flow once had at most a thousand connections, because each took a port of its own.
#[test]
fn ports_come_again_and_no_connection_waits_for_another() {
    needs!(guest);
    let many = flow("many", ["a", "b"], "algorithm = 'cubic'\nsize = '100B'\ncount = 46000\ninterval = '100us'");
    let beside = flow("beside", ["a", "b"], "algorithm = 'reno'\nsize = '1kB'\ncount = 2\ninterval = '1s'");
    let text = scenario("runs = 1", &[many, beside]).replace("20mbit", "1gbit").replace("100pkts", "1bdp");
    let bench = Bench::new(&text);
    let out = bench.runs("out", "");
    let record = record(&out);
    let done = |flow: usize| {
        let all = record["flows"][flow]["completions"].as_array().unwrap();
        (all.len(), all.iter().filter(|it| it["done"].as_bool().unwrap() && it["took_s"].as_f64() < Some(0.1)).count())
    };
    assert_eq!((done(0), done(1)), ((46_000, 46_000), (2, 2)));
    assert_eq!(record["flows"][0]["received_bytes"], 4_600_000);
    let id = record["id"].as_str().unwrap();
    let events = fs::read_to_string(out.join("runs").join(id).join("events.jsonl")).unwrap();
    let sockets: BTreeSet<u64> = events.lines().map(|line| event(line)["socket"].as_u64().unwrap()).collect();
    assert_eq!(sockets.len(), 1002, "the first thousand of one flow, and both of the other");
}

fn event(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// A flow whose transfers begin at regular times is the same as one whose file has these times.
#[test]
fn file_with_regular_starts_makes_the_run_of_count_and_interval() {
    needs!(guest);
    let of = |fields: &str| {
        let bench =
            Bench::new(&scenario("runs = 1", &[flow("f", ["a", "b"], &format!("algorithm = 'cubic'\n{fields}"))]));
        bench.write("web.txt", "0 50000\n0.4 50000\n0.8 50000\n");
        let mut record = record(&bench.runs("out", ""));
        for one in record["flows"][0]["completions"].as_array_mut().unwrap() {
            one.as_object_mut().unwrap().remove("size_bytes");
        }
        record["flows"].clone()
    };
    assert_eq!(of("arrivals = 'trace:web.txt'"), of("size = '50kB'\ncount = 3\ninterval = '400ms'"));
}

/// A sender that its application limits keeps the path's queue empty, until the path is slower than the application.
#[test]
fn application_limits_a_flow_to_its_rate() {
    needs!(guest);
    let bench = Bench::new("");
    let flow_at = |rate: &str, fields: &str| {
        let fields = format!("algorithm = 'cubic'\nrate = '{rate}'\n{fields}");
        bench.write("x.toml", &scenario("runs = 1", &[flow("call", ["a", "b"], &fields)]));
        record(&bench.runs(rate, ""))["flows"][0].clone()
    };
    let goodput = |flow: &Value| flow["goodput_bps"].as_f64().unwrap();
    let slow = flow_at("2mbit", "");
    assert!((goodput(&slow) / 2e6 - 1.0).abs() < 0.01, "{}", goodput(&slow));
    let messages = slow["completions"].as_array().unwrap();
    assert!(
        messages.len() == 500 && messages[9..].iter().all(|one| one["took_s"].as_f64() < Some(0.04)),
        "{messages:?}"
    );
    assert!((goodput(&flow_at("100mbit", "")) / 19e6 - 1.0).abs() < 0.05, "the link is slower");
    let short = flow_at("16kbit", "start = '1s'\nduration = '2s'");
    assert_eq!((&short["received_bytes"], short["completions"].as_array().unwrap().len()), (&4000.into(), 40));
}

/// The events of the only flow: seconds from the start of the run, and bytes acknowledged.
fn acknowledged(out: &Path) -> Vec<(f64, u64)> {
    let record = record(out);
    let events =
        fs::read_to_string(out.join("runs").join(record["id"].as_str().unwrap()).join("events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(event).collect();
    let begin_ns = events[0]["time_ns"].as_u64().unwrap();
    let one = |event: &Value| {
        ((event["time_ns"].as_u64().unwrap() - begin_ns) as f64 / 1e9, event["bytes_acked"].as_u64().unwrap())
    };
    events.iter().map(one).collect()
}

/// What the socket has taken takes a queue and a window to leave, a tenth of a second here.
#[test]
fn bulk_flow_is_silent_in_its_pauses() {
    needs!(guest);
    let flow = flow("onoff", ["a", "b"], "algorithm = 'cubic'\nbursts = 'on=1s,off=1s'");
    let bench = Bench::new(&scenario("runs = 1\nsample = '10ms'\nvirtual = { start_spread = '0s' }", &[flow]));
    let out = bench.runs("out", "");
    let acknowledged = acknowledged(&out);
    let by = |time_s: f64| acknowledged.iter().rfind(|(at_s, _)| *at_s <= time_s).unwrap().1;
    for pause_s in [1.0, 3.0] {
        assert_eq!(by(pause_s + 0.25), by(pause_s + 0.99), "it pauses from {pause_s} s on");
        assert!(by(pause_s + 1.1) > by(pause_s + 0.99), "and then sends");
    }
    let goodput = record(&out)["flows"][0]["goodput_bps"].as_f64().unwrap();
    // Three seconds of five, and what the socket had taken when two of them ended.
    assert!((0.97..1.12).contains(&(goodput / (19.3e6 * 3.0 / 5.0))), "{goodput}");
}

#[test]
fn bursts_are_drawn_alike_for_all_variants_and_differ_between_repeats_and_flows() {
    needs!(guest);
    let drawn = |name: &str, fields: &str| {
        let bursts = "bursts = 'on=200ms,off=300ms,distribution=exponential'";
        flow(name, ["a", "b"], &format!("algorithm = '$algorithm'\n{bursts}\n{fields}"))
    };
    let flows = [drawn("one", "rate = '1mbit'"), drawn("other", "rate = '1mbit'")];
    let head = "runs = 2\nsweep = { algorithm = ['reno', 'cubic'] }\nvirtual = { start_spread = '0s' }";
    let bench = Bench::new(&scenario(head, &flows));
    let out = bench.runs("out", "");
    let of = |algorithm: &str, repeat: u64| {
        let is_it = |run: &Value| run["at"]["algorithm"] == algorithm && run["repeat"] == repeat;
        let mut runs = finished(&out).into_iter().map(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).unwrap());
        let run = runs.find(is_it).unwrap();
        [0, 1].map(|flow| {
            let all = run["flows"][flow]["completions"].as_array().unwrap().clone();
            all.iter().map(|one| (one["start_s"].as_f64().unwrap() * 1e3).round() as u64).collect::<Vec<_>>()
        })
    };
    let [one, other] = of("reno", 0);
    assert_eq!([&one, &other], of("cubic", 0).each_ref());
    assert!(one != other && one != of("reno", 1)[0], "{one:?}");
    assert!((50..400).contains(&one.len()), "{} messages of 500, two fifths of the time", one.len());
    assert!(one.is_sorted() && *one.last().unwrap() < 5_000, "{one:?}");
    assert!(one.windows(2).any(|pair| pair[1] - pair[0] > 50), "{one:?}");
}

/// Frames that are due in a pause wait for its end, so none is late.
#[test]
fn datagrams_pause_and_their_delays_count_from_when_they_are_due() {
    needs!(guest);
    let call = "protocol = 'udp'\nframes = 'per_second=50,size=3kB'\ndeadline = '50ms'\nbursts = 'on=350ms,off=650ms'";
    let bench = Bench::new(&scenario("runs = 1", &[flow("call", ["a", "b"], call)]));
    let call = record(&bench.runs("out", ""))["flows"][0].clone();
    // Five bursts of 350 ms make 1750 ms. A frame that a pause interrupts is the first of the next burst.
    assert_eq!(call["frames"], serde_json::json!({ "sent": 88, "in_time": 88 }), "{call}");
    assert!(call["delay_us"]["max"].as_f64() < Some(15e3), "{call}");
}

#[test]
fn other_engines_make_pauses_or_refuse_them() {
    let bursts = "algorithm = 'reno'\nbursts = 'on=1s,off=1s'";
    let text = scenario("runs = 1", &[flow("onoff", ["a", "b"], bursts)]);
    let bench = Bench::new(&(text + "[ns2]\nagents = { reno = 'TCP/Sack1' }\n"));
    let dry_run = |code: i32, engine: &str| {
        let mut command = tccc();
        command.args(["run", "--engine", engine, "--dry-run"]).arg(bench.folder.path().join("x.toml"));
        check(code, &mut command)
    };
    dry_run(2, "ns2").stderr_has("cannot simulate the flow \"onoff\": ns-2 makes no pauses here");
    dry_run(0, "kernel").stdout_has("onoff by reno (sent by tccc, in bursts on=1s,off=1s)");
    let many = "algorithm = 'reno'\nbursts = 'on=1ms,off=1ms'";
    bench.write("x.toml", &scenario("runs = 1", &[flow("f", ["a", "b"], many)]).replace("'5s'", "'300s'"));
    dry_run(2, "kernel").stderr_has("flow.bursts = 'on=1ms,off=1ms': 150001 bursts are expected: at most 100000");
}

#[test]
fn application_that_sends_for_too_long_is_refused() {
    let bench = Bench::new("");
    let long = scenario("runs = 1", &[flow("call", ["a", "b"], "algorithm = 'cubic'\nrate = '1mbit'")]);
    bench.write("x.toml", &long.replace("duration = '5s'", "duration = '3h'"));
    check(2, &mut bench.command("out", "--dry-run")).stderr_has("expected a flow of at most 1000s");
}
