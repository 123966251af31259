//! Correct flows: what they send, and which are compared.

use std::time::Duration;

use crate::load::{Load, Starts};
use crate::scenario::datagrams::DatagramSpec;
use crate::scenario::spec::{BulkSender, Cell, Ecn, FlowSpec, Sends};
use crate::scenario::tests::{GOOD, RENO, flow, link, scenario};
use crate::scenario::whole::Scenario;
use shared::units::{BitsPerSec, Bytes};

/// Two flows over one link; `rest` follows the second one's fields.
fn compared(head: &str, algorithms: [&str; 2], rest: &str) -> Vec<Vec<(bool, String)>> {
    let flow = |name: &str, algorithm: &str| flow(name, ["a", "b"], &format!("algorithm=\"{algorithm}\""));
    let flows = flow("data", algorithms[0]) + &flow("other", algorithms[1]);
    let scenario = scenario(2, &format!("{head}{}{flows}{rest}", link(["a", "b"], "")));
    let of_cell = |cell: &Cell| cell.flows.iter().map(|flow| (flow.compared, cell.label(flow))).collect();
    scenario.cells.iter().map(of_cell).collect()
}

#[test]
fn flows_beside_the_compared_ones_are_told_apart() {
    let sweep = "[sweep]\nalgorithm=[\"reno\",\"dtcp\"]\n";
    let named = |one: (bool, &str), other: (bool, &str)| vec![(one.0, one.1.to_owned()), (other.0, other.1.to_owned())];
    let fixed = compared(sweep, ["$algorithm", "reno"], "");
    assert_eq!(
        fixed,
        [named((true, "reno"), (false, "reno")), named((true, "dtcp"), (false, "reno"))],
        "the second is reno in every cell, in reno's too"
    );
    let both = compared(sweep, ["$algorithm", "$algorithm"], "");
    assert_eq!(both[1], named((true, "dtcp"), (true, "dtcp")));
    let bundle = compared("", ["cubic", "bbr"], "[variant.New]\nflows=[\"data\"]\nalgorithm=\"reno\"\n");
    assert_eq!(bundle, [named((true, "New"), (false, "bbr"))]);
    let without = compared("", ["cubic", "bbr"], "");
    assert_eq!(without, [named((true, "cubic"), (true, "bbr"))]);
}

/// The flow of [`GOOD`], with lines added to its table.
fn flow_with(lines: &str) -> FlowSpec {
    let text = GOOD.replacen("to = \"r\"\n", &format!("to = \"r\"\n{lines}\n"), 1);
    Scenario::parse("x.toml", &text).unwrap().cells.remove(0).flows.remove(0)
}

#[test]
fn flow_says_what_it_sends() {
    let sends = |lines: &str| flow_with(lines).sends;
    assert_eq!(sends("duration = \"1s\""), Sends::Bulk);
    let size = Bytes(20_000);
    assert_eq!(sends("size = \"20kB\""), Sends::Transfers { size, count: 1, interval: Duration::ZERO });
    let interval = Duration::from_millis(100);
    assert_eq!(
        sends("size = \"20kB\"\ncount = 9\ninterval = \"100ms\""),
        Sends::Transfers { size, count: 9, interval }
    );
    let messages = "size = \"20kB\"\ncount = 9\ninterval = \"100ms\"\nkeep_alive = 1";
    assert_eq!(sends(messages), Sends::Messages { size, count: 9, interval });
    assert_eq!(flow_with(messages).connections(Duration::from_secs(9)), 1);
    let rate = BitsPerSec(500_000);
    let text = GOOD.replace(
        "[[flow]]",
        "[[flow]]\nname = \"beside\"\nfrom = \"r\"\nto = \"s\"\nprotocol = \"udp\"\nrate = \"500kbit\"\n[[flow]]",
    );
    let scenario = Scenario::parse("x.toml", &text).unwrap();
    let beside = &scenario.cells[0].flows[0];
    let deadline = Duration::from_millis(150);
    assert_eq!(beside.sends, Sends::Datagrams(DatagramSpec { rate, packet_bytes: 1500, frames: None, deadline }));
    assert!(!beside.compared && scenario.cells[0].flows[1].compared, "a variant applies to TCP flows only");
}

