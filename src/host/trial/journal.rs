//! The journal of ended trials: one line each, in a file that survives a reboot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::policy::ending::{TrialEnding, TrialResult};
use crate::policy::record::TrialSubject;
use shared::kernel::system_log::{self, Severity};

/// Set by systemd for a service.
const STATE_VARIABLE: &str = "STATE_DIRECTORY";
const STATE_FOLDER: &str = "/var/lib/tccc";
/// Lines. At twice as many, the older half is dropped, except for the latest line of each policy.
const KEPT: usize = 200;
/// Lines of the older half that are kept.
const KEPT_OF_POLICIES: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEnd {
    pub subject: TrialSubject,
    pub generation: u32,
    /// Start of the trial, CLOCK_BOOTTIME, nanoseconds. 0 in lines of earlier versions.
    #[serde(default)]
    pub began_ns: u64,
    /// RFC 3339.
    pub at: String,
    #[serde(flatten)]
    pub ending: TrialEnding,
    /// SHA-256 of the rules on trial. `None` if the trial could not begin.
    #[serde(default)]
    pub policy: Option<String>,
    /// The step of each rule at the end, from 0. `None` in lines of earlier versions.
    #[serde(default)]
    pub steps: Option<BTreeMap<String, usize>>,
}

/// Earlier versions wrote these interruptions as reverted. Shape: each is the beginning of a reason.
const INTERRUPTIONS: [&str; 5] = [
    "the policy was removed",
    "it was unloaded",
    "it could not begin",
    "its guard ",
    "the command that began or ended it was killed",
];

pub fn folder() -> PathBuf {
    let given = std::env::var(STATE_VARIABLE).ok().and_then(|list| Some(PathBuf::from(list.split(':').next()?)));
    given.filter(|folder| folder.is_absolute()).unwrap_or_else(|| STATE_FOLDER.into())
}

fn path() -> PathBuf {
    folder().join("trials.jsonl")
}

fn text() -> String {
    fs::read(path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Adds the end of a trial to the journal, which `tccc status` reads, and to the system's log. The first end of a trial
/// is its only one.
///
/// # Errors
/// The folder cannot be written.
pub fn note(end: &TrialEnd) -> Result<()> {
    let (path, text) = (path(), text());
    if end.began_ns != 0 && ends(&text).any(|other| other.began_ns == end.began_ns && other.subject == end.subject) {
        return Ok(());
    }
    system_log::write(Severity::Notice, &phrase(end));
    fs::create_dir_all(folder()).with_context(|| format!("make {}", folder().display()))?;
    if text.lines().count() >= 2 * KEPT {
        let fresh = path.with_extension("new");
        fs::write(&fresh, shortened(&text))
            .and_then(|()| fs::rename(&fresh, &path))
            .context("shorten the list of trials")?;
    }
    let is_whole = text.is_empty() || text.ends_with('\n');
    append(&path, end, is_whole).with_context(|| format!("write {}", path.display()))
}

/// One line with the verdict, the reason, and each limit that was not decided.
fn phrase(end: &TrialEnd) -> String {
    let TrialEnd { subject, ending, .. } = end;
    let undecided = if ending.although().is_empty() { Vec::new() } else { ending.undecided().collect() };
    let limits: String = undecided.into_iter().map(|limit| format!("; {}", limit.phrase())).collect();
    format!("the trial of {} is over: {}: {}{limits}", subject.phrase(), ending.verdict(), ending.reason())
}

/// The line is on the disk when this returns, because the next boot depends on it.
fn append(path: &Path, end: &TrialEnd, is_whole: bool) -> Result<()> {
    let start = if is_whole { "" } else { "\n" }; // a full disk cut the last line off
    let line = format!("{start}{}\n", serde_json::to_string(end)?);
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())?;
    Ok(file.sync_data()?)
}

/// The newer half, and the latest line of each policy in the older half if the newer one has none.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut seen = BTreeSet::new();
    let mut of_policies = 0;
    let mut kept = Vec::new();
    for (age, line) in lines.iter().rev().enumerate() {
        let policy = parse(line).and_then(|end| end.policy);
        let is_latest = policy.is_some_and(|policy| seen.insert(policy));
        let is_old = age >= KEPT;
        if is_old && (!is_latest || of_policies == KEPT_OF_POLICIES) {
            continue;
        }
        of_policies += usize::from(is_old);
        kept.push(*line);
    }
    kept.reverse();
    kept.join("\n") + "\n"
}

/// Latest first.
fn ends(text: &str) -> impl Iterator<Item = TrialEnd> {
    text.lines().rev().filter_map(parse)
}

