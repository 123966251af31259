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
    let cases = mistakes::each(GOOD, WRONG, 292).map(|(change, text)| format!("{change}{}", dry_run(2, text)));
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
x.toml:3: profil: unknown field: expected one of title, claim, profile, duration, runs, seed, sample, mtu, source, sweep, link, dumbbell, parking_lot, flow, variant, report, published, expected, check, criterion, margin, figure, difference, selection, kernel, virtual, ns2; did you mean "profile"?
x.toml:4: duration = "10": expected a time with us, ms, s, m, h or d, such as 100ms
x.toml:6: sweep.rate = "10mbits": expected a rate with bit, kbit, mbit or gbit, such as 10mbit, trace:FILE or cellular:mean=10mbit,seed=1; it is the value of link.rate, line 8
x.toml:7: link.ends: missing, and it has no default
x.toml:9: link.delay = "$dealy": expected a variable of [sweep]: $rate
x.toml:10: link.queue = 5: expected a number with pkts, B, kB, MB or bdp, above 0 and at most 4294967295pkts, such as 50pkts
x.toml:11: flow.to: missing, and it has no default
x.toml:14: flow.protocol = "tpc": expected "tcp" or "udp"; did you mean "tcp"?
x.toml:15: flow.colour: unknown field: expected one of name, from, to, protocol, algorithm, tunables, window_cap, initial_ssthresh, initial_cwnd, tcp_sack, ecn, send_buffer, receive_buffer, receiver, start, duration, size, arrivals, count, interval, keep_alive, request, sender, rate, frames, bursts, deadline, packet, copies
  hint: line 1: `tccc run --explain claim` describes the field
"#;
    assert_eq!(dry_run(2, text), expected);
}

#[test]
fn each_wrong_value_of_a_sweep_is_reported_once_and_what_is_left_out_is_counted() {
    let values =
        (0..60).map(|n| format!("\"{}\"", if n % 20 == 7 { format!("{n}mb") } else { format!("{}mbit", n + 1) }));
    let rate = format!("rate = [{}]", values.collect::<Vec<_>>().join(", "));
    let said = dry_run(2, GOOD.replace("rate = [\"5mbit\", \"10mbit\"]", &rate).replace("runs = 3", "runs = 0"));
    assert_eq!(said.matches("sweep.rate = ").count(), 3, "{said}");
    assert_eq!(said.matches("runs = 0").count(), 1, "{said}");
    let unknown: String = (0..150).map(|n| format!("x{n} = 1\n")).collect();
    let said = dry_run(2, unknown + GOOD);
    assert!(said.contains("and at least 1 more"), "{said}");
}

/// A misspelt phase is never reached, and never left: a check of it would prove nothing.
#[test]
fn check_of_a_phase_or_field_that_the_algorithm_lacks_is_refused() {
    let said = |algorithm: &str, check: &str| {
        let text = format!(
            "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"9s\"\nruns=1\nseed=1\n[[link]]\nends=[\"a\",\"b\"]\n\
             [[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\nalgorithm=\"{algorithm}\"\n[[check]]\nname=\"n\"\nwhy=\"w\"\n{check}\n"
        );
        dry_run(2, text).lines().next().unwrap_or_default().trim_start_matches("tccc: error: x.toml:").to_owned()
    };
    let cubic = |check: &str| said("bpf_cubic", check);
    assert_eq!(
        cubic("what=\"phase\"\nis_not=\"slow_strat\""),
        "18: check.is_not = \"slow_strat\": expected one of concave, convex, css, loss, recovery, reno_friendly, slow_start"
    );
    let lacks = cubic("what=\"state.bw\"\nat_most=1");
    assert!(
        lacks.starts_with("17: check.what = \"state.bw\": \"bpf_cubic\" has no field bw; it has phase, "),
        "{lacks}"
    );
    let of_bound = cubic("what=\"cwnd_pkts\"\nat_most=\"2 state.bw\"");
    assert!(
        of_bound.starts_with("18: check.at_most = \"2 state.bw\": \"bpf_cubic\" has no field bw; it "),
        "{of_bound}"
    );
    let inside = cubic("what=\"cwnd_pkts\"\nat_most=9\nwhile=[{ what=\"next_phase\", is=\"up\" }]");
    assert!(inside.starts_with("19: check.while.is = \"up\": expected one of "), "{inside}");
    assert_eq!(
        said("bpf_reno", "what=\"queue_pkts\"\nat_most=9"),
        "17: check.what = \"queue_pkts\": no link on the way of flow \"f\" has a `rate`"
    );
}

/// 80,000 empty tables took ten seconds, and time grew with their square.
#[test]
fn many_wrong_tables_take_no_longer_than_they_are_long() {
    let begin = std::time::Instant::now();
    let (head, _) = GOOD.split_once("[sweep]").unwrap();
    let said = dry_run(2, format!("{head}flow = [{}]\n", "{},".repeat(80_000)));
    assert!(said.contains("flow.name: missing") && begin.elapsed().as_secs() < 20, "{:?}: {said}", begin.elapsed());
}

