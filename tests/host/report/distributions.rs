//! Boxes and cumulative curves, of the runs of a sweep and of a series over the time of a run.

use std::fs;

use super::{as_page, as_text, before, load, render};
use crate::lab::results::{Directory, SCENARIO, run};
use tccc::report::ReportFormat;
use tccc::scenario::Scenario;

fn figure(fields: &str) -> String {
    format!("{}\n[[figure]]\ntitle = \"Spread\"\n{fields}\n", before(SCENARIO, "[[published]]"))
}

/// Five runs of each variant, which deliver 6000, 6100 … packets and 9000, 9100 … packets.
fn directory(fields: &str) -> Directory {
    let directory = Directory::of(&figure(fields));
    directory.add_each(&["0.1%", "1%"], 5, &[("SACK", 6000), ("Other", 9000)], 100);
    directory
}

/// The words of each row of the table of the distribution.
fn rows(text: &str) -> Vec<Vec<String>> {
    let table = text.split("Spread: ").nth(1).unwrap_or_else(|| panic!("no table: {text}"));
    let rows = table.lines().filter(|line| line.contains("SACK") || line.contains("Other"));
    rows.take(4)
        .map(|row| row.split("  ").map(|cell| cell.trim().to_owned()).filter(|it| !it.is_empty()).collect())
        .collect()
}

#[test]
fn boxes_of_runs_have_the_quartiles_and_extremes_of_each_cell() {
    let report = load(&directory("x = \"loss\"\ny = \"delivered_pkts\"\ndraw = \"box\""));
    let text = as_text(&report);
    assert!(text.contains("Spread: delivered, distribution over the runs"), "{text}");
    assert_eq!(rows(&text)[0][1..], ["SACK", "6 000", "6 100", "6 200", "6 300", "6 400"], "{text}");
    assert!(render(&report, ReportFormat::Markdown).contains("first quartile"));
    let page = as_page(&report);
    assert_eq!(page.matches("<rect class=\"bar ").count(), 4, "two variants at two losses");
    assert_eq!(page.matches("class=\"error ").count(), 4, "whiskers");
    assert!(page.contains("whiskers: lowest and highest run"));
}

#[test]
fn curves_of_runs_rise_by_one_step_a_run() {
    let page =
        as_page(&load(&directory("x = \"loss\"\ny = \"delivered_pkts\"\ndraw = \"cdf\"\nat = { loss = \"1%\" }")));
    let curves: Vec<&str> = page.split("<polyline class=\"line ").skip(1).collect();
    assert_eq!(curves.len(), 2, "one chart with a curve per variant");
    let points: Vec<&str> =
        curves[0].split("points=\"").nth(1).unwrap().split('"').next().unwrap().split(' ').collect();
    assert_eq!(points.len(), 10, "up and to the right for each of five runs: {points:?}");
    assert!(page.contains("share of runs") && page.contains("delivered [pkts]"));
}

#[test]
fn distribution_over_time_is_weighted_by_time() {
    let directory = Directory::of(&figure("x = \"time\"\ny = \"rtt_us\"\ndraw = \"cdf\""));
    let mut record = run("1%", "SACK", 0, 6000);
    record.flows[0].socket = Some(1);
    directory.add(&record);
    // 20 ms for 9 s, then 100 events of 90 ms within 1 s.
    let events = directory.folder(&record.id).join("events.jsonl");
    let event: serde_json::Value =
        serde_json::from_str(fs::read_to_string(&events).unwrap().lines().next().unwrap()).unwrap();
    let at = |ns: u64, rtt_us: u32| {
        let mut event = event.clone();
        (event["time_ns"], event["rtt_us"]) = (ns.into(), rtt_us.into());
        event.to_string()
    };
    let late = (0..=100).map(|step| at(14_000_000_000 + step * 10_000_000, 90_000));
    let lines: Vec<String> = [at(5_000_000_000, 20_000)].into_iter().chain(late).collect();
    fs::write(&events, lines.join("\n") + "\n").unwrap();
    let report = load(&directory);
    let text = as_text(&report);
    let row = &rows(&text)[0];
    assert!(row.ends_with(&["20.00".into(), "20.00".into(), "20.00".into(), "20.00".into(), "90.00".into()]), "{text}");
    let page = as_page(&report);
    assert!(page.contains("share of time") && page.contains("RTT [ms]"), "weighted by time");
}

#[test]
fn distribution_without_a_meaning_is_refused() {
    let refused = |fields: &str| {
        let scenario = figure(fields).replace("[report]", "[report]\nbaseline = \"SACK\"").replacen(
            "baseline = \"SACK\"\nbaseline",
            "baseline",
            1,
        );
        Scenario::parse("x.toml", &scenario).unwrap_err().to_string()
    };
    let ratio = refused("x = \"loss\"\ny = \"delivered_pkts\"\ndraw = \"box\"\nof = \"ratio\"");
    assert!(ratio.contains("expected value, because a distribution has no ratio"), "{ratio}");
    let until = refused("x = \"time\"\ny = \"rtt_us\"\ndraw = \"cdf\"\nuntil = \"5s\"");
    assert!(until.contains("expected only where lines are drawn over x = \"time\""), "{until}");
}
