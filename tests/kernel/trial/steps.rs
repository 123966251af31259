//! Shares that rise, and what becomes of rules whose limits nobody can judge: with times that files do not allow.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use tccc::policy::record::TrialSubject;
use tccc::policy::rule::{
    Arm, Match, OnFail, Policy, Portion, RolloutStep, Rule, RuleTrial, Split, SplitBy, Treatment, Undecided,
};
use tccc::trial::{self, TrialPlan};

use crate::common::{host_has, poll_until, tccc};
use crate::lab::sandbox::run;
use crate::lab::trial::{BEFORE, DEFAULT, Lab, SOON, algorithm_of, in_lab, last_trial, on_trial, processes};

const CONNECTIONS: usize = 300;

/// Begins a trial of one rule of the namespace, which gives [`BEFORE`] to `percent` of its connections.
pub fn begin(lab: &Lab, percent: u16, of_rule: RuleTrial) {
    let arms = [(Treatment::Algorithm(BEFORE.into()), percent), (Treatment::Keep, 100 - percent)];
    let arms = arms.into_iter().filter(|(_, percent)| *percent > 0);
    let arms = arms.map(|(treatment, percent)| Arm { treatment, portion: Portion(percent * 100) }).collect();
    let rule = Rule {
        name: "web".into(),
        line: 1,
        when: Match { netns: vec![lab.place()], ..Match::default() },
        split: Split { arms, by: SplitBy::Connection },
        overrides: false,
        overrides_route: true,
        trial: Some(of_rule),
    };
    let policy = Policy { rules: vec![rule] };
    let plan = TrialPlan { subject: TrialSubject::Policy, policy, patience: None, live: false, loaded: Vec::new() };
    trial::begin(&plan, None, tccc().args(["guard", "--trial"])).unwrap();
}

fn steps(of: &[(u16, u64)]) -> Vec<RolloutStep> {
    let step = |&(percent, seconds): &(u16, u64)| RolloutStep {
        portion: Portion(percent * 100),
        duration: Duration::from_secs(seconds),
    };
    of.iter().map(step).collect()
}

/// The share that the rule gives now, percent.
fn share() -> Option<u64> {
    let shown: Value = run(0, "policy show -o json").json();
    Some(shown["policy"]["rules"][0]["split"]["arms"][0]["portion"].as_u64()? / 100)
}

fn treated(open: &[[TcpStream; 2]]) -> usize {
    open.iter().flatten().filter(|end| algorithm_of(end) == BEFORE).count()
}

/// Five standard deviations around the share of a number of sockets.
#[track_caller]
fn assert_share(treated: usize, sockets: usize, percent: f64) {
    let (share, sockets) = (percent / 100.0, sockets as f64);
    let most = 5.0 * (sockets * share * (1.0 - share)).sqrt();
    assert!((treated as f64 - sockets * share).abs() <= most, "{treated} of {sockets} at {percent} %");
}

#[test]
fn share_rises_by_itself_and_open_connections_keep_what_they_have() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        begin(lab, 10, RuleTrial { steps: steps(&[(10, 3), (50, 3), (100, 3)]), ..RuleTrial::default() });
        let mut open = Vec::new();
        let mut given = Vec::new();
        for percent in [10, 50, 100] {
            poll_until(SOON, "the share rises", || share() == Some(percent));
            let new: Vec<_> = (0..CONNECTIONS).map(|_| lab.connect()).collect();
            // A step may follow while they are opened.
            if share() == Some(percent) {
                assert_share(treated(&new), 2 * CONNECTIONS, percent as f64);
            }
            given.push(treated(&new));
            open.push(new);
        }
        poll_until(SOON, "the last step is over", || on_trial().is_null());
        assert_eq!(last_trial().0, "kept");
        assert_eq!((lab.given().as_str(), share()), (BEFORE, Some(100)), "it holds for good");
        assert_eq!(open.iter().map(|all| treated(all)).collect::<Vec<_>>(), given, "none was moved");
        poll_until(SOON, "the guard ends", || processes().is_empty());
        run(0, "policy remove");
    });
}

#[test]
fn person_steers_the_steps() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let of_rule = || RuleTrial { steps: steps(&[(10, 600), (50, 600), (100, 600)]), ..RuleTrial::default() };
        begin(lab, 10, of_rule());
        poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
        run(0, "policy promote web").stdout_has("50 %");
        assert_eq!(share(), Some(50));
        run(1, "policy promote none").stderr_has("no rule \"none\" is on trial");
        run(0, "policy pause");
        assert_eq!(on_trial()["paused"], true);
        run(0, "policy promote"); // a person may, also while the steps are paused
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
    });
}

/// The guard wrote its own copy of the record over what a person had changed meanwhile.
#[test]
fn paused_steps_stay_paused_when_their_time_is_over() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
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
    });
}

#[test]
fn undecided_rule_goes_as_it_says_when_its_time_is_over() {
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let of = |undecided| RuleTrial {
            limits: vec!["retransmitted<1.2x".parse().unwrap()],
            deadline: Some(Duration::from_secs(2)),
            undecided,
            on_fail: OnFail::Revert,
            steps: Vec::new(),
        };
        begin(lab, 50, of(Undecided::Revert));
        poll_until(SOON, "it is over", || on_trial().is_null());
        let (result, why) = last_trial();
        assert!(result == "reverted" && why.contains("it is not shown that every limit holds"), "{why}");
        begin(lab, 50, of(Undecided::Proceed));
        poll_until(SOON, "it is over", || on_trial().is_null());
        let (result, why) = last_trial();
        assert!(result == "kept" && why.contains("nothing shows harm, and the rule says proceed"), "{why}");
        run(0, "policy remove");
        begin(lab, 50, of(Undecided::Hold));
        poll_until(SOON, "its time is over", || {
            let rule = &on_trial()["view"]["rules"][0];
            rule["due_ns"].as_u64().is_some_and(|due_ns| due_ns < tccc::kernel::clock::boottime_ns().unwrap())
        });
        run(0, "status").stdout_has("undecided: the smaller arm has");
        assert_eq!((on_trial()["guard_lives"].as_bool(), share()), (Some(true), Some(50)));
        run(0, "policy abort");
    });
}
