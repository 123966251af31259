//! Tests of the script and of its output's reader, without ns-2.

use super::*;
use crate::plan::Choices;
use crate::scenario::Scenario;
use shared::event::EventKind;

const TEXT: &str = include_str!("../../../tests/fixtures/scenarios/ns2.toml");

fn scenario(text: &str) -> Scenario {
    Scenario::parse("t.toml", text).unwrap().simulated().unwrap()
}

fn simulated<T>(text: &str, cell: usize, take: impl Fn(&Simulation<'_>) -> T) -> T {
    let scenario = scenario(text);
    let spec = scenario.ns2.as_ref().unwrap();
    let cell = &scenario.cells[cell];
    take(&Simulation { cell, spec, profile: scenario.profile, sample: scenario.sample, seed: 1 })
}

fn script(text: &str, cell: usize) -> String {
    simulated(text, cell, |simulation| simulation.script().unwrap())
}

#[test]
fn script_has_the_path_the_agents_and_their_times() {
    let text = script(TEXT, 0);
    for line in [
        "ns-random 1",
        "$ns simplex-link $node(a) $node(b) 10000000.0 0.02 DropTail",
        "$ns simplex-link $node(b) $node(a) 1000000.0 0.02 DropTail",
        "$ns queue-limit $node(a) $node(b) 50",
        "[[$ns link $node(b) $node(c)] queue] set limit_ 64000",
        "$model set rate_ 0.01\n$ns lossmodel $model $node(a) $node(b)",
        "$tcp(0) set window_ 50\n$tcp(0) set packetSize_ 1500\n$tcp(0) set windowInit_ 2",
        "set sink(0) [new Agent/TCPSink/Sack1]",
        "$ns at 0.0 \"$source(0) start\"",
        "$ns at 5.0 \"$source(1) produce 667\"",
        "$ns at 20.0 finish",
    ] {
        assert!(text.contains(line), "no \"{line}\" in:\n{text}");
    }
    assert_eq!(text.matches("new ErrorModel").count(), 1);
}

#[test]
fn agent_selects_its_algorithm_and_the_scenario_decides_error_models_and_receivers() {
    let text = script(TEXT, 1);
    for line in [
        "$ns at 0.0 \"$tcp(0) select_ca cubic; $source(0) start\"",
        "set tcp(0) [new Agent/TCP/Linux]\n",
        "$tcp(0) set window_ 1000000\n",
    ] {
        assert!(text.contains(line), "no \"{line}\" in:\n{text}");
    }
    let text = script(&TEXT.replace("[ns2]", "[ns2]\nerror_models = [[\"b\", \"a\"], [\"a\", \"b\"]]"), 0);
    let models =
        ["$model set rate_ 0.0\n$ns lossmodel $model $node(b) $node(a)", "rate_ 0.01\n$ns lossmodel $model $node(a)"];
    let places = models.map(|model| text.find(model).unwrap());
    assert!(places[0] < places[1], "also without loss, in the scenario's order: {text}");
    let native = script(&TEXT.replace("\"paper\"", "\"native\""), 0);
    assert!(native.contains("Agent/TCPSink/Sack1/DelAck"), "native receivers delay acknowledgements");
}

/// [`TEXT`] with a flow of datagrams.
fn with_datagrams() -> String {
    const FLOW: &str = "[[flow]]\nname=\"cbr\"\nfrom=\"a\"\nto=\"c\"\nprotocol=\"udp\"\nrate=\"500kbit\"\n\
                        packet=\"1000B\"\nstart=\"5s\"\nduration=\"10s\"\n[variant.capped]\ntcp_sack=0\n";
    TEXT.replace("[variant.capped]\n", FLOW)
}

#[test]
fn datagrams_have_their_own_ends_and_need_no_agent() {
    let text = script(&with_datagrams(), 0);
    for line in [
        "set sink(0) [new Agent/TCPSink]",
        "$udp(2) set packetSize_ 1000",
        "$ns attach-agent $node(c) $heard(2)",
        "$source(2) set packetSize_ 1000\n$source(2) set rate_ 500000\n",
        "$ns at 5.0 \"$source(2) start; $ns at 15.0 \\\"$source(2) stop\\\"\"",
    ] {
        assert!(text.contains(line), "no \"{line}\" in:\n{text}");
    }
    let output = OUTPUT.replace("\nend\n", "\ndatagrams 2 600 25 14.5\nend\n");
    let read = |output: &str| simulated(&with_datagrams(), 0, |simulation| output::read(simulation, output));
    let flows = read(&output).unwrap().flows;
    let cbr = &flows[2];
    assert_eq!((cbr.delivered_pkts, cbr.lost_pkts, cbr.received_bytes), (600, 25, 600 * 972));
    assert_eq!((cbr.active_s, cbr.goodput_bps), (9.5, 8.0 * 600.0 * 972.0 / 9.5));
    assert_eq!((cbr.algorithm.as_str(), cbr.datagrams, cbr.compared), ("udp", true, false));
    assert_eq!(flows[0].delivered_pkts, 204);
    assert_eq!(read(OUTPUT).unwrap_err().to_string(), "ns-2 wrote nothing about the flow \"cbr\"");
}

#[test]
fn path_that_ns2_does_not_support_is_refused() {
    let refusal = |text: &str| script::check(&scenario(text).cells[0]).unwrap_err().what;
    for (field, what) in [
        ("jitter = \"1ms\"", "jitter"),
        ("change = [{ at = \"1s\", up = false }]", "changes by time"),
        ("acks = \"thinned:time=5ms\"", "held acknowledgements"),
        ("ack_loss = \"1%\"", "losses of acknowledgements alone"),
    ] {
        let text = TEXT.replace("delay = \"20ms\"", &format!("delay = \"20ms\"\n{field}"));
        assert_eq!(refusal(&text), format!("cannot simulate the link a-b: ns-2 does not support {what} here"));
    }
    let short = refusal(&TEXT.replacen("50pkts", "1pkts", 1));
    assert_eq!(short, "cannot simulate the link a-b: ns-2's queue of 1pkts drops every packet");
    script::check(&scenario(TEXT).cells[0]).unwrap();
}

#[test]
fn flow_that_ns2_cannot_send_is_refused() {
    let refusal = |flow: &str| {
        let flow = format!("[[flow]]\nname=\"other\"\nfrom=\"a\"\nto=\"c\"\n{flow}\n[variant.capped]\n");
        script::check(&scenario(&TEXT.replace("[variant.capped]\n", &flow)).cells[0]).unwrap_err().what
    };
    let tcp = |fields: &str| refusal(&format!("algorithm=\"reno\"\n{fields}"));
    let what = |why: &str| format!("cannot simulate the flow \"other\": ns-2 {why} here");
    assert_eq!(tcp("size=\"9kB\"\ncount=2\ninterval=\"1s\""), what("repeats no transfers"));
    assert_eq!(tcp("size=\"9kB\"\narrivals=\"poisson:mean=1s\""), what("draws no transfers"));
    assert_eq!(tcp("rate=\"1mbit\""), what("keeps no connection open"));
    assert_eq!(refusal("protocol=\"udp\"\nframes=\"per_second=50,size=160B\""), what("sends no frames"));
}

/// Three moments of two flows, and the counters of four link directions.
const OUTPUT: &str = "\
a remark of ns-2
flow 0 0 1 50 -1 -1 0 0 0 0 0.01
flow 1 0 1 50 -1 -1 0 0 0 0 0.01
flow 0 10 7.5 7 98 104 105 3 161 20 0.01
flow 1 10 9 50 9 12 13 0 161 20 0.01
flow 0 20 8.5 7 198 204 205 4 161 20 0.01
flow 1 20 9 50 9 12 13 0 161 20 0.01
link a,b 200 190 30000 7 4
link b,a 100 100 4000 0 0
link b,c 190 190 30000 0 0
link c,b 100 100 4000 0 0
end
a remark that it had kept until it ended";

#[test]
fn output_becomes_records_like_those_of_a_measured_run() {
    let read = simulated(TEXT, 0, |simulation| output::read(simulation, OUTPUT).unwrap());
    let first = &read.flows[0];
    assert_eq!((first.delivered_pkts, first.retrans_pkts, first.mss_bytes), (204, 4, 1500));
    assert_eq!((first.algorithm.as_str(), first.variant.as_str()), ("TCP/Sack1", "capped"));
    assert_eq!((first.received_bytes, first.active_s), (199 * 1500, 20.0));
    assert_eq!(first.goodput_bps, 199.0 * 1500.0 * 8.0 / 20.0);
    assert_eq!(read.flows[1].active_s, 0.0, "it delivered nothing between two samples of its own");
    let counted = &read.links[0].counters[0];
    assert_eq!((counted.received_pkts, counted.lost_pkts, counted.overflow_pkts), (204, 4, 7));
    assert_eq!((read.links[0].name.as_str(), read.links[1].counters[1].sent_pkts), ("a-b", 100));
    let of_first: Vec<(u64, u32, u32)> =
        read.events.iter().filter(|e| e.socket == 1).map(|e| (e.time_ns, e.cwnd_pkts, e.delivered_pkts)).collect();
    assert_eq!(of_first, [(0, 1, 0), (10_000_000_000, 7, 99), (20_000_000_000, 8, 199)]);
    assert_eq!((read.events[4].srtt_us, read.events[4].rtt_us), (Some(201_250), Some(200_000)));
    assert_eq!(read.events.iter().filter(|event| event.socket == 2).count(), 2, "those since its start");
}

/// Like those of a measured connection, so that the time after the end does not look like starvation.
#[test]
fn events_of_a_flow_end_when_its_time_is_over_or_all_has_arrived() {
    let ends_at = |text: &str, socket: u64| {
        let events = simulated(text, 0, |simulation| output::read(simulation, OUTPUT).unwrap().events);
        let last = events.iter().rfind(|event| event.socket == socket).unwrap();
        (last.kind, last.time_ns / 1_000_000_000)
    };
    assert_eq!([1, 2].map(|socket| ends_at(TEXT, socket)), [(EventKind::Close, 20); 2]);
    let ends = TEXT.replace("initial_cwnd = 2", "duration = \"15s\"").replace("1MB", "15kB");
    assert_eq!([1, 2].map(|socket| ends_at(&ends, socket)), [(EventKind::Close, 10), (EventKind::Open, 10)]);
}

#[test]
fn output_that_ends_early_or_is_garbled_is_an_error() {
    let error = |text: &str| simulated(TEXT, 0, |simulation| output::read(simulation, text).unwrap_err().to_string());
    assert_eq!(error("flow 0 0"), "ns-2 ended before the simulated time was over");
    assert!(error("flow 0 x\nend\n").contains("ns-2 wrote a line of unknown form: \"flow 0 x\""));
    assert!(error("flow 9 0 1 50 -1 -1 0 0 0 0 0.01\nend\n").contains("unknown form"));
    assert!(error(&OUTPUT.replace("link c,b 100 100 4000 0 0\n", "")).contains("the link from c to b"));
}

#[test]
fn first_repeat_has_the_simulators_own_seed_unless_another_was_asked_for() {
    let seeds = |seed: Option<u64>| -> Vec<u64> {
        let scenario = scenario(TEXT);
        let plan = Plan::new(&scenario, &Choices { seed, ..Choices::default() }).unwrap();
        plan.runs.iter().map(|run| seed_of(run, plan.seed == scenario.seed)).collect()
    };
    let own = seeds(None);
    assert_eq!(own[..2], [1, 1]);
    assert_eq!(own[2], own[3], "variants pair");
    assert!(own[2] > 1 && own[2] <= SEED_MAX);
    assert_eq!(seeds(Some(7)), own);
    let other = seeds(Some(8));
    assert!(other[0] > 1 && other[0] != other[2] && other[2] != own[2]);
}
