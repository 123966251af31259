//! Rising shares, and rules whose limits stay undecided. The times are shorter than a policy file allows.

use tccc::gate;
use tccc::policy::generation::Base;
use tccc::policy::record::{PolicyOrigin, TrialSubject};
use tccc::policy::rule::{Match, Policy, RolloutStep, Rule, Treatment, Undecided};
use tccc::trial::TrialPlan;

use super::*;
use crate::lab::socket::path_of;

const CONNECTIONS: usize = 300;

/// Begins a trial of one rule of the namespace, which gives [`BEFORE`] to `percent` of its connections.
pub fn begin(lab: &TrialLab, percent: u16, of_rule: RuleTrial) {
    let arms = [(Treatment::Algorithm(BEFORE.into()), percent), (Treatment::Keep, 100 - percent)];
    let arms = arms.map(|(treatment, percent)| (treatment, Portion(percent * 100))).into();
    let when = Match { netns: vec![path_of(&lab.netns)], ..Match::default() };
    let policy = Policy { rules: vec![Rule { trial: Some(of_rule), ..rule("web", when, arms) }] };
    let plan = TrialPlan {
        subject: TrialSubject::Policy,
        policy,
        base: Base::Any,
        patience: None,
        live: false,
        loaded: Vec::new(),
    };
    gate::begin_trial(&plan, &PolicyOrigin::command(None), tccc().args(["guard", "--trial"])).unwrap();
}

fn steps(of: &[(u16, u64)]) -> Vec<RolloutStep> {
    let step = |&(percent, seconds): &(u16, u64)| RolloutStep {
        portion: Portion(percent * 100),
        duration: Duration::from_secs(seconds),
    };
    of.iter().map(step).collect()
}

fn share() -> Option<u64> {
    Some(show()["policy"]["rules"][0]["split"]["arms"][0]["portion"].as_u64()? / 100)
}

fn treated(open: &[[TcpStream; 2]]) -> usize {
    open.iter().flatten().filter(|end| algorithm_of(end) == BEFORE).count()
}

/// Asserts that a count is within five standard deviations of its share.
#[track_caller]
fn assert_share(treated: usize, sockets: usize, percent: f64) {
    let (share, sockets) = (percent / 100.0, sockets as f64);
    let most = 5.0 * (sockets * share * (1.0 - share)).sqrt();
    assert!((treated as f64 - sockets * share).abs() <= most, "{treated} of {sockets} at {percent} %");
}

#[test]
fn share_rises_by_steps_and_open_connections_keep_their_algorithm() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    begin(lab, 10, RuleTrial { steps: steps(&[(10, 3), (50, 3), (100, 3)]), ..RuleTrial::default() });
    let mut open = Vec::new();
    let mut given = Vec::new();
    for percent in [10, 50, 100] {
        poll_until(SOON, "the share rises", || share() == Some(percent));
        let new: Vec<_> = (0..CONNECTIONS).map(|_| lab.connect()).collect();
        // The next step may begin while they are opened.
        if share() == Some(percent) {
            assert_share(treated(&new), 2 * CONNECTIONS, percent as f64);
        }
        given.push(treated(&new));
        open.push(new);
    }
    poll_until(SOON, "the last step is over", || on_trial().is_null());
    assert_eq!(last_trial().0, "kept");
    assert_eq!((lab.given().as_str(), share()), (BEFORE, Some(100)), "it stays");
    assert_eq!(open.iter().map(|all| treated(all)).collect::<Vec<_>>(), given, "none was moved");
    until_no_process();
    run(0, "policy remove");
}

