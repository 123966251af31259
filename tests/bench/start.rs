//! Benchmark: duration of a 10 MB transfer with slow start, Swift Start and Modified Swift Start.
//!
//! `cargo xtask bench start` prints the results. The link is Khalil's OC-1 in user space with a queue that never drops, as
//! in his tables. The algorithms take turns.

use super::*;
use crate::lab::pair::{OC1, PairPath, registered};

const BYTES: usize = 10_000_000;
const ROUNDS: usize = 5;

#[test]
#[ignore = "a benchmark: `cargo xtask bench start`"]
fn ten_megabytes_by_three_ways_to_start() {
    needs!(root, struct_ops, tun, cgroup2);
    let swift = registered("swift", "startb_swift", &[]);
    let mswift = registered("mswift", "startb_mswift", &[]);
    let algorithms = ["reno", swift.name(), mswift.name()];
    println!("10 MB at 51.84 Mbit/s, seconds until the last byte is read (n = {ROUNDS}, taking turns)");
    println!("RTT ms  algorithm       median   lowest  highest  saved against slow start");
    for rtt_ms in [75, 100, 300] {
        let mut times: [Vec<f64>; 3] = Default::default();
        for round in 0..ROUNDS {
            for turn in 0..algorithms.len() {
                let which = (round + turn) % algorithms.len();
                let lab = PairPath::new(OC1, Duration::from_millis(rtt_ms));
                times[which].push(lab.time(algorithms[which], BYTES));
            }
        }
        let medians = times.each_ref().map(|times| median(times).unwrap());
        for (which, algorithm) in algorithms.iter().enumerate() {
            let low = times[which].iter().copied().fold(f64::INFINITY, f64::min);
            let high = times[which].iter().copied().fold(0.0, f64::max);
            let saved = medians[0] - medians[which];
            let middle = medians[which];
            println!("{rtt_ms:6}  {algorithm:14} {middle:7.3}  {low:7.3}  {high:7.3}  {saved:+.3}");
        }
    }
}
