//! The rules that a trial adds to a policy: for an algorithm as the default, or new code of a loaded algorithm.

use anyhow::Result;

use crate::policy::rule::{
    ARMS_MAX, Arm, Match, Policy, Portion, RULES_MAX, Rule, RuleTrial, Split, SplitBy, Treatment,
};
use shared::failure::Failure;
use shared::kernel::netns::Netns;

/// The kernel program's limit for one rule.
const SPLIT_ARMS_MAX: usize = 16;

/// Adds a rule that gives an algorithm to a share of the connections for which nothing chooses one.
///
/// The rule acts as the default: it respects the choices of programs and routes. It leaves other network namespaces
/// alone.
///
/// # Errors
/// The policy is full; /proc is not mounted.
pub fn with_default(base: &Policy, algorithm: &str, trial: Option<RuleTrial>, portion: Portion) -> Result<Policy> {
    let here = Netns::current()?;
    // The sysctl of the default also applies to one namespace. The path of the first process stays valid after this
    // process has ended.
    let first = "/proc/1/ns/net";
    let is_first = Netns::open(first.as_ref()).is_ok_and(|netns| netns.inode() == here.inode());
    let netns = if is_first { first } else { "/proc/self/ns/net" };
    let when = Match { netns: vec![netns.to_owned()], ..Match::default() };
    let rule = Rule::new(format!("default-{algorithm}"), when, split(algorithm, portion));
    with_rule(base.clone(), Rule { overrides_route: false, trial, ..rule })
}

/// Gives `trial_name` to a part of the connections that would get `name` by a rule, by their own choice or by default.
///
/// # Errors
/// The policy is full.
pub fn with_upgrade(
    base: &Policy,
    [name, trial_name]: [&str; 2],
    trial: Option<RuleTrial>,
    portion: Portion,
) -> Result<Policy> {
    let mut policy = base.clone();
    for rule in &mut policy.rules {
        rule.split.arms = rule.split.arms.iter().flat_map(|arm| divided(arm, [name, trial_name], portion)).collect();
        if rule.split.arms.len() > SPLIT_ARMS_MAX {
            let name = &rule.name;
            let what = format!("rule \"{name}\" of the policy has {SPLIT_ARMS_MAX} arms, and the trial divides one");
            return Err(Failure::failed(what).hint(FEWER).into());
        }
    }
    let when = Match { current: vec![name.to_owned()], ..Match::default() };
    let rule = Rule::new(format!("upgrade-{name}"), when, split(trial_name, portion));
    with_rule(policy, Rule { overrides: true, trial, ..rule })
}

const FEWER: &str = "apply a smaller policy during the trial";

/// Adds a rule at the end, but above a rule that keeps all other connections as they are.
///
/// # Errors
/// Too many rules or arms.
fn with_rule(mut policy: Policy, rule: Rule) -> Result<Policy> {
    let keeps_the_rest = |other: &Rule| {
        other.when == Match::default() && other.split.arms.iter().all(|arm| arm.treatment == Treatment::Keep)
    };
    let place = policy.rules.iter().position(keeps_the_rest).unwrap_or(policy.rules.len());
    policy.rules.insert(place, rule);
    let arms: usize = policy.rules.iter().map(|rule| rule.split.arms.len()).sum();
    let too_many = [(policy.rules.len(), RULES_MAX, "rules"), (arms, ARMS_MAX, "arms")];
    match too_many.into_iter().find(|(count, most, _)| count > most) {
        None => Ok(policy),
        Some((_, most, what)) => {
            let what = format!("a policy has at most {most} {what}, and with those of the trial this one has more");
            Err(Failure::failed(what).hint(FEWER).into())
        }
    }
}

/// Divides an arm of the old code into two.
fn divided(arm: &Arm, [name, trial_name]: [&str; 2], portion: Portion) -> Vec<Arm> {
    if arm.treatment.algorithm() != Some(name) {
        return vec![arm.clone()];
    }
    let new = (f64::from(arm.portion.0) * portion.fraction()).round() as u16;
    let parts = [(trial_name, new), (name, arm.portion.0 - new)];
    let arms = parts.into_iter().filter(|(_, hundredths)| *hundredths > 0);
    arms.map(|(name, hundredths)| Arm { treatment: name.into(), portion: Portion(hundredths) }).collect()
}

