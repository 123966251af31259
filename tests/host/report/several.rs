//! Reports of several directories: shards, different measurements, the simulator's runs.

use std::fs;
use std::path::PathBuf;

use tccc::model::run::{Engine, HostRecord};
use tccc::report::{self, Report, ReportCell, ReportFormat};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::command::report;
use crate::report::{causes, cell};

/// One directory per list of repeats, with runs at one loss.
fn directories(parts: &[&[u32]]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let place = tempfile::tempdir().unwrap();
    let make = |(index, repeats): (usize, &&[u32])| {
        let directory = Directory::new(&place.path().join(format!("part{index}")), SCENARIO);
        for &repeat in *repeats {
            for (variant, delivered) in [("SACK", 6000), ("Other", 9000)] {
                directory.add(&run("1%", variant, repeat, delivered + 100 * u64::from(repeat)));
            }
        }
        directory.path
    };
    let paths = parts.iter().enumerate().map(make).collect();
    (place, paths)
}

pub fn change_host(path: &std::path::Path, change: impl FnOnce(&mut HostRecord)) {
    let file = path.join("host.json");
    let mut host: HostRecord = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut host);
    fs::write(&file, serde_json::to_vec(&host).unwrap()).unwrap();
}

fn load_all(paths: &[PathBuf]) -> Vec<Report> {
    report::load_all(paths, false).unwrap().reports
}

fn other(report: &Report) -> &ReportCell {
    cell(report, "delivered_pkts", "1%", "Other")
}

fn values(report: &Report) -> &[f64] {
    crate::report::values(report, "delivered_pkts", "1%", "Other")
}

#[test]
fn shards_of_one_experiment_are_one_report() {
    let (place, paths) = directories(&[&[0, 3], &[1], &[2, 4]]);
    let whole = [place.path().to_owned()];
    for given in [&paths[..], &whole[..]] {
        let reports = load_all(given);
        assert_eq!(reports.len(), 1);
        assert_eq!(values(&reports[0]), [9000.0, 9100.0, 9200.0, 9300.0, 9400.0]);
        let causes = causes(&reports[0].notices);
        assert_eq!(causes.matches("merged from 3 directories").count(), 1, "{causes}");
    }
}

#[test]
fn repeated_or_differently_made_runs_are_shown_side_by_side() {
    let (_place, paths) = directories(&[&[0, 1, 2], &[0, 1, 2]]);
    let reports = load_all(&paths);
    assert_eq!(reports.len(), 2, "a run that is in both is not counted twice");
    change_host(&paths[1], |host| host.link = "netem".into());
    let reports = load_all(&paths);
    let text = report::render_all(&reports, ReportFormat::Text).unwrap();
    assert!(text.contains("Side by side: delivered") && text.contains("overlap"), "{text}");
    assert!(text.contains("All reports: their cells by verdict"));
    let page = report::render_all(&reports, ReportFormat::Html).unwrap();
    assert!(page.contains("<h1>2 reports</h1>") && page.contains("href=\"#r1\"") && page.contains("id=\"r1\""));
    assert!(page.find("Side by side").unwrap() < page.find("id=\"r0\"").unwrap(), "what is common comes first");
    assert_eq!(load_all(&[paths[0].clone(), paths[0].clone()]).len(), 1, "named twice");
}

/// Directories of the same runs: the first by the kernel, the others by the simulator.
fn simulated(parts: &[&[u32]]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let (place, paths) = directories(parts);
    let scenario = format!("{SCENARIO}\n[ns2]\nagents = {{ SACK = \"TCP/Sack1\", Other = \"TCP/Reno\" }}\n");
    for path in &paths {
        fs::write(path.join("scenario.toml"), &scenario).unwrap();
    }
    for path in &paths[1..] {
        change_host(path, |host| {
            host.engine = Engine::Ns2;
            host.tools = [("ns2".to_owned(), "2.35".to_owned())].into();
        });
    }
    (place, paths)
}

