//! What a reader must know beside a number: each notice has its cause and an advice, shown wherever the number is.

use serde::{Deserialize, Serialize};

use super::metrics::Metric;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Notice {
    /// What was found, with its numbers.
    pub cause: String,
    /// What it means for the reader or what to do about it.
    pub advice: String,
}

impl Notice {
    fn new(cause: impl Into<String>, advice: impl Into<String>) -> Self {
        Notice { cause: cause.into(), advice: advice.into() }
    }

    pub fn few_runs(n: usize) -> Self {
        let cause = match n {
            1 => "1 run only: no interval can be given".to_owned(),
            n => format!("{n} runs only: no interval can be given"),
        };
        Notice::new(cause, "repeat with --runs 5 or more")
    }

    pub fn not_measured() -> Self {
        Notice::new("no finished run of this cell", "`tccc run` on the same directory resumes it")
    }

    pub fn published_only() -> Self {
        Notice::new(
            "published only: the scenario does not measure this variant",
            "there is no algorithm of this name to run, or the scenario leaves it out",
        )
    }

    pub fn failed_runs(failed: usize, why: &str) -> Self {
        Notice::new(
            format!("{} failed and {} not part of the result: {why}", runs(failed), is_are(failed)),
            "`tccc run` on the same directory repeats them",
        )
    }

    pub fn late_runs(late: usize) -> Self {
        Notice::new(
            format!("{} had a late link or sender and {} not part of the result", runs(late), is_are(late)),
            "`tccc run` on the same directory with --jobs 1 repeats them",
        )
    }

    pub fn repeated_for_lateness(repeated: usize, attempts: u32) -> Self {
        let attempts = if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
        Notice::new(
            format!(
                "{} had to be repeated because an emulated link or a sender was late: {attempts} left out",
                runs(repeated)
            ),
            "fewer --jobs avoid the repeats",
        )
    }

    pub fn began_late(late: usize, more_than_s: f64) -> Self {
        Notice::new(
            format!(
                "in {} a flow began more than {more_than_s} s after its time: its connections are made over the path itself",
                runs(late)
            ),
            "each counts from its own first data, so they shared the path for less time; `sender = \"tccc\"` is on time",
        )
    }

    pub fn unpaired_runs(unpaired: usize) -> Self {
        Notice::new(
            format!("{} without a run of the baseline on the same seed: left out of the ratio", runs(unpaired)),
            "`tccc run` on the same directory completes the pairs",
        )
    }

    pub fn dropped_events(dropped: u64) -> Self {
        Notice::new(
            format!("{dropped} trace events were dropped: steps in the cwnd plot may be missing"),
            "counts of packets come from the same events and may be slightly low; fewer --jobs drop fewer",
        )
    }

    pub fn missing_events(run: &str) -> Self {
        Notice::new(
            format!("run \"{run}\" has no events.jsonl"),
            "its plot and the metrics over time leave it out; remove its folder, and `tccc run` repeats it",
        )
    }

    pub fn empty_events(run: &str) -> Self {
        Notice::new(
            format!("the events.jsonl of run \"{run}\" holds no event"),
            "its plot and the metrics over time leave it out; remove its folder, and `tccc run` repeats it",
        )
    }

    pub fn truncated_events(run: &str) -> Self {
        Notice::new(
            format!("the events of run \"{run}\" end in the middle of a line: read up to the last whole line"),
            "the run was interrupted or its disk was full; its plot may end early",
        )
    }

    pub fn unreadable_events(run: &str, lines: usize) -> Self {
        Notice::new(
            format!("{lines} unreadable lines in the events of run \"{run}\" were left out"),
            "the file was changed or written by another version; its plot may have gaps",
        )
    }

    pub fn unfinished_run(run: &str) -> Self {
        Notice::new(format!("run \"{run}\" was not finished"), "`tccc run` on the same directory resumes it")
    }

    pub fn emulator_failed(packets: u64) -> Self {
        Notice::new(
            format!("the emulator itself failed to carry {packets} packets, which is not a property of the path"),
            "repeat with fewer --jobs",
        )
    }

    pub fn cells_left_out(cells: usize) -> Self {
        let left_out = match cells {
            1 => "1 cell of the scenario has no finished run yet and is left out".to_owned(),
            _ => format!("{cells} cells of the scenario have no finished run yet and are left out"),
        };
        Notice::new(left_out, "`tccc run` on the same directory measures them")
    }

    pub fn busy_host(runs: usize, all: usize, most: f64) -> Self {
        Notice::new(
            format!(
                "others used up to {:.0} % of the processors in {runs} of {all} runs: flows may have sent less than the \
                 path carries",
                most * 100.0
            ),
            "run it on a quiet host, with `--jobs 1`, or in virtual time",
        )
    }

