//! The kernel program decides as `policy::decide` does: random policies over a few hundred open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tccc::policy::decide::{ConnectionView, decide};
use tccc::policy::migrate::{SocketDecision, SweepParts};
use tccc::policy::record::PolicyRecord;
use tccc::policy::rule::{
    ARMS_MAX, Arm, CgroupName, Match, Policy, Portion, Ports, RULES_MAX, Rule, Split, SplitBy, Treatment, Way,
};
use tccc::policy::table::{Resolved, RuleTables};
use tccc::policy::{migrate, program, resolve};
use tccc::units::prefix::Prefix;

use super::*;

/// A variable for the number of policies.
const VARIABLE: &str = "TCCC_POLICIES";
const POLICIES_IN_CI: usize = 80;
const SEED: u128 = 64;
const OTHER_NETNS: &str = "ldk_other";
const NETNS: [&str; 3] = [NAME, OTHER_NETNS, "/proc/self/ns/net"];
const GROUPS: [&str; 4] =
    ["/ldk_tccc.slice/a.service", "/ldk_tccc.slice/a.service/in", "/ldk_tccc.slice/b.service", "/ldk_tccc_b/a.service"];

struct Draws(Pcg64Mcg);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0.next_u32() as usize % limit
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// An empty list in two of three cases, else one to four draws.
    fn some<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = if self.below(3) == 0 { 1 + self.below(4) } else { 0 };
        (0..count).map(|_| draw(self)).collect()
    }
}

/// Connections that differ in every way that rules distinguish. For some server ports a listener is open.
fn connections(lab: &PolicyLab) -> (Vec<SocketPair>, Vec<TcpListener>, Vec<TestCgroup>) {
    let other = named_netns(OTHER_NETNS);
    let mut random = Draws(Pcg64Mcg::new(SEED + 1));
    let mut pairs = Vec::new();
    let mut open = |netns: &tccc::kernel::netns::Netns| {
        for _ in 0..8 {
            let [a, b] = [random.below(256), random.below(256)];
            for (from, to, is_dual) in [
                (format!("127.0.{a}.{b}"), format!("127.{b}.0.{a}"), false),
                (format!("127.{a}.0.1"), format!("127.0.0.1:{}", 4000 + pairs.len()), true),
                ("::1".into(), "::1".into(), false),
                (format!("::ffff:127.0.{a}.1"), format!("::ffff:127.{b}.{a}.1"), true),
            ] {
                let client = [None, None, Some("cubic"), Some("bbr")][random.below(4)];
                let ends = Endpoints { is_dual, client, ..Endpoints::new(&from, &to) };
                pairs.push(netns.run(|| Ok(SocketPair::open(&ends))).unwrap());
            }
        }
    };
    open(&other);
    let groups = GROUPS.map(TestCgroup::create);
    groups.iter().for_each(|group| group.inside(|| open(&lab.netns)));
    let local = |pair: &SocketPair| pair.server.local_addr().unwrap();
    let ports: BTreeSet<u16> = pairs.iter().skip(32).step_by(3).map(|pair| local(pair).port()).collect();
    let listen = |port| listen_at(([127, 255, 0, 1], port).into(), false, None);
    let listeners = lab.inside(|| ports.into_iter().map(listen).collect());
    (pairs, listeners, groups.into())
}

