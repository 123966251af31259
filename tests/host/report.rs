//! Reports of result directories: every format, notice and broken input.

mod checks;
mod command;
mod cut_off;
mod distributions;
mod figure_files;
mod figures;
mod fleet;
mod flows;
mod hostile;
mod partial;
mod per_run;
mod places;
mod saved;
mod selection;
mod several;
mod untargeted;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::lab::results::{Directory, SCENARIO, position, run};
use tccc::failure::{Failure, FailureKind};
use tccc::model::notice::Notice;
use tccc::model::run::{FlowRecord, RunRecord, RunStatus};
use tccc::report::{self, Report, ReportCell, ReportFormat, Verdict};

const FORMATS: [ReportFormat; 5] =
    [ReportFormat::Text, ReportFormat::Markdown, ReportFormat::Csv, ReportFormat::Json, ReportFormat::Html];

fn load(directory: &Directory) -> Report {
    report::load(&directory.path).unwrap()
}

fn render(report: &Report, format: ReportFormat) -> String {
    report::render(report, format).unwrap()
}

fn as_text(report: &Report) -> String {
    render(report, ReportFormat::Text)
}

fn as_page(report: &Report) -> String {
    render(report, ReportFormat::Html)
}

fn as_json(report: &Report) -> serde_json::Value {
    serde_json::from_str(&render(report, ReportFormat::Json)).unwrap()
}

/// The headings of the CSV, and its rows by heading.
fn as_csv(report: &Report) -> (Vec<String>, Vec<BTreeMap<String, String>>) {
    let text = render(report, ReportFormat::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    (reader.headers().unwrap().iter().map(str::to_owned).collect(), reader.deserialize().map(Result::unwrap).collect())
}

fn cell<'a>(report: &'a Report, metric: &str, loss: &str, variant: &str) -> &'a ReportCell {
    let here = |cell: &&ReportCell| cell.metric == metric && cell.at["loss"] == loss && cell.variant == variant;
    report.cells.iter().find(here).unwrap_or_else(|| panic!("a cell {metric} {loss} {variant}"))
}

fn causes(notices: &[Notice]) -> String {
    notices.iter().map(|notice| notice.cause.as_str()).collect::<Vec<_>>().join("; ")
}

/// The values of a cell's runs.
fn values<'a>(report: &'a Report, metric: &str, loss: &str, variant: &str) -> &'a [f64] {
    &cell(report, metric, loss, variant).measured.as_ref().unwrap().values
}

/// Adds a flow to a record; both have the same counts.
fn second_flow<'a>(record: &'a mut RunRecord, name: &str, variant: &str) -> &'a mut FlowRecord {
    let (name, variant) = (name.to_owned(), variant.to_owned());
    record.flows.push(FlowRecord { name, variant, socket: Some(200), ..record.flows[0].clone() });
    record.flows.last_mut().unwrap()
}

/// A scenario's text before a heading.
fn before<'a>(scenario: &'a str, heading: &str) -> &'a str {
    scenario.split(heading).next().unwrap()
}

#[test]
fn cells_of_a_complete_experiment_are_judged() {
    let report = load(&Directory::complete());
    for (loss, variant, verdict, reason) in [
        ("0.1%", "Other", Verdict::Within, "ratio 1.24, expected 1.24 ± 0.10"),
        ("1%", "Other", Verdict::Outside, "ratio 1.66, expected 1.50 ± 0.10, which its 95 % interval reaches"),
        ("0.1%", "SACK", Verdict::Within, "mean 17 420 pkts, published 15 940 pkts ± 10 %"),
        ("1%", "Vegas", Verdict::NotComparable, "not measured"),
    ] {
        let cell = cell(&report, "delivered_pkts", loss, variant);
        assert_eq!((cell.verdict, cell.verdict_reason.as_str()), (verdict, reason));
        assert_eq!(cell.ratio_to_baseline.is_none(), variant == "SACK", "the baseline has no ratio");
    }
    let failure = report::check(&[report]).unwrap();
    assert_eq!(failure.kind, FailureKind::Outside);
    assert!(failure.what.contains("delivered_pkts of \"Other\" (ratio 1.66"), "{failure}");
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
    let vegas = cell(&report, "delivered_pkts", "1%", "Vegas");
    assert_eq!((vegas.published, vegas.measured.is_none()), (Some(8456.0), true), "no algorithm of this name");
    assert!(causes(&vegas.notices).contains("published only"));
    let is_empty = |cell: &ReportCell| cell.metric == "goodput_bps" && cell.variant == "Vegas";
    assert!(!report.cells.iter().any(is_empty), "a row has nothing to show");
}

