//! Losses of every model.

use std::ops::Range;

use super::*;
use crate::path::change::DirectionChange;
use crate::path::loss::{LossModel, LossText};

const PACKETS: u64 = 400_000;
/// Half the width of an interval in standard deviations: seeds are fixed, so a test that passes once always does.
const WIDTH: f64 = 3.5;

fn model(text: &str) -> LossModel {
    match text.parse().unwrap() {
        LossText::Model(model) => model,
        LossText::File(file) => panic!("a file: {file}"),
    }
}

fn losing(text: &str, seed: u64) -> TestLink {
    TestLink::new(&Direction { loss: model(text), seed, ..Direction::default() })
}

/// Which of the packets are lost that arrive at these nanoseconds.
fn lost(link: &mut TestLink, arrivals: Range<u64>) -> Vec<bool> {
    arrivals.map(|at| link.admit(at, 40) == PacketVerdict::Lost).collect()
}

fn pattern(text: &str, seed: u64, packets: u64) -> Vec<bool> {
    lost(&mut losing(text, seed), 0..packets)
}

/// Lengths of the runs of losses.
fn runs(pattern: &[bool]) -> Vec<f64> {
    pattern.chunk_by(|a, b| a == b).filter(|run| run[0]).map(|run| run.len() as f64).collect()
}

fn assert_within(what: &str, measured: f64, expected: f64, deviation: f64) {
    let distance = (measured - expected) / deviation;
    assert!(distance.abs() < WIDTH, "{what}: {measured} for {expected}, {distance:.2} standard deviations away");
}

#[test]
fn every_model_loses_as_many_as_expected() {
    let models = [
        "1%",
        "30%",
        "gilbert:p=1%",
        "gilbert:p=0.5%,r=25%",
        "gilbert:p=2%,r=10%,1-h=70%,1-k=0.5%",
        "gilbert:p=90%,r=80%,1-h=60%,1-k=10%",
        "bursts:loss=1%,mean=4",
        "bursts:loss=20%,mean=50",
    ];
    for (text, seed) in models.iter().flat_map(|text| (1..=5).map(move |seed| (text, seed))) {
        let lost = pattern(text, seed, PACKETS).iter().filter(|lost| **lost).count() as f64;
        let expected = model(text).expected(PACKETS);
        assert_within(&format!("{text} with seed {seed}"), lost, expected.mean, expected.variance.sqrt());
    }
}

/// Geometric: mean 1/r, standard deviation sqrt(1-r)/r.
#[test]
fn runs_of_losses_have_their_mean_and_their_distribution() {
    for (text, mean) in [("bursts:loss=2%,mean=4", 4.0), ("gilbert:p=1%,r=12.5%", 8.0), ("2%", 1.0 / 0.98)] {
        let runs = runs(&pattern(text, 3, PACKETS));
        let (count, end) = (runs.len() as f64, 1.0 / mean);
        let measured = runs.iter().sum::<f64>() / count;
        assert_within(text, measured, mean, (1.0 - end).sqrt() / end / count.sqrt());
        for length in 1..=3 {
            let share: f64 = (1.0 - end).powi(length - 1) * end;
            let of_length = runs.iter().filter(|run| **run == f64::from(length)).count() as f64;
            let deviation = (count * share * (1.0 - share)).sqrt();
            assert_within(&format!("{text}, runs of {length}"), of_length, count * share, deviation);
        }
    }
}

/// The chance of a loss after a loss tells models of one loss share apart.
#[test]
fn loss_after_a_loss_is_as_likely_as_the_states_say() {
    let after_loss = |text| {
        let pattern = pattern(text, 9, PACKETS);
        let pairs = pattern.windows(2).filter(|pair| pair[0]);
        let (both, all) = pairs.fold((0.0, 0.0), |(both, all), pair| (both + f64::from(pair[1]), all + 1.0));
        (both / all, all)
    };
    // Independent: the loss itself. Simple Gilbert: the state stays with 1-r.
    for (text, expected) in [("10%", 0.1), ("gilbert:p=2%,r=18%", 0.82)] {
        let (share, of) = after_loss(text);
        assert_within(text, share, expected, (expected * (1.0 - expected) / of).sqrt());
    }
}

/// Published results are repeated with their seeds.
#[test]
fn seed_determines_the_lost_packets() {
    let lost = |text| {
        let pattern = pattern(text, 1, 1_000);
        (1..).zip(&pattern).filter(|(_, lost)| **lost).map(|(packet, _)| packet).collect::<Vec<u64>>()
    };
    assert_ne!(pattern("1%", 1, 1_000), pattern("1%", 2, 1_000));
    assert_eq!(lost("1%"), [159, 221, 224, 246, 300, 405, 445, 593, 829, 841]);
    let bursts = [212, 213, 214, 215, 216, 217, 429, 430, 431, 485, 486, 487, 534, 535, 536, 537];
    assert_eq!(lost("bursts:loss=1%,mean=4"), bursts);
    let states = [212, 246, 286, 287, 429, 430, 431, 454, 485, 486, 487, 497, 534, 535, 536, 908, 909];
    assert_eq!(lost("gilbert:p=1%,r=50%,1-h=80%,1-k=0.1%"), states);
}

#[test]
fn given_positions_are_lost_and_no_others() {
    let lost = |text| pattern(text, 1, 10).iter().map(|lost| u8::from(*lost)).collect::<Vec<_>>();
    assert_eq!(lost("positions:1,4,5,99"), [1, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn model_that_changes_goes_on_with_the_numbers_and_the_count() {
    let change = |at, loss| DirectionChange {
        at: Duration::from_nanos(at),
        loss: Some(model(loss)),
        ..DirectionChange::default()
    };
    let changes = vec![change(500, "5%"), change(1_000, "positions:3,1002")];
    let mut link = TestLink::new(&Direction { changes, seed: 5, ..Direction::default() });
    link.link.start(0);
    let changed = lost(&mut link, 0..1_003);
    assert!(changed[..500].iter().all(|lost| !lost));
    assert_eq!(changed[500..1_000], pattern("5%", 5, 1_000)[500..]);
    assert_eq!(changed[1_000..], [false, true, false]);
}

#[test]
fn runs_and_positions_are_counted_from_the_last_restart() {
    let mut link = losing("positions:1,2,4,7,8", 1);
    let counted = |link: &TestLink| {
        let counters = link.link.counters();
        (counters.lost_pkts, counters.loss_runs, counters.lost_positions)
    };
    lost(&mut link, 0..5);
    assert_eq!(counted(&link), (3, Some(2), vec![1, 2, 4]));
    link.link.restart_counters();
    lost(&mut link, 5..10);
    assert_eq!(counted(&link), (2, Some(1), vec![7, 8]));
}

#[test]
fn positions_of_the_first_thousand_losses_are_kept() {
    let mut link = losing("100%", 1);
    lost(&mut link, 0..5_000);
    let counters = link.link.counters();
    assert_eq!((counters.lost_pkts, counters.loss_runs), (5_000, Some(1)));
    assert!(counters.lost_positions.into_iter().eq(1..=1_000));
}
