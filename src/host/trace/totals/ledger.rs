//! Names groups by cgroup path and arm, and keeps their counts when cgroups and arms come and go.
//!
//! While a series is shown, its counts never decrease. No count is lost: cgroups that were removed before they could be
//! named are added up in one sum without a path.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::group::{CountedGroup, key_of};
use crate::trace::program::types::totals_key;
use shared::arrival::RuleArm;

/// A group whose cgroup or arm was removed is shown this long after its last change, because scrapes are rarer than
/// sweeps. Twice Prometheus's default interval.
const SHOWN_GONE: Duration = Duration::from_secs(120);
/// With more groups than this (half of the kernel's room), a removed group is shown in one more sweep only.
const CROWDED: usize = 1024;
/// Limit of the sums of forgotten groups.
const CARRIED_MAX: usize = 1024;
/// The cgroup of the sums of forgotten groups. No cgroup has this id.
const FORGOTTEN: u64 = 0;

/// Algorithm, path and arm identify a series.
type Label = (String, Option<String>, Option<RuleArm>);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Cgroups found by the latest scan.
    paths: HashMap<u64, String>,
    /// The path of each cgroup with a group. `None`: the cgroup did not exist at its first listing.
    names: HashMap<u64, Option<String>>,
    /// The arms; the first has number 1.
    arms: Vec<RuleArm>,
    /// Arms of the current rules.
    current: BTreeSet<RuleArm>,
    /// Groups of removed policies, and the time of removal.
    left: Vec<(CountedGroup, Instant)>,
    /// Groups whose cgroup or arm was removed, as they were shown, and the time of their last change.
    gone: HashMap<totals_key, (CountedGroup, Instant)>,
    /// Sums of forgotten groups.
    carried: BTreeMap<Label, CountedGroup>,
}

impl Ledger {
    /// Whether a group's cgroup is newer than the latest listing.
    pub(super) fn lacks_a_path(&self, groups: &[CountedGroup]) -> bool {
        groups.iter().any(|group| !self.names.contains_key(&group.cgroup) && !self.paths.contains_key(&group.cgroup))
    }

    /// Updates the existing cgroups. Empty: there is no cgroup v2, and no cgroup counts as removed.
    pub(super) fn note_paths(&mut self, paths: impl IntoIterator<Item = (u64, String)>) {
        self.paths = paths.into_iter().collect();
    }

    pub(super) fn note_arms(&mut self, arms: Vec<RuleArm>, current: BTreeSet<RuleArm>) {
        (self.arms, self.current) = (arms, current);
    }

    /// Keeps the groups of a removed policy, which no program counts any more.
    pub(super) fn leave(&mut self, mut groups: Vec<CountedGroup>, now: Instant) {
        self.name(&mut groups);
        self.left.extend(groups.into_iter().map(|group| (group, now)));
        (self.arms, self.current) = (Vec::new(), BTreeSet::new());
    }

    /// Prepares the groups of a sweep to be shown: names them and adds the sums of forgotten ones.
    ///
    /// `forget` deletes a group from the kernel's map and returns whether it did.
    pub(super) fn settle(
        &mut self,
        mut groups: Vec<CountedGroup>,
        now: Instant,
        mut forget: impl FnMut(&CountedGroup) -> bool,
    ) -> Vec<CountedGroup> {
        self.name(&mut groups);
        let is_crowded = groups.len() > CROWDED;
        let mut before = std::mem::take(&mut self.gone);
        groups.retain(|group| {
            if !self.is_gone(group) {
                return true;
            }
            let key = key_of(group);
            let shown = before.remove(&key).filter(|(shown, _)| shown == group);
            let since = shown.as_ref().map_or(now, |(_, since)| *since);
            let is_long = is_crowded || group.path.is_none() || now.saturating_duration_since(since) >= SHOWN_GONE;
            if shown.is_some() && is_long && self.has_room(group) && forget(group) {
                self.carry(group);
                return false;
            }
            self.gone.insert(key, (group.clone(), since));
            true
        });
        for (group, since) in std::mem::take(&mut self.left) {
            if now.saturating_duration_since(since) < SHOWN_GONE {
                self.left.push((group, since));
            } else if self.has_room(&group) {
                self.carry(&group);
            }
        }
        groups.extend(self.left.iter().map(|(group, _)| group.clone()));
        self.let_go(&groups);
        groups.extend(self.carried.values().cloned());
        groups.sort_by(CountedGroup::order);
        groups
    }

