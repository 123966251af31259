//! Fuzzes each algorithm, guided by coverage: bytes become operations on a connection.
//!
//! The sanitizers of addresses and undefined behaviour are on, and window, threshold and phase are checked after every
//! callback. `cargo xtask fuzz` runs these tests.

use std::path::Path;

use crate::subject::Subject;
use tccc::author::fuzzer::{self, Crash, Fuzzed};

/// Time limit for finding the known defect on a busy host: it takes about 100,000 inputs, 5 s alone.
const DEFECT_SECONDS: u32 = 600;

/// Holds programs, corpora and crashing inputs.
fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/fuzz"))
}

#[test]
#[ignore = "run by `cargo xtask fuzz`: takes as long as it is asked to"]
fn no_input_breaks_an_algorithm() {
    let seconds = std::env::var("TCCC_FUZZ_SECONDS").map_or(2, |text| text.parse().expect("seconds are a number"));
    let mut crashes = Vec::new();
    println!("algorithm           inputs   edges");
    let look = |subject: &Subject| {
        fuzzer::fuzz(subject, folder(), seconds).expect("`cargo xtask setup --for fuzz` installs the fuzzer")
    };
    crate::subject::for_each(&crate::subject::chosen(), look, |subject, Fuzzed { runs, edges, crash }| {
        println!("{:16} {runs:9}  {edges:6}", subject.id);
        crashes.extend(crash.iter().map(|crash| format!("{}: {}", subject.id, told(crash))));
    });
    assert!(crashes.is_empty(), "found:\n  {}\n", crashes.join("\n  "));
}

fn told(Crash { input, program, why }: &Crash) -> String {
    format!("{why}\n    again: {} {}", program.display(), input.display())
}

#[test]
#[ignore = "run by `cargo xtask fuzz`"]
fn a_defect_behind_four_steps_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let Fuzzed { runs, crash, .. } =
        fuzzer::fuzz(&crate::subject::broken("deep_defect"), scratch.path(), DEFECT_SECONDS).unwrap();
    let crash = crash.unwrap_or_else(|| panic!("{runs} inputs did not find the division by zero"));
    println!("found after {runs} inputs: {}", crash.why);
    assert!(crash.why.contains("division by zero"), "found something else: {}", crash.why);
    assert!(crash.is_repeatable());
}
