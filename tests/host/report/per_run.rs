//! The tidy table: one row per run, flow and metric, as CSV and Parquet.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use super::command::report;
use super::{load, second_flow, values};
use crate::common::need::data_tools_python;
use crate::common::{check, needs};
use crate::lab::results::{Directory, SCENARIO, run};
use tccc::failure::Failure;
use tccc::report::{ReportFormat, load_runs, render_runs};

type Row = BTreeMap<String, String>;

fn rows(csv: &[u8]) -> Vec<Row> {
    csv::Reader::from_reader(csv).deserialize().map(Result::unwrap).collect()
}

fn render(directory: &Directory, format: ReportFormat) -> Vec<u8> {
    let (table, _) = load_runs(std::slice::from_ref(&directory.path), false).unwrap();
    assert_eq!(table.notices, []);
    render_runs(&table, format).unwrap()
}

/// One run of each variant at a loss of 1 %, each beside a flow of Reno that delivers half as much.
fn beside_reno() -> Directory {
    let directory = Directory::of(SCENARIO);
    for (variant, delivered) in [("SACK", 6000), ("Other", 9000)] {
        let mut record = run("1%", variant, 0, delivered);
        let beside = second_flow(&mut record, "beside", "reno");
        (beside.compared, beside.delivered_pkts, beside.goodput_bps) = (false, delivered / 2, 1.5e6);
        directory.add(&record);
    }
    directory
}

/// They once had the labels of the scenario's own runs.
#[test]
fn runs_on_perturbed_paths_are_in_no_number_of_the_cells() {
    let directory = Directory::complete();
    let before = (load(&directory), render(&directory, ReportFormat::Csv));
    for repeat in 0..3 {
        let mut record = run("1%", "SACK", repeat, 90);
        record.id = format!("perturbed-{repeat}");
        record.at.insert("perturbed".into(), "1% more delay".into());
        directory.add(&record);
    }
    let mut report = load(&directory);
    let told = report.perturbed.take().unwrap();
    assert_eq!(told.sentence(), "no share was compared: it takes 3 runs of each path, and several flows");
    assert!((report, render(&directory, ReportFormat::Csv)) == before);
}

#[test]
fn rows_of_all_flows_give_the_values_of_the_table() {
    let directory = Directory::complete();
    let (report, rows) = (load(&directory), rows(&render(&directory, ReportFormat::Csv)));
    for (metric, loss, variant) in
        [("delivered_pkts", "0.1%", "Other"), ("goodput_bps", "1%", "SACK"), ("srtt_p50_us", "0", "SACK")]
    {
        let is_of = |row: &&Row| row["metric"] == metric && row["loss"] == loss && row["variant"] == variant;
        let of_run = |flow: &str| {
            let of_flow = rows.iter().filter(is_of).filter(|row| row["flow"] == flow);
            of_flow.map(|row| row["value"].parse().unwrap()).collect::<Vec<f64>>()
        };
        let mut sorted = values(&report, metric, loss, variant).to_vec();
        sorted.sort_by(f64::total_cmp);
        for flow in ["", "data"] {
            let mut of_run = of_run(flow);
            of_run.sort_by(f64::total_cmp);
            assert_eq!(of_run, sorted, "{metric} {loss} {variant} \"{flow}\"");
        }
    }
    let first = &rows[0];
    let is_first = [("scenario", "table-2"), ("engine", "kernel"), ("run", "loss-0-Other-0"), ("repeat", "0")];
    is_first.iter().for_each(|(column, text)| assert_eq!(first[*column], *text));
    assert_eq!((first["seed"].as_str(), first["unit"].as_str(), first["cut_off"].as_str()), ("7000", "pkts", "false"));
    assert_eq!(first["results"], directory.path.to_str().unwrap());
}

#[test]
fn every_flow_has_rows_of_its_own_also_beside_the_compared_one() {
    let rows = rows(&render(&beside_reno(), ReportFormat::Csv));
    let of = |run: &str, flow: &str, metric: &str| {
        let is_it = |row: &&Row| row["run"] == run && row["flow"] == flow && row["metric"] == metric;
        rows.iter().find(is_it).map(|row| (row["variant"].clone(), row["value"].parse::<f64>().unwrap()))
    };
    let run = "loss-1pct-Other-0";
    assert_eq!(of(run, "", "delivered_pkts"), Some(("Other".into(), 9000.0)));
    assert_eq!(of(run, "data", "delivered_pkts"), Some(("Other".into(), 9000.0)));
    assert_eq!(of(run, "beside", "delivered_pkts"), Some(("reno".into(), 4500.0)));
    assert_eq!(of(run, "beside", "goodput_bps"), Some(("reno".into(), 1.5e6)));
    assert!(of(run, "beside", "mean_cwnd_pkts").is_some() && of(run, "beside", "qdelay_p95_us").is_some());
    assert!(of(run, "", "friendliness_ratio").is_some(), "of the run");
    let beside = rows.iter().find(|row| row["run"] == run && row["flow"] == "beside").unwrap();
    assert_eq!(beside["sweep_variant"], "Other", "which variant it was beside");
    for flow in ["data", "beside"] {
        assert!(["friendliness_ratio", "utilisation_ratio"].iter().all(|metric| of(run, flow, metric).is_none()));
    }
}

