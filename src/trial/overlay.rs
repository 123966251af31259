//! The rules that a trial adds to those of the policy: an algorithm as the default, new code for a loaded one.

use anyhow::Result;

use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::policy::rule::{Arm, Match, Policy, Portion, RULES_MAX, Rule, RuleTrial, Split, SplitBy, Treatment};

/// Where the rule of a default is for: the network namespace of whoever runs the command, as the sysctl is.
const HERE: &str = "/proc/self/ns/net";

/// The policy with a last rule that gives an algorithm to every connection that chooses none.
///
/// It does what the default would do: a program's choice and a route's are respected, and other network namespaces have
/// their own.
///
/// Errors: the policy has as many rules as there may be; /proc is not mounted.
pub fn with_default(base: &Policy, algorithm: &str, trial: Option<RuleTrial>, portion: Portion) -> Result<Policy> {
    let here = Netns::current()?;
    let mut policy = with_room(base)?;
    policy.rules.push(Rule {
        name: format!("default-{algorithm}"),
        line: 0,
        when: Match { netns: vec![place_of(&here)], ..Match::default() },
        split: split(algorithm, portion),
        overrides: false,
        overrides_route: false,
        trial,
    });
    Ok(policy)
}

/// A path that names a namespace as long as this process, or the first one of this host, is in it.
fn place_of(here: &Netns) -> String {
    let first = "/proc/1/ns/net";
    let is_first = Netns::open(first.as_ref()).is_ok_and(|netns| netns.inode() == here.inode());
    if is_first { first.to_owned() } else { HERE.to_owned() }
}

/// The policy in which a part of the connections that would get `name` get `trial_name`.
///
/// Those are connections that a rule gives it, that choose it themselves, and that have it by default.
///
/// Errors: the policy has as many rules as there may be.
pub fn with_upgrade(
    base: &Policy,
    [name, trial_name]: [&str; 2],
    trial: Option<RuleTrial>,
    portion: Portion,
) -> Result<Policy> {
    let mut policy = with_room(base)?;
    for rule in &mut policy.rules {
        rule.split.arms = rule.split.arms.iter().flat_map(|arm| divided(arm, [name, trial_name], portion)).collect();
    }
    let rule = Rule {
        name: format!("upgrade-{name}"),
        line: 0,
        when: Match { current: vec![name.to_owned()], ..Match::default() },
        split: split(trial_name, portion),
        overrides: true,
        overrides_route: true,
        trial,
    };
    // The first: rules below are about connections that have another algorithm.
    policy.rules.insert(0, rule);
    Ok(policy)
}

/// A copy with room for another rule.
fn with_room(base: &Policy) -> Result<Policy, Failure> {
    if base.rules.len() < RULES_MAX {
        return Ok(base.clone());
    }
    let what = format!("the policy has {RULES_MAX} rules, and the trial needs one more");
    Err(Failure::failed(what).hint("apply a policy with fewer rules for the time of the trial"))
}

/// An arm of the old code becomes two.
fn divided(arm: &Arm, [name, trial_name]: [&str; 2], portion: Portion) -> Vec<Arm> {
    if arm.treatment.algorithm() != Some(name) {
        return vec![arm.clone()];
    }
    let new = (f64::from(arm.portion.0) * portion.fraction()).round() as u16;
    let parts = [(trial_name, new), (name, arm.portion.0 - new)];
    let arms = parts.into_iter().filter(|(_, hundredths)| *hundredths > 0);
    arms.map(|(name, hundredths)| Arm {
        treatment: Treatment::Algorithm(name.to_owned()),
        portion: Portion(hundredths),
    })
    .collect()
}

fn split(algorithm: &str, portion: Portion) -> Split {
    let rest = Portion(Portion::ALL.0 - portion.0);
    let mut arms = vec![Arm { treatment: Treatment::Algorithm(algorithm.to_owned()), portion }];
    if rest.0 > 0 {
        arms.push(Arm { treatment: Treatment::Keep, portion: rest });
    }
    Split { arms, by: SplitBy::Connection }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrade_divides_the_arms_of_the_old_code_and_what_has_it_anyway() {
        let base = Policy {
            rules: vec![Rule {
                name: "web".into(),
                line: 1,
                when: Match::default(),
                split: Split {
                    arms: vec![
                        Arm { treatment: Treatment::Algorithm("dtcp".into()), portion: Portion(1000) },
                        Arm { treatment: Treatment::Keep, portion: Portion(9000) },
                    ],
                    by: SplitBy::Peer,
                },
                overrides: false,
                overrides_route: true,
                trial: None,
            }],
        };
        let policy = with_upgrade(&base, ["dtcp", "dtcp_g2"], None, Portion(5000)).unwrap();
        let arms = |at: usize| -> Vec<(String, u16)> {
            policy.rules[at].split.arms.iter().map(|arm| (arm.treatment.to_string(), arm.portion.0)).collect()
        };
        assert_eq!(policy.rules[0].when.current, ["dtcp"]);
        assert_eq!(arms(0), [("dtcp_g2".into(), 5000), ("keep".into(), 5000)]);
        assert_eq!(arms(1), [("dtcp_g2".into(), 500), ("dtcp".into(), 500), ("keep".into(), 9000)]);
    }
}