#[test]
fn runs_of_the_simulator_are_a_column_of_the_kernels_report() {
    let (_place, paths) = simulated(&[&[0, 1, 2], &[0, 1, 2]]);
    let reports = load_all(&paths);
    assert_eq!(reports.len(), 1);
    let text = report::render_all(&reports, ReportFormat::Text).unwrap();
    assert!(text.contains("re-run") && text.contains("ns2 2.35, seed 7"), "{text}");
    let rerun = other(&reports[0]).rerun.as_ref().unwrap();
    assert_eq!((rerun.engine, rerun.measured.mean), (Engine::Ns2, 9100.0));
    assert!((rerun.ratio_to_baseline.unwrap() - 9100.0 / 6100.0).abs() < 1e-9);
    assert_eq!(load_all(&paths[1..]).len(), 1, "alone it is a report of its own");
}

/// Only the scenario's name was once compared, so re-runs appeared beside numbers of other paths and profiles.
#[test]
fn runs_of_the_simulator_under_another_profile_or_text_are_a_report_of_their_own() {
    let (_place, paths) = simulated(&[&[0, 1, 2], &[0, 1, 2]]);
    let apart = || {
        let reports = load_all(&paths);
        let reruns = reports.iter().flat_map(|report| &report.cells).filter(|cell| cell.rerun.is_some()).count();
        (reports.len(), reruns > 0)
    };
    assert_eq!(apart(), (1, true));
    change_host(&paths[1], |host| host.profile = "native".into());
    assert_eq!(apart(), (2, false));
    change_host(&paths[1], |host| host.profile = "paper".into());
    let text = fs::read_to_string(paths[1].join("scenario.toml")).unwrap();
    fs::write(paths[1].join("scenario.toml"), text.replace("delay = \"50ms\"", "delay = \"60ms\"")).unwrap();
    assert_eq!(apart(), (2, false));
}

/// Only the later of two seeds was once shown, under a heading with both.
#[test]
fn second_simulation_of_the_same_cells_is_a_report_of_its_own() {
    let (_place, paths) = simulated(&[&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]]);
    fs::write(paths[2].join("plan.json"), r#"{"schema":1,"scenario":"table-2","seed":8}"#).unwrap();
    Directory::at(&paths[2]).add(&run("1%", "Other", 0, 12_000));
    let reports = load_all(&paths);
    let engines: Vec<Engine> = reports.iter().map(|report| report.host.engine).collect();
    assert_eq!((engines, reports[1].seed), (vec![Engine::Kernel, Engine::Ns2], 8));
    assert_eq!(reports[0].reruns, ["ns2 2.35, seed 7"]);
    assert_eq!(other(&reports[0]).rerun.as_ref().unwrap().measured.mean, 9100.0, "of the first directory");
    assert_eq!(values(&reports[1]), [12_000.0, 9100.0, 9200.0]);
}

/// One interrupted experiment once made the reports of all others fail.
#[test]
fn directory_without_a_finished_run_is_left_out_and_named() {
    let (place, paths) = directories(&[&[0, 1, 2], &[]]);
    let measuring = Directory::new(&place.path().join("part2"), SCENARIO).path;
    fs::remove_file(measuring.join("host.json")).unwrap();
    let given = [place.path().to_owned()];
    let loaded = report::load_all(&given, false).unwrap();
    assert_eq!((loaded.reports.len(), &loaded.left_out[..]), (1, &[paths[1].clone(), measuring.clone()][..]));

    let place = given[0].to_str().unwrap();
    let said = report(0, &[place]).stdout_has("9 100").stderr();
    for path in &loaded.left_out {
        let line = format!("tccc: warning: \"{}\" has no finished run and is left out", path.display());
        assert!(said.contains(&line), "{said}");
    }
    assert_eq!(said.lines().count(), loaded.left_out.len(), "a line each: {said}");
    report(3, &["--check", place]); // what is expected of them is missing

    fs::remove_dir_all(&paths[0]).unwrap();
    let nothing = report(2, &[place]);
    assert_eq!(nothing.stderr_has("none has a finished run").stderr_has("hint: `tccc run`").stdout(), "");
}
