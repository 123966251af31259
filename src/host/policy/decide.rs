//! The decision of the kernel program in Rust, for `tccc explain`. Also says why rules do not match.

use std::net::SocketAddr;
use std::path::Path;

use super::hash;
use super::rule::{Arm, CgroupName, Match, Policy, Ports, Rule, Split, Way, folder_of};
use super::table::Resolved;

/// A connection as a rule sees it. `None` means unknown and matches every condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub way: Option<Way>,
    /// Path below the mount.
    pub cgroup: Option<String>,
    pub netns_cookie: Option<u64>,
    /// The algorithm that the connection has, or had before a policy gave it another.
    pub algorithm: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision<'a> {
    /// Rules before the deciding one, or all rules if none decides. The text completes "the rule ...".
    pub passed_over: Vec<(&'a Rule, &'static str)>,
    pub decided: Option<(&'a Rule, &'a Arm)>,
}

/// Decides as the kernel program does.
pub fn decide<'a>(policy: &'a Policy, connection: &ConnectionView, resolved: &Resolved) -> Decision<'a> {
    let mut passed_over = Vec::new();
    for rule in &policy.rules {
        match mismatch(&rule.when, connection, resolved) {
            Some(why) => passed_over.push((rule, why)),
            None => return Decision { passed_over, decided: Some((rule, arm_of(rule, connection))) },
        }
    }
    Decision { passed_over, decided: None }
}

/// The arm of a rule that a connection belongs to.
pub fn arm_of<'a>(rule: &'a Rule, connection: &ConnectionView) -> &'a Arm {
    let Split { arms, by } = &rule.split;
    let bucket = hash::bucket(connection.local, connection.remote, *by, hash::salt(&rule.name));
    let mut below = 0;
    let found = arms.iter().find(|arm| {
        below += u64::from(arm.portion.0);
        bucket < below
    });
    found.or(arms.last()).expect("a rule has an arm")
}

fn mismatch(when: &Match, connection: &ConnectionView, resolved: &Resolved) -> Option<&'static str> {
    let ConnectionView { local, remote, way, cgroup, netns_cookie, algorithm } = connection;
    let is_in_netns = |cookie: &u64| when.netns.iter().any(|name| resolved.netns.get(name) == Some(cookie));
    let is_in_cgroup = |path: &String| when.cgroups.iter().any(|name| contains(name, path));
    let lacks = |conditions: usize, is_met: bool| conditions > 0 && !is_met;
    let lacks_port = |ports: &[Ports], port: u16| lacks(ports.len(), ports.iter().any(|it| it.0.contains(&port)));
    let checks = [
        ("is for the other direction", when.direction.is_some() && way.is_some_and(|way| Some(way) != when.direction)),
        (
            "is for other remote addresses",
            lacks(when.to.len(), when.to.iter().any(|prefix| prefix.contains(remote.ip()))),
        ),
        ("is for other local ports", lacks_port(&when.local_port, local.port())),
        ("is for other remote ports", lacks_port(&when.remote_port, remote.port())),
        ("is for other cgroups", lacks(when.cgroups.len(), cgroup.as_ref().is_none_or(is_in_cgroup))),
        ("is for another network namespace", lacks(when.netns.len(), netns_cookie.as_ref().is_none_or(is_in_netns))),
        (
            "is for connections with another algorithm",
            lacks(when.current.len(), algorithm.as_ref().is_none_or(|it| when.current.contains(it))),
        ),
    ];
    checks.into_iter().find(|(_, is_so)| *is_so).map(|(why, _)| why)
}

/// What a rule asks for and is unknown of a connection.
pub fn unknown(when: &Match, connection: &ConnectionView) -> Vec<&'static str> {
    let ConnectionView { way, cgroup, netns_cookie, algorithm, .. } = connection;
    let asked = [
        ("cgroup", !when.cgroups.is_empty() && cgroup.is_none()),
        ("network namespace", !when.netns.is_empty() && netns_cookie.is_none()),
        ("direction", when.direction.is_some() && way.is_none()),
        ("algorithm", !when.current.is_empty() && algorithm.is_none()),
    ];
    asked.into_iter().filter(|(_, is_unknown)| *is_unknown).map(|(what, _)| what).collect()
}

