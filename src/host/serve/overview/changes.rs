//! The settings of the host, and their changes, which the plots show as lines.

pub(super) const CHANGES_MAX: usize = 64;
/// Longest description of a change, characters.
const WORDS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    /// The digest of its object, or the kernel's release.
    pub version: String,
    /// "tccc" or "kernel".
    pub source: &'static str,
    /// Number of its code: 1 after `load`, one more per upgrade. `None` for the kernel's own.
    pub generation: Option<u32>,
}

/// The congestion control settings of this host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostConfig {
    pub registered: Vec<Registered>,
    /// The default algorithm. `None`: not known.
    pub default: Option<String>,
    pub policy: Option<PolicyNow>,
    /// Result of the latest trial, as a sentence without a full stop.
    pub ended: Option<String>,
    pub last_trial: Option<LastTrial>,
}

/// How the latest trial ended, for `/metrics`.
#[derive(Debug, Clone, PartialEq)]
pub struct LastTrial {
    pub result: String,
    /// What was shown about its limits, and for how many.
    pub limits: Vec<(&'static str, u64)>,
    pub each: Vec<LimitShown>,
}

/// What the latest trial showed about one limit of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitShown {
    pub rule: String,
    pub arm: String,
    pub limit: String,
    pub state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PolicyNow {
    /// Number of the active generation.
    pub generation: u32,
    /// Title of the running trial.
    pub trial: Option<String>,
    pub arms: Vec<ArmShare>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ArmShare {
    pub rule: String,
    pub arm: String,
    /// Share of the rule's connections, 0 to 1.
    pub share: f64,
    pub on_trial: bool,
}

#[derive(Debug)]
pub(super) struct HostChange {
    pub time_ns: u64,
    pub what: String,
}

impl HostChange {
    pub(super) fn new(time_ns: u64, what: String) -> HostChange {
        let end = what.char_indices().nth(WORDS_MAX).map_or(what.len(), |(at, _)| at);
        HostChange { time_ns, what: what[..end].to_owned() }
    }
}

impl HostConfig {
    /// Describes each difference from `before`.
    pub(super) fn since(&self, before: &HostConfig) -> Vec<String> {
        let mut changes = algorithms_since(&self.registered, &before.registered);
        if let (Some(now), Some(then)) = (&self.default, &before.default)
            && now != then
        {
            changes.push(format!("the default is {now}, was {then}"));
        }
        let nothing = PolicyNow::default();
        let (now, then) = (self.policy.as_ref().unwrap_or(&nothing), before.policy.as_ref().unwrap_or(&nothing));
        match (&then.trial, &now.trial) {
            _ if before.policy.is_some() && self.policy.is_none() => changes.push("the policy was removed".to_owned()),
            (None, Some(title)) => changes.push(format!("trial of {title} began")),
            _ if before.policy.is_none() && self.policy.is_some() => changes.push("a policy was applied".to_owned()),
            (Some(title), None) => changes.push(format!("trial of {title} is over")),
            _ if then.generation != now.generation => changes.push("the policy was changed".to_owned()),
            _ => {}
        }
        for arm in now.arms.iter().filter(|arm| arm.arm != "keep") {
            let is_same = |it: &&ArmShare| (&it.rule, &it.arm) == (&arm.rule, &arm.arm);
            if let Some(earlier) = then.arms.iter().find(is_same).filter(|earlier| earlier.share != arm.share) {
                let percent = |share: f64| (share * 10_000.0).round() / 100.0;
                let (now, then) = (percent(arm.share), percent(earlier.share));
                changes.push(format!("rule {}: {} gets {now} %, had {then} %", arm.rule, arm.arm));
            }
        }
        changes.extend(self.ended.iter().filter(|ended| before.ended.as_ref() != Some(ended)).cloned());
        changes
    }
}

fn algorithms_since(now: &[Registered], before: &[Registered]) -> Vec<String> {
    let find = |all: &[Registered], name: &str| all.iter().find(|it| it.name == name).cloned();
    let mut changes = Vec::new();
    for algorithm in now {
        match find(before, &algorithm.name) {
            None => changes.push(format!("{} was loaded", algorithm.name)),
            Some(then) if (then.generation, &then.version) != (algorithm.generation, &algorithm.version) => {
                changes.push(format!("{} was upgraded", algorithm.name));
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|it| find(now, &it.name).is_none());
    changes.extend(gone.map(|it| format!("{} was unloaded", it.name)));
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
        let rest = HostConfig {
            registered: vec![registered("reno", 1)],
            default: Some("cubic".into()),
            ..HostConfig::default()
        };
        let check = |now: &HostConfig, before: &HostConfig, words: &[&str]| assert_eq!(now.since(before), words);
        check(&rest, &rest, &[]);
        let loaded = HostConfig { registered: vec![registered("dtcp", 1), registered("reno", 2)], ..rest.clone() };
        check(&loaded, &rest, &["dtcp was loaded", "reno was upgraded"]);
        check(&rest, &loaded, &["reno was upgraded", "dtcp was unloaded"]);
        let other = HostConfig { default: Some("dtcp".into()), ..rest.clone() };
        check(&other, &rest, &["the default is dtcp, was cubic"]);
        check(&HostConfig { default: None, ..rest.clone() }, &rest, &[]);
        let with = |policy| HostConfig { policy, ..rest.clone() };
        check(&with(policy(1, None, 0.05)), &rest, &["a policy was applied"]);
        check(&rest, &with(policy(1, None, 0.05)), &["the policy was removed"]);
        check(&with(policy(1, Some("the policy"), 0.05)), &rest, &["trial of the policy began"]);
        let step = with(policy(1, Some("the policy"), 0.5));
        check(&step, &with(policy(1, Some("the policy"), 0.05)), &["rule web: dtcp gets 50 %, had 5 %"]);
        check(&with(policy(2, None, 0.5)), &step, &["trial of the policy is over"]);
        check(&with(policy(3, None, 0.5)), &with(policy(2, None, 0.5)), &["the policy was changed"]);
        let ended = HostConfig { ended: Some("trial of the policy was reverted".into()), ..rest.clone() };
        check(&ended, &rest, &["trial of the policy was reverted"]);
        check(&ended, &ended, &[]);
    }

    #[test]
    fn words_are_cut_between_two_letters() {
        assert_eq!(HostChange::new(1, "ä".repeat(300)).what.chars().count(), WORDS_MAX);
    }
}
