//! Scenarios that read, and mistakes that are named with file, line and field.

use std::time::Duration;

use super::*;
use crate::units::{BitsPerSec, Share};

/// What a flow needs beside its ends.
pub(crate) const RENO: &str = "algorithm=\"reno\"";

/// A scenario of one run of so many seconds, from what it has beside the fields that every scenario has.
pub(crate) fn scenario(seconds: u32, rest: &str) -> Scenario {
    let text = format!("title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"{seconds}s\"\nruns=1\nseed=1\n{rest}");
    Scenario::parse("x.toml", &text).unwrap()
}

/// The first cell of such a scenario of one second.
pub(crate) fn cell(rest: &str) -> Cell {
    scenario(1, rest).cells.remove(0)
}

pub(crate) fn link(ends: [&str; 2], rest: &str) -> String {
    format!("[[link]]\nends={ends:?}\n{rest}\n")
}

pub(crate) fn flow(name: &str, [from, to]: [&str; 2], rest: &str) -> String {
    format!("[[flow]]\nname=\"{name}\"\nfrom=\"{from}\"\nto=\"{to}\"\n{rest}\n")
}

pub(super) const GOOD: &str = r#"
title = "A test"
claim = "Nothing is claimed."
profile = "paper"
duration = "2s"
runs = 3
seed = 1

[sweep]
loss = [0, 0.001, "1%"]

[[link]]
ends = ["s", "r"]
rate = "10mbit"
delay = "20ms"
queue = "50pkts"
loss = "$loss"
reverse = { delay = "5ms" }

[[flow]]
name = "data"
from = "s"
to = "r"

[variant.SACK]
algorithm = "reno"
window_cap = 50

[variant.Linux]
algorithm = "reno"
initial_ssthresh = 50

[report]
baseline = "SACK"
metrics = ["delivered_pkts"]

[[published]]
metric = "delivered_pkts"
place = "Table 1"
over = "loss"
values = { SACK = [3, 2, 1], Vegas = [4, nan, 2] }
"#;

fn refusal(change: (&str, &str)) -> Box<Mistake> {
    assert!(GOOD.contains(change.0), "the text to change is there");
    Scenario::parse("x.toml", &GOOD.replacen(change.0, change.1, 1)).unwrap_err()
}

/// Line of the first occurrence in the good text.
fn line(of: &str) -> usize {
    GOOD[..GOOD.find(of).unwrap()].matches('\n').count() + 1
}

/// `tccc run /dev/zero` took all memory.
#[test]
fn scenario_that_never_ends_is_refused_unread() {
    for path in ["/dev/zero", "/"] {
        let told = Scenario::load(Path::new(path), Engine::Kernel).unwrap_err().to_string();
        assert_eq!(told, format!("cannot read the scenario \"{path}\": it is not a regular file"));
    }
}

/// The message looks for the name of the field before the mistake, and ended the program within such a letter.
#[test]
fn letters_of_several_bytes_before_a_mistake_of_syntax_are_passed_over() {
    for written in ["delay = \"20 \u{fffd} = x", "delay = \"20ms\" \u{e9} = x", "\u{e9} = x"] {
        let error = refusal(("delay = \"20ms\"", written));
        assert_eq!(error.line.unwrap(), line("delay = \"20ms\""), "{written}: {error}");
    }
}

#[test]
fn variants_come_first_in_the_sweep_and_override_the_flow() {
    let scenario = Scenario::parse("x.toml", GOOD).unwrap();
    let at = |cell: &Cell| format!("{} {}", cell.at["variant"], cell.at["loss"]);
    let cells: Vec<String> = scenario.cells.iter().map(at).collect();
    assert_eq!(cells, ["SACK 0", "SACK 0.001", "SACK 1%", "Linux 0", "Linux 0.001", "Linux 1%"]);
    let flow = |index: usize| &scenario.cells[index].flows[0];
    assert_eq!((flow(0).window_cap, flow(0).initial_ssthresh), (Some(50), None));
    assert_eq!((flow(3).window_cap, flow(3).initial_ssthresh), (None, Some(50)));
    assert_eq!(scenario.cells[3].label(flow(3)), "Linux");
    assert_eq!(scenario.series_variable(), Some("variant"));
    assert!(scenario.published[0].values["Vegas"][1].is_nan());
}