/// Whether a rule's cgroup is `path` or an ancestor of it.
pub fn contains(name: &CgroupName, path: &str) -> bool {
    match name {
        CgroupName::Unit(unit) => path.split('/').any(|part| part == folder_of(unit)),
        CgroupName::Path(wanted) => Path::new("/").join(path).starts_with(Path::new("/").join(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rule::{Portion, SplitBy};

    fn rule(name: &str, when: Match) -> Rule {
        let arm = |name: &str, hundredths| Arm { treatment: name.into(), portion: Portion(hundredths) };
        Rule::new(name, when, Split { arms: vec![arm("dtcp", 5000), arm("cct", 5000)], by: SplitBy::Connection })
    }

    fn connection(port: u16) -> ConnectionView {
        ConnectionView {
            local: SocketAddr::from(([10, 0, 0, 1], 443)),
            remote: SocketAddr::from(([192, 0, 2, 7], port)),
            way: Some(Way::In),
            cgroup: Some("/system.slice/nginx.service/worker".into()),
            netns_cookie: Some(1),
            algorithm: Some("cubic".into()),
        }
    }

    #[test]
    fn unit_is_found_by_the_name_that_systemd_gives_its_cgroup() {
        let unit = |name: &str| CgroupName::Unit(name.to_owned());
        assert!(
            contains(&unit("memory.slice"), "/_memory.slice/x") && !contains(&unit("memory.slice"), "/memory.slice")
        );
        assert!(contains(&unit("_a.service"), "/__a.service") && contains(&unit("cpuset.service"), "/_cpuset.service"));
        assert!(contains(&unit("memory-test.service"), "/memory-test.service"));
    }

    #[test]
    fn what_a_rule_asks_for_and_nobody_knows_is_named() {
        let when = Match {
            cgroups: vec![CgroupName::Unit("nginx.service".into())],
            direction: Some(Way::In),
            ..Match::default()
        };
        assert_eq!(unknown(&when, &connection(1)), Vec::<&str>::new());
        let less = ConnectionView { cgroup: None, way: None, ..connection(1) };
        assert_eq!(unknown(&when, &less), ["cgroup", "direction"]);
    }

    #[test]
    fn first_rule_that_matches_decides_and_the_others_say_why_not() {
        let mut when = [(); 8].map(|()| Match::default());
        when[0].cgroups = vec![CgroupName::Path("/system.slice/other.service".into())];
        when[1].netns = vec!["blue".into()];
        when[2].to = vec!["10.0.0.0/8".parse().unwrap()];
        when[3].local_port = vec![Ports(80..=80)];
        when[4].remote_port = vec![Ports(1..=10)];
        when[5].direction = Some(Way::Out);
        when[6].current = vec!["bbr".into()];
        when[7] = Match {
            cgroups: vec![CgroupName::Unit("nginx.service".into()), CgroupName::Path("/nowhere".into())],
            netns: vec!["red".into()],
            to: vec!["192.0.2.0/24".parse().unwrap()],
            local_port: vec![Ports(440..=450)],
            direction: Some(Way::In),
            ..Match::default()
        };
        let rules: Vec<Rule> = when.into_iter().enumerate().map(|(at, when)| rule(&format!("r{at}"), when)).collect();
        let mut resolved = Resolved::default();
        resolved.netns.extend([("blue".to_owned(), 2), ("red".to_owned(), 1)]);
        let policy = Policy { rules };
        let verdict = decide(&policy, &connection(1000), &resolved);
        let why: Vec<&str> = verdict.passed_over.iter().map(|(_, why)| *why).collect();
        let expected = "is for other cgroups, is for another network namespace, is for other remote addresses, \
            is for other local ports, is for other remote ports, is for the other direction, \
            is for connections with another algorithm";
        assert_eq!(why.join(", "), expected);
        assert_eq!(verdict.decided.map(|(rule, _)| rule.name.as_str()), Some("r7"));
    }

    #[test]
    fn half_of_the_connections_are_in_each_arm() {
        let rule = rule("web", Match::default());
        let first = (1..=10_000).filter(|&port| arm_of(&rule, &connection(port)) == &rule.split.arms[0]).count();
        assert!((4_800..5_200).contains(&first), "{first}");
    }

    #[test]
    fn path_of_a_cgroup_matches_whole_names_only() {
        let path = CgroupName::Path("/a/b".into());
        assert!(contains(&path, "/a/b") && contains(&path, "/a/b/c"));
        assert!(!contains(&path, "/a/bc") && !contains(&path, "/a") && !contains(&path, "/x/a/b"));
    }
}