    fn name(&mut self, groups: &mut [CountedGroup]) {
        for group in groups {
            let name = self.names.entry(group.cgroup).or_insert_with(|| self.paths.get(&group.cgroup).cloned());
            group.path = name.clone();
            group.arm = group.slot.checked_sub(1).and_then(|place| self.arms.get(place as usize)).cloned();
        }
    }

    /// Whether the cgroup or the arm was removed, and the last connection ended.
    fn is_gone(&self, group: &CountedGroup) -> bool {
        let has_cgroup = self.paths.is_empty() || self.paths.contains_key(&group.cgroup);
        let has_arm = group.arm.as_ref().is_none_or(|arm| self.current.contains(arm));
        group.sockets == 0 && !(has_cgroup && has_arm)
    }

    fn has_room(&self, group: &CountedGroup) -> bool {
        self.carried.len() < CARRIED_MAX || self.carried.contains_key(&label_of(group))
    }

    fn carry(&mut self, group: &CountedGroup) {
        let sum = self.carried.entry(label_of(group)).and_modify(|sum| sum.add(group));
        sum.or_insert_with(|| CountedGroup { cgroup: FORGOTTEN, ..group.clone() });
    }

    /// Drops names without a group, and sums with a path or arm that no group has.
    fn let_go(&mut self, groups: &[CountedGroup]) {
        let cgroups: HashSet<u64> = groups.iter().map(|group| group.cgroup).collect();
        self.names.retain(|cgroup, _| cgroups.contains(cgroup));
        let shown: HashSet<Label> = groups.iter().map(label_of).collect();
        self.carried.retain(|label, _| (label.1.is_none() && label.2.is_none()) || shown.contains(label));
    }
}