#[test]
fn steps_are_promoted_paused_and_resumed_by_command() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let of_rule = || RuleTrial { steps: steps(&[(10, 600), (50, 600), (100, 600)]), ..RuleTrial::default() };
    begin(lab, 10, of_rule());
    until_guard_has_looked();
    run(0, "policy promote web").stdout_has("50 %");
    assert_eq!(share(), Some(50));
    run(1, "policy promote none").stderr_has("no rule \"none\" is on trial");
    run(0, "policy pause");
    assert_eq!(on_trial()["paused"], true);
    run(0, "policy promote"); // allowed while the steps are paused
    assert_eq!((share(), on_trial()["paused"].as_bool()), (Some(100), Some(true)));
    run(0, "policy resume");
    assert_eq!(on_trial()["paused"], false);
    run(0, "policy promote");
    assert_eq!((on_trial().is_null(), last_trial()), (true, ("kept".into(), "a person promoted it".into())));
    assert_eq!((lab.given().as_str(), share()), (BEFORE, Some(100)));
    run(0, "policy remove");
    begin(lab, 10, of_rule());
    run(0, "policy promote");
    run(0, "policy abort");
    assert_eq!((lab.given().as_str(), share()), (DEFAULT, None));
}

/// The guard once overwrote the record with its own copy, which lost the pause.
#[test]
fn paused_steps_stay_paused_when_their_time_is_over() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    begin(lab, 10, RuleTrial { steps: steps(&[(10, 3), (50, 600)]), ..RuleTrial::default() });
    run(0, "policy pause");
    let due = |view: &Value| view["rules"][0]["due_ns"].as_u64().unwrap_or(u64::MAX);
    poll_until(SOON, "the time of the step is over", || {
        let view = on_trial()["view"].clone();
        view["now_ns"].as_u64().is_some_and(|now_ns| now_ns > due(&view))
    });
    assert_eq!((share(), on_trial()["paused"].as_bool()), (Some(10), Some(true)));
    run(0, "policy resume");
    poll_until(SOON, "the next step", || share() == Some(50));
    run(0, "policy abort");
}

#[test]
fn undecided_rule_reverts_proceeds_or_holds_at_its_deadline() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let of = |undecided| RuleTrial {
        limits: vec!["retransmitted<1.2x".parse().unwrap()],
        deadline: Some(Duration::from_secs(2)),
        undecided,
        on_fail: OnFail::Revert,
        steps: Vec::new(),
    };
    for (undecided, expected, because) in [
        (Undecided::Revert, "reverted", "it is not shown that every limit holds"),
        (Undecided::Proceed, "kept", "no limit was crossed, and the rule says proceed"),
    ] {
        begin(lab, 50, of(undecided));
        poll_until(SOON, "the trial is over", || on_trial().is_null());
        let (result, why) = last_trial();
        assert!(result == expected && why.contains(because), "{result}: {why}");
    }
    run(0, "policy remove");
    begin(lab, 50, of(Undecided::Hold));
    poll_until(SOON, "its time is over", || {
        let rule = &on_trial()["view"]["rules"][0];
        rule["due_ns"].as_u64().is_some_and(|due_ns| due_ns < tccc::kernel::clock::boottime_ns().unwrap())
    });
    run(0, "status").stdout_has("undecided: the smaller arm has");
    assert_eq!((on_trial()["guard_lives"].as_bool(), share()), (Some(true), Some(50)));
    run(0, "policy abort");
}

/// Once "every limit is shown to hold" after a trial without a single connection.
#[test]
fn trial_without_data_is_kept_without_a_claim() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let of_rule = RuleTrial {
        limits: vec!["retransmitted<3x".parse().unwrap()],
        undecided: Undecided::Proceed,
        steps: steps(&[(50, 2), (100, 2)]),
        ..RuleTrial::default()
    };
    begin(lab, 50, of_rule);
    poll_until(SOON, "the trial is over", || on_trial().is_null() && !last_trial().0.is_empty());
    let last = status()["last_trial"].clone();
    let limit = &last["limits"][0];
    assert_eq!((last["result"].as_str(), limit["shown"].as_str()), (Some("kept"), Some("no_control")), "{last}");
    run(0, "status")
        .stdout_has("although 1 of 1 limits was never decided: rule \"web\" after 2s: nothing is left to compare with")
        .stdout_has("  rule \"web\", retransmitted<3x for cubic: never decided: no connection keeps its algorithm");
    run(0, "policy remove");
}
