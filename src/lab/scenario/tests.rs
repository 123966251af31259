//! Correct scenarios. Wrong ones are in `tests/host/snapshots/host__scenario_mistakes__wrong_scenarios.snap`.

use std::time::Duration;

use super::*;
use shared::units::{BitsPerSec, Share};

/// What a flow needs besides its two nodes.
pub(crate) const RENO: &str = "algorithm=\"reno\"";

/// A scenario with one run of this many seconds: the fields that every scenario needs, then `rest`.
pub(crate) fn scenario(seconds: u32, rest: &str) -> Scenario {
    let text = format!("title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"{seconds}s\"\nruns=1\nseed=1\n{rest}");
    Scenario::parse("x.toml", &text).unwrap()
}

/// The first cell of a scenario of one second.
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

/// `tccc run /dev/zero` took all memory.
#[test]
fn scenario_that_never_ends_is_refused_unread() {
    for path in ["/dev/zero", "/"] {
        let told = Scenario::load(Path::new(path), Engine::Kernel).unwrap_err().to_string();
        assert_eq!(told, format!("cannot read the scenario \"{path}\": it is not a regular file"));
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
fn selection_is_read() {
    let selection = "[selection]\nparameter = \"loss\"\nmin = [\"delivered_pkts\"]\n";
    let selection = Scenario::parse("x.toml", &format!("{GOOD}{selection}")).unwrap().selection.unwrap();
    assert_eq!(selection.goals, [("delivered_pkts".to_owned(), Goal::Min)]);
}

#[test]
fn figures_and_differences_are_read() {
    let over_time = "x = \"time\"\ny = \"cwnd_pkts\"\nuntil = \"10s\"\nat = { loss = [\"0\"] }\n";
    let of_vegas = "at = { variant = \"Vegas\" }\nmetrics = [\"delivered_pkts\"]\n";
    let [figure, difference] = ["[[figure]]\ntitle = \"f\"\n", "[[difference]]\ncause = \"c\"\nadvice = \"a\"\n"];
    let text = [GOOD, figure, over_time, difference, of_vegas].concat();
    let scenario = Scenario::parse("x.toml", &text).unwrap();
    assert_eq!(scenario.figures[0].at.0["loss"], ["0"]);
    assert_eq!(scenario.differences[0].at.0["variant"], ["Vegas"], "published only, and so nothing measured");
}