fn label_of(group: &CountedGroup) -> Label {
    (group.algorithm.clone(), group.path.clone(), group.arm.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: Duration = Duration::from_secs(5);
    const ROOT: (u64, &str) = (1, "/");

    struct CountedHost {
        ledger: Ledger,
        kernel: BTreeMap<u64, CountedGroup>,
        now: Instant,
    }

    impl CountedHost {
        fn new() -> CountedHost {
            CountedHost { ledger: Ledger::default(), kernel: BTreeMap::new(), now: Instant::now() }
        }

        fn count(&mut self, cgroup: u64, sockets: u64, bytes_acked: u64) {
            self.kernel.insert(cgroup, group(cgroup, sockets, bytes_acked));
        }

        /// The bytes shown by path, some time later, with these cgroups.
        fn shown(&mut self, later: Duration, cgroups: &[(u64, &str)]) -> BTreeMap<String, u64> {
            self.now += later;
            self.ledger.note_paths(cgroups.iter().map(|(cgroup, path)| (*cgroup, (*path).to_owned())));
            let (groups, kernel) = (self.kernel.values().cloned().collect(), &mut self.kernel);
            by_path(self.ledger.settle(groups, self.now, |group| kernel.remove(&group.cgroup).is_some()))
        }
    }

    fn group(cgroup: u64, sockets: u64, bytes_acked: u64) -> CountedGroup {
        CountedGroup { algorithm: "one".into(), cgroup, sockets, bytes_acked, ..CountedGroup::default() }
    }

    fn by_path(shown: Vec<CountedGroup>) -> BTreeMap<String, u64> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for group in shown {
            *bytes.entry(group.path.unwrap_or_default()).or_default() += group.bytes_acked;
        }
        bytes
    }

    fn bytes(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
        expected.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)).collect()
    }

    /// Regression: the group was deleted before it was shown.
    #[test]
    fn cgroup_that_lived_between_two_sweeps_stays_in_the_sum_without_a_path() {
        let mut host = CountedHost::new();
        host.count(9, 0, 100);
        assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[("", 100)]));
        assert!(host.kernel.contains_key(&9), "it was deleted when it was shown for the first time");
        for _ in 0..3 {
            assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[("", 100)]));
            assert!(host.kernel.is_empty(), "its room is not freed");
        }
        host.count(10, 1, 50);
        assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[("", 150)]));
        host.count(10, 0, 60);
        for _ in 0..3 {
            assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[("", 160)]));
        }
        let ledger = &host.ledger;
        assert_eq!((ledger.names.len(), ledger.gone.len(), ledger.carried.len()), (0, 0, 1));
    }

    /// Regression: the counts moved to the series without a path, which decreased when the group was deleted.
    #[test]
    fn removed_cgroup_keeps_its_path_until_its_last_counts_were_shown() {
        let mut host = CountedHost::new();
        host.count(5, 2, 100);
        assert_eq!(host.shown(SWEEP, &[ROOT, (5, "/a")]), bytes(&[("/a", 100)]));
        for (sockets, acked) in [(1, 150), (0, 200), (0, 210)] {
            host.count(5, sockets, acked);
            assert_eq!(host.shown(SHOWN_GONE, &[ROOT]), bytes(&[("/a", acked)]));
        }
        assert_eq!(host.shown(SHOWN_GONE - SWEEP, &[ROOT]), bytes(&[("/a", 210)]));
        assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[]));
        let ledger = &host.ledger;
        assert_eq!((ledger.names.len(), ledger.gone.len(), ledger.carried.len()), (0, 0, 0));
        assert!(host.kernel.is_empty());
    }

    /// A restarted service has a new cgroup with the same path.
    #[test]
    fn cgroup_made_again_under_its_path_does_not_count_backwards() {
        let mut host = CountedHost::new();
        host.count(5, 1, 100);
        assert_eq!(host.shown(SWEEP, &[ROOT, (5, "/a")]), bytes(&[("/a", 100)]));
        host.count(5, 0, 100);
        host.count(6, 1, 7);
        for _ in 0..3 {
            assert_eq!(host.shown(SHOWN_GONE, &[ROOT, (6, "/a")]), bytes(&[("/a", 107)]));
        }
        assert_eq!(host.kernel.keys().copied().collect::<Vec<_>>(), [6]);
        host.count(6, 0, 20);
        assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[("/a", 120)]));
        assert_eq!(host.shown(SHOWN_GONE, &[ROOT]), bytes(&[]));
        assert!(host.ledger.carried.is_empty(), "the sum of a path that nobody shows is kept");
    }

    #[test]
    fn room_is_freed_after_one_sweep_more_when_groups_are_many() {
        let mut host = CountedHost::new();
        let cgroups: Vec<(u64, &str)> = (2..).map(|cgroup| (cgroup, "/many")).take(CROWDED + 1).collect();
        cgroups.iter().for_each(|(cgroup, _)| host.count(*cgroup, 0, 1));
        let all = bytes(&[("/many", CROWDED as u64 + 1)]);
        assert_eq!(host.shown(SWEEP, &cgroups), all);
        assert_eq!(host.shown(SWEEP, &[ROOT]), all);
        assert_eq!(host.kernel.len(), cgroups.len());
        assert_eq!(host.shown(SWEEP, &[ROOT]), bytes(&[]));
        assert!(host.kernel.is_empty());
    }

    #[test]
    fn host_without_cgroups_forgets_nothing() {
        let mut host = CountedHost::new();
        host.count(1, 0, 100);
        for _ in 0..3 {
            assert_eq!(host.shown(SHOWN_GONE, &[]), bytes(&[("", 100)]));
        }
        assert!(host.kernel.contains_key(&1));
    }

    fn arm(rule: &str) -> RuleArm {
        RuleArm { rule: rule.into(), arm: "keep".into() }
    }

    /// The bytes shown by rule.
    fn by_rule(ledger: &mut Ledger, groups: &[CountedGroup], now: Instant) -> BTreeMap<String, u64> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for group in ledger.settle(groups.to_vec(), now, |_| true) {
            *bytes.entry(group.arm.map_or(String::new(), |arm| arm.rule)).or_default() += group.bytes_acked;
        }
        bytes
    }

    #[test]
    fn group_of_an_arm_that_the_policy_lost_is_shown_for_a_while() {
        let mut ledger = Ledger::default();
        ledger.note_paths([(1, "/".to_owned())]);
        let in_arm = |slot, sockets| CountedGroup { slot, ..group(1, sockets, 100) };
        let groups = [in_arm(0, 1), in_arm(1, 0), in_arm(2, 0)];
        ledger.note_arms(vec![arm("web"), arm("mail")], BTreeSet::from([arm("web")]));
        let now = Instant::now();
        let all = bytes(&[("", 100), ("mail", 100), ("web", 100)]);
        assert_eq!(by_rule(&mut ledger, &groups, now), all);
        assert_eq!(by_rule(&mut ledger, &groups, now + SHOWN_GONE), bytes(&[("", 100), ("web", 100)]));
        let open = [in_arm(0, 1), in_arm(1, 0), in_arm(2, 1)];
        assert_eq!(by_rule(&mut ledger, &open, now + 3 * SHOWN_GONE), all, "one of its connections is open");
    }

    /// A new policy gives the numbers another meaning, and its program counts from zero.
    #[test]
    fn counts_of_a_policy_that_is_gone_are_not_those_of_the_next_one() {
        let mut ledger = Ledger::default();
        ledger.note_paths([(1, "/".to_owned())]);
        let in_arm = |bytes_acked| CountedGroup { slot: 1, ..group(1, 1, bytes_acked) };
        ledger.note_arms(vec![arm("web")], BTreeSet::from([arm("web")]));
        let now = Instant::now();
        assert_eq!(by_rule(&mut ledger, &[in_arm(100)], now), bytes(&[("web", 100)]));
        ledger.leave(vec![CountedGroup { sockets: 0, ..in_arm(110) }], now);
        assert_eq!(by_rule(&mut ledger, &[], now + SWEEP), bytes(&[("web", 110)]));
        ledger.note_arms(vec![arm("mail")], BTreeSet::from([arm("mail")]));
        assert_eq!(by_rule(&mut ledger, &[in_arm(5)], now + SWEEP), bytes(&[("mail", 5), ("web", 110)]));
        ledger.note_arms(vec![arm("web")], BTreeSet::from([arm("web")]));
        for later in [SWEEP, SHOWN_GONE, 2 * SHOWN_GONE] {
            assert_eq!(by_rule(&mut ledger, &[in_arm(7)], now + later), bytes(&[("web", 117)]), "it counts backwards");
        }
        assert_eq!(by_rule(&mut ledger, &[], now + 3 * SHOWN_GONE), bytes(&[]));
        assert!(ledger.left.is_empty() && ledger.carried.is_empty());
    }

    #[test]
    fn new_cgroup_is_looked_up_once_and_group_that_cannot_be_forgotten_is_counted_once() {
        let mut ledger = Ledger::default();
        let groups = vec![group(1, 1, 0), group(9, 0, 100)];
        assert!(ledger.lacks_a_path(&groups));
        ledger.note_paths([(1, "/".to_owned())]);
        assert!(ledger.lacks_a_path(&groups));
        for _ in 0..3 {
            let shown = ledger.settle(groups.clone(), Instant::now(), |_| false);
            assert_eq!(by_path(shown), bytes(&[("", 100), ("/", 0)]));
            assert!(!ledger.lacks_a_path(&groups), "a missing cgroup is looked up at every sweep");
        }
    }
}