/// A sweep of `cubic` that no flow took once reported a Reno run as CUBIC, and `loss = ["1%"]` a path without losses.
#[test]
fn value_that_no_run_takes_cannot_be_a_label() {
    let check = |changes: &[(&str, &str)], expected: &str| {
        let text = changes.iter().fold(GOOD.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
        assert_eq!(dry_run(2, text).lines().next(), Some(&*format!("tccc: error: x.toml:{expected}")));
    };
    let [swept, flow] = ["algorithm = [\"reno\", \"cubic\"]", "algorithm = \"$algorithm\""];
    for values in ["[\"cubic\"]", "[\"reno\", \"cubic\"]"] {
        let fixed = [(swept, &*format!("algorithm = {values}")), (flow, "algorithm = \"reno\"")];
        check(&fixed, "9: sweep.algorithm: no field has \"$algorithm\"");
    }
    let ported = "29: flow.algorithm: it is \"bpf_reno\", and the report would call it \"reno\"";
    check(&[(flow, "algorithm = \"bpf_$algorithm\"")], ported);
    let variant = |name: &str| format!("algorithm = \"bpf_vegas\"\n[variant.{name}]\nalgorithm = \"bpf_reno\"");
    let called = "30: variant.vegas.algorithm: it is \"bpf_reno\", and the report would call it \"vegas\"";
    check(&[(&format!("{swept}\n"), ""), (flow, &variant("vegas"))], called);
    for values in ["[\"vegas\"]", "[\"vegas\", \"bbr\"]"] {
        let overridden = "algorithm = \"$spare\"\n[variant.A]\nalgorithm = \"reno\"";
        check(&[(swept, &format!("spare = {values}")), (flow, overridden)], "9: sweep.spare: no cell takes \"$spare\"");
    }
}

/// Each of these was planned, and its report compared "cubic" with "bbr" or losses that no run had.
#[test]
fn value_that_changes_no_run_cannot_be_a_label() {
    let check = |changes: &[(&str, &str)], expected: &str| {
        let text = changes.iter().fold(GOOD.to_owned(), |text, (from, to)| text.replacen(from, to, 1));
        assert_eq!(dry_run(2, text).lines().next(), Some(&*format!("tccc: error: x.toml:{expected}")));
    };
    let swept = "rate = [\"5mbit\", \"10mbit\"]";
    let cc = |values: &str| format!("{swept}\ncc = {values}");
    let only_a_name = "11: sweep.cc: expected a field besides `name`, such as { rate = \"10mbit\", delay = \"20ms\" }";
    check(&[(swept, &cc("[{ name = \"cubic\" }]"))], only_a_name);
    for values in ["[\"cubic\"]", "[\"cubic\", \"bbr\"]"] {
        let named = [(swept, &*cc(values)), ("name = \"data\"", "name = \"$cc\"")];
        check(&named, "11: sweep.cc: no cell takes \"$cc\"");
        let aside = "[[link]]\nends = [\"left\", \"aside\"]\nloss = \"$cc\"\n\n[[link]]";
        let lossy = values.replace("cubic", "1%").replace("bbr", "2%");
        check(&[(swept, &cc(&lossy)), ("[[link]]", aside)], "11: sweep.cc: no cell takes \"$cc\"");
    }
    let perturbed =
        "11: sweep.perturbed: `tccc run --perturb` writes its paths under this name: give the variable another";
    check(
        &[
            (swept, &format!("{swept}\nperturbed = [\"1%\", \"2%\"]")),
            ("ack_loss = \"2%\"", "ack_loss = \"$perturbed\""),
        ],
        perturbed,
    );
    let replaced = "link.change.delay = \"40ms\": at 0s it replaces the link's own delay, which never applies: ";
    check(&[("at = \"5s\"", "at = \"0s\"")], &format!("23: {replaced}expected a later time"));
    let both = "[[link]]\nends = [\"left\", \"aside\"]\ndelay = \"$cc\"\n\n[[link]]";
    let same = [(swept, &*cc("[\"20ms\", \"0.02s\"]")), ("[[link]]", both), ("delay = \"20ms\"", "delay = \"$cc\"")];
    check(&same, "11: sweep.cc: \"20ms\" and \"0.02s\" mean the same");
}

/// A file of another form once got the hint that it had to be beside the scenario, where it was.
#[test]
fn trace_of_another_form_is_refused_with_the_form_and_its_limits() {
    let plan = |code: i32, field: &str, text: &[u8]| {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("x.toml"), GOOD.replacen(field, &format!("{} = \"trace:t.txt\"", &field[..4]), 1))
            .unwrap();
        fs::write(place.path().join("t.txt"), text).unwrap();
        check(code, tccc().args(["run", "x.toml", "--dry-run", "--link", "tunlink"]).current_dir(place.path())).stderr()
    };
    let (rate, loss) = ("rate = \"$rate\"", "loss = \"bursts:loss=1%,mean=4\"");
    let most = "at most 4000000 lines and 16 MiB";
    let said = plan(2, loss, b"0.5 4.25\n1.0 5.5\n");
    assert!(said.contains("t.txt: line 1: \"0.5 4.25\": expected a whole number"), "{said}");
    assert!(said.contains(&format!("hint: each line has one packet number, from 1 and in order; a file has {most}")));
    let said = plan(2, rate, b"0.5 4.25\n");
    let form = "hint: each line has one time in milliseconds, at which 1500 bytes leave; a file has";
    assert!(said.contains(&format!("{form} {most}")), "{said}");
    assert!(plan(2, rate, &vec![b'\n'; (16 << 20) + 1]).contains(most));
    plan(0, loss, "\u{feff}1\n2\n".as_bytes());
    for field in ["link.rate", "link.loss"] {
        let explained = check(0, tccc().args(["run", "--explain", field])).stdout();
        let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(explained.contains(most), "{field}: {explained}");
    }
}