#[test]
fn names_are_replaced_in_every_cell_and_reverse_takes_the_defaults() {
    let scenario = Scenario::parse("x.toml", GOOD).unwrap();
    let [forward, backward] = &scenario.cells[2].links[0].directions;
    assert_eq!(forward.loss, Share(0.01).into());
    assert_eq!(backward.loss, Share(0.0).into());
    assert_eq!(backward.rate, forward.rate);
    assert_eq!(backward.delay, Duration::from_millis(5));
}

#[test]
fn mistakes_are_named_by_file_line_and_field() {
    let check = |change: (&str, &str), field: &str, what: &str| {
        let error = refusal(change);
        assert_eq!(error.line.unwrap(), line(change.0), "{error}");
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    check(("queue = \"50pkts\"", "queue = \"2xbdp\""), "link.queue", "expected a number with pkts");
    check(("delay = \"5ms\"", "delay = \"5\""), "link.reverse.delay", "expected a time");
    check(("loss = \"$loss\"", "loss = \"$lose\""), "link.loss", "expected a variable of [sweep]: $loss");
    check(("loss = [0, 0.001, \"1%\"]", "loss = []"), "sweep.loss", "at least one value");
    check(("ends = [\"s\", \"r\"]", "ends = [\"s\", \"s\"]"), "link.ends", "two different nodes");
    check(("to = \"r\"", "to = \"x\""), "flow.to", "expected a node that a link names: r, s");
    check(("duration = \"2s\"", "duration = \"1500ms\""), "duration", "whole seconds");
    check(("runs = 3", "runs = 0"), "runs", "= 0: expected a whole number from 1 to 10000");
    check(("runs = 3", "runs = 4294967295"), "runs", "more than 100000 together");
    check(("duration = \"2s\"", "duration = \"1000000h\""), "duration", "at most 86400s");
    check(("rate = \"10mbit\"", "rate = \"99gbit\""), "link.rate", "\"99gbit\": outside 1kbit..10gbit");
    check(("delay = \"20ms\"", "delay = \"11s\""), "link.delay", "outside");
    check(("delay = \"5ms\"", "delay = \"11s\""), "link.reverse.delay", "outside");
    check(("queue = \"50pkts\"", "queue = \"100001pkts\""), "link.queue", "at most 100000 pkts");
    check(("queue = \"50pkts\"", "queue = \"0pkts\""), "link.queue", "above 0");
    check(("loss = \"$loss\"", "loss = \"100%\""), "link.loss", "nothing would arrive");
    check(("loss = \"$loss\"", "loss = \"gilbert:p=1%,r=2\""), "link.loss", "r = \"2\": expected a share");
    check(("loss = \"$loss\"", "loss = \"trace:../x\""), "link.loss", "a file in the scenario's folder or below");
    check(("loss = \"$loss\"", "loss = \"trace:none\""), "link.loss", "no such file or directory");
    check(("loss = \"$loss\"", "loss = [3, 2]"), "link.loss", "2 after 3: expected each packet number once");
    check(("loss = \"$loss\"", "loss = { p = 1 }"), "link.loss", "= { p = 1 }: expected a share such as 1%");
    check(("loss = [0, 0.001, \"1%\"]", "loss = [0, 0.01, \"1%\"]"), "sweep.loss", "\"0.01\" and \"1%\" mean the same");
    check(("name = \"data\"", "name = \"../../etc/x\""), "flow.name", "letters, digits");
    check(
        ("metrics = [\"delivered_pkts\"]", "metrics = [\"goodput\"]"),
        "report.metrics",
        "expected one of delivered_pkts",
    );
    check(("metrics = [\"delivered_pkts\"]", "metrics = []"), "report.metrics", "at least one metric");
    check(("baseline = \"SACK\"", "baseline = \"SACKK\""), "report.baseline", "one that is measured: SACK, Linux");
    check(("SACK = [3, 2, 1]", "SACK = [3, -2, 1]"), "published.values.SACK", "numbers from 0");
    check(("window_cap = 50", "window_cap = 0"), "variant.SACK.window_cap", "a whole number of packets from 1");
    check(("over = \"loss\"", "over = \"rate\""), "published.over", "expected a variable of [sweep]");
    check(("profile = \"paper\"", "profile = \"fast\""), "profile", "expected paper or native");
    check(("runs = 3", "runs = "), "runs", "missing: expected a value");
}

#[test]
fn changes_of_a_link_go_back_too_unless_reverse_has_its_own() {
    let changes = "change = [{ at = \"500ms\", rate = \"5mbit\", delay = \"9ms\", loss = \"2%\" }, \
                   { at = \"1s\", up = false, reverse = { rate = \"1mbit\", loss = [7] } }]\nreverse =";
    let scenario = Scenario::parse("x.toml", &GOOD.replacen("reverse =", changes, 1)).unwrap();
    let [there, back] = &scenario.cells[0].links[0].directions;
    let [first, second] = &there.changes[..] else { panic!("{there:?}") };
    assert_eq!((first.rate, first.delay), (Some(BitsPerSec(5_000_000)), Some(Duration::from_millis(9))));
    assert_eq!((&first.loss, second.up), (&Some(Share(0.02).into()), Some(false)));
    let [first, second] = &back.changes[..] else { panic!("{back:?}") };
    assert_eq!((first.rate, first.delay, &first.loss), (Some(BitsPerSec(5_000_000)), None, &None), "its own delay");
    assert_eq!((second.rate, second.up), (Some(BitsPerSec(1_000_000)), Some(false)));
    assert!(second.loss.is_some());
}

#[test]
fn mistakes_of_changes_and_traces_are_named() {
    let refused = |text: &str, field: &str, what: &str| {
        let changed = GOOD.replacen("rate = \"10mbit\"", text, 1);
        let error = Scenario::parse("x.toml", &changed).unwrap_err();
        assert_eq!((error.field.as_str(), error.line.unwrap()), (field, line("rate = \"10mbit\"")), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let change = |fields: &str| format!("change = [{{ {fields} }}, {{ at = \"900ms\", up = true }}]");
    refused(&change("at = \"2s\", up = false"), "link.change.at", "less than the 2s of a run");
    refused(&change("at = \"1s\""), "link.change.at", "expected rate, delay, loss or up");
    refused(&change("at = \"1s\", up = false"), "link.change.at", "\"900ms\": after 1s");
    refused(&change("at = \"1ms\", rate = \"20gbit\""), "link.change.rate", "outside 1kbit..10gbit");
    refused(&change("at = \"1ms\", delay = \"20s\""), "link.change.delay", "outside");
    refused(&change("at = \"1ms\", down = true"), "link.change.down", "unknown field");
    refused(&change("at = \"1ms\", loss = \"x\""), "link.change.loss", "expected a share such as 1%");
    refused("rate = \"10\"", "link.rate", "expected a rate with bit, kbit");
    refused("rate = \"trace:none.trace\"", "link.rate", "no such file or directory");
    refused("rate = \"trace:/etc/passwd\"", "link.rate", "a file in the scenario's folder or below");
    refused("rate = \"cellular:mean=10mbit\"", "link.rate", "seed is missing");
}

#[test]
fn generated_trace_sets_the_rate_to_its_mean() {
    let traced = GOOD.replacen("10mbit", "cellular:mean=10mbit,seed=3", 1);
    let scenario = Scenario::parse("x.toml", &traced).unwrap();
    for direction in &scenario.cells[0].links[0].directions {
        let trace = direction.trace.as_ref().unwrap();
        assert_eq!(
            (direction.rate, trace.name.as_str()),
            (Some(trace.mean()), "cellular:mean=10mbit,seed=3,length=60s")
        );
    }
}

#[test]
fn unknown_fields_are_refused_with_the_name_that_was_meant() {
    let error = refusal(("queue = \"50pkts\"", "quue = \"50pkts\""));
    assert_eq!((error.line.unwrap(), error.field.as_str()), (line("queue = "), "link.quue"));
    assert!(error.expected.starts_with("unknown field: expected one of ends, rate"), "{error}");
    assert_eq!(error.hint.as_deref(), Some("did you mean \"queue\"?"));
    let error = refusal(("seed = 1\n", ""));
    assert!(error.to_string().contains("seed: missing"), "{error}");
}

/// They were named under the file's first field: `title.duration`.
#[test]
fn field_that_the_file_lacks_is_named_by_itself() {
    for field in ["title", "claim", "profile", "duration", "runs", "seed"] {
        let lines = GOOD.trim_start().lines().filter(|line| !line.starts_with(&format!("{field} = ")));
        let error = Scenario::parse("x.toml", &lines.collect::<Vec<_>>().join("\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("x.toml:1: {field}: missing, and it has no default"));
    }
    let error = refusal(("to = \"r\"\n", ""));
    assert_eq!((error.field.as_str(), error.line.unwrap()), ("flow.to", line("[[flow]]")));
}

#[test]
fn sweep_of_too_many_cells_is_told_where_it_stands() {
    let ten = |name: &str| format!("{name} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n");
    let sweep = format!("[sweep]\n{}", ["a", "b", "c", "d", "e", "f", "g"].map(ten).concat());
    let error = refusal(("[sweep]\nloss = [0, 0.001, \"1%\"]\n", &sweep));
    assert_eq!((error.field.as_str(), error.line.unwrap()), ("sweep", line("[sweep]")));
    assert!(error.expected.starts_with("20000000 cells, "), "two variants: {error}");
    let error = refusal(("runs = 3", "runs = 20000"));
    assert!(error.expected.starts_with("20000 runs of each of 6 cells are more than 100000"), "{error}");
    assert_eq!(error.hint.as_deref(), Some("at most 10000 runs of so many cells"));
}

#[test]
fn second_link_between_two_nodes_names_the_first() {
    let error = refusal(("[[flow]]", "[[link]]\nends = [\"r\", \"s\"]\n[[flow]]"));
    assert_eq!(error.line.unwrap(), line("[[flow]]") + 1);
    let what = format!("link.ends = [\"r\", \"s\"]: another link joins these two nodes, line {}", line("ends ="));
    assert!(error.to_string().ends_with(&what), "{error}");
}

#[test]
fn lists_that_do_not_match_their_variable_are_refused() {
    let error = refusal(("SACK = [3, 2, 1]", "SACK = [3, 2]"));
    assert_eq!(error.field, "published.values.SACK");
    assert!(error.to_string().contains("2 numbers for 3 values of `loss`"), "{error}");
}

#[test]
fn value_of_a_sweep_that_is_wrong_is_named_where_it_stands() {
    let swept = |bad: &str, good: &str| {
        let error = refusal((good, bad));
        (error.line.unwrap(), error.field.clone(), error.to_string(), error.hint.unwrap())
    };
    let (at, field, text, hint) = swept("0.001,\n\"150%\"", "0.001, \"1%\"");
    assert_eq!((at, field.as_str()), (line("loss = [") + 1, "sweep.loss"));
    assert!(text.contains("\"150%\""), "{text}");
    assert_eq!(hint, format!("it is the value of link.loss, line {}", line("loss = \"$loss\"") + 1));
    let (at, field, _, hint) = swept("loss = \"bursts:loss=$loss\"", "loss = \"$loss\"");
    assert_eq!((at, field.as_str()), (line("loss = \"$loss\""), "link.loss"));
    assert_eq!(hint, format!("\"$loss\" takes its values from [sweep], line {}", line("loss = [")));
}

#[test]
fn text_of_an_error_reads_as_the_style_guide_says() {
    let error = refusal(("queue = \"50pkts\"", "queue = \"2xbdp\""));
    let text = format!("x.toml:{}: link.queue = \"2xbdp\": expected a number", line("queue ="));
    assert!(error.to_string().starts_with(&text), "{error}");
}

#[test]
fn mistakes_of_the_report_are_named_with_what_was_meant() {
    let error = refusal(("metrics = [\"delivered_pkts\"]", "metrics = [\"goodput\"]"));
    assert_eq!(error.hint.as_deref(), Some("did you mean \"goodput_bps\"?"));
    let error = refusal(("metric = \"delivered_pkts\"\nplace", "metric = \"deliverd_pkts\"\nplace"));
    assert_eq!((error.line.unwrap(), error.field.as_str()), (line("metric = "), "published.metric"));
    let expected = "[[expected]]\nmetric = \"delivered_pkts\"\nover = \"loss\"\nbasis = \"b\"\n\
                    values = { Vegas = [1, 2, 3] }\nplus_minus = { Vegas = [1, 1, 1] }\n";
    let error = Scenario::parse("x.toml", &format!("{GOOD}{expected}")).unwrap_err();
    assert_eq!(error.field, "expected.values.Vegas", "published only cannot be judged: {error}");
}

#[test]
fn mistake_in_a_flow_found_later_names_the_field_that_holds_the_value() {
    let place = |text: &str, field: &str| {
        let scenario = Scenario::parse("x.toml", text).unwrap();
        let cell = scenario.cells.last().unwrap();
        scenario.mistake_in_flow(cell, &cell.flows[0], field, Failure::usage("wrong")).what
    };
    let swept = GOOD.replace("[sweep]", "[sweep]\nname = [\"reno\",\n\"cubix\"]").replacen(
        "\"reno\"\nini",
        "\"$name\"\nini",
        1,
    );
    assert_eq!(place(&swept, "algorithm"), format!("x.toml:{}: sweep.name: wrong", line("[sweep]") + 2));
    let last = GOOD.rfind("algorithm = ").unwrap();
    let line = GOOD[..last].matches('\n').count() + 1;
    assert_eq!(place(GOOD, "algorithm"), format!("x.toml:{line}: variant.Linux.algorithm: wrong"));
}

#[test]
fn selection_is_read_and_its_mistakes_are_named() {
    let with = |selection: &str| {
        let text = format!("{GOOD}[selection]\n{selection}");
        Scenario::parse("x.toml", &text).map(|scenario| scenario.selection.unwrap())
    };
    let selection = with("parameter = \"loss\"\nmin = [\"delivered_pkts\"]").unwrap();
    assert_eq!(selection.goals, [("delivered_pkts".to_owned(), Goal::Min)]);
    let head = GOOD.matches('\n').count() + 1;
    let refused = |selection: &str, line: usize, field: &str, what: &str| {
        let error = with(selection).unwrap_err();
        assert_eq!((error.line.unwrap(), error.field.as_str()), (head + line, field), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let loss = |rest: &str| format!("parameter = \"loss\"\n{rest}");
    refused(
        "parameter = \"delay\"",
        1,
        "selection.parameter",
        "expected a variable of [sweep] that is a parameter: loss",
    );
    refused("parameter = \"variant\"", 1, "selection.parameter", "that is a parameter: loss");
    refused(&loss(""), 0, "selection", "expected a metric in max, min or near_one");
    refused(&loss("max = [\"speed\"]"), 2, "selection.max", "\"speed\": expected one of delivered_pkts");
    refused(&loss("max = [\"jain_index\"]"), 2, "selection.max", "expected one of report.metrics");
    let twice = loss("max = [\"delivered_pkts\"]\nmin = [\"delivered_pkts\"]");
    refused(&twice, 3, "selection.min", "\"delivered_pkts\" is listed twice");
    refused(&loss("near_one = [\"delivered_pkts\"]"), 2, "selection.near_one", "only that can be near one");
    refused(&loss("most = []"), 2, "selection.most", "expected one of parameter, max, min, near_one");
}

#[test]
fn figures_and_differences_are_read_and_their_mistakes_are_named() {
    let with = |text: &str| Scenario::parse("x.toml", &format!("{GOOD}{text}"));
    let figure = |rest: &str| with(&format!("[[figure]]\ntitle = \"f\"\n{rest}"));
    let over_time = "x = \"time\"\ny = \"cwnd_pkts\"\nuntil = \"10s\"\nat = { loss = [\"0\"] }\n";
    assert_eq!(figure(over_time).unwrap().figures[0].at.0["loss"], ["0"]);
    assert!(figure("x = \"loss\"\ny = \"delivered_pkts\"\ndraw = \"bars\"").is_ok());
    let refused = |result: Result<Scenario, Box<Mistake>>, field: &str, what: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    refused(figure("x = \"delay\"\ny = \"delivered_pkts\""), "figure.x", "expected time or a variable of [sweep]");
    refused(figure("x = \"time\"\ny = \"goodput\""), "figure.y", "expected a series of a flow: cwnd_pkts");
    refused(figure("x = \"loss\"\ny = \"jain_index\""), "figure.y", "expected one of report.metrics");
    refused(figure("x = \"time\"\ny = \"cwnd_pkts\"\nof = \"ratio\""), "figure.of", "over the sweep");
    refused(figure("x = \"loss\"\ny = \"delivered_pkts\"\nuntil = \"9s\""), "figure.until", "x = \"time\"");
    refused(figure(&over_time.replace("\"0\"", "\"9\"")), "figure.at.loss", "\"9\": expected values of `loss`");
    let difference = |rest: &str| with(&format!("[[difference]]\ncause = \"c\"\nadvice = \"a\"\n{rest}"));
    let of_vegas = difference("at = { variant = \"Vegas\" }\nmetrics = [\"delivered_pkts\"]").unwrap();
    assert_eq!(of_vegas.differences[0].at.0["variant"], ["Vegas"], "published only, and so nothing measured");
    refused(difference("metrics = [\"speed\"]"), "difference.metrics", "\"speed\": expected one of");
    refused(difference("at = { buffer = \"1bdp\" }"), "difference.at.buffer", "expected a variable of [sweep]");
}