#[test]
fn load_is_a_share_of_the_slowest_link_on_the_path() {
    let mean = |path: &str, arrivals: &str| {
        let flow = flow("f", ["a", "c"], &format!("{RENO}\nsize=\"25kB\"\narrivals=\"{arrivals}\""));
        let scenario = scenario(9, &(path.to_owned() + &flow));
        match &scenario.cells[0].flows[0].sends {
            Sends::Load(Load::Drawn { starts: Starts::Poisson { mean, stream }, .. }) => (mean.as_micros(), *stream),
            other => panic!("{other:?}"),
        }
    };
    let path = link(["a", "b"], "rate=\"50mbit\"") + &link(["b", "c"], "rate=\"10mbit\"\nreverse={rate=\"1mbit\"}");
    assert_eq!(mean(&path, "poisson:load=50%"), (40_000, None));
    assert_eq!(mean(&path, "poisson:load=200%,stream=3"), (10_000, Some(3)));
    assert_eq!(mean(&path, "poisson:mean=70ms"), (70_000, None));
}

#[test]
fn load_bounds_its_starts_and_not_its_ends() {
    let load =
        flow_with("size = \"lognormal:median=1kB,sigma=1\"\narrivals = \"poisson:mean=10ms\"\nduration = \"2s\"");
    let run = Duration::from_secs(9);
    assert_eq!((load.starting(run), load.length(run)), (Duration::from_secs(2), run));
    assert_eq!(load.connections(run), 201);
    let transfers = load.transfers(run, 0, 1).unwrap();
    assert!((150..250).contains(&transfers.len()) && transfers.last().unwrap().start_ns < 2_000_000_000);
    let regular = flow_with("size = \"pareto:shape=1,least=1kB,most=2kB\"\ncount = 2\ninterval = \"1s\"");
    assert_eq!((regular.connections(run), regular.transfers(run, 0, 1).unwrap().len()), (2, 2));
    assert_eq!(flow_with("duration = \"1s\"").transfers(run, 0, 1), None);
}

#[test]
fn our_own_sender_counts_in_no_whole_seconds() {
    assert_eq!(flow_with("start = \"0s\"").sender, BulkSender::Iperf3);
    let own = flow_with("sender = \"tccc\"\nstart = \"250ms\"\nduration = \"1500ms\"");
    assert_eq!((own.sender, own.sends), (BulkSender::Tccc, Sends::Bulk));
    // Older plans have no `sender`, and new ones must equal them.
    assert!(!serde_json::to_string(&flow_with("start = \"0s\"")).unwrap().contains("sender"));
}

#[test]
fn copies_have_numbers_and_nodes_of_their_own() {
    let flow = flow("data", ["s#", "r#"], &format!("copies=\"$flows\"\n{RENO}"));
    let shape = "[sweep]\nflows=[2,3]\n[dumbbell]\npairs=\"$flows\"\nbottleneck={rate=\"10mbit\"}\n";
    let scenario = scenario(1, &(shape.to_owned() + &flow));
    let named = |index: usize| -> Vec<String> {
        scenario.cells[index].flows.iter().map(|flow| format!("{} {} {}", flow.name, flow.from, flow.to)).collect()
    };
    assert_eq!(named(0), ["data-1 s1 r1", "data-2 s2 r2"]);
    assert_eq!(named(1).len(), 3);
}

#[test]
fn conditions_are_of_a_node_and_not_of_another() {
    let own = flow("own", ["s", "x"], &format!("{RENO}\ntcp_sack=0\necn=1"));
    let other = flow("other", ["y", "x"], RENO);
    let scenario = scenario(1, &[link(["s", "x"], ""), link(["y", "x"], ""), own, other].concat());
    let conditions = scenario.cells[0].flows.iter().map(|flow| (flow.tcp_sack, flow.ecn));
    assert_eq!(conditions.collect::<Vec<_>>(), [(false, Ecn::Classic), (true, Ecn::Off)]);
}

/// The names of the flows of each cell, with a `*` at those that the report compares.
fn flows_of_cells(flows: &str, variants: &str) -> Vec<Vec<String>> {
    let scenario = scenario(2, &(link(["s", "r"], "") + flows + variants));
    let star = |flow: &FlowSpec| format!("{}{}", flow.name, if flow.compared { "*" } else { "" });
    scenario.cells.iter().map(|cell| cell.flows.iter().map(star).collect()).collect()
}

