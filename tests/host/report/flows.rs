//! The table of all flows of a run.

use tccc::model::run::FlowRecord;
use tccc::report::{Report, ReportFormat};

use crate::lab::results::{Directory, position, run};
use crate::report::{as_json, as_page, as_text, load, render, second_flow};

/// Two algorithms, each beside both.
const SCENARIO: &str = include_str!("../../fixtures/scenarios/places.toml");

/// Three runs of reno beside reno.
fn pair() -> Report {
    let directory = Directory::of(SCENARIO);
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
    load(&directory)
}

#[test]
fn background_flow_has_its_goodput_share_and_losses_in_every_format() {
    let report = pair();
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
