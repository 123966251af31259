//! Words by interval and margin, and how often they are wrong.

use super::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use shared::model::stats::samples::normal;

fn at_most(most: f64, negligible: Option<f64>) -> MarginSpec {
    let why = "a test".to_owned();
    MarginSpec { metric: "lost_pkts".to_owned(), at_most: Some(most), at_least: None, negligible, why }
}

fn figures(values: Vec<f64>) -> CellFigures {
    let values = values.into_iter().map(Some).collect();
    CellFigures { metric: "lost_pkts".to_owned(), at: At::new(), values }
}

/// Without the measurement, whose intervals take long to compute.
fn judged(own: Vec<f64>, other: Vec<f64>, margin: &MarginSpec) -> JudgedCell {
    let pairs = figures(own).pairs(&figures(other));
    let beside = of_pairs("reno", &pairs, margin);
    JudgedCell {
        question: String::new(),
        metric: String::new(),
        of: String::new(),
        unit: String::new(),
        at: At::new(),
        margin: margin.clone(),
        allowed: 1.25,
        measured: None,
        word: beside.word,
        is_worse_twice: of_pairs("reno", &pairs, &twice(margin)).word == Word::Worse,
        beside: vec![beside],
    }
}

fn at_least(least: f64) -> MarginSpec {
    MarginSpec { at_most: None, at_least: Some(least), ..at_most(1.0, None) }
}

fn word(own: &[f64], other: &[f64], margin: &MarginSpec) -> Word {
    judged(own.to_vec(), other.to_vec(), margin).word
}

#[test]
fn words_follow_from_the_interval_and_the_margin() {
    let base = [10.0, 11.0, 9.0, 10.5, 9.5];
    let times = |factor: f64| base.map(|value| value * factor);
    let margin = at_most(1.25, None);
    assert_eq!(word(&times(1.0), &base, &margin), Word::NoWorse, "the same runs");
    assert_eq!(word(&times(1.2), &base, &margin), Word::NoWorse);
    assert_eq!(word(&times(1.3), &base, &margin), Word::Worse);
    assert_eq!(word(&times(0.9), &base, &margin), Word::Better);
    assert_eq!(word(&[9.0, 16.0, 12.0, 15.0, 10.0], &base, &margin), Word::CannotTell);
    assert_eq!(word(&base[..2], &base[..2], &margin), Word::CannotTell, "two runs have no interval");
    let more = at_least(0.8);
    assert_eq!(word(&times(0.7), &base, &more), Word::Worse);
    assert_eq!(word(&times(0.85), &base, &more), Word::NoWorse);
    assert_eq!(word(&times(1.1), &base, &more), Word::Better);
}

#[test]
fn twice_as_bad_is_twice_what_is_allowed() {
    let base = [10.0, 11.0, 9.0, 10.5, 9.5];
    let is_twice = |factor: f64, margin: &MarginSpec| {
        judged(base.map(|value| value * factor).to_vec(), base.to_vec(), margin).is_worse_twice
    };
    assert!(is_twice(2.6, &at_most(1.25, None)) && !is_twice(2.4, &at_most(1.25, None)));
    assert!(is_twice(0.3, &at_least(0.8)) && !is_twice(0.5, &at_least(0.8)));
    assert!(!is_twice(9.0, &at_most(1.25, Some(60.0))), "what is negligible counts twice too");
}

#[test]
fn what_is_negligible_is_no_worse_even_beside_nothing() {
    let (none, few, many) = ([0.0; 4], [0.5, 1.0, 0.0, 1.0], [9.0, 11.0, 10.0, 10.0]);
    assert_eq!(word(&few, &none, &at_most(1.25, Some(2.0))), Word::NoWorse);
    assert_eq!(word(&many, &none, &at_most(1.25, Some(2.0))), Word::Worse);
    assert_eq!(word(&none, &none, &at_most(1.25, None)), Word::NoWorse);
    let cell = judged(many.to_vec(), none.to_vec(), &at_most(1.25, None));
    assert_eq!((cell.word, cell.beside[0].ratio), (Word::Worse, None));
}

#[test]
fn runs_are_paired_by_their_number() {
    let own = CellFigures { values: vec![Some(1.0), None, Some(3.0), Some(4.0)], ..figures(Vec::new()) };
    assert_eq!(own.pairs(&figures(vec![10.0, 20.0, 30.0])), [(1.0, 10.0), (3.0, 30.0)]);
}