#[test]
fn variant_leaves_flows_out_and_the_report_compares_the_others() {
    let tcp = |name: &str, rest: &str| flow(name, ["s", "r"], &format!("{RENO}\n{rest}"));
    let noise = flow("noise", ["s", "r"], "protocol=\"udp\"\nrate=\"1mbit\"");
    let flows = tcp("bulk", "copies=2") + &tcp("page", "") + &noise;
    let of = |variants: &str| flows_of_cells(&flows, &format!("[variant]\n{variants}\n"));
    assert_eq!(
        of("solo={without=[\"bulk\"]}\nboth={}"),
        [vec!["page*", "noise"], vec!["bulk-1", "bulk-2", "page*", "noise"]],
        "all copies"
    );
    assert_eq!(of("quiet={without=[\"noise\"]}"), [["bulk-1*", "bulk-2*", "page*"]], "datagrams too");
    assert_eq!(
        of("page={without=[\"bulk\"]}\nbulk={without=[\"page\",\"noise\"]}"),
        [vec!["page*", "noise"], vec!["bulk-1*", "bulk-2*"]],
        "no flow is in every variant"
    );
    let named = "solo={without=[\"bulk\"],flows=[\"page\"]}\nboth={flows=[\"page\",\"bulk\"]}";
    assert_eq!(of(named)[1], ["bulk-1*", "bulk-2*", "page*", "noise"]);
}

#[test]
fn flows_keep_their_fields_and_numbers_without_others() {
    let tcp = |name: &str, rest: &str| flow(name, ["s", "r"], rest);
    let flows = tcp("first", "algorithm=\"cubic\"\nsize=\"9kB\"\ncount=3\ninterval=\"100ms\"")
        + &tcp("bulk", "copies=2")
        + &tcp("last", "algorithm=\"cubic\"\nwindow_cap=50");
    let variants = "[variant]\n\
                    solo={without=[\"first\",\"bulk\"]}\n\
                    both={flows=[\"bulk\"],algorithm=\"reno\"}\n";
    let cells = scenario(2, &(link(["s", "r"], "rate=\"10mbit\"") + &flows + variants)).cells;
    let [solo, both] = &cells[..] else { panic!("{cells:?}") };
    assert_eq!(solo.links, both.links, "the delays in hosts are those of all flows");
    assert!(!solo.links[0].directions[0].host_delay.is_zero());
    let last = solo.flows[0].clone();
    assert_eq!((last.algorithm.as_str(), last.window_cap), ("cubic", Some(50)));
    let numbers = |cell: &Cell| {
        let last = cell.numbered_flows(1).pop().unwrap();
        (last.flow.name.clone(), last.number, last.connection)
    };
    assert_eq!(numbers(solo), ("last".to_owned(), 3, 5));
    assert_eq!(numbers(solo), numbers(both));
    assert!(solo.leaves_out("bulk") && solo.leaves_out("bulk-2") && !solo.leaves_out("last"));
    // Older plans have neither field, and new ones must equal them.
    let text = serde_json::to_string(both).unwrap();
    assert!(!text.contains("left_out"), "{text}");
    let read: Cell = serde_json::from_str(&serde_json::to_string(solo).unwrap()).unwrap();
    assert_eq!(read, *solo);
}

#[test]
fn check_judges_the_cells_that_run_its_flow() {
    let flows = flow("bulk", ["s", "r"], RENO) + &flow("page", ["s", "r"], RENO);
    let variants = "[variant]\nsolo={without=[\"bulk\"]}\nboth={}\n";
    let check = "[[check]]\nname=\"n\"\nwhy=\"w\"\nflow=\"bulk\"\nwhat=\"cwnd_pkts\"\nat_most=9\n";
    let scenario = scenario(2, &(link(["s", "r"], "") + &flows + variants + check));
    let judged: Vec<bool> = scenario.cells.iter().map(|cell| scenario.checks[0].is_about(cell)).collect();
    assert_eq!(judged, [false, true]);
}