#[test]
fn events_give_metrics_and_plots_of_the_median_runs() {
    let report = load(&Directory::complete());
    let srtt = cell(&report, "srtt_p50_us", "1%", "SACK").measured.as_ref().unwrap();
    assert_eq!((srtt.n, srtt.mean), (3, 100_200.0));
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
    assert_eq!(causes(&other.notices), "1 run only: no interval can be given");
    assert!(causes(&cell(&report, "delivered_pkts", "0", "SACK").notices).contains("no finished run"));
    assert!(causes(&report.notices).contains("cells of the scenario have no finished run"), "{:?}", report.notices);
}

#[test]
fn late_failed_unpaired_and_dropped_are_noted_beside_the_number() {
    let directory = Directory::complete();
    let mut late = run("0", "Other", 1, 24_000);
    late.status = RunStatus::Late;
    directory.add(&late);
    let mut failed = run("0", "Other", 2, 0);
    (failed.status, failed.why) = (RunStatus::Failed, Some("iperf3 ended early".into()));
    directory.add(&failed);
    let mut tired = run("0.1%", "SACK", 0, 17_400);
    (tired.late_attempts, tired.events_dropped, tired.others_share) = (2, 31, Some(0.92));
    tired.links[0].counters[0].failed_pkts = 4;
    tired.flows[0].begin_s = Some(1.25);
    directory.add(&tired);
    fs::remove_dir_all(directory.folder("loss-1pct-SACK-1")).unwrap();
    let report = load(&directory);
    let other = cell(&report, "delivered_pkts", "0", "Other");
    assert_eq!(other.measured.as_ref().unwrap().n, 1);
    for (loss, variant, cause) in [
        ("0", "Other", "1 run failed and is not part of the result: iperf3 ended early"),
        ("0", "Other", "1 run had a late link"),
        ("0.1%", "SACK", "1 run had to be repeated"),
        ("0.1%", "SACK", "2 attempts left out"),
        ("0.1%", "SACK", "other load used up to 92 % of the processors in 1 of 3 runs"),
        ("0.1%", "SACK", "31 trace events were dropped"),
        ("0.1%", "SACK", "failed to carry 4 packets"),
        ("0.1%", "SACK", "in 1 run a flow began more than 1 s late"),
        ("1%", "Other", "1 run without a run of the baseline"),
    ] {
        let causes = causes(&cell(&report, "delivered_pkts", loss, variant).notices);
        assert!(causes.contains(cause), "{cause}: {causes}");
    }
    let unpaired = cell(&report, "delivered_pkts", "1%", "Other");
    assert_eq!(unpaired.ratio_to_baseline.as_ref().unwrap().pairs, 2);
}

/// `fewer --jobs avoid the repeats` was once the advice after `--jobs 1` too.
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
    assert_eq!(advice([1, 1]), "no other run was sending at the time: a less busy host avoids the repeats");
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
    let all = causes(&report.notices);
    for cause in [
        "run \"x\" was not finished",
        "\"loss-0-SACK-0\" end in the middle of a line",
        "1 unreadable line in the events of run \"loss-0-SACK-0\"",
    ] {
        assert!(all.contains(cause), "{all}");
    }
    let line = &report.plots[0].lines[0];
    assert_eq!((line.run.as_str(), line.points.len()), ("loss-0-SACK-0", 99));
}

