//! Shares of flows on one drop-tail queue follow the path, not the phase of its packets.
//!
//! Source: S. Floyd, V. Jacobson, "Traffic phase effects in packet-switched gateways", 1991.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tccc::model::stats::{mean, students_interval};

use crate::common::experiment::finished;
use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::Bench;

/// Flows of `s1`, `s2`, … with other round trips over one queue of 20 Mbit/s, where a full packet takes 0.6 ms.
fn dumbbell(seconds: u32, rest: &str, senders: &str) -> String {
    format!(
        r#"
        title = "Shares on one queue"
        claim = "They move smoothly with the path."
        profile = "paper"
        duration = "{seconds}s"
        runs = 5
        seed = 41
        report = {{ metrics = ["goodput_bps"] }}
        {rest}
        [dumbbell]
        pairs = 8
        access = {{ rate = "1gbit" }}
        bottleneck = {{ rate = "20mbit", delay = "20ms", queue = "67pkts" }}
        {senders}
        "#
    )
}

/// Mean of log(goodput of `short` over that of `long`) with half of its 95 % interval, by algorithm and delay in ms.
fn log_ratios(out: &Path) -> BTreeMap<(String, u64), (f64, f64)> {
    let mut values: BTreeMap<(String, u64), Vec<f64>> = BTreeMap::new();
    for (_, bytes) in finished(out) {
        let run: Value = serde_json::from_slice(&bytes).unwrap();
        let goodput = |name: &str| {
            let flow = run["flows"].as_array().unwrap().iter().find(|flow| flow["name"] == name).unwrap();
            flow["goodput_bps"].as_f64().unwrap()
        };
        let at = |name: &str| run["at"][name].as_str().unwrap();
        let key = (at("algorithm").to_owned(), at("d2").trim_end_matches("ms").parse().unwrap());
        values.entry(key).or_default().push((goodput("short") / goodput("long")).ln());
    }
    let summary = |values: Vec<f64>| {
        let [low, high] = students_interval(&values).unwrap();
        (mean(&values).unwrap(), (high - low) / 2.0)
    };
    values.into_iter().map(|(key, values)| (key, summary(values))).collect()
}

/// With a host delay of 10 µs, the flow with the longer round trip once got up to twice the goodput of the other.
#[test]
fn ratio_of_goodputs_has_no_jump_over_a_fine_grid_of_round_trips() {
    needs!(guest);
    let delays: Vec<String> = (10..=17).map(|ms| format!("\"{ms}ms\"")).collect();
    let flows = "flow = [{ name = \"short\", from = \"s1\", to = \"r1\", algorithm = \"$algorithm\" }, \
                 { name = \"long\", from = \"s2\", to = \"r2\", algorithm = \"$algorithm\" }]";
    let sweep = format!("sweep = {{ algorithm = [\"reno\", \"cubic\"], d2 = [{}] }}\n{flows}", delays.join(", "));
    let bench = Bench::new(&dumbbell(40, &sweep, "s2 = { delay = \"$d2\" }"));
    let ratios = log_ratios(&bench.runs("out", ""));
    assert_eq!(ratios.len(), 2 * delays.len());
    for (key, (ratio, margin)) in &ratios {
        assert!(ratio + margin > 0.0, "{key:?}: the longer round trip wins, {ratio:.2} ± {margin:.2}");
        let Some((next, next_margin)) = ratios.get(&(key.0.clone(), key.1 + 1)) else { continue };
        let told = format!("{key:?}: from {ratio:.2} ± {margin:.2} to {next:.2} ± {next_margin:.2}");
        assert!((ratio - next).abs() < margin + next_margin, "{told}");
    }
    let at = |algorithm: &str, ms| ratios[&(algorithm.to_owned(), ms)].0;
    assert!(["reno", "cubic"].iter().all(|it| at(it, 17) > at(it, 10)), "{ratios:?}");
}

/// `report` of runs with `--perturb`.
fn perturbed(bench: &Bench) -> Value {
    let out = bench.runs("out", "--perturb");
    check(0, tccc().arg("report").arg(out).args(["-o", "json"])).json()["perturbed"].clone()
}

#[test]
fn one_percent_of_rate_delay_or_queue_does_not_change_shares_of_two_to_eight_flows() {
    needs!(guest);
    let flows = "sweep = { algorithm = [\"reno\", \"cubic\"], n = [2, 8] }\n\
                 flow = [{ name = \"data\", from = \"s#\", to = \"r#\", algorithm = \"$algorithm\", copies = \"$n\" }]";
    let senders: Vec<String> = (2..=8).map(|n| format!("s{n} = {{ delay = \"{}ms\" }}", 7 * (n - 1))).collect();
    let told = perturbed(&Bench::new(&dumbbell(20, flows, &senders.join("\n"))));
    assert_eq!(told["comparisons"], 2 * (2 + 8) * 3);
    assert_eq!(told["changed"].as_array().unwrap().len(), 0, "{told:#}");
}

/// Shows that the comparison finds a phase effect.
#[test]
fn shares_that_follow_the_phase_are_told_with_their_path() {
    needs!(guest);
    let flows = "virtual = { host_delay = \"10us\" }\n\
                 flow = [{ name = \"data\", from = \"s#\", to = \"r#\", algorithm = \"reno\", copies = 2 }]";
    let bench = Bench::new(&dumbbell(20, flows, "s2 = { delay = \"20ms\" }"));
    let changed = perturbed(&bench)["changed"].clone();
    assert!(!changed.as_array().unwrap().is_empty());
    let text = check(0, tccc().arg("report").arg(bench.out("out"))).stdout();
    assert!(text.contains("of the goodput, and"), "{text}");
    assert!(text.contains("host delay"), "{text}");
}