fn parse(line: &str) -> Option<TrialEnd> {
    let mut end: TrialEnd = serde_json::from_str(line).ok()?;
    let ending = &mut end.ending;
    if ending.result == TrialResult::Reverted && INTERRUPTIONS.iter().any(|why| ending.why.starts_with(why)) {
        ending.result = TrialResult::Interrupted;
    }
    Some(end)
}

/// The latest end of a trial. `None` also without the right to read the journal.
pub fn last() -> Option<TrialEnd> {
    ends(&text()).next()
}

/// The latest end, read again only after the journal has changed.
#[derive(Debug, Default)]
pub struct LatestEnd {
    /// Inode, size and time of the file.
    stamp: Option<(u64, u64, i64, i64)>,
    began_ns: u64,
}

impl LatestEnd {
    /// Ends before this call are not news.
    pub fn from_now() -> Self {
        let mut latest = LatestEnd::default();
        latest.news();
        latest
    }

    /// A trial that ended since the last call.
    pub fn news(&mut self) -> Option<TrialEnd> {
        let file = fs::metadata(path()).ok()?;
        let stamp = Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()));
        if self.stamp == stamp {
            return None;
        }
        self.stamp = stamp;
        let end = last().filter(|end| end.began_ns != self.began_ns)?;
        self.began_ns = end.began_ns;
        Some(end)
    }
}

/// The latest end of a trial of a policy with this digest.
pub fn last_of(policy: &str) -> Option<TrialEnd> {
    let is_it = |end: &TrialEnd| end.subject == TrialSubject::Policy && end.policy.as_deref() == Some(policy);
    ends(&text()).find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(number: u64, policy: &str, result: TrialResult) -> TrialEnd {
        TrialEnd {
            subject: TrialSubject::Policy,
            generation: 1,
            began_ns: number,
            at: String::new(),
            ending: TrialEnding { result, ..TrialEnding::kept("a person ended it") },
            policy: Some(policy.to_owned()),
            steps: None,
        }
    }

    fn lines(ends: &[TrialEnd]) -> String {
        ends.iter().map(|end| serde_json::to_string(end).unwrap() + "\n").collect()
    }

    /// Once the journal lost, after enough other trials, that a policy had been reverted.
    #[test]
    fn shortened_journal_keeps_the_latest_end_of_each_policy() {
        let mut all = vec![end(1, "bad", TrialResult::Kept), end(2, "bad", TrialResult::Reverted)];
        all.extend((3..=400).map(|number| end(number, "good", TrialResult::Kept)));
        let kept: Vec<TrialEnd> = ends(&shortened(&lines(&all))).collect();
        assert_eq!(kept.len(), KEPT + 1);
        assert_eq!(kept.iter().map(|end| end.began_ns).max(), Some(400));
        let bad: Vec<u64> =
            kept.iter().filter(|end| end.policy.as_deref() == Some("bad")).map(|end| end.began_ns).collect();
        assert_eq!(bad, [2]);
        let many: Vec<TrialEnd> = (1..=1000).map(|it| end(it, &it.to_string(), TrialResult::Reverted)).collect();
        assert_eq!(ends(&shortened(&lines(&many))).count(), KEPT + KEPT_OF_POLICIES);
    }

    /// Earlier versions knew only two results.
    #[test]
    fn interruptions_in_lines_of_earlier_versions_are_recognised() {
        let check = |why: &str, result| {
            let line = format!(
                r#"{{"subject":{{"kind":"policy"}},"generation":2,"result":"reverted","at":"x","why":"{why}","incident":null}}"#
            );
            assert_eq!(parse(&line).unwrap().ending.result, result, "{why}");
        };
        for why in [
            "the policy was removed",
            "it was unloaded",
            "its guard received a signal to end",
            "its guard died, and the lease expired",
            "its guard failed: renew the lease",
            "the command that began or ended it was killed",
        ] {
            check(why, TrialResult::Interrupted);
        }
        for why in ["a person ended it", "nobody confirmed it in time", "rule 'a': 'b' crossed the limit"] {
            check(why, TrialResult::Reverted);
        }
    }

    #[test]
    fn torn_line_hides_no_other() {
        let text = lines(&[end(1, "p", TrialResult::Reverted)])
            + "{\"subject\":{\n"
            + &lines(&[end(2, "q", TrialResult::Kept)]);
        assert_eq!(ends(&text).map(|end| end.began_ns).collect::<Vec<_>>(), [2, 1]);
    }
}