#[test]
fn a_cell_is_worse_only_beside_all_baselines() {
    use Word::{Better, CannotTell, NoWorse, NotMeasured, Worse};
    let together = |words: &[Word]| together(words.iter().copied());
    assert_eq!(together(&[Worse, Worse]), Worse);
    assert_eq!(together(&[Worse, NoWorse]), NoWorse);
    assert_eq!(together(&[Worse, CannotTell]), CannotTell);
    assert_eq!(together(&[Better, NoWorse]), NoWorse);
    assert_eq!(together(&[Better, Better]), Better);
    assert_eq!(together(&[NotMeasured, NotMeasured]), NotMeasured);
    assert_eq!(together(&[]), NotMeasured);
}

#[test]
fn baseline_without_runs_does_not_count() {
    let of = |values: &[f64]| QuestionFigures { cells: vec![figures(values.to_vec())], ..QuestionFigures::default() };
    let own = of(&[20.0, 21.0, 19.0, 20.0]);
    let others = [("reno".to_owned(), Some(of(&[10.0, 10.5, 9.5, 10.0]))), ("cubic".to_owned(), None)];
    let margins = [at_most(1.25, None)];
    let judged = cells(Figures { question: "e", of: "", own: &own, others: &others }, &margins);
    let [cell] = &judged[..] else { panic!("{judged:?}") };
    assert_eq!((cell.word, cell.mildest().map(|beside| beside.baseline.as_str())), (Word::Worse, Some("reno")));
    let nothing = cells(Figures { question: "e", of: "", own: &own, others: &others[1..] }, &margins);
    assert_eq!((nothing[0].word, nothing[0].mildest()), (Word::NotMeasured, None));
}

/// One evaluation: the worst of the cells of each criterion, decided by fresh runs. Each run scatters by 15 %, and half of
/// that is common to runs of a seed.
fn evaluated(uniform: &mut Pcg64Mcg, harm: f64) -> Word {
    const CRITERIA: usize = 25;
    const CELLS: usize = 6;
    const RUNS: [usize; 2] = [10, 20];
    let margin = at_most(1.25, None);
    let mut cell = |harm: f64, runs: usize| {
        let runs: Vec<(f64, f64)> = (0..runs)
            .map(|_| {
                let [common, own, other] = [0; 3].map(|_| normal(|| uniform.next_u32()));
                (harm * (1.0 + 0.1 * common + 0.1 * own), 1.0 + 0.1 * common + 0.1 * other)
            })
            .collect();
        let (own, other): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        judged(own, other, &margin)
    };
    let mut found = Word::NoWorse;
    for criterion in 0..CRITERIA {
        // Harm, if there is any, is in one cell of one criterion.
        let is_harmed = |index: usize| criterion == 3 && index == 5;
        let cells: Vec<JudgedCell> =
            (0..CELLS).map(|index| cell(if is_harmed(index) { harm } else { 1.0 }, RUNS[0])).collect();
        let worst = worst(&cells).unwrap();
        let index = cells.iter().position(|cell| std::ptr::eq(cell, worst)).unwrap();
        let again = cell(if is_harmed(index) { harm } else { 1.0 }, RUNS[1]);
        found = found.min(again.word);
    }
    found
}

#[test]
fn equal_algorithms_are_seldom_called_worse_and_harm_is_nearly_always_found() {
    const EVALUATIONS: usize = 200;
    let mut uniform = Pcg64Mcg::seed_from_u64(1);
    let worse = |uniform: &mut Pcg64Mcg, harm: f64| {
        (0..EVALUATIONS).filter(|_| evaluated(uniform, harm) == Word::Worse).count() as f64 / EVALUATIONS as f64
    };
    let (false_alarms, found) = (worse(&mut uniform, 1.0), worse(&mut uniform, 1.5));
    assert!(false_alarms <= 0.05, "{false_alarms} of equal algorithms are called worse");
    assert!(found >= 0.95, "{found} of harmful algorithms are found");
}

#[test]
fn many_cells_are_corrected_for_their_number() {
    let mut uniform = Pcg64Mcg::seed_from_u64(5);
    let margin = at_most(1.0, None);
    let mut runs = || -> Vec<f64> { (0..5).map(|_| 10.0 + normal(|| uniform.next_u32())).collect() };
    let cells: Vec<JudgedCell> = (0..400).map(|_| judged(runs(), runs(), &margin)).collect();
    let single = cells.iter().filter(|cell| cell.word == Word::Worse).count();
    assert!(single >= 3, "{single} of 400 equal cells are beyond their own interval");
    assert_eq!(worse_among(&cells).len(), 0);
}
