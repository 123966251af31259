//! Benchmark: time and memory of `tccc report` over many directories of one experiment.
//!
//! `cargo xtask bench report` prints the results. The requirement: 100,000 runs in 10,000 directories over 400 cells in at
//! most 60 s and 1 GB. `TCCC_REPORT_PROGRAM` names another build to measure.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;

use tccc::model::run::RunRecord;

use super::*;
use crate::common::TCCC;
use crate::lab::results::{Directory, SCENARIO, run};

/// Losses and queues of the sweep. With two variants, there are 400 cells.
const LOSSES: usize = 20;
const QUEUES: usize = 10;
const VARIANTS: [&str; 2] = ["SACK", "Other"];
const CELLS: usize = LOSSES * QUEUES * VARIANTS.len();

/// The fixture's scenario over the whole sweep, without published numbers.
fn scenario() -> String {
    let own = SCENARIO.split("[[published]]").next().unwrap();
    let names = |count: usize, name: &dyn Fn(usize) -> String| {
        let names: Vec<String> = (0..count).map(|index| format!("\"{}\"", name(index))).collect();
        names.join(", ")
    };
    let mut sweep = String::new();
    write!(sweep, "loss = [{}]\nqueue = [{}]", names(LOSSES, &loss), names(QUEUES, &queue)).unwrap();
    own.replace("loss = [\"0\", \"0.1%\", \"1%\"]", &sweep)
        .replace("queue = \"50pkts\"", "queue = \"$queue\"")
        .replace(", \"srtt_p50_us\"", ", \"lost_pkts\"")
}

fn loss(index: usize) -> String {
    format!("{}%", index + 1)
}

fn queue(index: usize) -> String {
    format!("{}pkts", 10 * (index + 1))
}

/// The run with a number. Runs go through all cells, then again.
fn numbered(number: usize) -> RunRecord {
    let (repeat, cell) = (number / CELLS, number % CELLS);
    let (variant, place) = (VARIANTS[cell % 2], cell / 2);
    let (loss, queue) = (loss(place % LOSSES), queue(place / LOSSES));
    let delivered = 5000 + 100 * cell as u64 + (number as u64 * 7919) % 1000;
    let mut record = run(&loss, variant, repeat as u32, delivered);
    record.id = format!("r{repeat:04}-c{cell:03}");
    record.at.insert("queue".to_owned(), queue);
    record
}

/// Writes the runs evenly into directories. All share the events of the first run.
fn write_all(place: &Path, runs: usize, directories: usize) {
    let (scenario, events) = (scenario(), place.join("events.jsonl"));
    for index in 0..directories {
        let directory = Directory::new(&place.join(format!("part{index:05}")), &scenario);
        for number in (index..runs).step_by(directories) {
            let record = numbered(number);
            if !events.exists() {
                directory.add(&record);
                fs::rename(directory.folder(&record.id).join("events.jsonl"), &events).unwrap();
            }
            let folder = directory.folder(&record.id);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("run.json"), serde_json::to_vec(&record).unwrap()).unwrap();
            symlink(&events, folder.join("events.jsonl")).unwrap();
        }
    }
}

fn measure(runs: usize, directories: usize) {
    let place = tempfile::tempdir().unwrap();
    write_all(place.path(), runs, directories);
    let program = std::env::var("TCCC_REPORT_PROGRAM").unwrap_or(TCCC.to_owned());
    for format in ["json", "html"] {
        let out = place.path().join(format!("report.{format}"));
        let begin = Instant::now();
        let status = Command::new(&program).arg("report").arg(place.path()).arg("--out").arg(&out).status().unwrap();
        let took = begin.elapsed().as_secs_f64();
        assert!(status.success());
        let bytes = fs::metadata(&out).unwrap().len();
        // The maximum over all child processes so far, so the smaller measurement comes first.
        let most = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() / 1024;
        println!("{runs} runs in {directories} directories as {format}: {took:.1} s, {most} MiB, {bytes} bytes");
    }
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench report`"]
fn report_of_many_directories() {
    measure(4_000, 4_000);
    measure(100_000, 10_000);
}
