//! What the tests said under one kernel, and the table over several.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::count::{Count, LibtestReader};

/// Everything that one kernel's tests said.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The version of Debian's package, for example `6.1.176-1`.
    pub version: String,
    /// Passed, failed, skipped.
    pub count: Count,
    /// Algorithm, then situation, to whether it stood that.
    sound: BTreeMap<String, BTreeMap<String, bool>>,
}

impl Verdicts {
    /// Reads the output of a job of [`super::matrix`].
    ///
    /// A situation that was tried more than once counts as it ended last.
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
                ["skipped:", ..] => skips += &format!("{line}\n"),
                _ => (),
            }
        }
        verdicts.count = reader.finish();
        verdicts.count.correct_by_skip_log(&skips);
        verdicts
    }

    /// A kernel whose tests did not come to their end.
    pub fn of_failure(version: String, why: String) -> Self {
        let mut count = Count::default();
        count.fail(why);
        Verdicts { version, count, ..Verdicts::default() }
    }

    fn cell(&self, algorithm: &str) -> String {
        let Some(situations) = self.sound.get(algorithm) else { return "not run".into() };
        let sound = situations.values().filter(|sound| **sound).count();
        let failed: Vec<&str> =
            situations.iter().filter(|(_, sound)| !**sound).map(|(situation, _)| situation.as_str()).collect();
        let names = if failed.is_empty() { String::new() } else { format!(", not {}", failed.join(", ")) };
        format!("{sound} of {}{names}", situations.len())
    }
}

/// The table in Markdown: a row an algorithm, a column a kernel; below it the tests and why some were skipped.
pub fn table(files: &[&str], columns: &[Verdicts]) -> String {
    let algorithms: BTreeSet<&String> = columns.iter().flat_map(|column| column.sound.keys()).collect();
    let row = |name: &str, cell: &dyn Fn(&Verdicts) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let mut text = row("algorithm", &|column| column.version.clone());
    text += &format!("| --- |{}\n", " --- |".repeat(columns.len()));
    for algorithm in algorithms {
        text += &row(&format!("`{algorithm}`"), &|column| column.cell(algorithm));
    }
    text += &row("all tests", &|column| {
        let Count { passed, failed, skipped, .. } = column.count;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    });
    let situations: BTreeSet<&String> =
        columns.iter().flat_map(|column| column.sound.values()).flat_map(BTreeMap::keys).collect();
    let situations: Vec<String> =
        situations.iter().map(|situation| situation.trim_start_matches("every_algorithm_").replace('_', " ")).collect();
    let _ = writeln!(text, "\nWhat each goes through: {}.", situations.join("; "));
    let _ = writeln!(text, "\nTests of `{}`.", files.join("`, `"));
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
        skipped: x::c: needs tun: not here\n";

    #[test]
    fn table_shows_every_algorithm_on_every_kernel() {
        let text = table(
            &["kernel_a"],
            &[Verdicts::read(OUTPUT), Verdicts { version: "7.3.4-1".into(), ..Verdicts::default() }],
        );
        let expected = "| algorithm | 6.1.176-1 | 7.3.4-1 |\n| --- | --- | --- |\n\
            | `dtcp` | 1 of 2, not every_algorithm_waits | not run |\n| `reno2` | 1 of 1 | not run |\n\
            | all tests | 1 passed, 1 failed, 1 skipped | 0 passed, 0 failed, 0 skipped |\n\
            \nWhat each goes through: waits; verifier.\n\
            \nTests of `kernel_a`.\n\
            \nSkipped on 6.1.176-1, 1: needs tun: not here.\n\nFailed on 6.1.176-1: `b`.\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn last_attempt_counts() {
        let output = "verdict: verifier dtcp failed\nverdict: verifier dtcp sound\n";
        assert_eq!(Verdicts::read(output).cell("dtcp"), "1 of 1");
    }
}