    pub fn metric_undefined(metric: &Metric, cells: usize) -> Self {
        let (name, cells) = (metric.name, if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") });
        Notice::new(
            format!("{name} has no value in {cells} with finished runs, left out"),
            format!("it needs {}", metric.needs),
        )
    }

    pub fn cut_off(cut_off: usize, n: usize) -> Self {
        Notice::new(
            format!("{cut_off} of {} ended before: they count with the time there was", runs(n)),
            "the mean is a lower bound; longer runs would raise it",
        )
    }

    /// Published values that carry no spread, as those of single simulator runs do.
    pub fn published_without_spread() -> Self {
        Notice::new(
            "the published values carry no spread: the simulator papers print one run with the default random seed, \
             which scatters by about 8 % with random loss",
            "differences under 15-20 % between two published values mean nothing",
        )
    }

    /// A reason that the scenario gives for a difference from the published numbers.
    pub fn known_difference(cause: &str, advice: &str) -> Self {
        Notice::new(cause, advice)
    }

    pub fn delayed_acknowledgements() -> Self {
        Notice::new(
            "receivers acknowledge every other segment or after 40 ms, the simulators' acknowledge each",
            "algorithms count acknowledged packets, so growth per round is the same; ratios compare, absolute counts less",
        )
    }

    pub fn window_in_recovery() -> Self {
        Notice::new(
            "proportional rate reduction brings cwnd down over a round trip, the simulators' at once, and during recovery \
             cwnd is what may be sent now and not what the algorithm decided",
            "compare windows outside recovery",
        )
    }

    pub fn merged(directories: &[String]) -> Self {
        let (count, more) = (directories.len(), directories.len().saturating_sub(Notice::NAMED));
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = directories[..count.min(Notice::NAMED)].join(", ");
        let cause = format!("merged from {count} directories: {named}{more}");
        Notice::new(cause, "each measured its own empty path; the calibration lists all")
    }

    /// So many directories are named.
    const NAMED: usize = 8;

    /// One block in several directories.
    pub fn block_counted_once(number: usize, counted: &str, others: &[String]) -> Self {
        let others = others.join(", ");
        Notice::new(
            format!("block {number} is in {counted} and also in {others}: it counts once"),
            "the copy that began first counts; the others can be removed",
        )
    }

    /// Parts made on machines with other processors.
    pub fn other_processors(processors: &str) -> Self {
        Notice::new(
            format!("the runs were made on different processors: {processors}"),
            "compare the nodes below before you trust small differences; runs of one seed share a machine",
        )
    }

    /// Parts made with different programs, which the reader asked for.
    pub fn mixed(different: &str) -> Self {
        Notice::new(
            format!("the parts were made with different programs: {different}"),
            "a difference between cells may come from the programs; without --mixed such parts are refused",
        )
    }

    pub fn other_profile(measured: &str, scenario: &str) -> Self {
        Notice::new(
            format!(
                "measured under the profile {measured}, and the scenario's numbers are for {scenario}: no verdicts"
            ),
            format!("`tccc run` without --profile, or with --profile {scenario}, measures what they are for"),
        )
    }

    pub fn recovery_differs() -> Self {
        Notice::new(
            "recovery in this kernel is PRR on SACK, the simulators' is classic SACK or NewReno; whether it finds losses \
             by time (RACK) or by three duplicate acknowledgements cannot be told: net.ipv4.tcp_recovery = 0 asks for \
             the latter, and the newest kernels ignore it",
            "compare ratios first; absolute counts at high loss may differ by some percent",
        )
    }

    pub fn calibration_repeated(quantity: &str, attempts: u32) -> Self {
        Notice::new(
            format!("the empty path's {quantity} was within its range only at attempt {attempts}"),
            "the host was busy, or the draw unlikely: look at the lateness of the runs",
        )
    }

    /// A calibrated quantity outside its range, on a path where runs were made all the same, or none.
    pub fn calibration_outside(quantity: &str, has_runs: bool) -> Self {
        let cause = format!("the empty path's {quantity} was outside the allowed range");
        let advice = match has_runs {
            true => "the path is not the one the scenario describes: read every number with that in mind",
            false => {
                "cells of this path were left out then; `tccc run` on the same directory measures those still missing"
            }
        };
        Notice::new(cause, advice)
    }
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

fn is_are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_count_in_plain_english() {
        assert_eq!(Notice::few_runs(1).cause, "1 run only: no interval can be given");
        assert!(Notice::late_runs(1).cause.starts_with("1 run had a late link or sender and is not"));
        assert!(Notice::failed_runs(2, "no route").cause.starts_with("2 runs failed and are not"));
    }
}