fn split(algorithm: &str, portion: Portion) -> Split {
    Split { arms: Arm::with_rest(algorithm.into(), portion), by: SplitBy::Connection }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, when: Match, arms: &[(&str, u16)]) -> Rule {
        let arms = arms.iter().map(|(name, part)| Arm { treatment: (*name).into(), portion: Portion(*part) });
        Rule::new(name, when, Split { arms: arms.collect(), by: SplitBy::Peer })
    }

    fn port(port: u16) -> Match {
        Match { local_port: vec![port.to_string().parse().unwrap()], ..Match::default() }
    }

    fn shape(policy: &Policy) -> Vec<(&str, Vec<(String, u16)>)> {
        let arms = |rule: &Rule| -> Vec<(String, u16)> {
            rule.split.arms.iter().map(|arm| (arm.treatment.to_string(), arm.portion.0)).collect()
        };
        policy.rules.iter().map(|rule| (rule.name.as_str(), arms(rule))).collect()
    }

    /// Once the rule of an upgrade came first, and took connections whose default is the old code from the rules below.
    #[test]
    fn upgrade_divides_the_arms_of_the_old_code_and_what_has_it_without_a_rule() {
        let rules = vec![
            rule("ssh", port(22), &[("cubic", 10_000)]),
            rule("web", port(443), &[("dtcp", 1000), ("keep", 9000)]),
            rule("rest", Match::default(), &[("keep", 10_000)]),
        ];
        let policy = with_upgrade(&Policy { rules }, ["dtcp", "dtcp_g2"], None, Portion(5000)).unwrap();
        let expected = [
            ("ssh", vec![("cubic".into(), 10_000)]),
            ("web", vec![("dtcp_g2".into(), 500), ("dtcp".into(), 500), ("keep".into(), 9000)]),
            ("upgrade-dtcp", vec![("dtcp_g2".into(), 5000), ("keep".into(), 5000)]),
            ("rest", vec![("keep".into(), 10_000)]),
        ];
        assert_eq!(shape(&policy), expected);
        assert_eq!(policy.rules[2].when.current, ["dtcp"]);
    }

    /// Once it came below a rule for all other connections, and was never reached.
    #[test]
    fn default_on_trial_is_above_a_rule_that_keeps_the_rest_and_below_all_others() {
        let names = |rules: Vec<Rule>| -> Vec<String> {
            let policy = with_default(&Policy { rules }, "dtcp", None, Portion(5000)).unwrap();
            policy.rules.iter().map(|rule| rule.name.clone()).collect()
        };
        let web = || rule("web", port(443), &[("cubic", 10_000)]);
        assert_eq!(names(vec![]), ["default-dtcp"]);
        assert_eq!(names(vec![web()]), ["web", "default-dtcp"]);
        let rest = |arm| rule("rest", Match::default(), &[(arm, 10_000)]);
        assert_eq!(names(vec![web(), rest("keep")]), ["web", "default-dtcp", "rest"]);
        assert_eq!(names(vec![web(), rest("reno")]), ["web", "rest", "default-dtcp"]);
    }

    /// Once rules and arms that did not fit into the kernel program's tables were left out silently.
    #[test]
    fn trial_that_does_not_fit_beside_the_rules_is_refused() {
        let upgrade = |rules: Vec<Rule>| {
            let refusal = with_upgrade(&Policy { rules }, ["dtcp", "dtcp_g2"], None, Portion(5000));
            refusal.unwrap_err().to_string()
        };
        let ports = |count: u16, arms: &[(&str, u16)]| -> Vec<Rule> {
            (0..count).map(|number| rule(&format!("r{number}"), port(number + 1), arms)).collect()
        };
        let of_one: Vec<String> = (0..15).map(|number| format!("a{number}")).collect();
        let mut full: Vec<(&str, u16)> = of_one.iter().map(|name| (name.as_str(), 600)).collect();
        full.push(("dtcp", 1000));
        assert!(upgrade(ports(1, &full)).contains("rule \"r0\" of the policy has 16 arms"));
        full.truncate(15);
        full.push(("keep", 1000));
        assert!(upgrade(ports(16, &full)).contains("at most 256 arms"));
        assert!(upgrade(ports(64, &[("keep", 10_000)])).contains("at most 64 rules"));
    }
}
