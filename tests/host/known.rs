//! Results of the literature in `scenarios/known`: what each file must have, and some of them measured.

use std::fs;
use std::path::PathBuf;

use tccc::model::run::Engine;
use tccc::scenario::Scenario;

use crate::common::{CommandOutput, check, needs, tccc};
use crate::compile::in_tree;

/// Results that together take some seconds of processor time.
const CHEAP: [&str; 8] = [
    "ack-path",
    "initial-window",
    "newreno-recovery",
    "outage-backoff",
    "reno-periodic-loss",
    "slow-start-overshoot",
    "vegas-queue",
    "window-limit",
];

/// Paths of the folder's files with this extension.
fn files(extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(in_tree("scenarios/known")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == extension)).collect()
}

#[test]
fn every_result_of_the_literature_has_source_numbers_and_reasons() {
    let files = files("toml");
    assert!(files.len() >= 25, "{} results", files.len());
    for file in files {
        let place = file.display();
        let scenario = Scenario::load(&file, Engine::Virtual).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        assert!(scenario.source.is_some(), "{place}: no [source]");
        assert!(!scenario.expected.is_empty(), "{place}: no [[expected]]");
        let text = fs::read_to_string(&file).unwrap();
        let (comment, _) = text.split_once("title =").unwrap();
        for part in ["#   ", "\n# Path: ", "\n# Tolerance: "] {
            assert!(comment.contains(part), "{place}: its comment has no {part:?}");
        }
    }
}

#[test]
fn traces_of_periodic_losses_lose_every_nth_packet() {
    for file in files("txt") {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(distance) = stem.strip_prefix("every-") else { continue };
        let distance: u64 = distance.parse().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let lost: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(lost.len() >= 100 && lost.iter().zip(1..).all(|(packet, n)| *packet == n * distance), "{stem}");
    }
}

/// Runs scenarios of a folder in virtual time, and returns the report that checks them.
fn checked(folder: &str, names: &[&str], options: &str) -> CommandOutput {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let files = names.iter().map(|name| in_tree(&format!("scenarios/{folder}/{name}.toml")));
    let mut run = tccc();
    run.args(["run", "--engine", "virtual"]).args(options.split_whitespace()).arg("--out").arg(&out).args(files);
    check(0, &mut run);
    check(0, tccc().args(["report", "--check"]).arg(&out))
}

#[test]
fn cheap_results_of_the_literature_are_within_their_ranges() {
    needs!(guest);
    checked("known", &CHEAP, "--kernel 6.12 --runs 3");
}

#[test]
fn cheap_results_of_the_literature_are_within_their_ranges_on_the_newer_kernel() {
    needs!(guest7);
    checked("known", &CHEAP, "--kernel 7.3 --runs 3");
}

/// Low latency beside CUBIC, and equal rates with different round trips. `prague-alone` has a value outside its range.
#[test]
fn prague_waits_a_millisecond_and_shares_the_link() {
    needs!(guest7);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let files = ["prague-l4s", "prague-rtt"].map(|name| in_tree(&format!("scenarios/known/{name}.toml")));
    check(0, tccc().args(["run", "--engine", "virtual", "--runs", "1", "--out"]).arg(&out).args(files));
    check(0, tccc().args(["report", "--check"]).arg(&out)).stdout_has("0 outside");
}

/// Test cases of BBRv3's draft that reach each phase and lose in a probe. All 22 take a minute of processor time:
/// `tccc run scenarios/bbr/*.toml --engine virtual --out DIR`, then `tccc report DIR --check`.
const CASES_OF_BBR: [&str; 8] = [
    "cruise-aggregation",
    "down-inflight",
    "drain-inflight",
    "probe-rtt-in-startup",
    "startup-plateau",
    "sub-packet-bdp",
    "up-loss",
    "up-plateau",
];

#[test]
fn bbr3_passes_test_cases_of_its_draft() {
    needs!(guest);
    checked("bbr", &CASES_OF_BBR, "--kernel 6.12").stdout_has("holds: ");
}

#[test]
fn bbr3_passes_test_cases_of_its_draft_on_the_newer_kernel() {
    needs!(guest, guest7);
    checked("bbr", &CASES_OF_BBR, "").stdout_has("holds: ");
}
