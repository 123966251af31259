//! The table of all flows of a run, and figures of all its flows and queues.

use std::fs;

use tccc::model::queue::QueueSample;
use tccc::model::run::FlowRecord;
use tccc::report::ReportFormat;

use crate::lab::results::{Directory, position, run};
use crate::report::command::report;
use crate::report::{as_json, as_page, as_text, load, render, second_flow};

/// Two algorithms, each beside both.
const SCENARIO: &str = include_str!("../../fixtures/scenarios/places.toml");

/// Three runs of reno beside cubic.
fn directory() -> Directory {
    directory_of(SCENARIO)
}

fn directory_of(scenario: &str) -> Directory {
    let directory = Directory::of(scenario);
    for repeat in 0..3 {
        let mut record = run("0", "reno", repeat, 9_000 + 100 * u64::from(repeat));
        record.at = position([("algorithm", "reno"), ("rival", "cubic")]);
        let beside = second_flow(&mut record, "beside", "cubic");
        let delivered_pkts = beside.delivered_pkts / 3;
        *beside =
            FlowRecord { compared: false, delivered_pkts, received_bytes: 1460 * delivered_pkts, ..beside.clone() };
        (beside.goodput_bps, beside.lost_pkts) = (beside.goodput_bps / 3.0, delivered_pkts);
        directory.add(&record);
    }
    directory
}

/// A queue that grows by a packet a second.
fn write_queue(directory: &Directory, repeat: u32) {
    let samples = (0..50).map(|second: u64| QueueSample {
        time_ns: (5 + second) * 1_000_000_000,
        from: "s".into(),
        to: "r".into(),
        queue_pkts: second,
        wait_ns: second * 100_000,
        ..QueueSample::default()
    });
    let lines: Vec<String> = samples.map(|sample| serde_json::to_string(&sample).unwrap()).collect();
    let folder = directory.folder(&format!("loss-0-reno-{repeat}"));
    fs::write(folder.join("queues.jsonl"), lines.join("\n")).unwrap();
}

#[test]
fn background_flow_has_its_goodput_share_and_losses_in_every_format() {
    let report = load(&directory());
    let names: Vec<(&str, bool)> = report.flows.iter().map(|flow| (flow.flow.as_str(), flow.compared)).collect();
    assert_eq!(names, [("data", true), ("beside", false)]);
    let mean = |flow: usize, metric: &str| report.flows[flow].numbers(metric).map(|numbers| numbers.mean);
    assert!(
        (mean(0, "share_ratio").unwrap() - 0.75).abs() < 1e-3 && (mean(1, "share_ratio").unwrap() - 0.25).abs() < 1e-3
    );
    assert_eq!((mean(1, "loss_ratio"), report.flows[1].numbers("goodput_bps").unwrap().n), (Some(0.5), 3));
    assert!(mean(0, "qdelay_p95_us").is_some(), "events are read although no metric of the report needs them");
    assert_eq!(as_json(&report)["flows"][1]["metrics"][1]["metric"], "share_ratio");
    for text in [as_text(&report), render(&report, ReportFormat::Markdown), as_page(&report)] {
        assert!(text.contains("Flows") && text.contains("beside") && text.contains("0.250"), "{text}");
    }
}

#[test]
fn experiment_with_one_flow_in_each_cell_has_no_table_of_flows() {
    let report = load(&Directory::complete());
    assert_eq!(report.flows, []);
    assert!(!as_text(&report).contains("Flows"));
}

#[test]
fn figure_of_the_command_line_shows_all_flows_of_a_run_in_one_chart() {
    let directory = directory();
    let path = directory.path.to_str().unwrap();
    let page = report(0, &[path, "--figure", "cwnd_pkts", "-o", "html"]);
    let page = page.stdout();
    assert_eq!(page.matches("<svg ").count(), 1);
    assert_eq!(page.matches("<polyline").count(), 2);
    assert!(page.contains("> data (reno)</li>") && page.contains("> beside (cubic)</li>"), "{page}");
    let text = report(0, &[path, "--figure", "inflight_pkts"]);
    for part in ["in flight [pkts] over time", "data (reno), median of 3 runs", "beside (cubic), median of 3 runs"] {
        text.stdout_has(part);
    }
    report(2, &[path, "--figure", "cwnd"]).stderr_has("expected one of cwnd_pkts, ");
}

#[test]
fn figure_of_a_queue_that_was_not_recorded_says_so() {
    let directory = directory();
    let queue = report(0, &[directory.path.to_str().unwrap(), "--figure", "queue_pkts"]);
    queue.stdout_has("the queues of links over time were not recorded in some runs");
    for repeat in 0..3 {
        write_queue(&directory, repeat);
    }
    let queue = report(0, &[directory.path.to_str().unwrap(), "--figure", "queue_pkts"]);
    queue.stdout_has("queue [pkts] over time").stdout_has("s-r, median of 3 runs");
}

/// The fixture's flows deliver evenly for 99 s, and have all their losses outside of the events.
#[test]
fn part_of_the_run_is_counted_and_named_in_every_table() {
    let directory = directory_of(&SCENARIO.replace("[report]", "[report]\nfrom = \"20s\"\nto = \"50s\""));
    let report = load(&directory);
    assert_eq!(report.part_s, Some([20.0, 50.0]));
    let delivered = report.cells.iter().find(|cell| cell.variant == "reno").unwrap().measured.as_ref().unwrap().mean;
    assert!((delivered - 0.3 * 9_100.0).abs() < 5.0, "{delivered}");
    assert!((report.flows[1].numbers("share_ratio").unwrap().mean - 0.25).abs() < 1e-3);
    for text in [as_text(&report), render(&report, ReportFormat::Markdown), as_page(&report)] {
        assert!(text.contains("delivered, 20 s to 50 s") && text.contains("Flows, 20 s to 50 s"), "{text}");
    }
}

#[test]
fn queue_of_the_bottleneck_is_a_metric_where_it_was_recorded() {
    let metrics = "metrics = [\"queue_mean_pkts\", \"queue_p95_pkts\", \"queue_p95_us\", \"overflow_pkts\"]";
    let directory = directory_of(&SCENARIO.replace("metrics = [\"delivered_pkts\"]", metrics));
    let mean = |metric: &str| {
        let report = load(&directory);
        let cell = report.cells.iter().find(|cell| cell.metric == metric && cell.variant == "reno");
        cell.and_then(|cell| Some(cell.measured.as_ref()?.mean))
    };
    assert_eq!((mean("queue_mean_pkts"), mean("overflow_pkts")), (None, Some(0.0)), "counted at the end of each run");
    for repeat in 0..3 {
        write_queue(&directory, repeat);
    }
    let report = load(&directory);
    let queue = report.links.iter().find(|link| link.from == "s" && link.is_recorded).unwrap();
    assert_eq!((queue.numbers("queue_mean_pkts").unwrap().mean, queue.numbers("overflow_pkts").unwrap().n), (24.5, 3));
    assert!(report.links.iter().any(|link| !link.is_recorded), "the way back");
    assert!(as_page(&report).contains("Queues"), "a page has a table of queues");
    let near = |metric: &str, value: f64| (mean(metric).unwrap() - value).abs() < 1e-6 * value;
    assert!(near("queue_mean_pkts", 24.5) && near("queue_p95_pkts", 46.55) && near("queue_p95_us", 4655.0));
}