/// Line 8 of a scenario is its sweep.
const TUPLES: &str = r#"
title = "paths"
claim = "c"
profile = "native"
duration = "5s"
runs = 1
seed = 1
sweep = { path = [{ rate = "10mbit", queue = "1bdp" }, { name = "slow", rate = "2mbit", queue = "40pkts" }] }
link = [{ ends = ["a", "b"], rate = "$path.rate", delay = "20ms", queue = "$path.queue" }]
flow = [{ name = "data", from = "a", to = "b", algorithm = "reno" }]
"#;

#[test]
fn tuples_of_a_sweep_vary_together_and_are_called_by_their_fields_or_name() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("x.toml"), TUPLES).unwrap();
    let plan = |only: &[&str]| {
        let mut command = tccc();
        check(0, command.args(["run", "x.toml", "--dry-run"]).args(only).current_dir(place.path())).stdout()
    };
    let all = plan(&[]);
    assert!(all.contains("c000-10mbit_1bdp") && all.contains("c001-slow"), "{all}");
    assert!(all.contains("10mbit, 20ms, queue 1bdp"), "{all}");
    let slow = plan(&["--only", "path=slow"]);
    assert!(slow.contains("c001-slow") && !slow.contains("c000-"), "{slow}");
}

#[test]
fn mistakes_in_tuples_of_a_sweep_are_reported_with_their_place() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(TUPLES.contains(from), "{from}");
        let said = dry_run(2, TUPLES.replacen(from, to, 1));
        assert_eq!(said.lines().next(), Some(&*format!("tccc: error: x.toml:{expected}")));
    };
    let fields = "expected a variable of [sweep]: $path.rate, $path.queue";
    check("\"$path.rate\"", "\"$path\"", &format!("9: link.rate = \"$path\": {fields}"));
    check("\"$path.rate\"", "\"$path.rte\"", &format!("9: link.rate = \"$path.rte\": {fields}"));
    let queue = "expected a number with pkts, B, kB, MB or bdp, above 0 and at most 4294967295pkts, such as 50pkts";
    check("\"1bdp\"", "\"1bd\"", &format!("8: sweep.path.queue = \"1bd\": {queue}"));
    check("\"$path.queue\"", "\"9pkts\"", "8: sweep.path: no field has \"$path.queue\"");
    let missing = "8: sweep.path: expected the fields of the first value, and \"queue\" is missing";
    check(", queue = \"40pkts\"", "", missing);
    check("queue = \"40pkts\"", "queue = \"40pkts\", mtu = 9000", "8: sweep.path.mtu: the first value has no \"mtu\"");
    check("\"slow\"", "\"10mbit 1bdp\"", "8: sweep.path: \"10mbit 1bdp\" is listed twice");
    check(
        "{ name = \"slow\", rate = \"2mbit\", queue = \"40pkts\" }",
        "3",
        "8: sweep.path = 3: expected either tables or other values, not both",
    );
    check(
        "path = [{ rate = \"10mbit\", queue = \"1bdp\" }, ",
        "path = [\"3\", ",
        "8: sweep.path = { name = \"slow\", rate = \"2mbit\", queue = \"40pkts\" }: expected either tables or other \
         values, not both",
    );
    check("rate = \"10mbit\"", "rate = [1]", "8: sweep.path.rate = [1]: expected a text or a number");
    check(
        "path = [",
        "path = [{}, ",
        "8: sweep.path: expected fields, such as { rate = \"10mbit\", delay = \"20ms\" }",
    );
}