/// The header once had `bpf_vega_5814_0` above tables of `bpf_vegas`.
#[test]
fn algorithms_have_their_own_names_and_not_those_they_were_registered_under() {
    let directory = Directory::complete();
    let mut record = run("1%", "Other", 0, 10_000);
    record.flows[0].algorithm = "other_5814_0".into();
    directory.add(&record);
    let file = directory.path.join("host.json");
    let host = fs::read_to_string(&file).unwrap();
    let with = |more: &str| {
        fs::write(&file, host.replace(r#""other": "9f86d081""#, more)).unwrap();
        let algorithms = load(&directory).host.algorithms;
        algorithms.iter().map(|(name, digest)| format!("{name} {digest}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(with(r#""other_5814_0":"9f86d081""#), "other 9f86d081");
    assert_eq!(with(r#""other":"9f86d081","other_5814_0":"9f86d081","othe_7_1":"9f86d081""#), "other 9f86d081");
    assert_eq!(with(r#""other":"9f86d081","other_5814_0":"77""#), "other 9f86d081, other (other_5814_0) 77");
    assert_eq!(with(r#""unseen_1_0":"77""#), "unseen_1_0 77", "no finished run has it");
}

#[test]
fn traffic_beside_the_compared_flow_is_not_part_of_its_numbers() {
    let directory = Directory::of(SCENARIO);
    let mut record = run("1%", "SACK", 0, 5000);
    let beside = second_flow(&mut record, "background", "SACK");
    (beside.compared, beside.delivered_pkts) = (false, 900);
    record.flows[0].algorithm = "reno_b".into();
    directory.add(&record);
    assert_eq!(values(&load(&directory), "delivered_pkts", "1%", "SACK"), [5000.0]);
}

#[test]
fn failed_run_without_flows_is_reported_without_a_sweep() {
    let plain = before(before(SCENARIO, "[variant"), "[report]");
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
    let reno = causes(&cell(&report, "delivered_pkts", "1%", "reno").notices);
    assert!(reno.contains("1 run failed and is not part of the result"), "{reno}");
}

/// A finished sweep of a tunable once had cells that never get a run: each value at the other values' points, and a
/// metric that its flows do not have.
#[test]
fn finished_sweep_lacks_no_run() {
    let plain = before(SCENARIO, "[variant").replace("loss = [\"0\", \"0.1%\", \"1%\"]", "keep = [512, 768]");
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
    let causes = causes(&report.notices);
    assert!(!causes.contains("no finished run") && causes.contains("fct_mean_s"), "{causes}");
    assert_eq!(report.cells.iter().filter(|cell| cell.measured.is_some()).count(), 2);
}

#[test]
fn run_without_events_is_reported() {
    let directory = Directory::complete();
    fs::remove_file(directory.folder("loss-0-SACK-0").join("events.jsonl")).unwrap();
    let notices = load(&directory).notices;
    assert!(notices.iter().any(|one| one.cause == "run \"loss-0-SACK-0\" has no events.jsonl"), "{notices:?}");
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
    assert!(causes(&report.notices).contains("are for paper: no verdicts"));
}

#[test]
fn check_fails_for_an_expected_cell_without_a_run() {
    // Nothing published: the row is there for its expected ratio alone.
    let [head, rest] = SCENARIO.split_once("[[published]]").map(<[&str; 2]>::from).unwrap();
    let expected = rest.split_once("[[expected]]").unwrap().1;
    let directory = Directory::of(&format!("{head}[[expected]]{expected}"));
    directory.add_each(&["0", "0.1%", "1%"], 1, &[("SACK", 5000)], 0);
    directory.add(&run("0", "Other", 0, 5000));
    directory.add(&run("0.1%", "Other", 0, 6200));
    let failure = report::check(&[load(&directory)]).unwrap();
    assert_eq!(failure.kind, FailureKind::Outside);
    assert!(failure.what.starts_with("1 of 3 cells with an expectation have no finished run"), "{failure}");
    directory.add(&run("1%", "Other", 0, 7500));
    assert_eq!(report::check(&[load(&directory)]), None);
}

/// A directory broken by `spoil` is refused with this text.
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
    for (name, format) in [("text_report", ReportFormat::Text), ("markdown_report", ReportFormat::Markdown)] {
        insta::assert_snapshot!(format!("{name}_is_as_in_the_snapshot"), render(&report, format));
    }
}

#[test]
fn csv_has_one_row_a_cell_and_full_precision() {
    let report = load(&Directory::complete());
    let (_, rows) = as_csv(&report);
    assert_eq!(rows.len(), report.cells.len());
    let other = rows.iter().find(|row| row["place"] == "loss 0.1%" && row["variant"] == "Other").unwrap();
    assert_eq!(other["ratio_measured"].parse::<f64>().unwrap(), 21_520.0 / 17_420.0);
    assert_eq!(["values", "n", "unit"].map(|name| other[name].as_str()), ["21500 21800 21260", "3", "pkts"]);
}

#[test]
fn json_has_the_documented_shape() {
    let document = as_json(&load(&Directory::complete()));
    let cells = document["cells"].as_array().unwrap();
    let cell = |variant: &str| {
        let is = |cell: &&serde_json::Value| {
            cell["metric"] == "delivered_pkts" && cell["at"]["loss"] == "1%" && cell["at"]["variant"] == variant
        };
        cells.iter().find(is).unwrap()
    };
    let (other, vegas) = (cell("Other"), cell("Vegas"));
    for (found, expected) in [
        (&document["schema"], serde_json::json!(1)),
        (&document["scenario"], "table-2".into()),
        (&document["source"]["where"], "Table 2".into()),
        (&document["host"]["offloads"], "off".into()),
        (&other["published"], 8671.0.into()),
        (&other["measured"]["n"], 3.into()),
        (&other["ratio_to_baseline"]["expected"]["plus_minus"], 0.10.into()),
        (&other["verdict"], "outside".into()),
        (&other["notices"], serde_json::json!([])),
        (&vegas["verdict"], "not comparable".into()),
        (&vegas["measured"], serde_json::Value::Null),
    ] {
        assert_eq!(*found, expected);
    }
    assert_eq!(other["measured"]["ci95"].as_array().unwrap().len(), 2);
}

#[test]
fn several_directories_are_an_array_in_json_and_one_heading_in_csv() {
    let reports = [(); 2].map(|()| load(&Directory::complete()));
    let json: serde_json::Value =
        serde_json::from_str(&report::render_all(&reports, ReportFormat::Json).unwrap()).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    let csv = report::render_all(&reports, ReportFormat::Csv).unwrap();
    assert_eq!(csv.lines().filter(|line| line.starts_with("scenario,")).count(), 1);
    assert_eq!(csv.lines().count(), 1 + 2 * reports[0].cells.len());
    assert_eq!(report::render_all(&reports, ReportFormat::Html).unwrap().matches("<main id=\"r").count(), 2);
}

/// Recorded by `tccc run` on a real kernel. Results of schema 1 must stay readable.
#[test]
fn recorded_results_of_schema_1_are_reported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/loss-sweep-schema-1");
    let report = report::load(&path).unwrap();
    assert_eq!((report.scenario.as_str(), report.baseline.as_deref()), ("loss-sweep", Some("reno")));
    assert_eq!(values(&report, "delivered_pkts", "1%", "dtcp"), [3614.0]);
    assert_eq!(report.plots[0].lines.len(), 2);
    assert!(report.plots[0].lines.iter().all(|line| line.points.len() > 60));
    for format in FORMATS {
        assert!(render(&report, format).contains("dtcp"), "{format:?}");
    }
}