fn random_rule(index: usize, random: &mut Draws, sights: &[SocketDecision], paths: &[PathBuf]) -> Rule {
    let prefix = |random: &mut Draws| -> Prefix {
        let (width, number) = match random.one(sights).remote.ip() {
            IpAddr::V4(address) => (32, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (128, address.to_bits()),
        };
        let bits = random.below(width + 1);
        let kept = if bits == 0 { 0 } else { number & u128::MAX << (128 - bits) };
        let address = if width == 32 { IpAddr::V4(((kept >> 96) as u32).into()) } else { IpAddr::V6(kept.into()) };
        format!("{address}/{bits}").parse().unwrap()
    };
    let ports = |port: u16, random: &mut Draws| {
        let begin = port.saturating_sub(random.below(3) as u16 * 100).max(1);
        Ports(begin..=port.saturating_add(random.below(3) as u16 * 50))
    };
    let cgroup = |random: &mut Draws| match random.below(2) {
        0 => CgroupName::Unit(["a.service", "b.service", "ldk_tccc.slice"][random.below(3)].into()),
        _ => CgroupName::Path(random.one(paths).clone()),
    };
    let netns = |random: &mut Draws| random.one(&NETNS).to_string();
    let when = Match {
        cgroups: random.some(cgroup),
        netns: random.some(netns),
        to: random.some(prefix),
        local_port: random.some(|random| ports(random.one(sights).local.port(), random)),
        remote_port: random.some(|random| ports(random.one(sights).remote.port(), random)),
        direction: [None, Some(Way::In), Some(Way::Out)][random.below(3)],
        current: random.some(|random| ["reno", "cubic", "bbr", "dtcp"][random.below(4)].to_owned()),
    };
    Rule {
        split: random_split(random),
        overrides: random.below(2) == 0,
        ..rule(&format!("rule-{index}"), when, vec![])
    }
}

fn random_split(random: &mut Draws) -> Split {
    let names = ["cubic", "bbr", "reno"].map(|name| Treatment::Algorithm(name.into()));
    let mut left = Portion::ALL.0;
    let mut arms: Vec<Arm> = Vec::new();
    for treatment in names.into_iter().take(random.below(4)) {
        let portion = Portion(random.below(usize::from(left) + 1) as u16);
        left -= portion.0;
        arms.push(Arm { treatment, portion });
    }
    arms.push(Arm { treatment: Treatment::Keep, portion: Portion(left) });
    Split { arms, by: *random.one(&[SplitBy::Connection, SplitBy::Peer, SplitBy::Prefix]) }
}

fn names_of_all() -> Resolved {
    let when = Match { netns: NETNS.map(str::to_owned).to_vec(), ..Match::default() };
    let rule = rule("all", when, Vec::new());
    resolve::resolve(&Policy { rules: vec![rule] }, &PolicyRecord::default()).unwrap()
}

/// The set of rules that match a connection, as bits, and the index of the deciding arm.
fn expected(policy: &Policy, alone: &[Policy], connection: &ConnectionView, resolved: &Resolved) -> (u64, usize) {
    let is_match = |(_, one): &(usize, &Policy)| decide(one, connection, resolved).decided.is_some();
    let matching = alone.iter().enumerate().filter(is_match).fold(0, |set, (index, _)| set | 1u64 << index);
    let Some((rule, arm)) = decide(policy, connection, resolved).decided else { return (matching, 0) };
    let rules = policy.rules.iter().take_while(|other| !std::ptr::eq(*other, rule));
    let before: usize = rules.map(|other| other.split.arms.len()).sum();
    (matching, before + rule.split.arms.iter().position(|other| std::ptr::eq(other, arm)).unwrap())
}

#[test]
fn kernel_decides_as_the_model_does() {
    let policies = std::env::var(VARIABLE).map_or(POLICIES_IN_CI, |text| text.parse().unwrap());
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let (pairs, _listeners, _groups) = connections(lab);
    let cgroups: HashMap<u64, String> = cgroup::paths(10_000).unwrap().into_iter().collect();
    let mut paths: Vec<PathBuf> = GROUPS.iter().map(PathBuf::from).collect();
    paths.extend(["/ldk_tccc.slice", "/ldk_tccc.slice/a.service/none", "/a.service"].map(PathBuf::from));
    let sights = migrate::look(&RuleTables::default(), None).unwrap();
    assert!(sights.len() >= 2 * pairs.len(), "{} of {}", sights.len(), 2 * pairs.len());
    let resolved = names_of_all();
    let mut random = Draws(Pcg64Mcg::new(SEED));
    let (mut compared, mut matched, mut incoming) = (0, 0, 0);
    for number in 0..policies {
        let count = 1 + random.below(if number % 10 == 0 { RULES_MAX } else { 8 });
        let rules: Vec<Rule> = (0..count).map(|index| random_rule(index, &mut random, &sights, &paths)).collect();
        assert!(rules.iter().map(|rule| rule.split.arms.len()).sum::<usize>() <= ARMS_MAX);
        let policy = Policy { rules };
        let alone: Vec<Policy> = policy.rules.iter().map(|rule| Policy { rules: vec![rule.clone()] }).collect();
        let tables = RuleTables::of(&policy, &resolved);
        let loaded = program::load(&tables, 1, None, None).unwrap();
        let map = |name| loaded.map(name).unwrap().try_clone().unwrap();
        let shared = SweepParts { labels: map("labels"), cgroups: Some(map("cgroups")), number: 1 };
        for sight in migrate::look(&tables, Some(&shared)).unwrap() {
            let connection = ConnectionView {
                local: sight.local,
                remote: sight.remote,
                way: Some(if sight.is_in { Way::In } else { Way::Out }),
                cgroup: cgroups.get(&sight.cgroup).cloned(),
                netns_cookie: Some(sight.netns_cookie),
                algorithm: Some(sight.algorithm.clone()),
            };
            let expected = expected(&policy, &alone, &connection, &resolved);
            let got = (sight.matching, usize::from(sight.arm));
            assert_eq!(got, expected, "policy {number}: {connection:?} under {policy:?}");
            compared += 1;
            matched += usize::from(sight.matching != 0);
            incoming += usize::from(sight.is_in);
        }
    }
    println!("{compared} decisions of {policies} policies, {matched} by a rule, {incoming} of accepted connections");
    assert!(matched > compared / 4 && matched < compared && incoming > compared / 20);
}
