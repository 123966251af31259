//! What the host is set to, and what changed of it: lines across the plots.

use std::collections::BTreeMap;

/// Changes that are remembered, and the length of one in words.
pub(super) const CHANGES_MAX: usize = 64;
const WORDS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    /// What of it runs: the digest of its object, or the kernel's release.
    pub version: String,
    /// "tccc" or "kernel".
    pub source: &'static str,
    /// How often it was upgraded; none for the kernel's own.
    pub generation: Option<u32>,
}

/// What connections of this host are set to at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Situation {
    /// Algorithms that connections can choose.
    pub registered: Vec<Registered>,
    /// The default algorithm of the host; none: not known.
    pub default: Option<String>,
    /// The policy; none: there is none.
    pub policy: Option<PolicyNow>,
    /// How the latest trial ended, in a sentence without a full stop.
    pub ended: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyNow {
    /// Number of the generation that decides.
    pub generation: u32,
    /// What is on trial, in a phrase.
    pub trial: Option<String>,
    pub arms: Vec<ArmShare>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ArmShare {
    pub rule: String,
    /// The arm, as labels write it.
    pub arm: String,
    /// Share of the rule's connections, of 1.
    pub share: f64,
    /// Whether the rule is on trial.
    pub on_trial: bool,
}

#[derive(Debug)]
pub(super) struct Change {
    pub time_ns: u64,
    pub what: String,
}

impl Change {
    pub(super) fn new(time_ns: u64, what: String) -> Change {
        let end = what.char_indices().nth(WORDS_MAX).map_or(what.len(), |(at, _)| at);
        Change { time_ns, what: what[..end].to_owned() }
    }

    pub(super) fn is_before(&self, time_ns: u64) -> bool {
        self.time_ns < time_ns
    }
}

impl Situation {
    /// What differs from before, each in a phrase.
    pub(super) fn since(&self, before: &Situation) -> Vec<String> {
        let mut changes = algorithms_since(&self.registered, &before.registered);
        if let (Some(now), Some(then)) = (&self.default, &before.default)
            && now != then
        {
            changes.push(format!("the default is {now}, before {then}"));
        }
        match (&before.policy, &self.policy) {
            (None, Some(now)) => {
                changes.push(match &now.trial {
                    Some(title) => format!("trial of {title} began"),
                    None => "a policy was applied".to_owned(),
                });
            }
            (Some(_), None) => changes.push("the policy was removed".to_owned()),
            (Some(then), Some(now)) => changes.extend(now.since(then)),
            (None, None) => {}
        }
        changes.extend(self.ended.iter().filter(|ended| before.ended.as_ref() != Some(ended)).cloned());
        changes
    }
}

impl PolicyNow {
    fn since(&self, before: &PolicyNow) -> Vec<String> {
        let mut changes = Vec::new();
        match (&before.trial, &self.trial) {
            (None, Some(title)) => changes.push(format!("trial of {title} began")),
            (Some(title), None) => changes.push(format!("trial of {title} is over")),
            _ if before.generation != self.generation => changes.push("the policy was changed".to_owned()),
            _ => {}
        }
        let shares = |arms: &[ArmShare]| -> BTreeMap<(String, String), f64> {
            arms.iter().map(|it| ((it.rule.clone(), it.arm.clone()), it.share)).collect()
        };
        let (then, now) = (shares(&before.arms), shares(&self.arms));
        for (name, share) in now {
            if let Some(earlier) = then.get(&name).filter(|&&earlier| earlier != share && name.1 != "keep") {
                let (rule, arm) = name;
                let percent = |share: f64| (share * 10_000.0).round() / 100.0;
                changes.push(format!("rule {rule}: {arm} gets {} %, before {} %", percent(share), percent(*earlier)));
            }
        }
        changes
    }
}

fn algorithms_since(now: &[Registered], before: &[Registered]) -> Vec<String> {
    let find = |all: &[Registered], name: &str| all.iter().find(|it| it.name == name).cloned();
    let mut changes = Vec::new();
    for algorithm in now {
        let name = &algorithm.name;
        match find(before, name) {
            None => changes.push(format!("{name} was loaded")),
            Some(earlier) if earlier.generation != algorithm.generation || earlier.version != algorithm.version => {
                changes.push(format!("{name} was upgraded"));
            }
            Some(_) => {}
        }
    }
    changes
        .extend(before.iter().filter(|it| find(now, &it.name).is_none()).map(|it| format!("{} was unloaded", it.name)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(name: &str, generation: u32) -> Registered {
        Registered { name: name.into(), version: "1".into(), source: "tccc", generation: Some(generation) }
    }

    fn policy(generation: u32, trial: Option<&str>, share: f64) -> Option<PolicyNow> {
        let arm = |arm: &str, share| ArmShare { rule: "web".into(), arm: arm.into(), share, on_trial: trial.is_some() };
        let arms = vec![arm("dtcp", share), arm("keep", 1.0 - share)];
        Some(PolicyNow { generation, trial: trial.map(str::to_owned), arms })
    }

    #[test]
    fn changes_are_told_in_words_and_nothing_else_is() {
        let rest = Situation {
            registered: vec![registered("reno", 1)],
            default: Some("cubic".into()),
            ..Situation::default()
        };
        let check = |now: &Situation, before: &Situation, words: &[&str]| assert_eq!(now.since(before), words);
        check(&rest, &rest, &[]);
        let loaded = Situation { registered: vec![registered("dtcp", 1), registered("reno", 2)], ..rest.clone() };
        check(&loaded, &rest, &["dtcp was loaded", "reno was upgraded"]);
        check(&rest, &loaded, &["reno was upgraded", "dtcp was unloaded"]);
        let other = Situation { default: Some("dtcp".into()), ..rest.clone() };
        check(&other, &rest, &["the default is dtcp, before cubic"]);
        check(&Situation { default: None, ..rest.clone() }, &rest, &[]);
        let with = |policy| Situation { policy, ..rest.clone() };
        check(&with(policy(1, None, 0.05)), &rest, &["a policy was applied"]);
        check(&rest, &with(policy(1, None, 0.05)), &["the policy was removed"]);
        check(&with(policy(1, Some("the policy"), 0.05)), &rest, &["trial of the policy began"]);
        let step = with(policy(1, Some("the policy"), 0.5));
        check(&step, &with(policy(1, Some("the policy"), 0.05)), &["rule web: dtcp gets 50 %, before 5 %"]);
        check(&with(policy(2, None, 0.5)), &step, &["trial of the policy is over"]);
        check(&with(policy(3, None, 0.5)), &with(policy(2, None, 0.5)), &["the policy was changed"]);
        let ended = Situation { ended: Some("trial of the policy was reverted".into()), ..rest.clone() };
        check(&ended, &rest, &["trial of the policy was reverted"]);
        check(&ended, &ended, &[]);
    }

    #[test]
    fn words_are_cut_between_two_letters() {
        assert_eq!(Change::new(1, "ä".repeat(300)).what.chars().count(), WORDS_MAX);
    }
}
