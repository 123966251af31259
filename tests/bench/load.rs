//! Benchmark: wall time of `tccc load` and `tccc unload` as whole processes.
//!
//! `cargo xtask bench load` builds with optimisation and prints the results. Load must take less than 50 ms.

use super::*;

const ROUNDS: usize = 20;
const REQUIREMENT_MS: f64 = 50.0;
const NAME: &str = "ldk_bench";

#[test]
#[ignore = "a benchmark: `cargo xtask bench load`"]
fn load_and_unload_take_milliseconds() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let rounds = (0..ROUNDS).map(|_| (timed(&["load", "dtcp", "--as", NAME]), timed(&["unload", NAME])));
    let (load_ms, unload_ms): (Vec<f64>, Vec<f64>) = rounds.unzip();
    println!("verb             n  median ms  p95 ms  max ms");
    show("load", &load_ms);
    show("unload", &unload_ms);
    let verdict = if median(&load_ms).unwrap() < REQUIREMENT_MS { "holds" } else { "does not hold" };
    println!("load under {REQUIREMENT_MS} ms: {verdict} (median of {ROUNDS} processes, start and exit included)");
}

/// Milliseconds of one run of the program.
fn timed(arguments: &[&str]) -> f64 {
    let start = Instant::now();
    check(0, tccc().args(arguments).stdin(Stdio::null()));
    start.elapsed().as_secs_f64() * 1e3
}

fn show(verb: &str, times_ms: &[f64]) {
    let [middle, high, max] = [0.5, 0.95, 1.0].map(|share| percentile(times_ms, share).unwrap());
    println!("{verb:14} {:3}  {middle:9.1}  {high:6.1}  {max:6.1}", times_ms.len());
}
