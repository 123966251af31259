//! Scrapes of groups with round numbers.

use super::*;
use crate::serve::overview::{LimitShown, Registered};
use crate::trace::totals::{BINS, RttCounts};
use shared::arrival::RuleArm;

fn powers(values: &[(usize, u64)], sum: u64) -> Powers {
    let mut bins = [0; BINS];
    values.iter().for_each(|(place, count)| bins[*place] += count);
    Powers { sum, bins }
}

/// One value of 8 us, two of 65 ms, four of more than 16 s.
fn rtts() -> RttCounts {
    let mut counts = RttCounts::default();
    [8, 65_536, 65_000].into_iter().chain([1 << 29; 4]).for_each(|us| counts.observe(us));
    RttCounts { sum: 5_000_000, ..counts }
}

fn group(algorithm: &str, cgroup: u64, path: Option<&str>) -> CountedGroup {
    CountedGroup {
        algorithm: algorithm.into(),
        cgroup,
        path: path.map(str::to_owned),
        sockets: 2,
        opened: 3,
        closed: 1,
        bytes_acked: 1000,
        bytes_received: 10,
        sent_pkts: 110,
        retrans_pkts: 10,
        delivered_pkts: 100,
        lost_pkts: 9,
        state_ns: [1_500_000_000, 0, 0, 250_000_000, 0],
        srtt_us: rtts(),
        cwnd_pkts: powers(&[(4, 2)], 20),
        goodput_bytes: powers(&[(20, 2)], 2_000_000),
        ..CountedGroup::default()
    }
}

fn shown(groups: Vec<CountedGroup>) -> Scrape {
    let registered = ["one", "idle"].map(|name| Registered {
        name: name.into(),
        version: "6.18".into(),
        source: "kernel",
        generation: None,
    });
    Scrape {
        counted: CountedGroups { time_ns: 0, groups, hidden: 1, is_partial: false, uncounted: 4 },
        situation: HostConfig { registered: registered.into(), ..HostConfig::default() },
        costs: vec![CallbackCost { algorithm: "one".into(), callback: "init".into(), calls: 7, nanoseconds: 1_000 }],
        dropped: Some(5),
        sweep_s: 0.25,
        failed_sweeps: 3,
        own: ProcessUsage { cpu_s: 1.5, resident_bytes: 4096 },
        kernel: "6.18".into(),
    }
}

/// A trial that was kept although a limit was never decided says so, limit by limit.
#[test]
fn latest_trial_is_shown_limit_by_limit() {
    let limit = |limit: &str, state| LimitShown { rule: "web".into(), arm: "dtcp".into(), limit: limit.into(), state };
    let each = vec![limit("retransmitted<1.2x", "held"), limit("goodput>0.9x", "never_decided")];
    let limits = vec![("held", 1), ("never_decided", 1)];
    let last_trial = Some(LastTrial { result: "kept".into(), limits, each });
    let shown = shown(Vec::new());
    let text = openmetrics(&Scrape { situation: HostConfig { last_trial, ..shown.situation.clone() }, ..shown });
    assert_has(&text, "tccc_last_trial_limits{result=\"kept\",state=\"never_decided\"} 1.0");
    let labels = "result=\"kept\",state=\"never_decided\",rule=\"web\",arm=\"dtcp\",limit=\"goodput>0.9x\"";
    assert_has(&text, &format!("tccc_last_trial_limit{{{labels}}} 1.0"));
}

fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
}

#[test]
fn counts_are_by_algorithm_and_cgroup_in_base_units() {
    let text = openmetrics(&shown(vec![group("one", 7, Some("/a\"b"))]));
    let labels = r#"algorithm="one",cgroup="/a\"b",rule="",arm="""#;
    assert_has(&text, &format!("tccc_retransmitted_segments_total{{{labels}}} 10.0"));
    assert_has(&text, &format!("tccc_ca_state_seconds_total{{{labels},state=\"Recovery\"}} 0.25"));
    assert_has(&text, "tccc_callback_duration_seconds_total{algorithm=\"one\",op=\"init\"} 0.000001");
    assert_has(&text, "tccc_algorithm_sockets{name=\"one\"} 2.0");
    assert_has(&text, "tccc_algorithm_sockets{name=\"idle\"} 0.0");
    assert_has(&text, "tccc_events_dropped_total 5.0");
    assert_has(&text, "tccc_failed_sweeps_total 3.0");
    assert_has(&text, "# EOF");
}

#[test]
fn connections_of_a_policy_are_apart_by_rule_and_arm() {
    let in_arm = |slot, arm: &str| {
        let given = RuleArm { rule: "web".into(), arm: arm.into() };
        CountedGroup { slot, arm: Some(given), ..group("one", 7, Some("/")) }
    };
    let text = openmetrics(&shown(vec![group("one", 7, Some("/")), in_arm(1, "one"), in_arm(2, "keep")]));
    for labels in ["rule=\"\",arm=\"\"", "rule=\"web\",arm=\"one\"", "rule=\"web\",arm=\"keep\""] {
        assert_has(&text, &format!("tccc_segments_sent_total{{algorithm=\"one\",cgroup=\"/\",{labels}}} 110.0"));
    }
    assert_has(&text, "tccc_algorithm_sockets{name=\"one\"} 6.0");
}

#[test]
fn outer_buckets_of_a_histogram_include_its_ends() {
    let text = openmetrics(&shown(vec![group("one", 7, Some("/"))]));
    let labels = r#"algorithm="one",cgroup="/",rule="",arm="""#;
    for (bound, count) in [("0.000064", 1), ("0.065536", 3), ("16.777216", 3), ("+Inf", 7)] {
        assert_has(&text, &format!("tccc_connection_rtt_seconds_bucket{{le=\"{bound}\",{labels}}} {count}"));
    }
    assert_has(&text, &format!("tccc_connection_rtt_seconds_sum{{{labels}}} 5.0"));
    assert_has(&text, &format!("tccc_connection_rtt_seconds_count{{{labels}}} 7"));
}

#[test]
fn groups_of_one_name_are_one_series() {
    let groups = vec![group("one", 7, None), group("one", 8, None), group("one", 9, Some("/x"))];
    let text = openmetrics(&shown(groups));
    assert_has(&text, "tccc_segments_sent_total{algorithm=\"one\",cgroup=\"\",rule=\"\",arm=\"\"} 220.0");
    assert_has(&text, "tccc_segments_sent_total{algorithm=\"one\",cgroup=\"/x\",rule=\"\",arm=\"\"} 110.0");
    assert_has(&text, "tccc_connection_cwnd_segments_count{algorithm=\"one\",cgroup=\"\",rule=\"\",arm=\"\"} 4");
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a series appears twice");
}

#[test]
fn earlier_format_has_families_by_the_names_of_their_samples() {
    let text = plain_text(&openmetrics(&shown(vec![group("one", 7, Some("/"))])));
    assert_has(&text, "# TYPE tccc_segments_sent_total counter");
    assert_has(&text, "# HELP tccc_segments_sent_total Data segments sent, retransmissions included");
    assert_has(&text, "# TYPE tccc_build_info gauge");
    assert_has(&text, "# TYPE tccc_connection_rtt_seconds histogram");
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
}
