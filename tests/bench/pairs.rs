//! Two quantities measured in turn, and their ratio.

use super::*;

/// Measures pairs. The order alternates from pair to pair, so that a drift of the machine cancels.
pub fn alternating(count: usize, one: impl Fn() -> f64, other: impl Fn() -> f64) -> impl Iterator<Item = (f64, f64)> {
    (0..count).map(move |index| {
        if index.is_multiple_of(2) {
            let first = one();
            return (first, other());
        }
        let second = other();
        (one(), second)
    })
}

/// Prints the mean ratio of the pairs and returns its 95 % interval.
pub fn show_ratio(what: &str, pairs: &[(f64, f64)]) -> [f64; 2] {
    let ratio = paired_ratio(pairs).unwrap();
    let [low, high] = ratio.ci95.unwrap();
    let n = pairs.len();
    println!("{what}: {:.4} (95 % interval {low:.4} to {high:.4}, n = {n} pairs)", ratio.ratio);
    [low, high]
}

/// The verdict on a lower limit for a value with this interval.
pub fn at_least(limit: f64, [low, high]: [f64; 2]) -> &'static str {
    match limit {
        _ if low >= limit => "holds",
        _ if high < limit => "does not hold",
        _ => "not decided: it lies inside the interval; more pairs or a quieter machine would decide",
    }
}
