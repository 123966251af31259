//! `--live`: open connections get what the rules say, and get back what they had.

use crate::common::host_has;
use crate::lab::policy::pair::choose;
use crate::lab::policy::{Ends, Lab, Pair, with_lab};
use crate::lab::sandbox::{run, stdout};
use crate::lab::trace::tcp_info;

/// Rules that concern the lab alone: a sweep visits every namespace of the host.
fn rule(use_: &str) -> String {
    format!("[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"\n{use_}\n")
}

fn pairs(lab: &Lab, count: usize) -> Vec<Pair> {
    (0..count).map(|_| lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"))).collect()
}

/// Seen, moved, had it, chosen.
#[track_caller]
fn moves(said: &str) -> [u64; 4] {
    let line = said.lines().find(|line| line.starts_with("open connections: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(!said.contains("refused to move"), "{said}");
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

fn all_have(pairs: &[Pair], names: [&str; 2]) {
    pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), names));
}

#[test]
fn live_moves_open_connections_once_and_gives_them_back() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let mut pairs = pairs(lab, 50);
        let mut chosen = lab.pair(&Ends { client: Some("bbr"), ..Ends::new("127.0.0.1", "127.0.0.2") });
        choose(&chosen.server, "reno").unwrap();
        lab.policy(0, "apply", &rule("use = \"cubic\""))
            .stderr_has("open connections keep their algorithm; `--live` moves them too");
        all_have(&pairs, ["reno", "reno"]);
        let live = |rules: &str| moves(&stdout(&lab.policy(0, "apply --live", rules)));
        let [seen, moved, had, left] = live(&rule("use = \"cubic\""));
        assert!(seen >= 102, "{seen}");
        assert_eq!((moved, had, left), (100, 0, 2));
        all_have(&pairs, ["cubic", "cubic"]);
        assert_eq!(chosen.algorithms(), ["bbr", "reno"]);
        pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
        let [_, moved, had, _] = live(&rule("use = \"cubic\""));
        assert_eq!((moved, had), (0, 100), "a second sweep sets nothing");
        let [_, moved, ..] = live(&rule("use = \"bbr\""));
        assert_eq!(moved, 100);
        let [_, moved, ..] = live(&rule("use = \"keep\""));
        assert_eq!(moved, 100, "a rule that keeps gives back what there was");
        all_have(&pairs, ["reno", "reno"]);
        live(&format!("{}override = true\n", rule("use = \"cubic\"")));
        assert_eq!(chosen.algorithms(), ["cubic", "cubic"]);
        choose(&chosen.client, "reno").unwrap(); // the program changes its mind
        let [_, moved, ..] = moves(&stdout(&run(0, "policy remove --live")));
        assert_eq!(moved, 101);
        all_have(&pairs, ["reno", "reno"]);
        assert_eq!(chosen.algorithms(), ["reno", "reno"]);
        pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
        chosen.exchange(200_000);
    });
}

/// New connections of the policy and moved ones get back what each had before.
#[test]
fn remove_live_gives_back_what_each_connection_had() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let route = "route add table local local 127.77.0.0/16 dev lo src 127.0.0.1 congctl bbr";
        lab.ip(route);
        let before = lab.pair(&Ends::new("127.0.0.1", "127.77.0.1"));
        lab.policy(0, "apply --live", &rule("use = \"cubic\""));
        let after = lab.pair(&Ends::new("127.0.0.1", "127.77.0.1"));
        for pair in [&before, &after] {
            assert_eq!(pair.algorithms(), ["cubic", "cubic"]);
        }
        let listening = lab.pair(&Ends { listener: Some("bbr"), ..Ends::new("127.0.0.1", "127.0.0.1") });
        assert_eq!(listening.algorithms(), ["cubic", "bbr"]);
        run(0, "policy remove --live");
        for pair in [&before, &after] {
            assert_eq!(pair.algorithms(), ["bbr", "reno"]);
        }
        assert_eq!(listening.algorithms(), ["reno", "bbr"]);
    });
}

/// What BBR paced with stays at a socket that leaves it, and would slow the next algorithm down for ever.
#[test]
fn connection_that_leaves_bbr_is_not_paced_any_more() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(&rule("use = \"bbr\""));
        let mut free = lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"));
        let mut limited = lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"));
        const LIMIT: u64 = 5_000_000;
        crate::lab::pair::limit_pacing(&limited.client, LIMIT);
        for pair in [&mut free, &mut limited] {
            assert_eq!(pair.algorithms()[0], "bbr");
            pair.exchange(300_000);
        }
        assert!(tcp_info(&free.client).pacing_rate < u64::MAX);
        lab.policy(0, "apply --live", &rule("use = \"cubic\""));
        assert_eq!(free.algorithms(), ["cubic", "cubic"]);
        assert_eq!(tcp_info(&free.client).pacing_rate, u64::MAX, "the rate that bbr left is gone");
        let info = tcp_info(&limited.client);
        assert_eq!(info.max_pacing_rate, LIMIT, "what the program asked for stays");
        assert!(info.pacing_rate <= LIMIT, "{}", info.pacing_rate);
        free.exchange(1 << 20);
        limited.exchange(300_000);
    });
}

#[test]
fn half_of_the_open_connections_move_with_a_split() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let pairs = pairs(lab, 300);
        let split = rule("split = { cubic = 50, keep = 50 }");
        let [_, moved, ..] = moves(&stdout(&lab.policy(0, "apply --live", &split)));
        let ends: Vec<String> = pairs.iter().flat_map(Pair::algorithms).collect();
        let cubic = ends.iter().filter(|name| *name == "cubic").count();
        assert_eq!(moved as usize, cubic);
        assert!((230..370).contains(&cubic), "{cubic} of 600 at 50 %");
        let [_, moved, ..] = moves(&stdout(&run(0, "policy remove --live")));
        assert_eq!(moved as usize, cubic);
        all_have(&pairs, ["reno", "reno"]);
    });
}
