//! Flows that read: what they send, which are compared, and their mistakes.

use std::time::Duration;

use crate::scenario::spec::{Cell, Sender, Sends};
use crate::scenario::tests::{GOOD, RENO, flow, link, scenario};
use crate::scenario::whole::Scenario;
use crate::units::{BitsPerSec, Bytes};
use crate::written::Mistake;

/// Both were ignored: the variant then compared nothing.
#[test]
fn variant_names_tcp_flows_of_the_file() {
    let with = |name: &str| {
        let noise =
            "[[flow]]\nname=\"noise\"\nfrom=\"s\"\nto=\"r\"\nprotocol=\"udp\"\nrate=\"1mbit\"\n[variant.SACK]\n";
        let text = GOOD.replacen("[variant.SACK]\n", &format!("{noise}flows=[\"data\", \"{name}\"]\n"), 1);
        Scenario::parse("x.toml", &text).map_err(|error| (error.field.clone(), error.to_string(), error.hint))
    };
    let (field, what, hint) = with("noise").unwrap_err();
    assert_eq!(field, "variant.SACK.flows");
    assert!(what.contains("\"noise\": it sends datagrams"), "{what}");
    assert_eq!(hint.as_deref(), Some("TCP flows are data"));
    assert!(with("dada").unwrap_err().1.contains("no flow has this name"));
    assert!(with("data").is_ok());
}

#[test]
fn node_that_no_links_lead_to_is_named_with_those_that_they_lead_to() {
    let island = "[[link]]\nends = [\"x\", \"y\"]\n\n[[flow]]";
    let text = GOOD.replacen("[[flow]]", island, 1).replacen("to = \"r\"", "to = \"x\"", 1);
    let error = Scenario::parse("x.toml", &text).unwrap_err();
    assert!(error.to_string().ends_with("flow.to = \"x\": no links lead there from \"s\""), "{error}");
    assert_eq!(error.hint.as_deref(), Some("a [[link]] is missing: from \"s\" they lead to r"));
}

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

/// The good text with one line of the flow's table added.
fn flow_with(line: &str) -> Result<Scenario, Box<Mistake>> {
    Scenario::parse("x.toml", &GOOD.replacen("to = \"r\"\n", &format!("to = \"r\"\n{line}\n"), 1))
}

#[test]
fn flow_says_what_it_sends() {
    let sends = |line: &str| flow_with(line).unwrap().cells[0].flows[0].sends.clone();
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
    assert_eq!(flow_with(messages).unwrap().cells[0].flows[0].connections(), 1);
    let rate = BitsPerSec(500_000);
    let text = GOOD.replace(
        "[[flow]]",
        "[[flow]]\nname = \"beside\"\nfrom = \"r\"\nto = \"s\"\nprotocol = \"udp\"\nrate = \"500kbit\"\n[[flow]]",
    );
    let scenario = Scenario::parse("x.toml", &text).unwrap();
    let beside = &scenario.cells[0].flows[0];
    assert_eq!(beside.sends, Sends::Datagrams { rate, packet_bytes: 1500 });
    assert!(!beside.compared && scenario.cells[0].flows[1].compared, "a variant is of TCP flows");
}

#[test]
fn our_own_sender_counts_in_no_whole_seconds() {
    let flow = |line: &str| flow_with(line).unwrap().cells[0].flows[0].clone();
    assert_eq!(flow("start = \"0s\"").sender, Sender::Iperf3);
    let own = flow("sender = \"tccc\"\nstart = \"250ms\"\nduration = \"1500ms\"");
    assert_eq!((own.sender, own.sends), (Sender::Tccc, Sends::Bulk));
    // Plans of before have no word of it, and have to be the same.
    assert!(!serde_json::to_string(&flow("start = \"0s\"")).unwrap().contains("sender"));
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
fn conditions_of_a_node_are_shared_by_what_it_sends() {
    let two = |first: &str, second: &str, from: &str| {
        let flow = format!("[[flow]]\nname = \"other\"\nfrom = \"{from}\"\nto = \"x\"\n{second}\n[variant.SACK]");
        let link = "[[link]]\nends = [\"s\", \"x\"]\n[[link]]\nends = [\"y\", \"x\"]\n[[flow]]";
        let text = GOOD.replacen("[variant.SACK]", &flow, 1).replacen("[[flow]]", link, 1);
        Scenario::parse("x.toml", &text.replacen("to = \"r\"\n", &format!("to = \"r\"\n{first}\n"), 1))
    };
    let flow = |scenario: &Scenario| (scenario.cells[0].flows[0].tcp_sack, scenario.cells[0].flows[0].ecn);
    assert_eq!(flow(&two("tcp_sack = 0\necn = 1", "", "y").unwrap()), (false, true));
    let clash = two("tcp_sack = 0", "", "s").unwrap_err();
    assert!(clash.expected.contains("flow \"other\" of the same node says otherwise"), "{clash}");
    assert_eq!(clash.field, "flow.tcp_sack");
    assert!(clash.hint.unwrap().contains("a node of its own"));
    assert_eq!(two("ecn = 1", "", "s").unwrap_err().field, "flow.ecn");
    assert!(two("tcp_sack = 2", "", "y").unwrap_err().to_string().contains("2: expected 1 or 0"));
}

#[test]
fn mistakes_in_what_a_flow_sends_are_named() {
    let told = |line: &str| flow_with(line).unwrap_err().to_string();
    let cases = [
        ("size = \"0B\"", "flow.size = \"0B\": expected at least 1B"),
        ("count = 3", "flow.size: `count` needs this beside it"),
        ("size = \"1kB\"\ncount = 3", "flow.interval: `count` above 1 needs this beside it"),
        ("size = \"1kB\"\ncount = 3\ninterval = \"1s\"", "flow.count = 3: the last of them would start after the end"),
        ("size = \"1kB\"\nduration = \"1s\"", "flow.duration: give either size or duration"),
        ("duration = \"9s\"", "flow.duration = \"9s\": expected more than 0 and an end before that of the run"),
        ("duration = \"1500ms\"", "flow.duration = \"1500ms\": expected whole seconds"),
        ("start = \"1500ms\"", "flow.start = \"1500ms\": expected whole seconds before the end of the run, or `sender"),
        ("size = \"1kB\"\nsender = \"tccc\"", "flow.sender: a flow with `size` is always sent by tccc"),
        ("sender = \"nobody\"", "flow.sender = \"nobody\": "),
        ("rate = \"1mbit\"", "flow.rate: only a flow with protocol = \"udp\" has this"),
        ("protocol = \"udp\"", "flow.rate: missing: a flow with protocol = \"udp\" sends at a rate"),
        ("protocol = \"udp\"\nrate = \"1mbit\"\nwindow_cap = 9", "flow.window_cap: a flow with protocol"),
        ("protocol = \"udp\"\nrate = \"1mbit\"\npacket = \"9kB\"", "flow.packet = \"9kB\": outside 36B..1500B"),
        ("protocol = \"sctp\"", "flow.protocol"),
        ("copies = 99", "flow.copies = 99: expected a whole number from 1 to 64"),
        ("count = 3000\nsize = \"1B\"\ninterval=\"1us\"", "flow.count = 3000: expected a whole number from 1 to 1000"),
    ];
    for (line, says) in cases {
        let told = told(line);
        assert!(told.starts_with("x.toml:") && told.contains(says), "{line}: {told}");
    }
}
