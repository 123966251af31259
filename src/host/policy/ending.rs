//! How a trial ends: its result, the reason, and what was shown about each limit.

use std::path::PathBuf;

use derive_more::Display;
use serde::{Deserialize, Serialize};

use crate::state::Requester;

/// How a trial ended. The first two are judgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialResult {
    #[display("kept")]
    Kept,
    /// A limit was crossed or undecided at the deadline, nobody confirmed the trial in time, or a person aborted it.
    #[display("reverted")]
    Reverted,
    /// The trial could not go on, for example because its guard died or the policy was removed.
    #[display("interrupted")]
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEnding {
    pub result: TrialResult,
    pub why: String,
    /// Who ended it. `None`: the guard, or the kernel when the lease expired.
    #[serde(default)]
    pub by: Option<Requester>,
    /// The incident's folder if a limit was crossed.
    pub incident: Option<PathBuf>,
    /// Empty also in lines of earlier versions.
    #[serde(default)]
    pub limits: Vec<LimitAtEnd>,
}

/// What was shown about one limit for one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitAtEnd {
    pub rule: String,
    pub limit: String,
    pub arm: String,
    pub shown: Shown,
    /// Why it was not decided.
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Shown {
    #[display("shown to hold")]
    Held,
    #[display("crossed")]
    Crossed,
    #[display("never decided")]
    NeverDecided,
    /// Nothing was left to compare with, and no earlier step had shown that it holds.
    #[display("never decided")]
    NoControl,
}

impl Shown {
    pub const ALL: [Shown; 4] = [Shown::Held, Shown::Crossed, Shown::NeverDecided, Shown::NoControl];

    /// The word in JSON and in `/metrics`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl TrialEnding {
    pub fn kept(why: impl Into<String>) -> Self {
        TrialEnding { result: TrialResult::Kept, why: why.into(), by: None, incident: None, limits: Vec::new() }
    }

    pub fn reverted(why: impl Into<String>) -> Self {
        TrialEnding { result: TrialResult::Reverted, ..TrialEnding::kept(why) }
    }

    pub fn interrupted(why: impl Into<String>) -> Self {
        TrialEnding { result: TrialResult::Interrupted, ..TrialEnding::kept(why) }
    }

    pub fn by(self, requester: Requester) -> Self {
        TrialEnding { by: Some(requester), ..self }
    }

    /// For example `kept although 1 of 2 limits was never decided`.
    pub fn verdict(&self) -> String {
        format!("{}{}", self.result, self.although())
    }

    /// For example ` although 1 of 2 limits was never decided`. Empty if nothing speaks against the result.
    pub fn although(&self) -> String {
        let [undecided, limits] = [self.undecided().count(), self.limits.len()];
        if self.result != TrialResult::Kept || undecided == 0 {
            return String::new();
        }
        let verb = if undecided == 1 { "was" } else { "were" };
        format!(" although {undecided} of {limits} limits {verb} never decided")
    }

    /// The reason, and who ended the trial.
    pub fn reason(&self) -> String {
        let by = self.by.as_ref().map_or(String::new(), |by| format!(" ({})", by.phrase()));
        format!("{}{by}", self.why)
    }

    /// The number of limits for each word.
    pub fn counts(&self) -> [(Shown, usize); 4] {
        Shown::ALL.map(|shown| (shown, self.limits.iter().filter(|limit| limit.shown == shown).count()))
    }

    /// The limits about which nothing was shown.
    pub fn undecided(&self) -> impl Iterator<Item = &LimitAtEnd> {
        self.limits.iter().filter(|limit| matches!(limit.shown, Shown::NeverDecided | Shown::NoControl))
    }
}

impl LimitAtEnd {
    /// For example `rule "web", retransmitted<1.2x for dtcp: never decided: …`.
    pub fn phrase(&self) -> String {
        let why = self.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        format!("rule \"{}\", {} for {}: {}{why}", self.rule, self.limit, self.arm, self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(shown: Shown) -> LimitAtEnd {
        let why = (shown == Shown::NeverDecided).then(|| "0 connections".to_owned());
        LimitAtEnd { rule: "w".into(), limit: "retransmitted<3x".into(), arm: "dtcp".into(), shown, why }
    }

    /// Once a trial without any connection was "kept: every limit is shown to hold".
    #[test]
    fn verdict_counts_the_limits_that_were_never_decided() {
        let kept = |limits: &[Shown]| TrialEnding {
            limits: limits.iter().map(|shown| limit(*shown)).collect(),
            ..TrialEnding::kept("its time is over")
        };
        let check = |limits: &[Shown], words: &str| assert_eq!(kept(limits).verdict(), words);
        check(&[], "kept");
        check(&[Shown::Held, Shown::Held], "kept");
        check(&[Shown::NeverDecided], "kept although 1 of 1 limits was never decided");
        check(&[Shown::NeverDecided, Shown::Held, Shown::NoControl], "kept although 2 of 3 limits were never decided");
        let reverted = TrialEnding { result: TrialResult::Reverted, ..kept(&[Shown::NeverDecided]) };
        assert_eq!(reverted.verdict(), "reverted");
        let phrase = limit(Shown::NeverDecided).phrase();
        assert_eq!(phrase, "rule \"w\", retransmitted<3x for dtcp: never decided: 0 connections");
    }
}
