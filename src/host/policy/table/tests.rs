//! The tables of rules, and their lookup.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::policy::rule::{Arm, Match, Split};

fn rule(name: &str, when: Match) -> Rule {
    let arms = vec![Arm { treatment: "dtcp".into(), portion: Portion::ALL }];
    Rule::new(name, when, Split { arms, by: SplitBy::Connection })
}

fn rules_at(ranges: &[(u128, RuleSet)], number: u128) -> RuleSet {
    ranges[ranges.partition_point(|(begin, _)| *begin <= number) - 1].1
}

#[test]
fn prefix_inside_another_has_the_rules_of_both() {
    let prefixes: Vec<(Prefix, usize)> = [("10.0.0.0/8", 0), ("10.1.0.0/16", 1), ("::/0", 2), ("10.1.2.3", 3)]
        .map(|(text, rule)| (text.parse().unwrap(), rule))
        .into();
    let ranges = ranges(&prefixes);
    let expected =
        [("10.0.0.1", 0b101), ("10.1.0.1", 0b111), ("10.1.2.3", 0b1111), ("10.2.0.0", 0b101), ("fd00::1", 0b100)];
    for (address, rules) in expected {
        assert_eq!(rules_at(&ranges, hash::number(address.parse().unwrap())), rules, "{address}");
    }
}

#[test]
fn whole_address_space_is_one_range() {
    assert_eq!(ranges(&[("::/0".parse().unwrap(), 0)]), [(0, 1)]);
    assert_eq!(ranges(&[]), [(0, 0)]);
}

proptest! {
    #[test]
    fn ranges_agree_with_the_prefixes(
        given in proptest::collection::vec((any::<u128>(), 0u32..=128, 0usize..64), 0..40),
        near in any::<prop::sample::Index>(),
        offset in -2i64..=2,
    ) {
        let text = |(bits, length): (u128, u32)| {
            let kept = if length == 0 { 0 } else { bits & (u128::MAX << (128 - length)) };
            format!("{}/{length}", std::net::Ipv6Addr::from_bits(kept))
        };
        // Some mapped addresses are written as IPv4. Their prefix then has fewer bits.
        let prefixes: Vec<(Prefix, usize)> =
            given.iter().filter_map(|&(bits, length, rule)| Some((text((bits, length)).parse().ok()?, rule))).collect();
        let ranges = ranges(&prefixes);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        let probe = if given.is_empty() { 0 } else { near.get(&given).0 };
        let probe = probe.wrapping_add_signed(offset.into());
        let address = IpAddr::V6(std::net::Ipv6Addr::from_bits(probe));
        let matching = prefixes.iter().filter(|(prefix, _)| prefix.contains(address));
        let expected = matching.fold(0, |set, (_, rule)| set | 1 << rule);
        prop_assert_eq!(rules_at(&ranges, probe), expected);
    }
}

#[test]
fn cgroup_by_path_is_found_on_its_way_and_nowhere_else() {
    let path = |text: &str| CgroupName::Path(text.into());
    let mut tree = CgroupTree::default();
    tree.add(&path("/system.slice/nginx.service"), 1);
    tree.add(&path("/system.slice"), 2);
    tree.add(&CgroupName::Unit("nginx.service".into()), 4);
    let at = |names: &[&str]| names.iter().fold(tree.root(), |place, name| tree.place(place, name)).rules;
    assert_eq!(at(&["system.slice"]), 2);
    assert_eq!(at(&["system.slice", "nginx.service"]), 7);
    assert_eq!(at(&["system.slice", "nginx.service", "worker"]), 7);
    assert_eq!(at(&["user.slice", "nginx.service"]), 4);
    assert_eq!(at(&["system.slice", "other.service", "nginx.service"]), 6);
    assert_eq!(at(&["nginx.slice"]), 0);
}

#[test]
fn kind_without_conditions_is_not_looked_up() {
    let policy = Policy { rules: vec![rule("one", Match::default()), rule("two", Match::default())] };
    let tables = RuleTables::of(&policy, &Resolved::default());
    let any = tables.any;
    assert_eq!([any.cgroup, any.netns, any.remote, any.local_port, any.remote_port, any.current], [!0; 6]);
    assert_eq!((tables.rules_in, tables.rules_out), (3, 3));
}

#[test]
fn arms_add_up_from_the_first_to_the_last() {
    let mut split = rule("web", Match::default());
    let arm = |name: &str, hundredths| Arm { treatment: name.into(), portion: Portion(hundredths) };
    split.split.arms = vec![arm("dtcp", 500), arm("cct", 1500), arm("keep", 8000)];
    let slots = BTreeMap::from([(("web".to_owned(), "cct".to_owned()), 7)]);
    let tables = RuleTables::of(&Policy { rules: vec![split] }, &Resolved { slots, ..Resolved::default() });
    let arms: Vec<_> = tables.arms.iter().map(|arm| (arm.algorithm.as_str(), arm.below, arm.slot)).collect();
    assert_eq!(arms, [("dtcp", 500, 0), ("cct", 2000, 7), ("", 10_000, 0)]);
}
