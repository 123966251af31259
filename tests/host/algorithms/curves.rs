//! The window of every algorithm over every path, a line a round: one snapshot an algorithm.

use std::fmt::Write;

use tccc::author::ring::path::SimulatedPath;
use tccc::author::ring::sender::SimulatedSender;
use tccc::catalog;

use crate::algorithms::native::{self, Native};
use crate::algorithms::path;

/// Width of the widest bar.
const BAR: u32 = 60;
const STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

fn curve(native: &Native, path: SimulatedPath) -> String {
    let layout = &catalog::find(&native.id).unwrap().layout;
    let name = path.name;
    let mut rounds = Vec::new();
    SimulatedSender::new(native.socket(0), path).run(|round, socket| {
        let phase = layout.phase_name(&socket.private()).unwrap_or("?").to_owned();
        rounds.push((round.clone(), phase));
    });
    let widest = rounds.iter().map(|(round, _)| round.cwnd).max().unwrap();
    let mut text = format!("{name}\nround    ms  cwnd  ssthresh  state     phase\n");
    for (number, (round, phase)) in rounds.iter().enumerate() {
        let ms = (round.now_us - 1_000_000) / 1000;
        let ssthresh = round.ssthresh.map_or("-".to_owned(), |ssthresh| ssthresh.to_string());
        let state = STATES[round.ca_state as usize];
        let bar = "#".repeat((round.cwnd * BAR).div_ceil(widest) as usize);
        let number = number + 1;
        writeln!(text, "{number:5} {ms:5} {:5}  {ssthresh:>8}  {state:8}  {phase:10}  {bar}", round.cwnd).unwrap();
    }
    text
}

#[test]
fn every_algorithm_follows_its_recorded_curves() {
    for native in native::every() {
        let curves: Vec<String> = path::all().into_iter().map(|path| curve(native, path)).collect();
        insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("host__{}", native.id), curves.join("\n"));
        });
    }
}
