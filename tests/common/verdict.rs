//! Logs what each algorithm and each feature did, for `cargo xtask vm-matrix`, which collects it over several kernels.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Appends `verdict: SITUATION ALGORITHM sound|failed` to the file named in `TCCC_VERDICT_LOG`, if there is one.
pub fn record(situation: &str, algorithm: &str, is_sound: bool) {
    let word = if is_sound { "sound" } else { "failed" };
    append(&format!("verdict: {situation} {algorithm} {word}\n"));
}

/// Appends `feature: NAME: WORDS` to the same file. `words` say how far this kernel supports the feature.
pub fn record_feature(name: &str, words: &str) {
    append(&format!("feature: {name}: {words}\n"));
}

fn append(line: &str) {
    let Some(log) = std::env::var_os("TCCC_VERDICT_LOG") else { return };
    let mut log = OpenOptions::new().create(true).append(true).open(log).expect("the log can be opened");
    // One write per line, because several threads append.
    log.write_all(line.as_bytes()).expect("the log can be written");
}
