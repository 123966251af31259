//! Reports of result directories: every format, every notice, every broken input. Needs nothing.

mod command;
mod cut_off;
mod figures;
mod fleet;
mod hostile;
mod partial;
mod places;
mod saved;
mod selection;
mod several;
mod untargeted;

use std::fs;
use std::path::Path;

use crate::lab::results::{Directory, SCENARIO, position, run};
use tccc::failure::{Failure, FailureKind};
use tccc::model::notice::Notice;
use tccc::model::run::{RunRecord, RunStatus};
use tccc::report::{self, Cell, Format, Report, Verdict};

fn load(directory: &Directory) -> Report {
    report::load(&directory.path).unwrap()
}

fn cell<'a>(report: &'a Report, metric: &str, loss: &str, variant: &str) -> &'a Cell {
    let here = |cell: &&Cell| cell.metric == metric && cell.at["loss"] == loss && cell.variant == variant;
    report.cells.iter().find(here).unwrap_or_else(|| panic!("a cell {metric} {loss} {variant}"))
}

fn causes(cell: &Cell) -> String {
    said(&cell.notices)
}

fn notices(report: &Report) -> String {
    said(&report.notices)
}

fn said(notices: &[Notice]) -> String {
    notices.iter().map(|notice| notice.cause.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn measured_stands_beside_published_and_expected() {
    let report = load(&Directory::complete());
    let other = cell(&report, "delivered_pkts", "0.1%", "Other");
    let measured = other.measured.as_ref().unwrap();
    assert_eq!(measured.values, [21_500.0, 21_800.0, 21_260.0]);
    assert_eq!((measured.n, measured.mean, measured.median), (3, 21_520.0, 21_500.0));
    assert_eq!((other.published, other.published_place.as_deref()), (Some(22_818.0), Some("Table 2")));
    let ratio = other.ratio_to_baseline.as_ref().unwrap();
    assert!((ratio.published.unwrap() - 22_818.0 / 15_940.0).abs() < 1e-12);
    assert!((ratio.measured.unwrap() - 21_520.0 / 17_420.0).abs() < 1e-12);
    let [low, high] = ratio.ci95.unwrap();
    assert!(1.22 < low && low < 1.235 && 1.236 < high && high < 1.25, "{low} to {high}");
    assert_eq!((other.verdict, other.verdict_reason.as_str()), (Verdict::Within, "ratio 1.24, expected 1.24 ± 0.10"));
}

#[test]
fn miss_of_an_expected_ratio_is_outside() {
    let report = load(&Directory::complete());
    let other = cell(&report, "delivered_pkts", "1%", "Other");
    assert_eq!(other.verdict, Verdict::Outside);
    assert_eq!(other.verdict_reason, "ratio 1.66, expected 1.50 ± 0.10, which its 95 % interval reaches");
    let failure = report::check(&[report]).unwrap();
    assert_eq!(failure.kind, FailureKind::Outside);
    assert!(failure.what.contains("delivered_pkts of \"Other\" (ratio 1.66"), "{failure}");
}

#[test]
fn baseline_is_judged_by_its_published_value_and_has_no_ratio() {
    let report = load(&Directory::complete());
    let sack = cell(&report, "delivered_pkts", "0.1%", "SACK");
    assert_eq!(sack.ratio_to_baseline, None);
    assert_eq!(sack.verdict_reason, "mean 17 420 pkts, published 15 940 pkts ± 10 %");
    assert_eq!(sack.verdict, Verdict::Within);
}

#[test]
fn column_without_algorithm_is_shown_as_published_only() {
    let report = load(&Directory::complete());
    let vegas = cell(&report, "delivered_pkts", "1%", "Vegas");
    assert_eq!((vegas.published, vegas.measured.is_none()), (Some(8456.0), true));
    assert_eq!(vegas.verdict, Verdict::NotComparable);
    assert!(causes(vegas).contains("published only"));
    let without = |cell: &&Cell| cell.metric == "goodput_bps" && cell.variant == "Vegas";
    assert!(report.cells.iter().find(without).is_none(), "no row where there is nothing to show");
}

#[test]
fn metric_from_events_reads_them() {
    let report = load(&Directory::complete());
    let srtt = cell(&report, "srtt_p50_us", "1%", "SACK").measured.as_ref().unwrap();
    assert_eq!((srtt.n, srtt.mean), (3, 100_200.0));
}

#[test]
fn plots_show_the_median_run_of_each_cell() {
    let report = load(&Directory::complete());
    assert_eq!(report.plots.len(), 3);
    let lines = &report.plots[2].lines;
    let runs: Vec<&str> = lines.iter().map(|line| line.run.as_str()).collect();
    assert_eq!(runs, ["loss-1pct-SACK-0", "loss-1pct-Other-0"]);
    assert_eq!(lines[0].points.first().map(|point| point.0), Some(0.0));
}

#[test]
fn one_run_has_no_interval_and_says_so() {
    let directory = Directory::of(SCENARIO);
    directory.add_each(&["1%"], 1, &[("SACK", 5000), ("Other", 7500)], 0);
    let report = load(&directory);
    let other = cell(&report, "delivered_pkts", "1%", "Other");
    assert_eq!(other.measured.as_ref().unwrap().ci95, None);
    assert_eq!(other.ratio_to_baseline.as_ref().unwrap().ci95, None);
    assert_eq!(causes(other), "1 run only: no interval can be given");
    assert!(causes(cell(&report, "delivered_pkts", "0", "SACK")).contains("no finished run"));
    assert!(notices(&report).contains("cells of the scenario have no finished run"), "{:?}", report.notices);
}

#[test]
fn late_failed_unpaired_and_dropped_are_said_beside_the_number() {
    let directory = Directory::complete();
    let mut late = run("0", "Other", 1, 24_000);
    late.status = RunStatus::Late;
    directory.add(&late);
    let mut failed = run("0", "Other", 2, 0);
    (failed.status, failed.why) = (RunStatus::Failed, Some("iperf3 ended early".into()));
    directory.add(&failed);
    let mut tired = run("0.1%", "SACK", 0, 17_400);
    (tired.late_attempts, tired.events_dropped) = (2, 31);
    tired.links[0].counters[0].failed_pkts = 4;
    tired.flows[0].begin_s = Some(1.25);
    directory.add(&tired);
    fs::remove_dir_all(directory.folder("loss-1pct-SACK-1")).unwrap();
    let report = load(&directory);
    let other = cell(&report, "delivered_pkts", "0", "Other");
    assert_eq!(other.measured.as_ref().unwrap().n, 1);
    assert!(causes(other).contains("1 run failed and is not part of the result: iperf3 ended early"));
    assert!(causes(other).contains("1 run had a late link"));
    let sack = causes(cell(&report, "delivered_pkts", "0.1%", "SACK"));
    assert!(sack.contains("1 run had to be repeated") && sack.contains("2 attempts left out"), "{sack}");
    assert!(sack.contains("31 trace events were dropped") && sack.contains("failed to carry 4 packets"), "{sack}");
    assert!(sack.contains("in 1 run a flow began more than 1 s after its time"), "{sack}");
    let unpaired = cell(&report, "delivered_pkts", "1%", "Other");
    assert!(causes(unpaired).contains("1 run without a run of the baseline"));
    assert_eq!(unpaired.ratio_to_baseline.as_ref().unwrap().pairs, 2);
}

/// `fewer --jobs avoid the repeats` was said after `--jobs 1` too.
#[test]
fn late_attempts_without_a_run_beside_them_are_not_blamed_on_jobs() {
    let advice = |jobs: [u32; 2]| {
        let directory = Directory::complete();
        let mut tired = run("0", "SACK", 0, 24_000);
        tired.late_attempts = 2;
        directory.add(&tired);
        for (attempt, jobs) in jobs.into_iter().enumerate() {
            let id = format!("{}-late{}", tired.id, attempt + 1);
            let status = RunStatus::Late;
            directory.add(&RunRecord { id, status, jobs, late_attempts: attempt as u32, ..tired.clone() });
        }
        let report = load(&directory);
        let notices = cell(&report, "delivered_pkts", "0", "SACK").notices.iter();
        notices.map(|notice| notice.advice.clone()).collect::<String>()
    };
    assert_eq!(advice([1, 1]), "no other run sent at the time: less other work on the host avoids the repeats");
    assert_eq!(advice([2, 1]), "fewer --jobs avoid the repeats");
}

#[test]
fn interrupted_runs_and_torn_events_are_left_out_with_a_notice() {
    let directory = Directory::complete();
    fs::create_dir(directory.folder(".unfinished-x")).unwrap();
    let events = directory.folder("loss-0-SACK-0").join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    let torn = format!("no event\n{}", &text[..text.len() - 40]);
    fs::write(&events, torn).unwrap();
    let report = load(&directory);
    let all = notices(&report);
    assert!(all.contains("run \"x\" was not finished"), "{all}");
    assert!(all.contains("\"loss-0-SACK-0\" end in the middle of a line"), "{all}");
    assert!(all.contains("1 unreadable lines in the events of run \"loss-0-SACK-0\""), "{all}");
    let line = &report.plots[0].lines[0];
    assert_eq!((line.run.as_str(), line.points.len()), ("loss-0-SACK-0", 99));
}

/// The header had `bpf_vega_5814_0` beside tables of `bpf_vegas`.
#[test]
fn algorithms_have_their_own_names_and_not_those_they_were_registered_under() {
    let directory = Directory::complete();
    let mut record = run("1%", "Other", 0, 10_000);
    record.flows[0].algorithm = "other_5814_0".into();
    directory.add(&record);
    let file = directory.path.join("host.json");
    let host = fs::read_to_string(&file).unwrap();
    let with = |more: &str| {
        fs::write(&file, host.replace("\"other\":\"9f86d081\"", more)).unwrap();
        let algorithms = load(&directory).host.algorithms;
        algorithms.iter().map(|(name, digest)| format!("{name} {digest}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(with(r#""other_5814_0":"9f86d081""#), "other 9f86d081");
    assert_eq!(with(r#""other":"9f86d081","other_5814_0":"9f86d081","othe_7_1":"9f86d081""#), "other 9f86d081");
    assert_eq!(with(r#""other":"9f86d081","other_5814_0":"77""#), "other 9f86d081, other (other_5814_0) 77");
    assert_eq!(with(r#""unseen_1_0":"77""#), "unseen_1_0 77", "of no finished run");
}

#[test]
fn traffic_beside_the_compared_flow_is_not_part_of_its_numbers() {
    let directory = Directory::of(SCENARIO);
    let mut record = run("1%", "SACK", 0, 5000);
    let mut beside = record.flows[0].clone();
    (beside.name, beside.compared, beside.delivered_pkts) = ("background".into(), false, 900);
    record.flows.push(beside);
    record.flows[0].algorithm = "reno_b".into();
    directory.add(&record);
    let report = load(&directory);
    assert_eq!(cell(&report, "delivered_pkts", "1%", "SACK").measured.as_ref().unwrap().values, [5000.0]);
}

#[test]
fn failed_run_without_flows_is_told_where_nothing_is_swept() {
    let plain = SCENARIO.split("[variant").next().unwrap().split("[report]").next().unwrap();
    let scenario = plain.replace("name = \"data\"", "name = \"data\"\nalgorithm = \"reno\"");
    let directory = Directory::of(&scenario);
    let mut done = run("1%", "reno", 0, 5000);
    done.at.remove("variant");
    directory.add(&done);
    let mut failed = run("1%", "reno", 1, 0);
    failed.at.remove("variant");
    (failed.status, failed.why) = (RunStatus::Failed, Some("iperf3 ended early".into()));
    failed.flows.clear();
    directory.add(&failed);
    let report = load(&directory);
    let reno = causes(cell(&report, "delivered_pkts", "1%", "reno"));
    assert!(reno.contains("1 run failed and is not part of the result"), "{reno}");
}

/// A finished sweep of a tunable was told that cells had no finished run: each value at the others' places, and a metric
/// that its flows do not have.
#[test]
fn nothing_is_awaited_where_everything_ran() {
    let plain =
        SCENARIO.split("[variant").next().unwrap().replace("loss = [\"0\", \"0.1%\", \"1%\"]", "keep = [512, 768]");
    let flow = "name = \"data\"\nalgorithm = \"dtcp\"\ntunables = { keep_avoidance = \"$keep\" }";
    let plain = plain.replace("loss = \"$loss\"\n", "").replace("name = \"data\"", flow);
    let scenario = format!("{plain}[report]\nmetrics = [\"delivered_pkts\", \"fct_mean_s\"]\n");
    let directory = Directory::of(&scenario);
    for keep in ["512", "768"] {
        let mut record = run("1%", &format!("dtcp keep_avoidance={keep}"), 0, 5000);
        (record.at, record.id) = (position([("keep", keep)]), keep.to_owned());
        directory.add(&record);
    }
    let report = load(&directory);
    let said = notices(&report);
    assert!(!said.contains("no finished run") && said.contains("fct_mean_s"), "{said}");
    assert_eq!(report.cells.iter().filter(|cell| cell.measured.is_some()).count(), 2);
}

#[test]
fn run_without_events_is_said() {
    let directory = Directory::complete();
    fs::remove_file(directory.folder("loss-0-SACK-0").join("events.jsonl")).unwrap();
    let said = notices(&load(&directory));
    assert!(said.split("; ").any(|cause| cause == "run \"loss-0-SACK-0\" has no events.jsonl"), "{said}");
}

#[test]
fn runs_of_another_profile_are_not_judged() {
    let directory = Directory::complete();
    let file = directory.path.join("host.json");
    let host = fs::read_to_string(&file).unwrap().replace("\"paper\"", "\"native\"");
    fs::write(&file, host).unwrap();
    let report = load(&directory);
    assert!(report.cells.iter().all(|cell| cell.verdict == Verdict::NotComparable));
    let other = cell(&report, "delivered_pkts", "1%", "Other");
    assert_eq!(other.verdict_reason, "measured under the profile native, which is not the scenario's");
    assert!(notices(&report).contains("are for paper: no verdicts"));
}

#[test]
fn check_fails_for_an_expected_cell_without_a_run() {
    // Nothing published: the row is there for its expected ratio alone.
    let [head, rest] = SCENARIO.split_once("[[published]]").map(<[&str; 2]>::from).unwrap();
    let expected = rest.split_once("[[expected]]").unwrap().1;
    let directory = Directory::of(&format!("{head}[[expected]]{expected}"));
    for (loss, other) in [("0", 5000), ("0.1%", 6200)] {
        directory.add(&run(loss, "SACK", 0, 5000));
        directory.add(&run(loss, "Other", 0, other));
    }
    directory.add(&run("1%", "SACK", 0, 5000));
    let failure = report::check(&[load(&directory)]).unwrap();
    assert_eq!(failure.kind, FailureKind::Outside);
    assert!(failure.what.starts_with("1 of 3 cells with an expectation have no finished run"), "{failure}");
    directory.add(&run("1%", "Other", 0, 7500));
    assert_eq!(report::check(&[load(&directory)]), None);
}

/// A directory made wrong by `spoil`, and what the failure must say.
#[track_caller]
fn refuses(spoil: impl FnOnce(&Directory), kind: FailureKind, what: &str) {
    let directory = Directory::complete();
    spoil(&directory);
    let error = report::load(&directory.path).unwrap_err();
    let failure = error.downcast_ref::<Failure>().unwrap_or_else(|| panic!("a failure: {error:#}"));
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.what.contains(what), "{failure}");
    let hint = failure.hint.as_deref().unwrap_or_else(|| panic!("a hint: {failure}"));
    assert_eq!(hint.contains("remove that run's folder"), what.contains("run.json"), "{failure}: {hint}");
}

#[test]
fn broken_directories_are_refused_with_the_reason() {
    let write =
        |name: &'static str, text: &'static str| move |d: &Directory| fs::write(d.path.join(name), text).unwrap();
    let remove = |name: &'static str| move |d: &Directory| fs::remove_file(d.path.join(name)).unwrap();
    refuses(|d| fs::remove_dir_all(&d.path).unwrap(), FailureKind::Usage, "there is no such directory");
    refuses(remove("scenario.toml"), FailureKind::Usage, "is not a result directory: it has no scenario.toml");
    refuses(remove("host.json"), FailureKind::Usage, "is not a result directory: it has no host.json");
    refuses(remove("plan.json"), FailureKind::Usage, "is not a result directory: it has no plan.json");
    let later = write("host.json", r#"{"schema":99,"new":true}"#);
    refuses(later, FailureKind::Failed, "it has schema 99, and this tccc reads up to 1");
    refuses(write("host.json", "[]"), FailureKind::Failed, "host.json");
    refuses(write("host.json", ""), FailureKind::Failed, "it ends too early");
    refuses(write("plan.json", "{"), FailureKind::Failed, "it ends too early");
    refuses(write("scenario.toml", "title = 3"), FailureKind::Usage, "scenario.toml:1: title");
    refuses(|d| fs::remove_dir_all(d.path.join("runs")).unwrap(), FailureKind::Failed, "it has no finished run");
    let cut = |d: &Directory| {
        let file = d.folder("loss-0-SACK-0").join("run.json");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    };
    refuses(cut, FailureKind::Failed, "loss-0-SACK-0/run.json\": it ends too early");
    let speed = SCENARIO.replace("\"goodput_bps\"", "\"speed\"");
    let unknown = |d: &Directory| fs::write(d.path.join("scenario.toml"), speed).unwrap();
    refuses(unknown, FailureKind::Usage, "report.metrics = \"speed\": expected one of delivered_pkts");
}

#[test]
fn reports_are_as_in_the_snapshots() {
    let report = load(&Directory::complete());
    for (name, format) in [("text_report", Format::Text), ("markdown_report", Format::Markdown)] {
        insta::assert_snapshot!(format!("{name}_is_as_in_the_snapshot"), report::render(&report, format).unwrap());
    }
}

#[test]
fn csv_has_one_row_a_cell_and_full_precision() {
    let report = load(&Directory::complete());
    let text = report::render(&report, Format::Csv).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headings = reader.headers().unwrap().clone();
    let column = |name: &str| headings.iter().position(|heading| heading == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), report.cells.len());
    let other =
        rows.iter().find(|row| &row[column("place")] == "loss 0.1%" && &row[column("variant")] == "Other").unwrap();
    assert_eq!(&other[column("values")], "21500 21800 21260");
    assert_eq!(other[column("ratio_measured")].parse::<f64>().unwrap(), 21_520.0 / 17_420.0);
    assert_eq!((&other[column("n")], &other[column("unit")]), ("3", "pkts"));
}

#[test]
fn json_has_the_documented_shape() {
    let text = report::render(&load(&Directory::complete()), Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["scenario"], "table-2");
    assert_eq!(document["source"]["where"], "Table 2");
    assert_eq!(document["host"]["offloads"], "off");
    let cells = document["cells"].as_array().unwrap();
    let here = |cell: &&serde_json::Value| {
        cell["metric"] == "delivered_pkts" && cell["at"]["loss"] == "1%" && cell["at"]["variant"] == "Other"
    };
    let cell = cells.iter().find(here).unwrap();
    assert_eq!(cell["published"], 8671.0);
    assert_eq!(cell["measured"]["n"], 3);
    assert_eq!(cell["measured"]["ci95"].as_array().unwrap().len(), 2);
    assert_eq!(cell["ratio_to_baseline"]["expected"]["plus_minus"], 0.10);
    assert_eq!(cell["verdict"], "outside");
    assert!(cell["notices"].as_array().unwrap().is_empty());
    let vegas = cells.iter().find(|cell| cell["variant"] == "Vegas").unwrap();
    assert_eq!((&vegas["verdict"], &vegas["measured"]), (&"not comparable".into(), &serde_json::Value::Null));
}

#[test]
fn several_directories_are_an_array_in_json_and_one_heading_in_csv() {
    let reports = [(); 2].map(|()| load(&Directory::complete()));
    let json: serde_json::Value = serde_json::from_str(&report::render_all(&reports, Format::Json).unwrap()).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    let csv = report::render_all(&reports, Format::Csv).unwrap();
    assert_eq!(csv.lines().filter(|line| line.starts_with("scenario,")).count(), 1);
    assert_eq!(csv.lines().count(), 1 + 2 * reports[0].cells.len());
    assert_eq!(report::render_all(&reports, Format::Html).unwrap().matches("<main id=\"r").count(), 2);
}

/// Recorded by `tccc run` on a real kernel: results of schema 1 must stay readable. Events end after two seconds.
#[test]
fn recorded_results_of_schema_1_are_reported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/loss-sweep-schema-1");
    let report = report::load(&path).unwrap();
    assert_eq!((report.scenario.as_str(), report.baseline.as_deref()), ("loss-sweep", Some("reno")));
    let dtcp = cell(&report, "delivered_pkts", "1%", "dtcp");
    assert_eq!(dtcp.measured.as_ref().unwrap().values, [3614.0]);
    assert_eq!(report.plots[0].lines.len(), 2);
    assert!(report.plots[0].lines.iter().all(|line| line.points.len() > 60));
    for format in [Format::Text, Format::Markdown, Format::Csv, Format::Json, Format::Html] {
        assert!(report::render(&report, format).unwrap().contains("dtcp"), "{format:?}");
    }
}