#[test]
fn parquet_has_the_rows_of_the_csv() {
    let directory = beside_reno();
    let expected = rows(&render(&directory, ReportFormat::Csv));
    let parquet = bytes::Bytes::from(render(&directory, ReportFormat::Parquet));
    let reader = SerializedFileReader::new(parquet).unwrap();
    let read: Vec<Row> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let text = |field: &Field| match field {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                Field::Double(value) => value.to_string(),
                other => other.to_string(),
            };
            row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()
        })
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn variable_with_the_name_of_a_column_keeps_a_column_of_its_own() {
    let scenario = SCENARIO
        .replace("loss = [", "flow = [")
        .replace("$loss", "$flow")
        .replace("over = \"loss\"", "over = \"flow\"");
    let directory = Directory::of(&scenario);
    let mut record = run("1%", "SACK", 0, 6000);
    record.at.remove("loss");
    record.at.insert("flow".into(), "1%".into());
    directory.add(&record);
    let rows = rows(&render(&directory, ReportFormat::Csv));
    assert_eq!((rows[0]["sweep_flow"].as_str(), rows[0]["flow"].as_str()), ("1%", ""));
}

#[test]
fn values_of_runs_go_to_csv_or_parquet_only() {
    let directory = Directory::complete();
    let path = directory.path.to_str().unwrap();
    let said = report(0, &[path, "--per-run"]);
    assert!(said.stdout().starts_with("results,scenario,loss,engine,run,"), "{said:?}");
    let file = directory.place().join("runs.parquet");
    report(0, &[path, "--out", file.to_str().unwrap()]).stderr_has("runs.parquet (parquet)\n");
    assert!(fs::read(&file).unwrap().starts_with(b"PAR1"));
    report(2, &[path, "--per-run", "-o", "html"]).stderr_has("cannot write the values of each run as html");
    report(2, &[path, "-o", "parquet", "--check"]).stderr_has("cannot check the values of each run");
    report(2, &[path, "--per-run", "--check"]).stderr_has("--per-run");
    let refused = tccc::report::render(&load(&directory), ReportFormat::Parquet).unwrap_err();
    assert!(refused.downcast_ref::<Failure>().is_some_and(|failure| failure.what.contains("parquet")), "{refused:#}");
}

#[test]
fn pandas_polars_and_duckdb_read_the_same_values_from_csv_and_parquet() {
    needs!(data_tools);
    let directory = Directory::complete();
    let [csv, parquet] = ["runs.csv", "runs.parquet"].map(|name| directory.place().join(name));
    for file in [&csv, &parquet] {
        report(0, &[directory.path.to_str().unwrap(), "--per-run", "--out", file.to_str().unwrap()]);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/report/data_tools.py");
    let read = check(0, Command::new(data_tools_python().unwrap()).arg(script).args([&csv, &parquet]));
    let read: Value = serde_json::from_str(&read.stdout()).unwrap();
    let cells = load(&directory).cells;
    for (tool, means) in read["means"].as_object().unwrap() {
        let means = means.as_array().unwrap();
        assert_eq!(means.len(), 6, "{tool}: two variants at three losses: {means:?}");
        for mean in means {
            let [loss, variant] = [0, 1].map(|place| mean[place].as_str().unwrap());
            let cell = cells
                .iter()
                .find(|cell| cell.metric == "goodput_bps" && cell.at["loss"] == loss && cell.variant == variant);
            let expected = cell.unwrap().measured.as_ref().unwrap().mean;
            assert!((mean[2].as_f64().unwrap() / expected - 1.0).abs() < 1e-12, "{tool}: {mean}, {expected}");
        }
    }
    assert_eq!(read["means"].as_object().unwrap().len(), 6);
    assert_eq!(read["types"]["pandas parquet"], serde_json::json!(["uint64", "uint32", "float64", "bool"]));
}
