//! Reports of one experiment run on many machines: blocks, nodes, and parts that must not be mixed.

use std::fs;
use std::path::{Path, PathBuf};

use tccc::failure::{Failure, FailureKind};
use tccc::model::run::{BlockPlan, Engine, Machine, PlanBlock};
use tccc::report::{self, Fleet, Report, ReportFormat};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::several::change_host;
use crate::report::{as_page, as_text, command, render};

fn machine(name: &str) -> Machine {
    let (id, node) = (format!("id-{name}"), name.to_owned());
    Machine { id, node, processor: "A CPU".into(), virtualisation: "none".into(), ..Machine::default() }
}

/// Block `n` of 6: one repeat of both variants at one loss.
fn block(place: &Path, n: usize, by: &str, started: &str) -> PathBuf {
    let directory = Directory::new(place, SCENARIO);
    let repeat = n as u32 - 1;
    let mut runs = Vec::new();
    for (variant, delivered) in [("SACK", 6000), ("Other", 9000)] {
        let faster = if by == "fast" { 300 } else { 0 };
        let mut record = run("1%", variant, repeat, delivered + faster + 10 * u64::from(repeat));
        (record.host, record.started) = (Some(machine(by).id), started.into());
        runs.push(record.id.clone());
        directory.add(&record);
    }
    let plan = BlockPlan {
        schema: 1,
        scenario: "table-2".into(),
        engine: Engine::Kernel,
        profile: "paper".into(),
        repeats: 6,
        seed: 7,
        block: PlanBlock { plan: "aa".into(), n, of: 6, machine: machine(by) },
        runs,
    };
    fs::write(directory.path.join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
    change_host(&directory.path, |host| host.machines = vec![machine(by)]);
    directory.path
}

/// Blocks with these numbers, made by these machines.
fn blocks(made: &[(usize, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let place = tempfile::tempdir().unwrap();
    let path = |n: usize| place.path().join(format!("block-{n:05}"));
    let paths = made.iter().map(|(n, by)| block(&path(*n), *n, by, "2026-11-21T08:00:00Z")).collect();
    (place, paths)
}

#[track_caller]
fn only(paths: &[PathBuf]) -> Report {
    let mut reports = report::load_all(paths, false).unwrap().reports;
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn n_of(report: &Report) -> usize {
    let cell = report.cells.iter().find(|cell| cell.measured.is_some()).unwrap();
    cell.measured.as_ref().unwrap().n
}

#[test]
fn missing_blocks_are_counted_and_named_for_the_array() {
    let (_place, paths) = blocks(&[(1, "a"), (3, "b"), (5, "a")]);
    let report = only(&paths);
    let text = as_text(&report);
    assert!(text.contains("3 of 6, missing: --array=2,4,6"), "{text}");
    let page = as_page(&report);
    assert!(page.contains("3 of 6, missing: --array=2,4,6"));
    let whole: Vec<(usize, &str)> = (1..=6).map(|n| (n, "a")).collect();
    let text = crate::report::as_text(&only(&blocks(&whole).1));
    assert!(text.contains("6 of 6\n"), "{text}");
}

/// A block in two directories once made two reports.
#[test]
fn block_that_is_there_twice_counts_once() {
    let (place, mut paths) = blocks(&[(1, "a"), (2, "a"), (3, "a")]);
    paths.push(block(&place.path().join("again/block-00002"), 2, "b", "2026-11-21T07:00:00Z"));
    paths.push(block(&place.path().join("later/block-00002"), 2, "b", "2026-11-21T09:00:00Z"));
    let report = only(&paths);
    assert_eq!(n_of(&report), 3);
    let notice = report.notices.iter().map(|one| &one.cause).find(|cause| cause.ends_with("it counts once")).unwrap();
    assert!(notice.starts_with("block 2 is in") && notice.contains("later"), "{notice}");
    assert!(notice.split(" and also in ").next().unwrap().contains("again"), "the first that began: {notice}");
    assert_eq!(report.fleet.unwrap().blocks[0].present, 3);
}

#[test]
fn nodes_are_compared_by_the_baseline() {
    let (_place, paths) = blocks(&[(1, "fast"), (2, "fast"), (3, "fast"), (4, "slow"), (5, "slow"), (6, "slow")]);
    let mut late = run("1%", "SACK", 4, 6000);
    late.id.push_str("-late1");
    (late.status, late.host) = (tccc::model::run::RunStatus::Late, Some(machine("slow").id));
    Directory::at(&paths[4]).add(&late);
    let report = only(&paths);
    let Fleet { nodes, compared, .. } = report.fleet.clone().unwrap();
    let compared = compared.unwrap();
    assert_eq!((compared.metric.as_str(), compared.variant.as_str()), ("delivered_pkts", "SACK"));
    let counts: Vec<(&str, usize, usize)> =
        nodes.iter().map(|node| (node.machine.node.as_str(), node.runs, node.late_attempts)).collect();
    assert_eq!(counts, [("fast", 6, 0), ("slow", 6, 1)]);
    let shift = nodes[0].shift.unwrap();
    let [low, high] = shift.ci95.unwrap();
    assert!(low > 0.03 && high < 0.06 && shift.n == 3, "{shift:?}");
    assert!((shift.mean + nodes[1].shift.unwrap().mean).abs() < 1e-12);
    for format in [ReportFormat::Text, ReportFormat::Markdown, ReportFormat::Html] {
        let text = render(&report, format);
        assert!(text.contains("of SACK relative to the other nodes"), "{text}");
    }
}

#[test]
fn one_machine_without_blocks_has_no_table_of_nodes() {
    let directory = Directory::complete();
    assert_eq!(report::load(&directory.path).unwrap().fleet, None);
    change_host(&directory.path, |host| host.machines = vec![machine("a")]);
    assert_eq!(report::load(&directory.path).unwrap().fleet, None);
}

/// Parts of another tccc or iperf3 were once merged without a notice. Parts of another kernel became a second report.
#[test]
fn parts_made_with_different_programs_are_refused_unless_asked_for() {
    type HostEdit = fn(&mut tccc::model::run::HostRecord);
    let changes: [(&str, HostEdit); 4] = [
        ("kernel: 6.18.0 in", |host| host.kernel = "6.19.0".into()),
        ("iperf3: 3.18 in", |host| drop(host.tools.insert("iperf3".into(), "3.19".into()))),
        ("tccc: 0.1.0 in", |host| drop(host.tools.insert("tccc".into(), "0.2.0".into()))),
        ("other: 9f86d081 in", |host| drop(host.algorithms.insert("other".into(), "00000000".into()))),
    ];
    for (said, change) in changes {
        let (place, paths) = blocks(&[(1, "a"), (2, "b")]);
        change_host(&paths[1], change);
        let error = report::load_all(&paths, false).unwrap_err();
        let failure: &Failure = error.downcast_ref().unwrap();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.what.contains(said), "{failure}");
        assert!(paths.iter().all(|path| failure.what.contains(&path.display().to_string())), "{failure}");
        let place = place.path().to_str().unwrap();
        command::report(2, &[place]);
        command::report(0, &["--mixed", place]).stdout_has("the parts were made with different programs");
    }
}

#[test]
fn different_processors_are_noted_and_not_refused() {
    let (_place, paths) = blocks(&[(1, "a"), (2, "b")]);
    change_host(&paths[1], |host| host.machines[0].processor = "Another CPU".into());
    let report = only(&paths);
    let notice = report.notices.iter().find(|notice| notice.cause.contains("different processors")).unwrap();
    assert!(notice.cause.ends_with("2 processors A CPU; 2 processors Another CPU"), "{}", notice.cause);
}
