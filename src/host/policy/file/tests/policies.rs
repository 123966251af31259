//! Random policies that a file can hold.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::prefixes::without_host_bits;
use crate::policy::limit::tests::any_limit;
use crate::policy::rule::{
    Allowed, Arm, CgroupName, GuardLimit, Match, OnFail, Policy, Portion, Ports, RolloutStep, Rule, RuleTrial, Split,
    SplitBy, Treatment, Undecided, Way,
};
use shared::units::prefix::Prefix;

const ALGORITHM: &str = "[a-zA-Z0-9_.-]{1,15}";

/// Rules have line 0. Only the last one may be for every connection.
pub(super) fn any_policy() -> impl Strategy<Value = Policy> {
    vec(any_rule(), 1..6).prop_map(|mut rules| {
        let last = rules.len() - 1;
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("{index}{}", rule.name);
            if index < last && rule.when == Match::default() {
                rule.when.netns = vec!["blue".to_owned()];
            }
        }
        Policy { rules }
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let name = "[a-zA-Z0-9_.-]{0,30}";
    let treatment = prop_oneof![
        prop_oneof![Just(Treatment::Keep), any_algorithm()].prop_map(|treatment| (whole(treatment), Vec::new())),
        any_split().prop_map(|split| (split, Vec::new())),
        any_steps(),
    ];
    (name, any_match(), treatment, any::<bool>(), option::of(any_trial())).prop_map(
        |(name, when, (split, steps), overrides, trial)| {
            let trial = fitting(trial, &split, steps);
            Rule { name, line: 0, when, split, overrides, overrides_route: true, trial }
        },
    )
}

/// Drops the parts of a trial that a file does not allow together with this split and these steps.
fn fitting(trial: Option<RuleTrial>, split: &Split, steps: Vec<RolloutStep>) -> Option<RuleTrial> {
    let mut trial = trial.unwrap_or_default();
    let changes = split.arms.iter().any(|arm| arm.treatment != Treatment::Keep);
    let keeps = split.arms.iter().any(|arm| arm.treatment == Treatment::Keep && arm.portion > Portion(0));
    let is_relative = |limit: &GuardLimit| matches!(limit.allowed, Allowed::Relative(_));
    trial.limits.retain(|limit| changes && (keeps || !is_relative(limit)));
    let mut kinds = BTreeSet::new();
    trial.limits.retain(|limit| kinds.insert((limit.metric, is_relative(limit))));
    if trial.limits.is_empty() && steps.is_empty() {
        return None;
    }
    let deadline = trial.deadline.filter(|_| steps.is_empty());
    Some(RuleTrial { steps, deadline, ..trial })
}

fn any_algorithm() -> impl Strategy<Value = Treatment> {
    ALGORITHM.prop_filter("an algorithm", |name| name != "keep").prop_map(Treatment::Algorithm)
}

fn any_by() -> impl Strategy<Value = SplitBy> {
    select(vec![SplitBy::Connection, SplitBy::Peer, SplitBy::Prefix])
}

fn whole(treatment: Treatment) -> Split {
    Split { arms: Arm::with_rest(treatment, Portion::ALL), by: SplitBy::Connection }
}

/// The arms' shares are the gaps between random cuts from 0 to 100 %.
fn any_split() -> impl Strategy<Value = Split> {
    let arms = btree_set(any_algorithm(), 2..6).prop_flat_map(|algorithms| {
        let cuts = vec(0..=Portion::ALL.0, algorithms.len() - 1);
        (Just(algorithms.into_iter().collect::<Vec<_>>()).prop_shuffle(), cuts, any::<bool>(), any_by())
    });
    arms.prop_map(|(mut treatments, mut cuts, keeps, by)| {
        if keeps {
            treatments.pop();
            treatments.push(Treatment::Keep);
        }
        cuts.sort_unstable();
        cuts.push(Portion::ALL.0);
        let mut from = 0;
        let arms = treatments.into_iter().zip(cuts).map(|(treatment, cut)| {
            let portion = Portion(cut - std::mem::replace(&mut from, cut));
            Arm { treatment, portion }
        });
        Split { arms: arms.collect(), by }
    })
}

fn any_steps() -> impl Strategy<Value = (Split, Vec<RolloutStep>)> {
    let portions = btree_set(1..Portion::ALL.0, 1..10).prop_map(Vec::from_iter);
    let steps = portions.prop_flat_map(|portions| {
        let durations = vec(any_time(), portions.len());
        durations.prop_map(move |durations| {
            let step = |(portion, duration): (&u16, Duration)| RolloutStep { portion: Portion(*portion), duration };
            portions.iter().zip(durations).map(step).collect::<Vec<_>>()
        })
    });
    (any_algorithm(), steps, any_by())
        .prop_map(|(treatment, steps, by)| (Split { arms: Arm::with_rest(treatment, steps[0].portion), by }, steps))
}

/// Any number of nanoseconds, or whole minutes.
fn any_time() -> impl Strategy<Value = Duration> {
    const DAYS: u64 = 30 * 86_400;
    prop_oneof![
        (10_000_000_000..DAYS * 1_000_000_000).prop_map(Duration::from_nanos),
        (1..=DAYS / 60).prop_map(|minutes| Duration::from_secs(minutes * 60)),
    ]
}

fn any_trial() -> impl Strategy<Value = RuleTrial> {
    let undecided = select(vec![Undecided::Revert, Undecided::Proceed, Undecided::Hold]);
    let on_fail = select(vec![OnFail::Revert, OnFail::Freeze]);
    (vec(any_limit(), 0..4), option::of(any_time()), undecided, on_fail).prop_map(
        |(limits, deadline, undecided, on_fail)| RuleTrial { limits, deadline, undecided, on_fail, steps: Vec::new() },
    )
}

fn any_match() -> impl Strategy<Value = Match> {
    let texts = |pattern: &'static str| btree_set(pattern, 0..3).prop_map(Vec::from_iter);
    let netns = prop_oneof![texts("[a-z0-9'\"\\\\é #=-]{1,20}"), texts("/run/[a-z'\"\\\\é/.]{0,20}")];
    let direction = option::of(select(vec![Way::In, Way::Out]));
    let current = texts("[a-zA-Z0-9_.-]{5,15}"); // never "keep"
    (any_cgroups(), netns, any_prefixes(), [any_ports(), any_ports()], direction, current).prop_map(
        |(cgroups, netns, to, [local_port, remote_port], direction, current)| Match {
            cgroups,
            netns,
            to,
            local_port,
            remote_port,
            direction,
            current,
        },
    )
}

/// Units before paths, as the reader orders them.
fn any_cgroups() -> impl Strategy<Value = Vec<CgroupName>> {
    let units = btree_set(r"[a-z@:_.\\-]{0,39}[a-z0-9]\.(service|socket|slice|scope)", 0..3);
    let path = vec(r#"[a-z '"\\é#=-]{1,20}"#, 1..4).prop_map(|parts| format!("/{}", parts.join("/")));
    (units, btree_set(path, 0..3)).prop_map(|(units, paths)| {
        let paths = paths.into_iter().map(|path| CgroupName::Path(path.into()));
        units.into_iter().map(CgroupName::Unit).chain(paths).collect()
    })
}

fn any_prefixes() -> impl Strategy<Value = Vec<Prefix>> {
    let v4 = (any::<Ipv4Addr>(), 0..=32_u32).prop_map(|(address, bits)| format!("{address}/{bits}"));
    let v6 = (any::<u128>(), 0..=128_u32).prop_map(|(address, bits)| format!("{}/{bits}", Ipv6Addr::from(address)));
    let prefix = prop_oneof![v4, v6].prop_map(|text| without_host_bits(&text).expect("a prefix"));
    btree_set(prefix, 0..20).prop_map(Vec::from_iter)
}

fn any_ports() -> impl Strategy<Value = Vec<Ports>> {
    let port = || 1..=u16::MAX;
    let range = (port(), port()).prop_map(|(one, other)| (one.min(other), one.max(other)));
    let range = prop_oneof![range, port().prop_map(|port| (port, port))];
    btree_set(range, 0..3).prop_map(|ranges| ranges.into_iter().map(|(first, last)| Ports(first..=last)).collect())
}
