//! Messages about wrong scenarios: each names file, line and field, the allowed values, and the next step.

use std::fs;

use crate::common::{check, tccc};
use crate::mistakes;

const GOOD: &str = include_str!("mistakes/scenario.toml");
const WRONG: &str = include_str!("snapshots/host__scenario_mistakes__wrong_scenarios.snap");

/// Plans a file with these bytes in its own folder; returns stderr.
#[track_caller]
fn dry_run(code: i32, bytes: impl AsRef<[u8]>) -> String {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("x.toml"), bytes).unwrap();
    let said = check(code, tccc().args(["run", "x.toml", "--dry-run"]).current_dir(place.path())).stderr();
    said.replace(place.path().to_str().unwrap(), "PLACE")
}

/// The message once had no next step.
#[test]
fn file_that_is_no_text_is_a_wrong_scenario() {
    let expected = "tccc: error: x.toml:2: expected a TOML file, which is text in UTF-8\n  \
                    hint: `tccc run --explain` lists every field\n";
    assert_eq!(dry_run(2, b"title = \"t\"\n\x7fELF\xff"), expected);
}

#[test]
fn every_mistake_is_reported_with_place_allowed_values_and_next_step() {
    dry_run(0, GOOD);
    let cases = mistakes::each(GOOD, WRONG, 167).map(|(change, text)| format!("{change}{}", dry_run(2, text)));
    insta::assert_snapshot!("wrong_scenarios", cases.collect::<Vec<_>>().join("\n"));
}

/// A user corrected a first scenario in three attempts, one missing field each.
#[test]
fn all_mistakes_that_the_declarations_show_are_reported_at_once() {
    let text = r#"
title = "t"
profil = "paper"
duration = "10"
[sweep]
rate = ["5mbit", "10mbits"]
[[link]]
rate = "$rate"
delay = "$dealy"
queue = 5
[[flow]]
name = "f"
from = "s"
protocol = "tpc"
colour = "red"
"#;
    let expected = r#"tccc: error: x.toml:1: claim: missing, and it has no default
x.toml:1: runs: missing, and it has no default
x.toml:1: seed: missing, and it has no default
x.toml:3: profil: unknown field: expected one of title, claim, profile, duration, runs, seed, sample, mtu, source, sweep, link, dumbbell, parking_lot, flow, variant, report, published, expected, figure, difference, selection, virtual, ns2; did you mean "profile"?
x.toml:4: duration = "10": expected a time with us, ms, s, m, h or d, such as 100ms
x.toml:6: sweep.rate = "10mbits": expected a rate with bit, kbit, mbit or gbit, such as 10mbit, trace:FILE or cellular:mean=10mbit,seed=1; it is the value of link.rate, line 8
x.toml:7: link.ends: missing, and it has no default
x.toml:9: link.delay = "$dealy": expected a variable of [sweep]: $rate
x.toml:10: link.queue = 5: expected a number with pkts, B, kB, MB or bdp, above 0 and at most 4294967295pkts, such as 50pkts
x.toml:11: flow.to: missing, and it has no default
x.toml:14: flow.protocol = "tpc": expected tcp or udp; did you mean "tcp"?
x.toml:15: flow.colour: unknown field: expected one of name, from, to, protocol, algorithm, tunables, window_cap, initial_ssthresh, initial_cwnd, tcp_sack, ecn, start, duration, size, count, interval, keep_alive, sender, rate, packet, copies
  hint: line 1: `tccc run --explain claim` describes the field
"#;
    assert_eq!(dry_run(2, text), expected);
}
