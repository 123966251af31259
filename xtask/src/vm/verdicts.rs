//! The results of the tests under each kernel, and their table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::count::{LibtestReader, TestCount};
use crate::made;

/// The results of one kernel's tests.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Version of Debian's package, for example `6.1.176-1`.
    pub version: String,
    pub count: TestCount,
    /// Whether each algorithm passed each situation.
    sound: BTreeMap<String, BTreeMap<String, bool>>,
    /// Features in test order, with the kernel's support.
    features: Vec<(String, String)>,
}

impl Verdicts {
    /// Reads the output of a job of [`super::matrix`]. The last attempt of a situation counts.
    pub fn read(output: &str) -> Self {
        let (mut reader, mut verdicts, mut skips) = (LibtestReader::default(), Verdicts::default(), String::new());
        for line in output.lines() {
            reader.read_line(line);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["kernel:", .., "Debian", version, _] => verdicts.version = (*version).to_owned(),
                ["verdict:", situation, algorithm, verdict] => {
                    let of_algorithm = verdicts.sound.entry((*algorithm).to_owned()).or_default();
                    of_algorithm.insert((*situation).to_owned(), *verdict == "sound");
                }
                // `feature: NAME: SUPPORT` of tests/common/verdict.rs.
                ["feature:", ..] => {
                    let feature = line["feature: ".len()..].split_once(": ");
                    verdicts.features.extend(feature.map(|(name, support)| (name.to_owned(), support.to_owned())));
                }
                ["skipped:", ..] => skips += &format!("{line}\n"),
                _ => (),
            }
        }
        verdicts.count = reader.finish();
        verdicts.count.correct_by_skip_log(&skips);
        verdicts
    }

    /// The results of a kernel whose tests did not finish.
    pub fn of_failure(version: String, why: String) -> Self {
        let mut count = TestCount::default();
        count.fail(why);
        Verdicts { version, count, ..Verdicts::default() }
    }

    /// How many algorithms passed all situations, and the names of the others.
    fn algorithms(&self) -> String {
        if self.sound.is_empty() {
            return "not run".to_owned();
        }
        let is_sound = |situations: &BTreeMap<String, bool>| situations.values().all(|&sound| sound);
        let failed: Vec<&str> =
            self.sound.iter().filter(|(_, it)| !is_sound(it)).map(|(algorithm, _)| algorithm.as_str()).collect();
        let names = if failed.is_empty() { String::new() } else { format!(", not {}", failed.join(", ")) };
        format!("{} of {}{names}", self.sound.len() - failed.len(), self.sound.len())
    }

    fn feature(&self, name: &str) -> &str {
        self.features.iter().find(|(other, _)| other == name).map_or("no", |(_, words)| words)
    }
}

/// A Markdown table with a row per feature and a column per kernel; below it the tests and the reasons of skips.
pub fn table(modules: &[&str], columns: &[Verdicts]) -> String {
    let mut features: Vec<&String> = Vec::new();
    for (name, _) in columns.iter().flat_map(|column| &column.features) {
        if !features.contains(&name) {
            features.push(name);
        }
    }
    let row = |name: &str, cell: &dyn Fn(&Verdicts) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        format!("{name} | {}", cells.join(" | "))
    };
    let mut rows = vec![row("algorithms", &Verdicts::algorithms)];
    rows.extend(features.iter().map(|name| row(name, &|column| column.feature(name).to_owned())));
    rows.push(row("all tests", &|column| {
        let TestCount { passed, failed, skipped, .. } = column.count;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }));
    let mut text = made::table(&row("feature", &|column| column.version.clone()), rows);
    let situations: BTreeSet<&String> =
        columns.iter().flat_map(|column| column.sound.values()).flat_map(BTreeMap::keys).collect();
    let situations: Vec<String> =
        situations.iter().map(|situation| situation.trim_start_matches("every_algorithm_").replace('_', " ")).collect();
    let _ = writeln!(text, "\nChecks that each algorithm must pass: {}.", situations.join("; "));
    let _ = writeln!(text, "\nTests of `{}`.", modules.join("`, `"));
    for column in columns {
        for (reason, times) in &column.count.reasons {
            let _ = writeln!(text, "\nSkipped on {}, {times}: {reason}.", column.version);
        }
        for name in &column.count.failures {
            let _ = writeln!(text, "\nFailed on {}: `{name}`.", column.version);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "kernel: #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-07-02)\n\
        running 3 tests\ntest a ... ok\ntest b ... FAILED\ntest c ... ok\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
        verdict: verifier dtcp sound\nverdict: every_algorithm_waits dtcp failed\nverdict: verifier reno2 sound\n\
        feature: policy by unit: yes\nfeature: upgrade: with a gap\nskipped: x::c: needs tun: not here\n";

    #[test]
    fn table_shows_every_feature_on_every_kernel() {
        let text = table(
            &["kernel::a"],
            &[Verdicts::read(OUTPUT), Verdicts { version: "7.3.4-1".into(), ..Verdicts::default() }],
        );
        let expected = "| feature | 6.1.176-1 | 7.3.4-1 |\n| --- | --- | --- |\n\
            | algorithms | 1 of 2, not dtcp | not run |\n| policy by unit | yes | no |\n| upgrade | with a gap | no |\n\
            | all tests | 1 passed, 1 failed, 1 skipped | 0 passed, 0 failed, 0 skipped |\n\
            \nChecks that each algorithm must pass: waits; verifier.\n\
            \nTests of `kernel::a`.\n\
            \nSkipped on 6.1.176-1, 1: needs tun: not here.\n\nFailed on 6.1.176-1: `b`.\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn last_attempt_counts() {
        let output = "verdict: verifier dtcp failed\nverdict: verifier dtcp sound\n";
        assert_eq!(Verdicts::read(output).algorithms(), "1 of 1");
    }
}
