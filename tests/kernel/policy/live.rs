//! `--live`: open connections get the algorithm of the rules, and get their earlier algorithm back.

use super::*;

/// A rule for the lab's namespace only, because a sweep visits all namespaces of the host.
fn rule(use_: &str) -> String {
    format!("[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"\n{use_}\n")
}

fn pairs(lab: &PolicyLab, count: usize) -> Vec<SocketPair> {
    (0..count).map(|_| lab.plain()).collect()
}

/// Open connections that a command saw, moved, found moved already, and left alone because a program chose.
#[track_caller]
fn moves(said: &Said) -> [u64; 4] {
    let said = said.stdout();
    let line = said.lines().find(|line| line.starts_with("open connections: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(!said.contains("refused to move"), "{said}");
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[track_caller]
fn assert_all_have(pairs: &[SocketPair], names: [&str; 2]) {
    pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), names));
}

#[test]
fn live_apply_moves_open_connections_once_and_live_remove_moves_them_back() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let mut pairs = pairs(lab, 50);
    let mut chosen = lab.pair(&Endpoints { client: Some("bbr"), ..Endpoints::loopback() });
    choose(&chosen.server, "reno").unwrap();
    lab.policy(0, "apply", &rule("use = \"cubic\""))
        .stderr_has("open connections keep their algorithm; `--live` moves them too");
    assert_all_have(&pairs, ["reno", "reno"]);
    let live = |rules: &str| moves(&lab.policy(0, "apply --live", rules));
    let [seen, moved, had, left] = live(&rule("use = \"cubic\""));
    assert!(seen >= 102, "{seen}");
    assert_eq!((moved, had, left), (100, 0, 2));
    assert_all_have(&pairs, ["cubic", "cubic"]);
    assert_eq!(chosen.algorithms(), ["bbr", "reno"]);
    pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
    let [_, moved, had, _] = live(&rule("use = \"cubic\""));
    assert_eq!((moved, had), (0, 100), "a second sweep sets nothing");
    let [_, moved, ..] = live(&rule("use = \"bbr\""));
    assert_eq!(moved, 100);
    let [_, moved, ..] = live(&rule("use = \"keep\""));
    assert_eq!(moved, 100, "a rule that keeps restores the earlier algorithm");
    assert_all_have(&pairs, ["reno", "reno"]);
    live(&format!("{}override = true\n", rule("use = \"cubic\"")));
    assert_eq!(chosen.algorithms(), ["cubic", "cubic"]);
    choose(&chosen.client, "reno").unwrap(); // the program changes its mind
    let [_, moved, ..] = moves(&run(0, "policy remove --live"));
    assert_eq!(moved, 101);
    assert_all_have(&pairs, ["reno", "reno"]);
    assert_eq!(chosen.algorithms(), ["reno", "reno"]);
    pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
    chosen.exchange(200_000);
}

/// Both new connections and moved ones get the algorithm that they would have had.
#[test]
fn live_remove_restores_the_algorithm_of_each_connection() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let route = "route add table local local 127.77.0.0/16 dev lo src 127.0.0.1 congctl bbr";
    lab.ip(route);
    let before = lab.pair(&Endpoints::new("127.0.0.1", "127.77.0.1"));
    lab.policy(0, "apply --live", &rule("use = \"cubic\""));
    let after = lab.pair(&Endpoints::new("127.0.0.1", "127.77.0.1"));
    assert_eq!([before.algorithms(), after.algorithms()], [["cubic", "cubic"]; 2]);
    let listening = lab.pair(&Endpoints { listener: Some("bbr"), ..Endpoints::new("127.0.0.1", "127.0.0.1") });
    assert_eq!(listening.algorithms(), ["cubic", "bbr"]);
    run(0, "policy remove --live");
    assert_eq!([before.algorithms(), after.algorithms()], [["bbr", "reno"]; 2]);
    assert_eq!(listening.algorithms(), ["reno", "bbr"]);
}

/// BBR's pacing rate once stayed at the socket and slowed the next algorithm down forever.
#[test]
fn connection_that_leaves_bbr_is_no_longer_paced() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&rule("use = \"bbr\""));
    let [mut free, mut limited] = [lab.plain(), lab.plain()];
    const LIMIT: u64 = 5_000_000;
    limit_pacing(&limited.client, LIMIT);
    for pair in [&mut free, &mut limited] {
        assert_eq!(pair.algorithms()[0], "bbr");
        pair.exchange(300_000);
    }
    assert!(tcp_info(&free.client).tcpi_pacing_rate < u64::MAX);
    lab.policy(0, "apply --live", &rule("use = \"cubic\""));
    assert_eq!(free.algorithms(), ["cubic", "cubic"]);
    assert_eq!(tcp_info(&free.client).tcpi_pacing_rate, u64::MAX, "bbr's rate is gone");
    let info = tcp_info(&limited.client);
    assert_eq!(info.tcpi_max_pacing_rate, LIMIT, "the program's limit stays");
    assert!(info.tcpi_pacing_rate <= LIMIT, "{}", info.tcpi_pacing_rate);
    free.exchange(1 << 20);
    limited.exchange(300_000);
}

#[test]
fn half_of_the_open_connections_move_with_a_split() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let pairs = pairs(lab, 300);
    let split = rule("split = { cubic = 50, keep = 50 }");
    let [_, moved, ..] = moves(&lab.policy(0, "apply --live", &split));
    let ends: Vec<String> = pairs.iter().flat_map(SocketPair::algorithms).collect();
    let cubic = ends.iter().filter(|name| *name == "cubic").count();
    assert_eq!(moved as usize, cubic);
    assert!((230..370).contains(&cubic), "{cubic} of 600 at 50 %");
    let [_, moved, ..] = moves(&run(0, "policy remove --live"));
    assert_eq!(moved as usize, cubic);
    assert_all_have(&pairs, ["reno", "reno"]);
}
